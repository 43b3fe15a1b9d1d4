"""Whether traffic is still what a profile was proven with: tests that may be looked at as often as anybody likes.

Each is a bet against the proven workload whose expected gain is at most 0 while that holds (an e-process): by Ville's
inequality it ever grows to 1/α with a chance of at most α, however often it is looked at. Every day is a new bet on
each quantity, every hour another one on the rate; α is shared out so that a month of them alarms falsely at most once
in 20 months.

Requests of one session depend on each other, and nothing tells which they are. Where that matters a request counts for
1/m, m requests being the longest session. A session's gain is then a geometric mean of m gains (of those that it does
not send: 1), and not above their arithmetic one, whose mean is 1 where requests are as the workload's are in all:
sessions being independent, the bet is fair, however requests hang together within one.

Ramdas, Grünwald, Vovk, Shafer: Game-theoretic statistics and safe anytime-valid inference. Statist. Sci. 38 (2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, inf, lgamma, log
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from loadproof.bench.learn.clock import DAY_S, HOUR_S, shaped_s, spans, week_in
from loadproof.bench.learn.fitting import is_told
from loadproof.bench.learn.proven import Drawn, begins_with_one, cost_of_a_session, drawn_of, is_uniform
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.learn.turn_lengths import rank_correlation
from loadproof.profiles.mixture import image_tokens_of, planned_mixture_of
from loadproof.profiles.schema import Arrivals, Profile
from loadproof.sessions import Mixture

FALSE_ALARMS_A_MONTH: Final = 0.05
TOLERATED: Final = 0.05  # no share of lengths above the proven one by more, no rate, and no number of turns
_DAYS, _DAILY = 31, 6  # prompts (first and second turns' apart), answers, both together, turns, the rate
# Half of all chance for the bets of a day, half for those of an hour: log of what a bet has to grow to.
DAY_AT: Final = log(2 * _DAYS * _DAILY / FALSE_ALARMS_A_MONTH)
HOUR_AT: Final = log(2 * _DAYS * 24 / FALSE_ALARMS_A_MONTH)
_EIGHTHS, _QUARTERS = 8, 4  # parts of a length alone, and of each of two
_LEAST_SHARES: Final = (1e-4, 1e-2)  # of what was never drawn: a length, and one beside another (pairs are 200 at most)
_PRIOR: Final = 0.5  # Jeffreys', of every cell
_TILTS: Final = (-0.5, -0.25, -0.1, 0.1, 0.25, 0.5)  # of shares by normal quantiles: a shift by so many deviations
_FASTER: Final = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0)  # rates that the bet is spread over
_PULLS: Final = (0.1, 0.2, 0.5, 1.0)  # what a mean session gains in the bets on turns
_SETTLED: Final = 16  # times a session's pauses, after which those cut off at both ends of a day weigh little
_ENOUGH: Final = 30  # gaps of a day that has a rate
Quantity = Literal[
    "prompt tokens",
    "first prompt tokens",
    "second prompt tokens",
    "answer tokens",
    "first answer tokens",
    "prompts with answers",
    "turns",
    "requests/s",
    "sessions/s",
]


@dataclass(frozen=True, slots=True)
class Drift:
    """One quantity of the workload, `proven` and `found`: means, or a rank correlation; when another was seen, if so.

    `after_s` counts from the first request; `since` is None too where nothing tells the date.
    """

    quantity: Quantity
    proven: float
    found: float
    since: datetime | None
    after_s: float | None
    log_e: float
    """of the bet that came nearest to its alarm, natural logarithm"""
    alarm_at: float

    @property
    def moved(self) -> bool:
        return self.after_s is not None


def drift_of(
    profile: Profile, recorded: Recorded, seed: int = 0, *, steady: bool = True
) -> tuple[list[Drift], list[str]]:
    """What was tested, and in words what was not. Not `steady`: its rate is a trace's in the mean, and none to test."""
    mixture, told, notes = planned_mixture_of(profile), is_told(recorded), list[str]()
    found = [*_lengths(profile, mixture, recorded, notes, seed)]
    if not told:
        notes.append("turns are not tested: nothing in this traffic tells which requests begin a session")
    elif not begins_with_one(mixture):
        notes.append("turns are not tested: sessions begin with several requests side by side")
    else:
        found += _turns(mixture, recorded, notes)
    if reason := _no_rate(profile.workload.arrivals if steady else Arrivals(), mixture, recorded, told=told):
        notes.append(f"the rate is not tested: {reason}")
    else:
        found.append(_rate(profile.workload.arrivals, mixture, recorded))
    return found, notes


# ------------------------------------------------------------------------------------------------------ bets of a day


@dataclass(slots=True)
class _Bet:
    """What came of the bets on one quantity: the one that came nearest to its alarm, and when one first got there."""

    log_e: float = -inf
    alarm_at: float = inf
    at_s: float | None = None

    def see(self, log_e: float, alarm_at: float, now_s: float) -> None:
        if self.alarm_at == inf or log_e - alarm_at > self.log_e - self.alarm_at:
            self.log_e, self.alarm_at = log_e, alarm_at
        if log_e >= alarm_at:
            self.at_s = now_s if self.at_s is None else min(self.at_s, now_s)

    def drift(self, quantity: Quantity, proven: float, found: float, recorded: Recorded) -> Drift:
        after_s = None if self.at_s is None else self.at_s - recorded.began_s
        since = datetime.fromtimestamp(self.at_s, UTC) if self.at_s is not None and recorded.dated else None
        alarm_at = DAY_AT if self.alarm_at == inf else self.alarm_at
        return Drift(quantity, proven, found, since, after_s, self.log_e, alarm_at)


def _looks(times_s: np.ndarray) -> Iterator[slice]:
    """Every day's requests so far, after each of its hours: whoever looks does so then."""
    for day in spans(times_s, DAY_S):
        for hour in spans(times_s, HOUR_S, day):
            yield slice(day.start, hour.stop)


def _times_s(recorded: Recorded) -> np.ndarray:
    return np.asarray(recorded.at_s) + recorded.began_s


# ------------------------------------------------------------------------------------------------------------ lengths


@dataclass(frozen=True, slots=True)
class Cells:
    """The proven lengths in parts as likely as they can be: eight of one, what lies outside of all drawn in two more.

    Of two together: four of the second, for each quarter of the first, so that a first that moves alone is no alarm.
    """

    edges: tuple[np.ndarray, ...]
    log_allowed: np.ndarray
    """of each cell, the largest share of its row that is no alarm"""
    tilted: np.ndarray
    """a row for each way in which lengths often move: what a request of each cell is worth, its logarithm"""
    rows: int
    together: int
    """requests that may depend on each other"""

    @classmethod
    def of(cls, *columns: np.ndarray, together: int = 1) -> Cells:
        alone = len(columns) == 1
        edges = tuple(_edges(column, _EIGHTHS) if alone else _edges(column, _QUARTERS)[1:-1] for column in columns)
        rows, cells = 1 if alone else len(edges[0]) + 1, int(np.prod([len(one) + 1 for one in edges]))
        drawn = np.bincount(_placed(edges, columns), minlength=cells).reshape(rows, -1)
        shares = np.maximum(drawn / drawn.sum(axis=1, keepdims=True), _LEAST_SHARES[not alone])
        scores = [_scores(own, column) for own, column in zip(edges, columns, strict=True)]
        ways = [scores[0][None], scores[0][None] ** 2] if alone else [np.outer(*scores)]
        tilted = [
            [fair_worth(row * np.exp(tilt * score), row) for row, score in zip(shares, way, strict=True)]
            for way in ways
            for tilt in _TILTS
        ]
        return cls(edges, np.log(shares * (1 + TOLERATED)).ravel(), np.array(tilted).reshape(-1, cells), rows, together)

    def log_e(self, seen: np.ndarray) -> float:
        """Of a day's bets on which cell of its row the next request falls into, by how often each was seen.

        Half of the stake is on any other shares, half on lengths that are longer, shorter, spread wider or less wide,
        or of two on their going together.
        """
        counted = seen / self.together
        anyhow = sum(map(_log_mixture, counted.reshape(self.rows, -1))) - float(counted @ self.log_allowed)
        return _log_mean([anyhow, _log_mean(self.tilted @ counted)])

    def bet(self, columns: Sequence[np.ndarray], times_s: np.ndarray) -> _Bet:
        placed, bet = _placed(self.edges, columns), _Bet()
        for look in _looks(times_s):
            log_e = self.log_e(np.bincount(placed[look], minlength=len(self.log_allowed)))
            bet.see(log_e, DAY_AT, float(times_s[look.stop - 1]))
        return bet


def _edges(column: np.ndarray, parts: int) -> np.ndarray:
    edges = np.unique(np.quantile(column, np.arange(parts + 1) / parts, method="inverted_cdf"))
    return np.concatenate([[edges[0] - 1], edges])  # the lowest drawn is in a cell, what is below it in another


def _scores(edges: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Of each part the normal quantile of its middle: what a shift of the lengths shifts."""
    shares = np.bincount(np.searchsorted(edges, column), minlength=len(edges) + 1) / len(column)
    middles = np.clip(np.cumsum(shares) - shares / 2, 0.005, 0.995)
    return np.array([NormalDist().inv_cdf(middle) for middle in middles.tolist()])


def fair_worth(bet_on: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """log of q/d of each cell: q is bet on, d the nearest to it of all shares that are no alarm.

    These are at most `allowed` = 1.05 · the proven ones and sum to 1; nearest by Kullback and Leibler is
    d = min(allowed, q/ν), the ν that makes them sum to 1. The bet is then fair for each of them: the mean of q/d is
    largest, and 1, where shares are `allowed` in all cells of q/d > ν.
    """
    allowed, bet_on = shares * (1 + TOLERATED), bet_on / bet_on.sum()
    low, high = 0.0, 1.0 + TOLERATED
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(allowed, bet_on / middle).sum() > 1 else (low, middle)
    found: np.ndarray = np.log(bet_on / np.minimum(allowed, bet_on / high))
    return found


def _placed(edges: Sequence[np.ndarray], columns: Sequence[np.ndarray]) -> np.ndarray:
    found = np.zeros(len(columns[0]), dtype=int)
    for own, column in zip(edges, columns, strict=True):
        found = found * (len(own) + 1) + np.searchsorted(own, column)
    return found


def _log_mixture(seen: np.ndarray) -> float:
    """log of the chance of a sequence with these counts, under a Dirichlet prior of `_PRIOR` for each cell."""
    total = _PRIOR * len(seen)
    each = sum(lgamma(_PRIOR + count) - lgamma(_PRIOR) for count in seen.tolist())
    return lgamma(total) - lgamma(total + float(seen.sum())) + each


@dataclass(frozen=True, slots=True)
class _Length:
    """One length of requests, as the proven workload draws it and as it was recorded, at these times."""

    quantity: Quantity
    proven: np.ndarray
    found: np.ndarray
    times_s: np.ndarray
    together: int = 1
    """requests that may depend on each other"""


def _lengths(profile: Profile, mixture: Mixture, recorded: Recorded, notes: list[str], seed: int) -> Iterator[Drift]:
    """Prompts, answers, and both together; of prompts what a turn brings, where sessions and their turns are told."""
    drawn = drawn_of(mixture, seed)
    only_new = mixture.longest > 1 and is_told(recorded)
    if only_new and not is_uniform(mixture) and all(one.is_chain for one in mixture.classes):
        notes.append("lengths are tested of first and second turns: those of later ones hang on what came before them")
        *prompts, answers = _of_turns(drawn, recorded)
    else:
        *prompts, answers = _of_requests(drawn, mixture, recorded, only_new=only_new)
    if reason := _no_prompts(profile):
        notes.append(f"prompts are not tested: {reason}")
        prompts = []
    for one in (*prompts, answers):
        if len(one.found):
            bet = Cells.of(one.proven, together=one.together).bet([one.found], one.times_s)
            yield bet.drift(one.quantity, float(one.proven.mean()), float(one.found.mean()), recorded)
    if not prompts:
        notes.append("prompts and answers together are not tested: prompts are not")
        return
    both = prompts[0], answers
    own_both, seen_both = [one.proven for one in both], [one.found for one in both]
    cells = Cells.of(*own_both, together=max(one.together for one in both))
    if all(len(edges) for edges in cells.edges) and len(answers.found):  # a fixed length goes with nothing
        correlations = rank_correlation(*own_both), rank_correlation(*seen_both)
        yield cells.bet(seen_both, answers.times_s).drift("prompts with answers", *correlations, recorded)


def _no_prompts(profile: Profile) -> str:
    """Why prompts cannot be tested; empty where they can."""
    if profile.workload.dataset is not None:
        return "those that were proven are a dataset's, whose tokens nobody counted"
    return "nobody knows how many tokens the model takes for a picture" if image_tokens_of(profile) is None else ""


def _of_turns(drawn: Drawn, recorded: Recorded) -> Iterator[_Length]:
    """Of first and second turns, of which a session has one each: whatever hangs together in a session, sessions do not
    depend on each other."""
    turns, times_s = np.asarray(recorded.turns), _times_s(recorded)
    new, answers = np.asarray(recorded.new_tokens), np.asarray(recorded.output_tokens)
    own_first, first = drawn.turns == 1, turns == 1
    own_second, second = drawn.turns == 2, turns == 2
    yield _Length("first prompt tokens", drawn.new[own_first], new[first], times_s[first])
    yield _Length("second prompt tokens", drawn.new[own_second], new[second], times_s[second])
    yield _Length("first answer tokens", drawn.answers[own_first], answers[first], times_s[first])


def _of_requests(drawn: Drawn, mixture: Mixture, recorded: Recorded, *, only_new: bool) -> Iterator[_Length]:
    """Of all requests; those that tell no turn do not tell what a turn brings either."""
    tested = np.asarray(recorded.turns) > 0 if only_new else np.ones(len(recorded), dtype=bool)
    times_s, uniform = _times_s(recorded)[tested], is_uniform(mixture)
    apart = mixture.longest == 1 or (only_new and uniform)
    own, found = (drawn.new, recorded.new_tokens) if only_new else (drawn.prompts, recorded.input_tokens)
    yield _Length("prompt tokens", own, np.asarray(found)[tested], times_s, 1 if apart else drawn.longest)
    answers = np.asarray(recorded.output_tokens)[tested]  # which have no history
    yield _Length("answer tokens", drawn.answers, answers, times_s, 1 if apart or uniform else drawn.longest)


# -------------------------------------------------------------------------------------------------------------- turns


def _turns(mixture: Mixture, recorded: Recorded, notes: list[str]) -> Iterator[Drift]:
    """A bet on more requests a session: each gains, and the first of a session costs what makes that fair.

    It needs no session to be seen whole. Of those that a day cuts off as many requests are missing at one end, in the
    mean, as are too many at the other.
    """
    wait_s = _SETTLED * mixture.mean(lambda one: one.pause_s)  # answers are short beside them
    if wait_s > DAY_S:
        notes.append(f"turns are not tested: sessions pause for more than 1/{_SETTLED} of a day")
        return
    tilts = [pull / mixture.requests for pull in _PULLS]
    costs = [cost_of_a_session(mixture, tilt, recorded.share) for tilt in tilts]
    pairs = [(tilt, (1 + TOLERATED) * cost) for tilt, cost in zip(tilts, costs, strict=True) if cost is not None]
    turns, times_s, bet = np.asarray(recorded.turns), _times_s(recorded), _Bet()
    firsts, told = np.cumsum(turns == 1), np.cumsum(turns > 0)
    for look in _looks(times_s):
        first, last = look.start, look.stop - 1
        if times_s[last] - max(times_s[0], times_s[first] // DAY_S * DAY_S) < wait_s:
            continue
        began = int(firsts[last] - firsts[first] + (turns[first] == 1))
        sent = int(told[last] - told[first] + (turns[first] > 0))
        bet.see(_log_mean(tilt * sent - cost * began for tilt, cost in pairs), DAY_AT, float(times_s[last]))
    yield bet.drift("turns", mixture.requests, int(told[-1]) / max(1, int(firsts[-1])), recorded)


def _log_mean(logs: Iterable[float]) -> float:
    """log of the mean of bets, each given as its logarithm."""
    each = [*logs]
    most = max(each)
    return most + log(sum(exp(one - most) for one in each) / len(each))


# --------------------------------------------------------------------------------------------------------------- rate


def _no_rate(arrivals: Arrivals, mixture: Mixture, recorded: Recorded, *, told: bool) -> str:
    """Why the rate cannot be tested; empty where it can."""
    if arrivals.requests_per_s is None or arrivals.from_requests_per_s is not None:
        return "the profile was proven with no steady one (workload.arrivals)"
    if (arrivals.hours or arrivals.days) and not recorded.dated:
        return "the profile has a shape of a day or week, and the times of this traffic do not tell the hour"
    if mixture.longest > 1 and not told:
        return "the profile's sessions have several requests, and nothing in this traffic tells which begin one"
    if not begins_with_one(mixture):
        return "sessions begin with several requests side by side"
    return ""


def _rate(arrivals: Arrivals, mixture: Mixture, recorded: Recorded) -> Drift:
    """Bets on gaps between sessions that are shorter than the proven ones, a new one every hour and every day.

    Of gamma gaps of shape k a rate r' against r is worth (r'/r)ᵏ exp(-k (r' - r) gap), whose mean is at most 1 for
    every true rate up to r: fewer requests than proven are no alarm. Gaps are counted by the shape of the week.
    """
    assert arrivals.requests_per_s is not None
    turns, times_s = np.asarray(recorded.turns), _times_s(recorded)
    # What nobody tells the turn of is a session where these have one request, and left out where they have more.
    times_s = times_s[turns == 1 if mixture.longest > 1 else turns <= 1]
    proven = arrivals.requests_per_s / mixture.requests * recorded.share
    # Of a share of them the gaps are nearer to 1, and (1 - share + share · x)ᵏ is no bound of theirs for k above 1.
    shape = (arrivals.burstiness or 1.0) if recorded.share == 1 else min(1.0, arrivals.burstiness or 1.0)
    quantity: Quantity = "requests/s" if mixture.longest == 1 else "sessions/s"
    if len(times_s) < 2:
        return _Bet().drift(quantity, proven / recorded.share, 0.0, recorded)
    counted_s, bet, bound = shaped_s(times_s, week_in(arrivals, recorded)), _Bet(), proven * (1 + TOLERATED)
    looks = ((look, DAY_AT) for look in _looks(times_s))
    hours = ((look, HOUR_AT) for look in spans(times_s, HOUR_S))
    for look, alarm_at in (*looks, *hours):
        gaps = look.stop - look.start - 1
        spent_s = float(counted_s[look.stop - 1] - counted_s[look.start])
        worth = (shape * (gaps * log(faster) - (faster - 1) * bound * spent_s) for faster in _FASTER)
        bet.see(_log_mean(worth), alarm_at, float(times_s[look.stop - 1]))
    found = _busiest(counted_s, [*spans(times_s, DAY_S)])
    return bet.drift(quantity, proven / recorded.share, found / recorded.share, recorded)


def _busiest(counted_s: np.ndarray, days: Sequence[slice]) -> float:
    """The rate of the day that has the highest; of all together where none has enough gaps."""
    rates = []
    for day in (*(one for one in days if one.stop - one.start > _ENOUGH), slice(0, len(counted_s))):
        spent_s = float(counted_s[day.stop - 1] - counted_s[day.start])
        rates.append((day.stop - day.start - 1) / spent_s if spent_s > 0 else 0.0)
    return max(rates)
