"""PASS, FAIL, INCONCLUSIVE or INVALID, with the evidence.

For each objective the observed value comes with a 95% interval: of a percentile by order statistics (`intervals`), of
a rate by bootstrap over blocks of requests. It is PASS when the interval's bad end meets the bound, FAIL when its good
end misses it, else INCONCLUSIVE, with about how many more requests like these would settle it in 4 of 5 cases. An end
that so few requests cannot give meets and misses nothing, fewer than `FEWEST_REQUESTS` have no interval of a rate, and
no data never passes. The share of failed requests is counted, not estimated: its objective is on this very run.

What an objective leans on must be known, else it is INCONCLUSIVE with a `doubt`: E2E and rates on answers of the length
asked for (a level's mean below `SHORT_BELOW` of it flatters them, unless the workload's lengths are only at most that),
TPOT and tokens/s on token counts that can be true. A miss that shorter answers only make clearer stays a FAIL.

A level is *valid* when the generator itself was on time: its dispatch lag p99 is at most 5 ms and at most 10% of the
tightest TTFT or E2E objective (gaps between tokens have no send in them), and the p99 of how late its event loop was is
at most twice that (a late loop delays only what happens just then, and crowded machines are late by a time slice now
and again). The run is INVALID when the level it is judged at is not (without latency or rate objectives: when any level
is not), since its figures then say more about the client than about the endpoint.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadproof.bench.measure.intervals import (
    fail_tail,
    quantile_interval,
    ratio_interval,
    requests_to_settle,
    requests_to_settle_rate,
    unseen_spells,
)
from loadproof.bench.measure.metrics import NS_PER_MS, LevelMetrics, pooled
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.objectives import ERROR_RATE, RATE_NAMES, TOKENS_PER_S, Objective
from loadproof.bench.spec import AnswerLength
from loadproof.invocation.outcomes import OutcomeKind
from loadproof.loads import Load

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]
ObjectiveVerdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]
FEWEST_REQUESTS = 5  # below this a resampled sample says nothing
SHORT_BELOW = 0.90  # of the mean length asked for
LAG_LIMIT_MS = 5.0
LAG_SHARE_OF_OBJECTIVE = 0.10
LOOP_LAG_FACTOR = 2.0
DRIFT = "its later half is unlike its earlier one: measure longer, or after a longer warm-up"
_FASTER_CLIENT = "give it a machine with nothing else to do, --workers, or a lower load"


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
    """lower end of the 95% interval; null: too few requests for that end"""
    high: float | None
    """upper end"""
    margin: float | None
    """distance to the bound over the bound; negative: missed"""
    verdict: ObjectiveVerdict
    """PASS, FAIL or INCONCLUSIVE"""
    requests: int | None = None
    """that have data"""
    effective_samples: int | None = None
    """independent ones that would tell as much"""
    more_requests: int | None = None
    """about how many more would settle it; null: settled, no data to tell by, or too close for any sensible number"""
    doubt: str | None = None
    """why it is not settled, however many there are"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The run's outcome and why, in words a reader needs no table for."""

    outcome: Outcome
    """PASS, FAIL, INCONCLUSIVE or INVALID"""
    at_concurrency: int
    """of the judged level"""
    at_load: str | None = None
    """in words"""
    at_level: int | None = None
    """its index"""
    reasons: tuple[str, ...] = ()
    """in words"""


def tightest_from_send(objectives: Sequence[Objective]) -> Objective | None:
    """The objective that makes the lag limit tighter than usual: of TTFT and E2E, for no gap between tokens has a send
    in it. None where the limit is the usual one."""
    from_send = [one for one in objectives if one.latency and one.latency[0] in ("ttft", "e2e")]
    tightest = min(from_send, key=lambda one: one.bound, default=None)
    return tightest if tightest and LAG_SHARE_OF_OBJECTIVE * tightest.bound < LAG_LIMIT_MS else None


def lag_limit_ms(objectives: Sequence[Objective]) -> float:
    """The largest dispatch lag p99 at which a level still counts."""
    tightest = tightest_from_send(objectives)
    return LAG_SHARE_OF_OBJECTIVE * tightest.bound if tightest else LAG_LIMIT_MS


def invalid_reasons(level: LevelMetrics, objectives: Sequence[Objective]) -> tuple[str, ...]:
    """Why the level's figures cannot be trusted; empty when they can."""
    limit_ms = lag_limit_ms(objectives)
    if not level.requests and not level.missing:
        return ("no request was sent",)
    tightest = tightest_from_send(objectives)
    why = f" ({LAG_SHARE_OF_OBJECTIVE:.0%} of {tightest.name} <= {tightest.bound:g} sets it)" if tightest else ""
    lags = (
        ("dispatch lag", level.lag_ms.p99, limit_ms),
        ("event loop lag", level.loop_lag_ms.p99, LOOP_LAG_FACTOR * limit_ms),
    )
    missing = (f"{level.missing} requests are missing: who should have sent them was lost",) if level.missing else ()
    return missing + tuple(
        f"{what} p99 {p99_ms:.1f} ms exceeds {most_ms:.1f} ms{why}: the client was too slow; {_FASTER_CLIENT}"
        for what, p99_ms, most_ms in lags
        if p99_ms is not None and p99_ms > most_ms
    )


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
    wrong, short = _wrong_counts(objective, level), _short_answers(objective, level, answer_length)
    still_fails = wrong is None and objective.name != TOKENS_PER_S and judgement.verdict == "FAIL"
    if judgement.observed is None or still_fails or (wrong is None and short is None):
        return judgement
    return replace(judgement, verdict="INCONCLUSIVE", more_requests=None, doubt=wrong or short)


def _wrong_counts(objective: Objective, level: LevelMetrics) -> str | None:
    metric = objective.latency[0] if objective.latency else objective.name
    if metric not in ("tpot", TOKENS_PER_S) or not level.wrong_counts:
        return None
    answers = _requests([level]) - level.errors
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
        f"answers had {answered:,.4g} of the {asked:,.4g} tokens asked for on average{counted}, and shorter ones are "
        "quicker; "
        "if the model may end them sooner, say so: `answer_length: at_most` (--answer-length)"
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
        share = level.errors / level.requests if level.requests else None
        verdict: ObjectiveVerdict = "INCONCLUSIVE"
        if share is not None:
            verdict = "PASS" if objective.met_by(share) else "FAIL"
        return judgement_of(objective, share, (None, None), verdict, level.requests)
    succeeded = sorted(
        (record for record in records if record.ok), key=lambda record: (record.intended_ns, record.index)
    )
    if objective.latency:
        return _judge_latency(objective, *objective.latency, succeeded, among)
    return _judge_rate(objective, succeeded, level, stream, among)


def _judge_latency(
    objective: Objective, metric: str, rank_percent: float, succeeded: Sequence[RequestRecord], among: int
) -> Judgement:
    pool = pooled(metric, succeeded)
    requests = pool.ends.size
    bound = objective.bound * pool.per_ms
    interval = quantile_interval(pool.values, pool.ends, rank_percent, bound, fail_tail(among))
    if interval is None:
        return judgement_of(objective, None, (None, None), "INCONCLUSIVE", 0)
    ends = (
        None if interval.low is None else round(interval.low / pool.per_ms, 9),
        None if interval.high is None else round(interval.high / pool.per_ms, 9),
    )
    verdict, more = decision(objective, ends), None
    if verdict == "INCONCLUSIVE":
        within = float((pool.values <= bound).mean())
        needed = requests_to_settle(within, rank_percent / 100, requests, interval.effective)
        more = None if needed is None else needed - requests
    found = judgement_of(objective, pool.percentile_ms(rank_percent), ends, verdict, requests, interval.effective, more)
    return replace(found, doubt=DRIFT) if interval.drifts and verdict == "INCONCLUSIVE" else found


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
    busy_s = np.asarray(
        [(record.end_ns - record.intended_ns) / NS_PER_MS / 1000 for record in succeeded], dtype=np.float64
    )
    in_flight = observed * busy_s.sum() / amounts.sum() if amounts.sum() else 0.0
    enough = len(succeeded) >= FEWEST_REQUESTS
    interval = ratio_interval(amounts, busy_s, in_flight, seed, fail_tail(among)) if enough else None
    ends = interval or (None, None)
    verdict = decision(objective, ends)
    more = _more_for_rate(objective, observed, ends, len(succeeded)) if verdict == "INCONCLUSIVE" else None
    return judgement_of(objective, observed, ends, verdict, len(succeeded), None, more)


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


def decide(
    judgements: Sequence[Judgement],
    levels: Sequence[LevelMetrics],
    objectives: Sequence[Objective],
    at_concurrency: int,
    max_error_rate: float,
    judged: LevelMetrics | None = None,
    load: Load | None = None,
) -> Verdict:
    """The run's verdict: INVALID before FAIL before INCONCLUSIVE before PASS.

    `judged` is the level the objectives are judged at; None: the one of `at_concurrency`. `load` is what it was to be.

    A run without an `error_rate_max` objective still bounds failures: over all levels at most `max_error_rate` (0
    unless told otherwise) of the requests may fail. Too many answers that *are* errors come even before INVALID: being
    late, a client spoils latencies, but makes no endpoint answer with an error.
    """
    judged = judged or next((level for level in levels if level.concurrency == at_concurrency), None)
    place = judged.place if judged else load.words if load else f"{at_concurrency} in flight"
    invalid = _invalid_levels(levels, objectives, judged)
    failed = [_describe(judgement) for judgement in judgements if judgement.verdict == "FAIL"]
    unsettled = [_describe(judgement) for judgement in judgements if judgement.verdict == "INCONCLUSIVE"]
    if not any(objective.name == ERROR_RATE for objective in objectives):
        failed += _too_many_errors(levels, max_error_rate)
        if _errors_of_the_endpoint(levels) > max_error_rate * _requests(levels):
            invalid = []
    if judged is None or not judged.requests:
        unsettled.append(f"no data at {place}, where the objectives must hold")
    elif judged.unfinished:
        unsettled.append(f"{judged.unfinished} requests unfinished at {place}: their latencies are lower bounds")
    elif load and load.never_full and any(objective.name != ERROR_RATE for objective in objectives):
        unsettled.append(load.never_full)
    for outcome, reasons in (("INVALID", invalid), ("FAIL", failed), ("INCONCLUSIVE", unsettled)):
        if reasons:
            return Verdict(outcome, at_concurrency, reasons=tuple(reasons))  # type: ignore[arg-type]
    return Verdict("PASS", at_concurrency, reasons=(_why_passed(judgements, place),))


def _invalid_levels(
    levels: Sequence[LevelMetrics], objectives: Sequence[Objective], judged: LevelMetrics | None
) -> list[str]:
    judged_at_one = any(objective.name != ERROR_RATE for objective in objectives)
    return [
        f"at {level.place}: {reason}"
        for level in levels
        if level is judged or not judged_at_one
        for reason in invalid_reasons(level, objectives)
        if level.requests
    ]


def _too_many_errors(levels: Sequence[LevelMetrics], max_error_rate: float) -> list[str]:
    errors, requests = sum(level.errors for level in levels), _requests(levels)
    if not requests or errors / requests <= max_error_rate:
        return []
    return [f"{errors} of {requests} requests failed; at most {max_error_rate:.2%} may (--max-error-rate)"]


def _requests(levels: Sequence[LevelMetrics]) -> int:
    return sum(level.requests or 0 for level in levels)


def _errors_of_the_endpoint(levels: Sequence[LevelMetrics]) -> int:
    """Failed requests that no delay of the client can have caused."""
    return sum(
        count
        for level in levels
        for kind, count in level.errors_by_kind.items()
        if kind not in (OutcomeKind.TIMEOUT, OutcomeKind.CONNECTION)
    )


def _describe(judgement: Judgement) -> str:
    if judgement.observed is None:
        return f"{judgement.name}: no data"
    text = f"{judgement.name}: observed {judgement.observed:,.4g}, bound {judgement.comparison} {judgement.bound:,.4g}"
    low, high = judgement.low, judgement.high
    if low is not None or high is not None:
        ends = " ".join(
            f"{word} {end:,.4g}" if end is not None else f"{word} unknown"
            for word, end in (("from", low), ("to", high))
        )
        text += f", 95% interval {ends}"
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


def _why_passed(judgements: Sequence[Judgement], place: str) -> str:
    if not judgements:
        return "no objectives were given, and no more requests failed than may"
    closest = min(judgements, key=lambda judgement: judgement.margin if judgement.margin is not None else 1.0)
    count = len(judgements)
    what = {1: "the objective holds", 2: "both objectives hold"}.get(count, f"all {count} objectives hold")
    fewest = min((one.requests for one in judgements if one.requests), default=0)
    unseen = f"; of slow spells rarer than one in {unseen_spells(fewest):,} requests it says nothing" if fewest else ""
    return f"{what} at {place}; closest is {_describe(closest)}{unseen}"
