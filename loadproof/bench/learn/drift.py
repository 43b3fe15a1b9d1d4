"""Whether traffic is still what a profile was proven with: tests that may be looked at as often as anybody likes.

Each is a bet against the proven workload whose expected gain is at most 0 while that holds (an e-process): by Ville's
inequality it ever grows to 1/α with a chance of at most α, however often it is looked at. Every day is a new bet on
lengths, every hour one on the rate; α is shared out so that a month of them alarms falsely at most once in 20 months.

Ramdas, Grünwald, Vovk, Shafer: Game-theoretic statistics and safe anytime-valid inference. Statist. Sci. 38 (2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, inf, lgamma, log
from random import Random
from typing import Final, Literal

import numpy as np

from loadproof.bench.learn.reading import Recorded
from loadproof.profiles.mixture import counts_of
from loadproof.profiles.schema import Profile, TokenDistribution, Workload

FALSE_ALARMS_A_MONTH: Final = 0.05
TOLERATED: Final = 0.05  # no share of lengths above the proven one by more, and no rate
_DAY_S, _HOUR_S = 86_400, 3_600
_DAYS, _LENGTHS = 31, 2  # prompts and answers
# Half of all chance for each kind: log of what a bet has to grow to.
LENGTHS_AT: Final = log(2 * _DAYS * _LENGTHS / FALSE_ALARMS_A_MONTH)
RATE_AT: Final = log(2 * _DAYS * 24 / FALSE_ALARMS_A_MONTH)
_BINS: Final = 8
_DRAWS: Final = 200_000  # of the proven workload: shares of its bins are known to 1% of themselves
_LEAST_SHARE: Final = 1e-4  # of what was never drawn
_PRIOR: Final = 0.5  # Jeffreys', of every bin
_FASTER: Final = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0)  # rates that the bet is spread over
Quantity = Literal["prompt tokens", "answer tokens", "requests/s"]


@dataclass(frozen=True, slots=True)
class Drift:
    """One quantity of the workload: means, `proven` and `found`, and since when it is another, if it is."""

    quantity: Quantity
    proven: float
    found: float
    since: datetime | None
    log_e: float
    """of the bet that grew most, natural logarithm"""
    alarm_at: float

    @property
    def moved(self) -> bool:
        return self.since is not None


def drift_of(profile: Profile, recorded: Recorded, seed: int = 0) -> tuple[list[Drift], list[str]]:
    """What was tested, and in words what was not."""
    workload, notes = profile.workload, list[str]()
    prompts = recorded.new_tokens if workload.turns > 1 else recorded.input_tokens
    found = []
    if workload.dataset is None:
        found.append(_lengths("prompt tokens", Bins.of(workload.input_tokens, seed), prompts, recorded))
    else:
        notes.append("prompts are not tested: those that were proven are a dataset's, whose tokens nobody counted")
    answers = Bins.of(workload.output_tokens, seed + 1)
    found.append(_lengths("answer tokens", answers, recorded.output_tokens, recorded))
    arrivals = workload.arrivals
    if arrivals.requests_per_s is not None and arrivals.from_requests_per_s is None:
        found.append(_rate(workload, recorded))
    else:
        notes.append("the rate is not tested: the profile was proven with no steady one (workload.arrivals)")
    return found, notes


@dataclass(frozen=True, slots=True)
class Bins:
    """The proven lengths in eight parts as likely as they can be, what lies outside of them in two more."""

    mean: float
    edges: np.ndarray
    log_allowed: np.ndarray
    """of each bin, the largest share that is no alarm"""

    @classmethod
    def of(cls, proven: int | TokenDistribution, seed: int = 0) -> Bins:
        chance, counts = Random(seed), counts_of(proven)
        draws = np.sort([counts.drawn(chance) for _ in range(_DRAWS)])
        edges = np.unique(np.quantile(draws, np.arange(_BINS + 1) / _BINS, method="inverted_cdf"))
        edges = np.concatenate([[edges[0] - 1], edges])  # the lowest drawn is in a bin, what is below it in another
        shares = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1) / _DRAWS
        return cls(float(draws.mean()), edges, np.log(np.maximum(shares, _LEAST_SHARE) * (1 + TOLERATED)))

    def log_e(self, seen: np.ndarray) -> float:
        """Of a day's bet, by how often each bin was seen."""
        return _log_mixture(seen) - float(seen @ self.log_allowed)


def _lengths(quantity: Quantity, bins: Bins, counts: Sequence[int], recorded: Recorded) -> Drift:
    """A bet on which bin of the proven lengths the next one falls into (Dirichlet-multinomial), a new one every day."""
    placed = np.searchsorted(bins.edges, np.asarray(counts))
    best, since = -inf, None
    for day in _spans(recorded, _DAY_S):
        for hour in _spans(recorded, _HOUR_S, day):  # whoever looks does so after each
            log_e = bins.log_e(np.bincount(placed[day.start : hour.stop], minlength=len(bins.log_allowed)))
            best = max(best, log_e)
            if log_e >= LENGTHS_AT and since is None:
                since = _moment(recorded, hour.stop - 1)
    return Drift(quantity, bins.mean, float(np.mean(counts)), since, best, LENGTHS_AT)


def _log_mixture(seen: np.ndarray) -> float:
    """log of the chance of a sequence with these counts, under a Dirichlet prior of `_PRIOR` for each bin."""
    total = _PRIOR * len(seen)
    each = sum(lgamma(_PRIOR + count) - lgamma(_PRIOR) for count in seen.tolist())
    return lgamma(total) - lgamma(total + int(seen.sum())) + each


def _rate(workload: Workload, recorded: Recorded) -> Drift:
    """A bet on gaps that are shorter than the proven ones, a new one every hour.

    Of gamma gaps of shape k a rate r' against r is worth (r'/r)ᵏ exp(-k (r' - r) gap), whose mean is at most 1 for
    every true rate up to r: fewer requests than proven are no alarm.
    """
    arrivals = workload.arrivals
    proven = (arrivals.requests_per_s or inf) * recorded.share
    shape = arrivals.burstiness or 1.0  # of a share of them the gaps are nearer to 1: the bet is then a careful one
    bound = proven * (1 + TOLERATED)
    best, since, busiest = -inf, None, 0.0
    for hour in _spans(recorded, _HOUR_S):
        gaps = hour.stop - hour.start - 1
        spent_s = recorded.at_s[hour.stop - 1] - recorded.at_s[hour.start]
        if gaps < 1:
            continue
        if gaps >= _ENOUGH and spent_s > 0:
            busiest = max(busiest, gaps / spent_s)
        worth = [shape * (gaps * log(faster) - (faster - 1) * bound * spent_s) for faster in _FASTER]
        most = max(worth)
        log_e = most + log(sum(exp(one - most) for one in worth) / len(worth))
        best = max(best, log_e)
        if log_e >= RATE_AT and since is None:
            since = _moment(recorded, hour.stop - 1)
    found = busiest or len(recorded) / recorded.at_s[-1]
    return Drift("requests/s", proven / recorded.share, found / recorded.share, since, best, RATE_AT)


_ENOUGH: Final = 30  # gaps of an hour that has a rate


def _spans(recorded: Recorded, span_s: int, within: slice = slice(0, None)) -> Iterator[slice]:
    """Requests of one day or hour (UTC) after another."""
    numbers = np.floor((np.asarray(recorded.at_s[within]) + recorded.began_s) / span_s)
    start = 0
    for end in (*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)):
        yield slice(within.start + start, within.start + end)
        start = end


def _moment(recorded: Recorded, at: int) -> datetime:
    return datetime.fromtimestamp(recorded.began_s + recorded.at_s[at], UTC)
