"""Where a level's start-up ends, whether it settled at all, and what its unfinished requests say.

**MSER-5** (White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation", Winter
Simulation Conference 2000): E2E latencies in the order of their intended send are averaged in batches of five; of the k
batch means Y the first d are start-up where d ≤ k/2 minimises Σ_{i>d} (Y_i − mean)² / (k − d)². Where the minimum lies
at the last d allowed and the means of the two halves differ beyond chance (Welch's |z| above 3), the level never
settled: in an open loop its queue was still growing.

The level's own figures are of *all* its measured requests. What is found here stands beside them: a verdict that
dropped what looks like start-up could drop the trouble it was made to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from loadproof.bench.measure.client_share import NS_PER_MS
from loadproof.bench.measure.latencies import NS_PER_S, e2e_ms, ttft_ms
from loadproof.bench.measure.metrics import LevelMetrics, duration_s
from loadproof.bench.measure.records import UNFINISHED, RequestRecord
from loadproof.bench.measure.statistics import Samples, Spread, spread

BATCH = 5
FEWEST_BATCHES = 10
DRIFT_Z = 3.0
RULE = "MSER-5 over E2E by intended send (White, Cobb, Spratt 2000)"


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The level without its start-up."""

    rule: str | None = None
    """how the start-up was found"""
    reached: bool | None = None
    """null: too few requests to tell"""
    growing: bool = False
    """its later half is slower than its earlier one"""
    excluded_requests: int = 0
    """of the start-up"""
    requests: int | None = None
    """after it"""
    from_s: float | None = None
    """counted from the first intended send"""
    ttft_ms: Spread = field(default_factory=Spread)
    """a [distribution](#a-distribution)"""
    e2e_ms: Spread = field(default_factory=Spread)
    """a [distribution](#a-distribution)"""
    requests_per_s: float | None = None
    """after the start-up"""
    output_tokens_per_s: float | None = None
    """of a closed loop with all its slots busy; of an open one as it was"""


@dataclass(frozen=True, slots=True)
class Drain:
    """What was unfinished when the drain's time was over; spreads (ms) over all requests, its latencies so far in them.

    A latency so far is a lower bound, so these statistics are lower bounds too.
    """

    unfinished: int
    """requests"""
    ttft_ms_at_least: Spread
    """with the latencies so far in it: a [distribution](#a-distribution)"""
    e2e_ms_at_least: Spread
    """likewise: a [distribution](#a-distribution)"""


def steady_state(records: Sequence[RequestRecord]) -> SteadyState:
    """The steady part of one level's measured requests, in any order."""
    served = sorted((record for record in records if record.ok), key=lambda record: record.intended_ns)
    latencies = np.asarray([e2e_ms(record) for record in served], dtype=np.float64)
    start, settled, growing = truncation(latencies)
    kept = served[start:]
    seconds = duration_s(kept)
    return SteadyState(
        rule=RULE,
        reached=settled,
        growing=growing,
        excluded_requests=start,
        requests=len(kept),
        from_s=round((kept[0].intended_ns - served[0].intended_ns) / NS_PER_S, 6) if kept else None,
        ttft_ms=spread(np.asarray([value for record in kept if (value := ttft_ms(record)) is not None])),
        e2e_ms=spread(latencies[start:]),
        requests_per_s=round(len(kept) / seconds, 9) if seconds else None,
    )


def full_swing(
    slots: int, mean_in_flight: float | None, e2e_mean_ms: float | None, settled_e2e_mean_ms: float | None
) -> float:
    """How much faster a closed loop goes in full swing than over all of its level: a factor on its measured rates.

    By Little's law slots / mean in flight (the last requests run beside fewer and fewer others, and how many those are
    depends on what is left over) · mean E2E of all / mean E2E of the settled ones (where a level queues, its first
    requests find no queue). Without settled ones nothing is known of full swing: 1.
    """
    if not (mean_in_flight and e2e_mean_ms and settled_e2e_mean_ms):
        return 1.0
    return slots / mean_in_flight * e2e_mean_ms / settled_e2e_mean_ms


def steady_tokens_per_s(level: LevelMetrics, steady: SteadyState, records: Sequence[RequestRecord]) -> float | None:
    """Output tokens/s of a closed loop in full swing. An open loop's is what it was: its load is its rate.

    Settled are the requests of the steady state; where that was not reached or cannot be told, those after each slot's
    first one.
    """
    if level.output_tokens_per_s is None or level.load is not None:
        return level.output_tokens_per_s
    settled = steady.e2e_ms.mean
    if not steady.reached:
        later = sorted(records, key=lambda record: record.intended_ns)[level.concurrency :]
        settled = spread(np.asarray([e2e_ms(record) for record in later if record.ok])).mean
    slots = min(level.concurrency, level.requests or 0)
    return level.output_tokens_per_s * full_swing(slots, level.mean_in_flight, level.e2e_ms.mean, settled)


def truncation(samples: Samples) -> tuple[int, bool | None, bool]:
    """(samples that are start-up, settled or None below 50 samples, growing) by the rule above."""
    batches = samples.size // BATCH
    if batches < FEWEST_BATCHES:
        return 0, None, False
    means = samples[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    most = batches // 2
    scores = [means[first:].var() / (batches - first) for first in range(most + 1)]
    first = int(np.argmin(scores))
    z = _welch(means[: batches - most], means[batches - most :])
    unsettled = first == most and abs(z) > DRIFT_Z
    return (0, False, z > 0) if unsettled else (first * BATCH, True, False)


def _welch(early: Samples, late: Samples) -> float:
    """(mean late − mean early) / √(s²/n + s²/n); without any spread 0 where they agree, else infinite."""
    difference = float(late.mean() - early.mean())
    error = float(np.sqrt(early.var(ddof=1) / early.size + late.var(ddof=1) / late.size))
    if error > 0:
        return difference / error
    return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))


def drain(records: Sequence[RequestRecord]) -> Drain | None:
    """What one level's unfinished requests say; None when there are none."""
    unfinished = [record for record in records if record.outcome == UNFINISHED]
    if not unfinished:
        return None
    counted = [*(record for record in records if record.ok), *unfinished]
    first_ns = [record.end_ns if record.first_token_ns is None else record.first_token_ns for record in counted]
    return Drain(
        len(unfinished),
        spread(_ms_since_intended(counted, first_ns)),
        spread(_ms_since_intended(counted, [record.end_ns for record in counted])),
    )


def _ms_since_intended(records: Sequence[RequestRecord], times_ns: Sequence[int]) -> Samples:
    pairs = zip(records, times_ns, strict=True)
    return np.asarray([(time_ns - record.intended_ns) / NS_PER_MS for record, time_ns in pairs], dtype=np.float64)
