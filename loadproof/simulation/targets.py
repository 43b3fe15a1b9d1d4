"""What a profile leaves to `auto` in its scaling, as numbers. Every figure here is *predicted*.

The ceiling of one copy is the most requests in flight with which its latency objectives are predicted to be met and
no answer in one piece is cut off after 60 s, and never past the knee by marginal gain: the knees that a plan shows, its
levels played by the twin. From it follow

- concurrency per copy or model: `0.75 · ceiling`, rounded down, at least 1. Load may grow by a third while a further
  copy starts.
- invocations per copy or instance, a minute: `requests/s at the ceiling · 0.5 · 60`. Source: SageMaker developer guide,
  "Load test your auto scaling configuration" (MAX_RPS · SAFETY_FACTOR · 60, the factor 0.5 to begin with).
- backlog per copy or instance: `requests/s at the concurrency target · start-up in s`, rounded down, at least 1: what a
  copy answers while a further one starts. A smaller backlog is gone before that copy is there.
- consumers of the buffer: `ceiling · most copies ÷ batch size`.
- cooldown after scaling out, a step or waking up: the start-up of a copy; after scaling in: the same, at least 300 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, Final, Literal

from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.capacity.knees import find_knees
from loadproof.capacity.plan import DerivedValue
from loadproof.capacity.search import ladder, last_that
from loadproof.capacity.start_up import StartUp, start_up_of
from loadproof.capacity.workload import PlannedWorkload
from loadproof.errors import InputError
from loadproof.knee import MARGINAL_GAIN, OBJECTIVE_BOUND
from loadproof.profiles.on_bedrock import FEWEST_CONSUMERS, MOST_CONSUMERS, bedrock_consumers, bedrock_settings
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Buffer, Component, Profile, Scaling, ScalingMetric, SimpleScaling, TargetTracking
from loadproof.profiles.settings import components_of
from loadproof.profiles.tree import Path
from loadproof.simulation.replay import replayed_workload

CONCURRENCY_SHARE: Final = 0.75
INVOCATIONS_SAFETY: Final = 0.5
LEAST_SCALE_IN_COOLDOWN_S: Final = 300
_COOLDOWN_GRAIN_S: Final = 10


def derived_values(profile: Profile) -> tuple[DerivedValue, ...]:
    """All `auto`s of all models of the profile, and of its buffer; empty where everything is written out."""
    values = tuple(
        value
        for at, component in enumerate(components_of(profile))
        for value in _derived(profile, component, ("components", at - 1) if at else ())
    )
    buffer = profile.buffer
    wanted = buffer is not None and buffer.enabled and buffer.max_concurrency == "auto"
    return (*values, buffer_concurrency(profile)) if wanted else values


def buffer_concurrency(profile: Profile) -> DerivedValue:
    """Consumers of the buffer that keep the most copies at their ceiling: `ceiling · copies ÷ batch size`, 2..1000.

    Where the planner cannot tell it is 2, the fewest that Lambda takes: a buffer works slowly rather than not at all.
    """
    path: Path = ("buffer", "max_concurrency")
    buffer = profile.buffer or Buffer()
    if profile.backend == "bedrock":
        allowed = bedrock_settings(profile).max_concurrency
        return DerivedValue("main", path, bedrock_consumers(profile), f"bedrock.max_concurrency {allowed:,}")
    main = components_of(profile)[0]
    try:
        copy = _copy(profile, main)
    except InputError as error:
        return DerivedValue(main.name, path, FEWEST_CONSUMERS, str(error))
    assert profile.endpoint is not None
    plain = profile.endpoint.hosting == "plain_variant"
    copies = profile.endpoint.max_instances if plain else main.copies.max
    reason = f"{copy.ceiling:,} in flight a copy ({copy.ceiling_reason}) x {copies:,} copies"
    if buffer.batch_size > 1:
        reason += f" / {buffer.batch_size} messages a consumer"
    return DerivedValue(main.name, path, _consumers(copy.ceiling * copies / buffer.batch_size), reason)


def _consumers(wanted: float) -> int:
    return min(MOST_CONSUMERS, max(FEWEST_CONSUMERS, ceil(wanted)))


def resolved_scaling(profile: Profile, component: Component) -> Scaling | None:
    """The component's scaling as it is deployed: numbers for `auto`, steps for `simple`; None where it has none.

    Raises InputError with a line for each `auto` that has no number.
    """
    scaling = component.scaling
    if scaling is None:
        return None
    derived = _derived(profile, component, ())
    missing = [f"{value.field}: auto has no number: {value.reason}" for value in derived if value.value is None]
    if missing:
        raise InputError("\n".join(f"{line}; write one, or change what stands in its way" for line in missing))
    numbers: dict[Path, dict[str, float]] = {}
    for value in derived:
        assert value.value is not None
        numbers.setdefault(value.path[1:-1], {})[str(value.path[-1])] = value.value
    policies = []
    for at, policy in enumerate(scaling.policies):
        numbered = policy.model_copy(update=numbers.get(("policies", at), {}))
        policies.append(numbered.as_step() if isinstance(numbered, SimpleScaling) else numbered)
    zero = scaling.to_zero and scaling.to_zero.model_copy(update=numbers.get(("to_zero",), {}))
    return scaling.model_copy(update={"policies": tuple(policies), "to_zero": zero})


def as_number(value: float | Literal["auto"]) -> float:
    """A field of a resolved scaling, where no `auto` is left."""
    if isinstance(value, str):
        raise TypeError("an auto that was not resolved")
    return value


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy of a component: what it can do, and how long until there is one more."""

    profile: Profile
    deployment: PlannedDeployment
    workload: PlannedWorkload
    ceiling: int
    ceiling_reason: str
    start_up: StartUp
    needs_instance: bool

    @property
    def in_flight(self) -> int:
        return max(1, floor(CONCURRENCY_SHARE * self.ceiling))

    @property
    def start_up_s(self) -> int:
        """Rounded up to whole 10 s."""
        seconds = self.start_up.copy_s + (self.start_up.instance_s if self.needs_instance else 0)
        return ceil(seconds / _COOLDOWN_GRAIN_S) * _COOLDOWN_GRAIN_S

    def requests_per_s(self, concurrency: int) -> float:
        level = self.workload.level(self.deployment, concurrency)
        assert level is not None  # the ceiling was found among such levels
        return level.requests_per_s


def _derived(profile: Profile, component: Component, prefix: Path) -> tuple[DerivedValue, ...]:
    fields = list(_auto_fields(component.scaling))
    if not fields:
        return ()
    unknown, copy = "", None
    try:
        copy = _copy(profile, component)
    except InputError as error:
        unknown = str(error)
    return tuple(
        DerivedValue(
            component.name,
            (*prefix, "scaling", *path),
            *((None, unknown) if copy is None else _number(copy, str(path[-1]), metric)),
        )
        for path, metric in fields
    )


def _auto_fields(scaling: Scaling | None) -> Iterator[tuple[Path, ScalingMetric | None]]:
    """(place below `scaling`, the policy's metric) of each `auto`."""
    if scaling is None:
        return
    parts: list[tuple[Path, Any]] = [(("policies", at), policy) for at, policy in enumerate(scaling.policies)]
    parts.append((("to_zero",), scaling.to_zero))
    for path, part in parts:
        for name, value in part or ():
            if value == "auto":
                yield (*path, name), part.metric if isinstance(part, TargetTracking) else None


def _copy(profile: Profile, component: Component) -> _Copy:
    deployment = replace(deployment_of(profile, component), copies=1)
    workload, endpoint = replayed_workload(profile, component.container), profile.endpoint
    assert endpoint is not None  # deployment_of refused a profile without one
    ceiling, reason = _ceiling(profile, deployment, workload)
    return _Copy(
        profile=profile,
        deployment=deployment,
        workload=workload,
        ceiling=ceiling,
        ceiling_reason=reason,
        start_up=start_up_of(deployment),
        needs_instance=endpoint.hosting == "plain_variant" or endpoint.max_instances > endpoint.min_instances,
    )


def _ceiling(profile: Profile, deployment: PlannedDeployment, workload: PlannedWorkload) -> tuple[int, str]:
    """(requests in flight on one copy, what ends them there); 0 where no load will do."""

    def level(concurrency: int) -> PredictedLevel | None:
        return workload.level(deployment, concurrency)

    climbed = ladder(level, deployment)
    if not climbed:
        return 0, "no request of this workload can be served"
    knees = find_knees(
        deployment,
        workload,
        promises_of(profile),
        confidence_of(deployment, workload.turns, workload.input_tokens),
        climbed,
    )
    last = climbed[-1].concurrency
    ends = [(last, f"the server admits no more than {last}")]
    ends += [(knee.concurrency, knee.reason) for knee in knees if knee.rule in (OBJECTIVE_BOUND, MARGINAL_GAIN)]
    is_async = profile.endpoint is not None and profile.endpoint.async_inference is not None
    too_long = next((at for at, row in enumerate(climbed) if row.over_60_s), None)
    if too_long is not None and not profile.workload.streaming and not is_async:

        def in_time(concurrency: int) -> bool:
            found = level(concurrency)
            return found is not None and not found.over_60_s

        below = climbed[too_long - 1].concurrency if too_long else 0
        most = last_that(in_time, below, climbed[too_long].concurrency)
        ends.append((most, f"at {most + 1} in flight answers in one piece take longer than SageMaker's 60 s"))
    return min(reversed(ends), key=lambda end: end[0])


def _number(copy: _Copy, name: str, metric: ScalingMetric | None) -> tuple[float | None, str]:
    if name != "target":
        return _cooldown_s(copy, name)
    if not copy.ceiling:
        return None, copy.ceiling_reason
    assert metric is not None
    where = f"{copy.ceiling:,} in flight a copy ({copy.ceiling_reason})"
    if metric.startswith("concurrent_requests"):
        return float(copy.in_flight), f"{CONCURRENCY_SHARE:.0%} of {where}"
    if metric.startswith("invocations"):
        rate = copy.requests_per_s(copy.ceiling)
        value = max(0.1, round(rate * INVOCATIONS_SAFETY * 60, 1))
        return value, f"{rate:,.2f} requests/s x {INVOCATIONS_SAFETY} x 60 s, at {where}"
    in_flight = min(copy.in_flight, _most_from_queue(copy.profile))
    rate = copy.requests_per_s(in_flight)
    reason = (
        f"{rate:,.2f} requests/s at {in_flight:,} in flight a copy, for the {copy.start_up_s:,} s until a further copy "
        "serves"
    )
    return float(max(1, floor(rate * copy.start_up_s))), reason


def _cooldown_s(copy: _Copy, name: str) -> tuple[float, str]:
    machine = f"{copy.start_up.instance_s:,.0f} s for a new instance and " if copy.needs_instance else ""
    reason = f"a copy takes {machine}{copy.start_up.copy_s:,.0f} s for weights and server"
    if name != "scale_in_cooldown_s":
        return copy.start_up_s, reason
    return max(LEAST_SCALE_IN_COOLDOWN_S, copy.start_up_s), f"{reason}; at least {LEAST_SCALE_IN_COOLDOWN_S} s"


def _most_from_queue(profile: Profile) -> int:
    """Requests that reach a copy at once at most: one a consumer of the buffer, or SageMaker's own limit of async."""
    asynchronous = profile.endpoint.async_inference if profile.endpoint else None
    if asynchronous is not None:
        return asynchronous.max_concurrent_invocations_per_instance or 1 << 30
    buffer = profile.buffer
    if buffer is None or buffer.max_concurrency == "auto":
        return 1 << 30
    return buffer.max_concurrency * buffer.batch_size
