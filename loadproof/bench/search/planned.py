"""What a search makes of the levels of a run: which is planned next, and at which the objectives must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loadproof.bench.measure.levels import MeasuredLevel, measured_levels
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.plan import PlannedLevel, RunPlan, planned_level
from loadproof.bench.search.levels import judged_probe, next_level
from loadproof.bench.search.probes import Probe, Stop, probe_of


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
