"""One candidate at a time: a deployment and its price become an `Alternative`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from loadproof.advice.alternatives import Alternative, Range
from loadproof.advice.changes import KeyChange
from loadproof.capacity.confidence import Confidence, confidence_of, unverified_rows
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import memory_fit
from loadproof.capacity.outlook import Expected, ObjectiveOutlook, outlook_of, sure_of
from loadproof.capacity.search import ladder
from loadproof.capacity.workload import PlannedWorkload
from loadproof.knee import find_knee
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Profile
from loadproof.usd import usd_per_million_tokens

_WORST: tuple[Expected, ...] = ("meets", "near", "unknown", "misses")


def assess(
    profile: Profile,
    deployment: PlannedDeployment,
    workload: PlannedWorkload,
    *,
    room: int,
    instances: int,
    changes: tuple[KeyChange, ...] = (),
    is_own: bool = False,
) -> Alternative:
    """Predict `deployment` (with all its copies) on `instances` machines that take `room` copies each."""
    memory, confidence = memory_fit(deployment), confidence_of(deployment, workload.turns, workload.input_tokens)
    price = deployment.instance.usd_per_hour
    usd_per_hour = None if price is None else price * instances

    fits = memory.fits != "no"
    at_objectives = workload.level(deployment, profile.objectives.at_concurrency) if fits else None
    # Rungs at whole numbers a copy, so that more copies of the same kind have the same knee each.
    rung = partial(workload.by_formula.level, deployment)
    climbed = ladder(rung, deployment, unit=deployment.copies) if at_objectives else ()
    knee = find_knee([(row.concurrency, row.output_tokens_per_s, row.e2e_ms) for row in climbed])
    rate = knee.output_tokens_per_s if knee else None
    promises = promises_of(profile)
    confidence = sure_of(confidence, promises, at_objectives)
    outlook = outlook_of(promises, at_objectives, workload, confidence)
    return Alternative(
        instance_type=deployment.instance.instance_type,
        accelerator=deployment.accelerator.name,
        tensor_parallel_degree=deployment.accelerators,
        copies_per_instance=room,
        instances=instances,
        copies=deployment.copies,
        family=deployment.family,
        version=deployment.version,
        is_own=is_own,
        fits=memory.fits,
        grade=confidence.grade,
        at_objectives=at_objectives,
        ttft_ms=_level_range(confidence, at_objectives, "ttft_ms"),
        tpot_ms=_level_range(confidence, at_objectives, "tpot_ms"),
        e2e_ms=_level_range(confidence, at_objectives, "e2e_ms"),
        knee_concurrency=knee.concurrency if knee else None,
        knee_reached=knee.reached if knee else False,
        knee_output_tokens_per_s=_range(confidence, rate),
        usd_per_hour=usd_per_hour,
        usd_per_million_tokens=_range(confidence, usd_per_million_tokens(usd_per_hour, rate)),
        price_derived=deployment.instance.price_derived,
        objectives=worst(outlook),
        outlook=outlook,
        dominated=False,
        changes=changes,
        notes=tuple(_notes(profile, deployment, is_own)),
        unverified=deployment.instance.unverified or deployment.accelerator.unverified,
    )


def serves(found: Alternative, *, streaming: bool) -> bool:
    """True where no request at the objectives' concurrency is refused or, in one piece, ended by the 60 s limit."""
    level = found.at_objectives
    return level is not None and not level.refused and (streaming or not level.over_60_s)


def worst(outlook: tuple[ObjectiveOutlook, ...]) -> Expected:
    """The worst outlook of all objectives; unknown where there is none."""
    return max((row.expected for row in outlook), key=_WORST.index, default="unknown")


def as_dominated(found: Alternative) -> Alternative:
    """The same, marked."""
    return replace(found, dominated=True)


def _level_range(confidence: Confidence, level: PredictedLevel | None, name: str) -> Range | None:
    if level is None:
        return None
    value = getattr(level, name)
    return Range(value, *confidence.range_of(name, value, level))


def _range(confidence: Confidence, value: float | None) -> Range | None:
    return None if value is None else Range(value, *confidence.interval(value))


def _notes(profile: Profile, deployment: PlannedDeployment, is_own: bool) -> list[str]:
    notes = []
    container = profile.container
    if not is_own and container is not None and container.family != deployment.family:
        notes.append(f"clients speak {deployment.family}'s payloads instead of {container.family}'s")
    if confidence_of(deployment).grade == "D":
        notes.append(f"grade D: nobody has measured {deployment.family} on {deployment.accelerator.name} for Loadproof")
    notes += [f"the catalog's figures of {name} are unverified" for name, _ in unverified_rows(deployment)]
    if deployment.instance.price_derived:
        notes.append("its price is derived, not published")
    if deployment.instance.unverified or deployment.accelerator.unverified:
        notes.append("figures of its machine or accelerator are not verified")
    return notes
