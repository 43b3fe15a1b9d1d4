"""Will the objectives hold? Each bound beside what is predicted for it, with the band of the plan's grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loadproof.capacity.confidence import Confidence
from loadproof.capacity.curve import PredictedLevel
from loadproof.profiles.schema import Objectives

Expected = Literal["meets", "near", "misses", "unknown"]

# The closed form predicts means. Equal requests in a closed loop spread little; the tail is widened by a stated
# share instead of pretending to know the distribution.
_TAIL = {"p50": 1.0, "p90": 1.1, "p95": 1.15, "p99": 1.25}


@dataclass(frozen=True, slots=True)
class ObjectiveOutlook:
    """One objective: `expected` is `near` where the bound lies inside the predicted band, `unknown` without data."""

    name: str
    comparison: Literal["<=", ">="]
    bound: float
    predicted: float | None
    low: float | None
    high: float | None
    expected: Expected


def outlook_of(
    objectives: Objectives, level: PredictedLevel | None, confidence: Confidence
) -> tuple[ObjectiveOutlook, ...]:
    """One row for each bound the profile sets, in the profile's order."""
    bounds = objectives.model_dump(exclude={"at_concurrency"}, exclude_none=True)
    return tuple(_outlook(name, bound, level, confidence) for name, bound in bounds.items())


def _outlook(name: str, bound: float, level: PredictedLevel | None, confidence: Confidence) -> ObjectiveOutlook:
    at_least = name.endswith("_min")
    comparison: Literal["<=", ">="] = ">=" if at_least else "<="
    predicted = None if level is None else _predicted(name, level)
    if predicted is None:
        return ObjectiveOutlook(name, comparison, bound, None, None, None, "unknown")
    low, high = confidence.interval(predicted, ttft=name.startswith("ttft"))
    if name == "error_rate_max":  # counted, not timed: the server refuses requests or it does not
        low = high = predicted
    surely = low >= bound if at_least else high <= bound
    never = high < bound if at_least else low > bound
    expected: Expected = "meets" if surely else "misses" if never else "near"
    return ObjectiveOutlook(name, comparison, bound, predicted, low, high, expected)


def _predicted(name: str, level: PredictedLevel) -> float | None:
    if name == "error_rate_max":
        return level.refused / level.concurrency
    if name == "output_tokens_per_s_min":
        return level.output_tokens_per_s
    if name == "requests_per_s_min":
        return level.requests_per_s
    metric, statistic = name.removesuffix("_ms").rsplit("_", 1)
    means = {"ttft": level.ttft_ms, "itl": level.tpot_ms, "tpot": level.tpot_ms, "e2e": level.e2e_ms}
    return means[metric] * _TAIL[statistic]
