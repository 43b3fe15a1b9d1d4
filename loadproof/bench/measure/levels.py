"""What each level of a run amounts to: which records count, its metrics, its steady part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadproof.bench.measure.client_share import ClientShare
from loadproof.bench.measure.metrics import LevelMetrics, measure_level
from loadproof.bench.measure.records import RequestRecord, latest
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.measure.steady import SteadyState, steady_state
from loadproof.bench.plan import RunPlan
from loadproof.loads import Load


@dataclass(frozen=True, slots=True)
class MeasuredLevel:
    """One level with data. `ended` False: the run stopped in it. `warm_up` holds the requests that count in nothing."""

    index: int
    load: Load
    records: tuple[RequestRecord, ...]
    warm_up: tuple[RequestRecord, ...]
    metrics: LevelMetrics
    steady: SteadyState
    ended: bool


def measured_levels(plan: RunPlan, records: Sequence[RequestRecord]) -> dict[int, MeasuredLevel]:
    """Every level of which something was measured, by its index, in order of load.

    A level that is measured in one piece counts with the last session that sent it: a queue that an earlier one built
    up is not the queue of a later one.
    """
    measured: dict[int, list[RequestRecord]] = {}
    warm_up: dict[int, list[RequestRecord]] = {}
    for record in latest(records):
        (measured if record.phase == "measured" else warm_up).setdefault(record.level, []).append(record)
    found = {level: measured_level(plan, level, ours, warm_up.get(level, ())) for level, ours in measured.items()}
    climbs = len({load.process == "trace" or load.is_open for load in plan.loads}) == 1
    # Levels of one kind are a curve, by load; phases of several kinds are a story, by time.
    return dict(sorted(found.items(), key=lambda item: (item[1].load.value if climbs else 0, item[0])))


def measured_level(
    plan: RunPlan, index: int, measured: Sequence[RequestRecord], warm_up: Sequence[RequestRecord] = ()
) -> MeasuredLevel:
    """One level of at least one measured request."""
    load = plan.loads[index]
    if load.in_one_piece:
        last = max(record.session for record in measured)
        measured = [record for record in measured if record.session == last]
    metrics = measure_level(
        load.concurrency or 1,
        measured,
        plan.spec.objectives,
        plan.spec.usd_per_hour,
        load=load.words if load.is_open else None,
        of_classes=plan.spec.class_objectives,
    )
    if "imported" in plan.conditions:  # how late another program was, nobody measured
        metrics = replace(metrics, lag_ms=Spread(), loop_lag_ms=Spread(), offered=None, client_share=ClientShare())
    ended = bool(plan.levels) and plan.levels[index].ended_utc is not None
    return MeasuredLevel(index, load, tuple(measured), tuple(warm_up), metrics, steady_state(measured), ended)
