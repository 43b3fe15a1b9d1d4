"""One objective against what was measured: PASS, FAIL, INCONCLUSIVE or INVALID, with the evidence.

For each objective the observed value comes with a 95% interval: of a percentile by order statistics (`intervals`), of
a rate by bootstrap over blocks of requests. It is PASS when the interval's bad end meets the bound, FAIL when its good
end misses it, else INCONCLUSIVE, with about how many more requests like these would settle it in 4 of 5 cases. An end
that so few requests cannot give meets and misses nothing, fewer than `FEWEST_REQUESTS` have no interval of a rate, and
no data never passes. The share of failed requests is counted, not estimated: its objective is on this very run.

What an objective leans on must be known, else it is INCONCLUSIVE with a `doubt`: E2E and rates on answers of the length
asked for (a level's mean below `SHORT_BELOW` of it flatters them, unless the workload's lengths are only at most that),
TPOT and tokens/s on token counts that can be true. A miss that shorter answers only make clearer stays a FAIL.

The client's own lateness is an error bar (`client_share`): a figure has a worse end, with all that the client may have
added, and a better one without it. The interval reaches from the better end's good end to the worse end's bad end, so
PASS holds though the client was late, and FAIL holds though it was. An objective is INVALID where the bound lies
between both ends and chance does not explain it: then the client's share decides.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadproof.bench.measure.client_share import faster_without
from loadproof.bench.measure.intervals import (
    QuantileInterval,
    fail_tail,
    quantile_interval,
    ratio_interval,
    requests_to_settle,
    requests_to_settle_rate,
)
from loadproof.bench.measure.latencies import NS_PER_S, Pool, pooled, same_at_both_ends
from loadproof.bench.measure.metrics import LevelMetrics
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.objectives import ERROR_RATE, NOTICED, RATE_NAMES, TOKENS_PER_S, Objective, figure
from loadproof.bench.spec import AnswerLength
from loadproof.sessions import label_of

ObjectiveVerdict = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]


FEWEST_REQUESTS = 5  # below this a resampled sample says nothing


SHORT_BELOW = 0.90  # of the mean length asked for


DRIFT = "its later half is unlike its earlier one: measure longer, or after a longer warm-up"


FASTER_CLIENT = "give the client a machine with nothing else to do, --workers, or a lower load"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One objective judged at its level."""

    name: str
    """metric, statistic and unit"""
    comparison: str
    """`<=` or `>=`"""
    bound: float
    """in the unit of the name"""
    observed: float | None
    """null: no data"""
    low: float | None
    """lower end of the 95% interval, which holds the client's share, too; null: too few requests for that end"""
    high: float | None
    """upper end"""
    margin: float | None
    """distance to the bound over the bound; negative: missed"""
    verdict: ObjectiveVerdict
    """PASS, FAIL, INCONCLUSIVE, or INVALID where the client's own share decides"""
    requests: int | None = None
    """that have data"""
    effective_samples: int | None = None
    """independent ones that would tell as much"""
    more_requests: int | None = None
    """about how many more would settle it; null: settled, no data to tell by, or too close for any sensible number"""
    doubt: str | None = None
    """why it is not settled, however many there are"""
    client_share: float | None = None
    """by how much the client itself may have changed what was observed; null: not known"""
    part: str = ""
    """the class of requests that it is of; empty: all"""

    @property
    def label(self) -> str:
        """The name, and of which requests."""
        return label_of(self.name, self.part)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was observed at one end of a figure, and its 95% interval."""

    observed: float
    low: float | None
    high: float | None


def judge(
    objective: Objective,
    records: Sequence[RequestRecord],
    level: LevelMetrics,
    seed: int,
    answer_length: AnswerLength = "asked",
    among: int = 1,
) -> Judgement:
    """Judge one objective, `among` so many, on the finished records of one level and on its metrics."""
    judgement = estimated(objective, records, level, seed, among)
    if level.offered is None:  # of another program: how late it was, nobody measured
        judgement = replace(judgement, client_share=None)
    wrong, short = _wrong_counts(objective, level), _short_answers(objective, level, answer_length)
    still_fails = wrong is None and objective.name != TOKENS_PER_S and judgement.verdict == "FAIL"
    if judgement.observed is None or still_fails or (wrong is None and short is None):
        return judgement
    return replace(judgement, verdict="INCONCLUSIVE", more_requests=None, doubt=wrong or short)


def _wrong_counts(objective: Objective, level: LevelMetrics) -> str | None:
    metric = objective.latency[0] if objective.latency else objective.name
    if metric not in ("tpot", TOKENS_PER_S) or not level.wrong_counts:
        return None
    answers = (level.requests or 0) - level.errors
    return (
        f"the server's token count cannot be true for {level.wrong_counts} of {answers} answers; "
        "mend what it says in `usage`"
    )


def _short_answers(objective: Objective, level: LevelMetrics, answer_length: AnswerLength) -> str | None:
    metric = objective.latency[0] if objective.latency else objective.name
    asked, answered = level.asked_output_tokens, level.answered_output_tokens
    if answer_length == "at_most" or metric not in ("e2e", *RATE_NAMES) or asked is None or answered is None:
        return None
    if answered >= SHORT_BELOW * asked:
        return None
    counted = " (counted by pieces, which may hold several)" if level.token_source == "chunks" else ""
    return (
        f"answers had {figure(answered)} of the {figure(asked)} tokens asked for on average{counted}, "
        "and shorter ones are quicker; if the model may end them sooner, say so: "
        "`answer_length: at_most` (--answer-length)"
    )


def estimated(
    objective: Objective,
    records: Sequence[RequestRecord],
    level: LevelMetrics,
    seed: int,
    among: int = 1,
) -> Judgement:
    """The objective against its interval alone."""
    stream = seed + zlib.crc32(objective.name.encode())  # each objective draws its own resamples
    if objective.name == ERROR_RATE:
        return _judge_errors(objective, level)
    succeeded = sorted(
        (record for record in records if record.ok), key=lambda record: (record.intended_ns, record.index)
    )
    if objective.latency:
        return _judge_latency(objective, *objective.latency, succeeded, among)
    return _judge_rate(objective, succeeded, level, stream, among)


def _judge_errors(objective: Objective, level: LevelMetrics) -> Judgement:
    """Counted, so that it has no interval; the client's share are those that may be its own."""
    if not level.requests:
        return judgement_of(objective, None, (None, None), "INCONCLUSIVE", level.requests)
    share, own = level.errors / level.requests, level.errors_while_away / level.requests
    verdict = between(objective, _counted(share), _counted(share - own))
    return replace(judgement_of(objective, share, (None, None), verdict, level.requests), client_share=own)


def _counted(value: float) -> Estimate:
    return Estimate(value, value, value)


def _judge_latency(
    objective: Objective, metric: str, rank_percent: float, succeeded: Sequence[RequestRecord], among: int
) -> Judgement:
    pool = pooled(metric, succeeded)
    observed, requests = pool.percentile_ms(rank_percent), pool.ends.size
    if observed is None:
        return judgement_of(objective, None, (None, None), "INCONCLUSIVE", 0)
    counted, interval = _percentile_at(objective, pool, rank_percent, among)
    better = worse = counted
    if not same_at_both_ends(metric, succeeded):
        better, _ = _percentile_at(objective, pooled(metric, succeeded, "shortest"), rank_percent, among)
        if metric in ("itl", "tpot"):  # what has no send in it may be too short, too
            longest = pooled(metric, succeeded, "longest", objective.bound)
            worse, _ = _percentile_at(objective, longest, rank_percent, among)
    verdict, more = between(objective, worse, better), None
    if verdict == "INCONCLUSIVE":
        within = float((pool.values <= objective.bound * pool.per_ms).mean())
        needed = requests_to_settle(within, rank_percent / 100, requests, interval.effective)
        more = None if needed is None else needed - requests
    found = judgement_of(objective, observed, (better.low, worse.high), verdict, requests, interval.effective, more)
    doubt = DRIFT if interval.drifts and verdict == "INCONCLUSIVE" else None
    return replace(found, client_share=round(worse.observed - better.observed, 9), doubt=doubt)


def _percentile_at(
    objective: Objective, pool: Pool, rank_percent: float, among: int
) -> tuple[Estimate, QuantileInterval]:
    """(One end of a percentile in ms, its interval in the pool's unit) of a pool that is not empty."""
    observed = pool.percentile_ms(rank_percent)
    bound = objective.bound * pool.per_ms
    interval = quantile_interval(pool.values, pool.ends, rank_percent, bound, fail_tail(among))
    assert observed is not None
    assert interval is not None
    low, high = (None if end is None else round(end / pool.per_ms, 9) for end in (interval.low, interval.high))
    return Estimate(observed, low, high), interval


def _judge_rate(
    objective: Objective, succeeded: Sequence[RequestRecord], level: LevelMetrics, seed: int, among: int
) -> Judgement:
    """Throughput by Little's law: amount / time in service, times the mean number in flight, which is not resampled."""
    of_tokens = objective.name == TOKENS_PER_S
    observed = level.output_tokens_per_s if of_tokens else level.requests_per_s
    if observed is None:
        return judgement_of(objective, None, (None, None), "INCONCLUSIVE", len(succeeded))
    amounts = np.asarray(
        [float(record.output_tokens or 0) if of_tokens else 1.0 for record in succeeded], dtype=np.float64
    )
    busy_s = np.asarray([(record.end_ns - record.intended_ns) / NS_PER_S for record in succeeded], dtype=np.float64)
    in_flight = observed * busy_s.sum() / amounts.sum() if amounts.sum() else 0.0
    enough = len(succeeded) >= FEWEST_REQUESTS
    interval = ratio_interval(amounts, busy_s, in_flight, seed, fail_tail(among)) if enough else None
    faster = faster_without(succeeded, is_open=level.load is not None, duration_s=level.duration_s)
    low, high = interval or (None, None)
    better = Estimate(observed * faster, _times(low, faster), _times(high, faster))
    verdict = between(objective, Estimate(observed, low, high), better)
    more = _more_for_rate(objective, observed, (low, high), len(succeeded)) if verdict == "INCONCLUSIVE" else None
    found = judgement_of(objective, observed, (low, better.high), verdict, len(succeeded), None, more)
    return replace(found, client_share=round(better.observed - observed, 9))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else round(value * factor, 9)


def _more_for_rate(
    objective: Objective, observed: float, ends: tuple[float | None, float | None], requests: int
) -> int | None:
    low, high = ends
    if low is None or high is None:
        return FEWEST_REQUESTS - requests
    needed = requests_to_settle_rate(abs(observed - objective.bound), high - low, requests)
    return None if needed is None else needed - requests


def judgement_of(
    objective: Objective,
    observed: float | None,
    ends: tuple[float | None, float | None],
    verdict: ObjectiveVerdict,
    requests: int | None,
    effective: int | None = None,
    more: int | None = None,
) -> Judgement:
    margin = None
    if observed is not None and objective.bound > 0:
        distance = objective.bound - observed if objective.comparison == "<=" else observed - objective.bound
        margin = round(distance / objective.bound, 6)
    bound = objective.bound
    return Judgement(
        objective.name, objective.comparison, bound, observed, *ends, margin, verdict, requests, effective, more
    )


def decision(objective: Objective, ends: tuple[float | None, float | None]) -> ObjectiveVerdict:
    good, bad = ends if objective.comparison == "<=" else (ends[1], ends[0])
    if bad is not None and objective.met_by(bad):
        return "PASS"
    return "FAIL" if good is not None and not objective.met_by(good) else "INCONCLUSIVE"


def between(objective: Objective, worse: Estimate, better: Estimate) -> ObjectiveVerdict:
    """The verdict on a figure with two ends: PASS by the worse one, FAIL by the better one.

    INVALID: one end is settled, and the bound lies between what was observed at both.
    """
    at_worst, at_best = (decision(objective, (end.low, end.high)) for end in (worse, better))
    if at_worst == "PASS" or at_best == "FAIL":
        return "PASS" if at_worst == "PASS" else "FAIL"
    parted = objective.met_by(better.observed) and not objective.met_by(worse.observed)
    return "INVALID" if parted and (at_worst == "FAIL" or at_best == "PASS") else "INCONCLUSIVE"


def describe(judgement: Judgement) -> str:
    if judgement.observed is None:
        return f"{judgement.label}: no data"
    bound = f"bound {judgement.comparison} {figure(judgement.bound)}"
    text = f"{judgement.label}: observed {figure(judgement.observed)}, {bound}"
    low, high = judgement.low, judgement.high
    if low is not None or high is not None:
        ends = " ".join(
            f"{word} {figure(end)}" if end is not None else f"{word} unknown"
            for word, end in (("from", low), ("to", high))
        )
        text += f", 95% interval {ends}"
    if judgement.client_share and judgement.client_share >= NOTICED * judgement.observed:
        text += f", the client's own share up to {judgement.client_share:,.3g}"
    if judgement.verdict == "INVALID":
        return f"{text}, which decides: {FASTER_CLIENT}"
    if judgement.verdict != "INCONCLUSIVE":
        return text
    if judgement.doubt:
        return f"{text}; {judgement.doubt}"
    if judgement.requests and judgement.effective_samples and judgement.effective_samples < judgement.requests:
        text += f" ({judgement.requests:,} requests that hang together tell as much as {judgement.effective_samples:,})"
    elif judgement.more_requests is not None and (low is None or high is None):
        text += f" ({judgement.requests} requests are too few)"
    if judgement.more_requests is None:
        return f"{text}; too close for more requests to settle it"
    return f"{text}; about {judgement.more_requests:,} more like these would settle it in 4 of 5 cases"
