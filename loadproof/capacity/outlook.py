"""Will the objectives hold? Each bound beside what is predicted for it, with the band of the plan's grade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from loadproof.capacity.confidence import Confidence, less_sure
from loadproof.capacity.curve import PlayedPart, PredictedLevel
from loadproof.capacity.workload import PlannedWorkload
from loadproof.profiles.promises import Promise
from loadproof.sessions import label_of

Expected = Literal["meets", "near", "misses", "unknown"]


@dataclass(frozen=True, slots=True)
class ObjectiveOutlook:
    """One objective: `expected` is `near` where the bound lies inside the predicted band, `unknown` without data.

    `part`: the class of the traffic that it is of; empty: of all requests.
    """

    name: str
    comparison: Literal["<=", ">="]
    bound: float
    predicted: float | None
    low: float | None
    high: float | None
    expected: Expected
    part: str = ""

    @property
    def label(self) -> str:
        """`ttft_p95_ms`, or `ttft_p95_ms of agent` where it is a class's."""
        return label_of(self.name, self.part)


def outlook_of(
    promises: Sequence[Promise], level: PredictedLevel | None, workload: PlannedWorkload, confidence: Confidence
) -> tuple[ObjectiveOutlook, ...]:
    """One row for each promise (`profiles.promises`), in its order; `level` is the one the objectives name."""
    return tuple(_outlook(one, _predicted(one, level, workload), confidence, level) for one in promises)


ENOUGH_OF_A_CLASS: Final = 100
"""Requests by which a class's percentiles are told: of fewer, p95 is one of the five longest of a draw."""


def sure_of(confidence: Confidence, promises: Sequence[Promise], level: PredictedLevel | None) -> Confidence:
    """A grade less where requests are served and a class's bound has no figure, or one of a few requests."""
    if level is None:
        return confidence
    for one in promises:
        if one.part and (doubt := _doubt_of(one, level)):
            return less_sure(confidence, doubt)
    return confidence


def _doubt_of(one: Promise, level: PredictedLevel) -> str:
    played = _played(one, level)
    if played is None or not played.requests:
        return "a class's own bound, whose requests no formula tells apart from the others"
    if played.requests < ENOUGH_OF_A_CLASS:
        return f"{played.requests} requests of {one.part} in the twin: too few to hold a percentile against its bound"
    return ""


def _predicted(one: Promise, level: PredictedLevel | None, workload: PlannedWorkload) -> float | None:
    if level is None:
        return None
    return _of_class(one, level) if one.part else predicted_value(one.name, level, workload)


def _of_class(one: Promise, level: PredictedLevel) -> float | None:
    """The twin's, where it played the level; None where it did not, and where it served none of the class."""
    played = _played(one, level)
    return None if played is None else played.tails.at(*_parts_of(one.name)) or None


def _played(one: Promise, level: PredictedLevel) -> PlayedPart | None:
    return next((part for part in level.parts if part.name == one.part), None)


def _outlook(
    promise: Promise, predicted: float | None, confidence: Confidence, level: PredictedLevel | None
) -> ObjectiveOutlook:
    name, bound, part = promise.name, promise.bound, promise.part
    at_least = name.endswith("_min")
    comparison: Literal["<=", ">="] = ">=" if at_least else "<="
    if predicted is None:
        return ObjectiveOutlook(name, comparison, bound, None, None, None, "unknown", part)
    if name == "error_rate_max":  # counted, not timed: the server refuses requests or it does not
        low = high = predicted
    else:
        low, high = confidence.range_of(name, predicted, level)
    surely = low >= bound if at_least else high <= bound
    never = high < bound if at_least else low > bound
    expected: Expected = "meets" if surely else "misses" if never else "near"
    return ObjectiveOutlook(name, comparison, bound, predicted, low, high, expected, part)


def predicted_value(name: str, level: PredictedLevel, workload: PlannedWorkload) -> float:
    """What the objective `name` is held against at this level: ms, a rate, tokens/s, or a share of requests.

    Percentiles are the twin's where it played the level. The closed form knows equal requests: TTFT spreads by the
    order of their prefills while they stay in step, TPOT by the prefills that interrupt them once they do not;
    percentiles above the median take the worse of both. Answers of spread lengths take `TPOT` for each token more or
    less than the mean: E2E(q) = E2E + (tokens(q) - mean) · TPOT.
    """
    if name == "error_rate_max":
        return level.refused / level.concurrency
    if name == "output_tokens_per_s_min":
        return level.output_tokens_per_s
    if name == "requests_per_s_min":
        return level.requests_per_s
    metric, statistic = _parts_of(name)
    quantile = int(statistic) / 100
    if level.tails is not None and metric != "itl":
        return level.tails.at(metric, statistic)
    if metric == "ttft":
        return level.ttft_ms if quantile <= 0.5 else level.ttft_last_ms
    if metric == "itl":
        # Each other request of the batch is prefilled once during an answer, and that step is one long gap.
        stalled_share = (level.batch - 1) / max(1, workload.output_tokens - 1)
        return level.tpot_ms + (level.prefill_step_ms if stalled_share > 1 - quantile else 0.0)
    if metric == "tpot":
        return level.tpot_ms if quantile <= 0.5 else level.tpot_longest_ms
    return level.e2e_ms + (workload.output_tokens_at(quantile) - workload.output_tokens) * level.tpot_ms


def _parts_of(name: str) -> tuple[str, str]:
    """(`ttft`, `95`) of `ttft_p95_ms`."""
    metric, statistic = name.removesuffix("_ms").rsplit("_p", 1)
    return metric, statistic
