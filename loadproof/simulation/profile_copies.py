"""What serves a profile's requests: its copies, how they scale, and how long they take to come up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from math import ceil
from typing import Final

from loadproof.capacity import PlannedDeployment
from loadproof.capacity.start_up import StartUp
from loadproof.capacity.workload import keeps_prompts
from loadproof.profiles.schema import Component, Profile, ScheduledScaling
from loadproof.profiles.schema import SimpleScaling as SimplePolicy
from loadproof.profiles.schema import StepScaling as StepPolicy
from loadproof.profiles.schema import TargetTracking as TrackingPolicy
from loadproof.simulation.closed_loop import fresh_copies
from loadproof.simulation.elastic import ElasticCopies, Machines
from loadproof.simulation.profile_traffic import Traffic, request_tokens
from loadproof.simulation.scaling import Autoscaler, BoundsChange, Metric, Policy, StepScaling, TargetTracking, WakeUp
from loadproof.simulation.schedules import changes_of
from loadproof.simulation.scheduling import Scheduler
from loadproof.simulation.targets import as_number, resolved_scaling

_PER_COPY: Final[dict[str, Metric]] = {
    "concurrent_requests_per_copy": "concurrent_requests_per_copy",
    "concurrent_requests_per_model": "concurrent_requests_per_copy",
    "invocations_per_copy": "invocations_per_copy",
    "invocations_per_instance": "invocations_per_copy",
}


def copies_of(
    profile: Profile,
    component: Component,
    deployment: PlannedDeployment,
    traffic: Traffic,
    start_up: StartUp,
    starts_at: datetime,
    minutes: float,
    notes: list[str],
) -> ElasticCopies:
    """The copies as the profile scales them from `starts_at` on; what is left out of its policies goes into `notes`."""
    endpoint, scaling, counts = profile.endpoint, resolved_scaling(profile, component), component.copies
    assert endpoint is not None  # deployment_of refused a profile without one
    plain = endpoint.hosting == "plain_variant"
    fewest, most = (endpoint.min_instances, endpoint.max_instances) if plain else (counts.min, counts.max)
    policies: list[Policy] = []
    schedule: list[BoundsChange] = []
    for policy in scaling.policies if scaling else ():
        if isinstance(policy, ScheduledScaling):
            schedule += changes_of(policy, starts_at, ceil(minutes))
        elif not isinstance(policy, SimplePolicy):  # those are steps by now
            policies += _policy(policy, notes)
    if scaling and scaling.to_zero and scaling.to_zero.wake_on_failed_invocation:
        policies.append(WakeUp(as_number(scaling.to_zero.wake_cooldown_s)))
    if scaling and scaling.to_zero and scaling.to_zero.wake_on_backlog:
        notes.append("no copy wakes for waiting messages")
    autoscaler = Autoscaler(
        policies,
        min_copies=fewest,
        max_copies=most if scaling else fewest,
        schedule=sorted(schedule, key=lambda change: change.at_ms),
    )

    shared = traffic.shared_prefix_tokens if keeps_prompts(component.container) else 0
    tokens = request_tokens(profile, traffic)

    def make_copy() -> Scheduler:
        one = replace(deployment, copies=1)
        return fresh_copies(one, shared_prefix_tokens=shared, request_tokens=tokens)[0]

    per_instance = 1 if plain else deployment.copies_per_instance
    return ElasticCopies(
        autoscaler,
        make_copy,
        start_up,
        Machines(per_instance, endpoint.min_instances, endpoint.max_instances),
    )


def _policy(policy: TrackingPolicy | StepPolicy, notes: list[str]) -> Iterator[Policy]:
    metric = _PER_COPY.get(policy.metric)
    if metric is None:
        notes.append(f"a policy on {policy.metric} is left out")
    elif isinstance(policy, StepPolicy):
        yield StepScaling(
            metric,
            policy.threshold,
            tuple((step.at, step.add_copies) for step in policy.steps),
            policy.comparison == "above",
            policy.evaluation_periods,
            policy.period_s,
            as_number(policy.cooldown_s),
        )
    else:
        yield TargetTracking(
            metric,
            as_number(policy.target),
            as_number(policy.scale_out_cooldown_s),
            as_number(policy.scale_in_cooldown_s),
            policy.scale_in,
        )
