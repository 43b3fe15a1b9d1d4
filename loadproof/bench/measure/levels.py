"""What each level of a run amounts to: which records count, its metrics, its steady part, what a search makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loadproof.bench.load.probes import Probe, Stop, probe_of
from loadproof.bench.load.search import judged_probe, next_level
from loadproof.bench.measure.client_share import ClientShare
from loadproof.bench.measure.metrics import LevelMetrics, measure_level
from loadproof.bench.measure.records import RequestRecord, latest
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.measure.steady import SteadyState, steady_state
from loadproof.bench.plan import PlannedLevel, RunPlan, planned_level
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
    )
    if "imported" in plan.conditions:  # how late another program was, nobody measured
        metrics = replace(metrics, lag_ms=Spread(), loop_lag_ms=Spread(), offered=None, client_share=ClientShare())
    ended = bool(plan.levels) and plan.levels[index].ended_utc is not None
    return MeasuredLevel(index, load, tuple(measured), tuple(warm_up), metrics, steady_state(measured), ended)


def probes_of(plan: RunPlan, levels: Mapping[int, MeasuredLevel]) -> dict[int, Probe]:
    """What a search sees of its levels, in the order in which they were measured; of those that came to their end.

    Empty without a search."""
    if plan.spec.search is None:
        return {}
    return {
        index: probe_of(
            level.load.value,
            level.metrics,
            level.records,
            level.steady,
            plan.spec,
            confirms=plan.levels[index].confirms,
        )
        for index, level in sorted(levels.items())
        if level.ended
    }


def next_planned(plan: RunPlan, records: Sequence[RequestRecord], judged: dict[int, Probe]) -> PlannedLevel | None:
    """The level a search wants measured next; None where it is over, and for a run without a search.

    `judged`: levels that have been; those in `records` that came to their end since join them.
    """
    search = plan.spec.search
    if search is None:
        return None
    judged |= probes_of(plan, measured_levels(plan, [one for one in records if one.level not in judged]))
    following = next_level(search, tuple(judged.values()), wanted_value(plan))
    if isinstance(following, Stop):
        return None
    load = search.load_at(following.value, following.requests)
    level = planned_level(load, plan.spec.workload, len(plan.levels))
    return replace(level, confirms=following.confirms)


def wanted_value(plan: RunPlan) -> float | None:
    """The load the objectives must hold at, where one was named."""
    spec = plan.spec
    loads = (spec.search.load,) if spec.search else plan.loads
    if any(load.is_open for load in loads):
        return spec.at_requests_per_s
    return None if spec.at_concurrency is None else float(spec.at_concurrency)


def judged_level(
    plan: RunPlan, levels: Mapping[int, MeasuredLevel], probes: Mapping[int, Probe] | None = None
) -> int | None:
    """The index of the level the objectives must hold at: the one asked for, else a search's own, else the highest.

    Where phases are of several kinds, the highest rate stands above every concurrency. None where nothing is planned
    yet: a search that was stopped before its first level. `probes`: those of `probes_of`, where they are at hand.
    """
    wanted, spec = wanted_value(plan), plan.spec
    if spec.search is not None and (seen := probes_of(plan, levels) if probes is None else probes):
        return judged_probe(spec.search, seen, wanted)
    loads = plan.loads
    named = [
        index
        for index, load in enumerate(loads)
        if (load.is_open and load.value == spec.at_requests_per_s)
        or (not load.is_open and load.value == spec.at_concurrency and spec.at_requests_per_s is None)
    ]
    highest = max(range(len(loads)), key=lambda index: (loads[index].is_open, loads[index].value, index), default=None)
    return named[-1] if named else highest
