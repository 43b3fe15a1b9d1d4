"""How much capacity a policy asks for. Sources: Application Auto Scaling user guide and API reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loadproof.wire.documents import Document

_ROUNDING = 1e-9  # 3 copies at exactly the target stay 3


def tracking_capacity(serving: int, value: float, target: float) -> int:
    """⌈serving copies · metric / target⌉: what brings a metric that is taken for each copy to its target."""
    return math.ceil(serving * value / target - _ROUNDING)


def step_capacity(configuration: Document, base: int, breach: float) -> int | None:
    """The capacity of the step that `breach` (metric less threshold) falls into; None when it falls into none."""
    step = _step_at(configuration["StepAdjustments"], breach)
    if step is None:
        return None
    adjustment = int(step["ScalingAdjustment"])
    kind = configuration["AdjustmentType"]
    if kind == "ExactCapacity":
        return max(0, adjustment)
    change = float(adjustment)
    if kind == "PercentChangeInCapacity":
        change = _rounded(base * adjustment / 100)
        least = int(configuration.get("MinAdjustmentMagnitude") or 0)
        if adjustment and abs(change) < least:
            change = math.copysign(least, adjustment)
    return max(0, base + int(change))


def _step_at(steps: Sequence[Document], breach: float) -> Document | None:
    """Above the threshold the lower bound belongs to a step, below it the upper bound does."""
    for step in steps:
        low = step.get("MetricIntervalLowerBound", -math.inf)
        high = step.get("MetricIntervalUpperBound", math.inf)
        if low <= breach < high if breach >= 0 else low < breach <= high:
            return step
    return None


def _rounded(change: float) -> float:
    """Less than one counts as one; more is cut down: 1.9 adds 1, 0.4 adds 1, -0.4 takes 1."""
    if 0 < abs(change) < 1:
        return math.copysign(1, change)
    return float(math.trunc(change))
