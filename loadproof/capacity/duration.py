"""How long a benchmark is predicted to take, and whether a deployment can wait for it."""

from __future__ import annotations

from dataclasses import fields
from math import ceil

from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.errors import InputError
from loadproof.loads import Load
from loadproof.profiles.gating import LONGEST_GATED_RUN_S, WAKING_S
from loadproof.profiles.judging import requests_to_judge
from loadproof.profiles.mixture import busiest_per_s
from loadproof.profiles.schema import Profile

BETWEEN_LEVELS_S = 6.0  # warm-up and level each begin three looks of the hosts at their store after they are announced


def benchmark_duration_s(profile: Profile) -> float:
    """Predicted seconds of load: the sum over levels.

    A closed loop takes its requests over what so many sessions send, an open one over its rate; a timed level its time.
    A trace counts nothing, since its file is not read here. Raises InputError where no level can be planned.
    """
    return sum(_level_s(profile, load) + BETWEEN_LEVELS_S for load in _loads(profile))


def gate_problem(profile: Profile) -> tuple[str, str] | None:
    """What is wrong with a gate that a deployment waits for, and its mend; None where it can."""
    if profile.benchmark.gate != "rollback":
        return None
    try:
        seconds = benchmark_duration_s(profile)
    except InputError:
        return None  # nothing can be predicted of it, which has a message of its own
    sleeps = profile.scaling is not None and profile.scaling.to_zero is not None
    longest_s = LONGEST_GATED_RUN_S - (WAKING_S if sleeps else 0)
    if seconds <= longest_s:
        return None
    waking = ", since waking an endpoint at zero takes its time" if sleeps else ""
    found = (
        f"the benchmark is predicted to take {seconds / 60:.0f} minutes, and a deployment waits for "
        f"{longest_s // 60} of load at most{waking}"
    )
    return found, "send less at each level, or write gate: alarm"


def _loads(profile: Profile) -> list[Load]:
    benchmark, arrivals = profile.benchmark, profile.workload.arrivals
    names = {field.name for field in fields(Load)}
    if benchmark.phases:
        return [Load(**{name: getattr(phase, name) for name in names}) for phase in benchmark.phases]
    ends = {"duration_s": benchmark.duration_s}
    if benchmark.duration_s is None:
        ends = {"requests": benchmark.requests_per_level}
    if arrivals.process != "closed":
        rate = None if arrivals.requests_per_s is None else busiest_per_s(arrivals)
        return [Load(arrivals.process, requests_per_s=rate, **ends)]  # type: ignore[arg-type]
    return [Load(concurrency=level, **_requests_at(profile, level, ends)) for level in benchmark.concurrency]  # type: ignore[arg-type]


def _requests_at(profile: Profile, concurrency: int, ends: dict[str, float | None]) -> dict[str, float | None]:
    """Where objectives are judged, as many as they need."""
    requests = ends.get("requests")
    if requests is None or concurrency != profile.objectives.at_concurrency:
        return ends
    return {"requests": max(requests, requests_to_judge(profile) or 0)}


def _level_s(profile: Profile, load: Load) -> float:
    if load.duration_s is not None:
        return load.duration_s
    if load.process == "trace" or load.requests is None:
        return 0.0
    if load.is_open:
        return load.requests / (load.requests_per_s or load.requests)
    assert load.concurrency is not None
    planned = planned_workload(profile)
    level = planned.level(planned_deployment(profile), load.concurrency)
    if level is None:
        raise InputError("no such request can be served")
    warm_up = ceil(profile.benchmark.warmup_requests / load.concurrency) * load.concurrency
    rate = planned.mixture.requests_per_s(load.concurrency, level.e2e_ms / 1e3) if planned.mixture else 0.0
    return (load.requests + warm_up) / rate
