"""How many instances a profile runs: with its fewest copies, those its workload needs, and its most.

The copies that the workload needs come from the ceiling of the profile's own model, the most requests in flight with
which its latency objectives are predicted to hold, and never past the knee by marginal gain:

- open arrivals: `copies = ceil(requests/s ÷ requests/s of one copy at its ceiling)`; a ramp counts at its higher end;
- a closed loop: `copies = ceil(objectives.at_concurrency ÷ ceiling of one copy)`, the load the objectives name;

within the fewest and the most copies, and the fewest where nothing scales. Where no load at all is predicted to meet
the objectives, the knee alone is the ceiling, and a note says so. Further components count with their fewest:
the workload says nothing about them. A recorded trace has no one rate, so nothing is expected of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.workload import planned_workload
from loadproof.catalog import Instance
from loadproof.knee import MARGINAL_GAIN, OBJECTIVE_BOUND, Knee
from loadproof.profiles import Component, Profile, components_of
from loadproof.profiles.checks.facts import copies_per_instance
from loadproof.profiles.checks.rule import Placed
from loadproof.profiles.schema import Endpoint, ScheduledScaling


@dataclass(frozen=True, slots=True)
class ExpectedInstances:
    """Instances that the workload needs, *predicted*; None where that is not known. `note`: what to know about it."""

    instances: int | None
    note: str


def endpoint_of(profile: Profile) -> Endpoint:
    assert profile.endpoint is not None  # the checks refuse a profile without one
    return profile.endpoint


def instance_bounds(profile: Profile, machine: Instance) -> tuple[int, int]:
    """(fewest, most) instances. A plain variant has one copy on each, and `copies` no say; nothing else moves them."""
    endpoint = endpoint_of(profile)
    if endpoint.hosting == "plain_variant":
        return endpoint.min_instances, endpoint.max_instances if profile.scaling else endpoint.min_instances
    return _holding(profile, machine, lambda one: one.copies.min), _holding(profile, machine, most_copies)


def expected_instances(
    profile: Profile, machine: Instance, deployment: PlannedDeployment | None, knees: Sequence[Knee]
) -> ExpectedInstances:
    """Instances for the workload at the objectives; unknown for a profile that scales without its deployment."""
    wanted, note = _expected_copies(profile, deployment, knees)
    if wanted is None:
        return ExpectedInstances(None, note)
    endpoint = endpoint_of(profile)
    if endpoint.hosting == "plain_variant":
        scaled = profile.scaling is not None
        needed = max(endpoint.min_instances, min(wanted, endpoint.max_instances)) if scaled else endpoint.min_instances
    else:
        needed = _holding(profile, machine, lambda one: wanted if one.name == "main" else one.copies.min)
    return ExpectedInstances(needed, note)


def scheduled(component: Component) -> list[ScheduledScaling]:
    """The component's scheduled actions."""
    policies = component.scaling.policies if component.scaling else ()
    return [policy for policy in policies if isinstance(policy, ScheduledScaling)]


def most_copies(component: Component) -> int:
    """The most copies that anything scales this model to."""
    return max(component.copies.min, component.copies.max, *(policy.max_copies or 0 for policy in scheduled(component)))


def _holding(profile: Profile, machine: Instance, copies: Callable[[Component], int]) -> int:
    """Instances that hold so many copies of each model, within the endpoint's own bounds.

    Models share machines: `instances = ceil(sum of copies ÷ copies an instance takes)`, and no fewer than any model
    needs alone.
    """
    endpoint = endpoint_of(profile)
    shares = [
        (copies(component), max(1, copies_per_instance(Placed(component, (), profile), machine)))
        for component in components_of(profile)
    ]
    needed = ceil(round(sum(count / room for count, room in shares), 9))
    most = max(endpoint.min_instances, endpoint.max_instances)
    return min(most, max(endpoint.min_instances, needed))


def copies_short(profile: Profile, deployment: PlannedDeployment, knees: Sequence[Knee]) -> tuple[int, int] | None:
    """(copies that the workload needs within the objectives, the most there may be) where these are too few, predicted.

    None where they do, and where nobody knows: no scaling, a recorded trace, objectives that no load meets.
    """
    if profile.endpoint is None or components_of(profile)[0].scaling is None:
        return None
    load = _load(profile, deployment, knees, (OBJECTIVE_BOUND, MARGINAL_GAIN))
    if profile.workload.arrivals.process == "trace" or load is None:
        return None
    needed, (_, most) = _whole(load), _bounds(profile)
    return (needed, most) if needed > most else None


def _expected_copies(
    profile: Profile, deployment: PlannedDeployment | None, knees: Sequence[Knee]
) -> tuple[int | None, str]:
    """(copies of the profile's own model that its workload needs, what to know about that)."""
    fewest, most = _bounds(profile)
    if components_of(profile)[0].scaling is None:
        return fewest, ""
    if profile.workload.arrivals.process == "trace":
        return None, "what is expected is not known: a recorded trace of arrivals has no one rate"
    if deployment is None:
        return None, "what is expected is not known without a plan"
    note = ""
    load = _load(profile, deployment, knees, (OBJECTIVE_BOUND, MARGINAL_GAIN))
    if load is None:
        load = _load(profile, deployment, knees, (MARGINAL_GAIN,))
        note = "the objectives are predicted to be missed at any load: what is expected is reckoned at the knee instead"
    if load is None:
        return None, "what is expected is not known: no request of this workload can be served"
    needed = _whole(load)
    if needed > most:
        note = f"the workload needs {needed:,} copies, more than the most ({most:,})"
    return min(most, max(fewest, needed)), note


def _bounds(profile: Profile) -> tuple[int, int]:
    """(fewest, most) copies of the profile's own model; a plain variant's are its instances."""
    endpoint, main = endpoint_of(profile), components_of(profile)[0]
    if endpoint.hosting == "plain_variant":
        return endpoint.min_instances, endpoint.max_instances
    return main.copies.min, most_copies(main)


def _whole(load: float) -> int:
    return max(1, ceil(round(load, 9)))


def _load(
    profile: Profile, deployment: PlannedDeployment, knees: Sequence[Knee], rules: tuple[str, ...]
) -> float | None:
    """The workload as a number of copies at their ceiling by these rules; None where one copy serves nothing so."""
    ceilings = [knee.concurrency for knee in knees if knee.rule in rules]
    ceiling = min(ceilings, default=0) / deployment.copies
    if ceiling < 1:
        return None
    rate = profile.workload.arrivals.requests_per_s
    if rate is None:
        return profile.objectives.at_concurrency / ceiling
    level = planned_workload(profile).level(replace(deployment, copies=1), int(ceiling))
    return None if level is None or not level.requests_per_s else rate / level.requests_per_s
