"""The knee of a load curve, by three named rules: for predicted and for measured levels alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Rule = Literal["objective bound", "half-latency", "marginal gain"]

OBJECTIVE_BOUND: Rule = "objective bound"
HALF_LATENCY: Rule = "half-latency"
MARGINAL_GAIN: Rule = "marginal gain"
RULE = MARGINAL_GAIN  # the one that is meant where a single knee is shown
MINIMUM_GAIN = 0.25

# (concurrency, output tokens/s, latency ms)
Row = tuple[int, float, float]


@dataclass(frozen=True, slots=True)
class Knee:
    """The chosen level, the name of the rule that chose it, the reason in words and the throughput there.

    `reached` is False when the rule's condition still held at the highest level: the knee lies beyond what was tried.
    `concurrency` is 0 where the rule found no level at all (an objective missed from the first request on).
    """

    concurrency: int
    """the level; 0: the rule found none"""
    rule: str
    """which one"""
    reason: str
    """in words"""
    reached: bool = True
    """false: beyond what was tried"""
    output_tokens_per_s: float | None = None
    """there"""


def find_knee(levels: Sequence[Row]) -> Knee | None:
    """The knee of (concurrency, output tokens/s, latency ms) rows, by marginal gain; None with fewer than two rows.

    Walk up from the lowest level. A step up is worth it while `gain / load >= 0.25`, with gain the relative growth of
    throughput and load the relative growth of concurrency: doubling the load must bring a quarter more tokens. The
    knee is the last level reached by steps worth it.
    """
    rows = sorted(levels)
    if len(rows) < 2:
        return None
    for (low, before, before_ms), (high, after, after_ms) in pairwise(rows):
        gain = after / before - 1 if before > 0 else 0.0
        load = high / low - 1
        if load > 0 and gain / load < MINIMUM_GAIN:
            reason = (
                f"from {low} to {high} in flight steady throughput changes by {gain:+.0%} "
                f"and latency goes from {before_ms:,.0f} to {after_ms:,.0f} ms"
            )
            return Knee(low, MARGINAL_GAIN, reason, output_tokens_per_s=before)
    highest, rate, _ = rows[-1]
    reason = f"throughput still grows at {highest} in flight, the highest level tried"
    return Knee(highest, MARGINAL_GAIN, reason, reached=False, output_tokens_per_s=rate)


def half_latency_knee(levels: Sequence[Row]) -> Knee | None:
    """The knee by the half-latency rule: None with fewer than two rows, or without throughput.

    Let w(x) be the latency at throughput x and r(x) = (1/x) · ∫0..x w(u) du the mean latency over all loads up to x.
    The knee is where r(x) = w(x) / 2: mean latency up to it is half the latency at it. There x / r(x), throughput
    bought per latency paid, is largest (for an M/M/1 queue at 71.5% utilisation). The integral is taken over straight
    lines between the levels, and below the lowest level its latency holds; the knee is the last level before the rule
    is crossed.

    Source: N. M. Patel, "Half-Latency Rule for Finding the Knee of the Latency Curve", ACM SIGMETRICS Performance
    Evaluation Review 43(2), 2015.
    """
    rows = sorted(levels)
    if len(rows) < 2 or rows[0][1] <= 0:
        return None
    at, rate, latency_ms = rows[0]
    area = rate * latency_ms
    for (_, before, before_ms), (high, after, after_ms) in pairwise(rows):
        # Past saturation throughput stands still or falls while latency grows: nothing is added to the mean.
        area += max(0.0, after - before) * (before_ms + after_ms) / 2
        mean_ms = area / max(rate, after)
        if after_ms >= 2 * mean_ms:
            reason = (
                f"at {high} in flight latency is {after_ms:,.0f} ms, "
                f"at least twice the mean of {mean_ms:,.0f} ms over all lower loads"
            )
            return Knee(at, HALF_LATENCY, reason, output_tokens_per_s=rate)
        at, rate = high, max(rate, after)
    reason = f"at {at} in flight, the highest level tried, latency is less than twice its mean over all lower loads"
    return Knee(at, HALF_LATENCY, reason, reached=False, output_tokens_per_s=rows[-1][1])


def objective_knee(levels: Sequence[tuple[int, float, str | None]]) -> Knee | None:
    """The highest level up to which every latency objective is met; None without levels.

    Rows are (concurrency, output tokens/s, what is missed there in words or None). The first level that misses ends
    the walk, also where a higher one would meet the objectives again by chance.
    """
    rows = sorted(levels, key=lambda row: row[0])
    if not rows:
        return None
    met: tuple[int, float] | None = None
    for concurrency, rate, missed in rows:
        if missed is not None:
            reason = f"at {concurrency} in flight {missed}"
            if met is None:
                return Knee(0, OBJECTIVE_BOUND, reason, output_tokens_per_s=None)
            return Knee(met[0], OBJECTIVE_BOUND, reason, output_tokens_per_s=met[1])
        met = concurrency, rate
    highest, rate, _ = rows[-1]
    reason = f"every latency objective is met at {highest} in flight, the highest level tried"
    return Knee(highest, OBJECTIVE_BOUND, reason, reached=False, output_tokens_per_s=rate)
