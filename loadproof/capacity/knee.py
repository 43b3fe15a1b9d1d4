"""The knee of a load curve: the level past which latency is paid for little throughput. One rule, for predicted and
for measured levels alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RULE = "marginal gain"
MINIMUM_GAIN = 0.25


@dataclass(frozen=True, slots=True)
class Knee:
    """The chosen level, the name of the rule that chose it and the reason in words.

    `reached` is False when throughput still grew at the highest level: the knee lies beyond what was tried.
    """

    concurrency: int
    rule: str
    reason: str
    reached: bool = True


def find_knee(levels: Sequence[tuple[int, float, float]]) -> Knee | None:
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
            return Knee(low, RULE, reason)
    highest = rows[-1][0]
    return Knee(highest, RULE, f"throughput still grows at {highest} in flight, the highest level tried", reached=False)
