"""The three knees of a predicted curve, on the listed levels and on doublings past them."""

from __future__ import annotations

from collections.abc import Sequence

from loadproof.capacity.confidence import Confidence
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.outlook import outlook_of
from loadproof.capacity.search import last_that
from loadproof.capacity.workload import PlannedWorkload
from loadproof.knee import Knee, find_knee, half_latency_knee, objective_knee
from loadproof.profiles.promises import Promise

_LATENCY = ("ttft_", "itl_", "tpot_", "e2e_")


def find_knees(
    deployment: PlannedDeployment,
    workload: PlannedWorkload,
    promises: Sequence[Promise],
    confidence: Confidence,
    climbed: Sequence[PredictedLevel],
) -> tuple[Knee, ...]:
    """Objective bound (where a latency objective is set), half-latency and marginal gain, in this order.

    `climbed` is the ladder; the objective bound is exact, found by halving between its rungs.
    """
    rows = [(level.concurrency, level.output_tokens_per_s, level.e2e_ms) for level in climbed]
    bound = _objective_bound(deployment, workload, promises, confidence, climbed)
    return tuple(knee for knee in (bound, half_latency_knee(rows), find_knee(rows)) if knee is not None)


def _objective_bound(
    deployment: PlannedDeployment,
    workload: PlannedWorkload,
    promises: Sequence[Promise],
    confidence: Confidence,
    climbed: Sequence[PredictedLevel],
) -> Knee | None:
    if not any(one.name.startswith(_LATENCY) for one in promises):
        return None

    def missed(level: PredictedLevel) -> str | None:
        for row in outlook_of(promises, level, workload, confidence):
            if row.name.startswith(_LATENCY) and row.predicted is not None and row.predicted > row.bound:
                return f"{row.label} is predicted at {row.predicted:,.0f}, over {row.bound:,.0f}"
        return None

    def holds(concurrency: int) -> bool:
        level = workload.level(deployment, concurrency)
        return level is not None and missed(level) is None

    rows = [(level.concurrency, level.output_tokens_per_s, missed(level)) for level in climbed]
    first = next((at for at, row in enumerate(rows) if row[2] is not None), None)
    if first:
        low = last_that(holds, rows[first - 1][0], rows[first][0])
        between = [workload.level(deployment, concurrency) for concurrency in (low, low + 1)]
        rows[first - 1 : first + 1] = [
            (level.concurrency, level.output_tokens_per_s, missed(level)) for level in between if level is not None
        ]
    return objective_knee(rows)
