"""How an update moves traffic from the running fleet to a new one: blue/green and rolling, forth and back.

Sources: SageMaker developer guide, deployment guardrails; API reference of DeploymentConfig. Pure arithmetic over
seconds and shares; what happens at each step is `lifecycle`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from loadproof.wire.documents import Document

_PERCENT_BOUNDS = {"CanarySize": (1, 50), "LinearStepSize": (10, 50), "MaximumBatchSize": (5, 50)}


@dataclass(frozen=True, slots=True)
class Step:
    """From `at_s` after the beginning, `share` (0 to 1) of the traffic goes to the new fleet."""

    at_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Course:
    """The steps of one deployment. Alarms are watched from the first step to `baked_s`; at `done_s` it is over.

    `in_batches`: each fleet has only its share of the capacity (rolling); otherwise both are whole (blue/green).
    """

    steps: tuple[Step, ...]
    baked_s: float
    done_s: float
    in_batches: bool = False
    alarms: tuple[str, ...] = ()

    def share(self, elapsed_s: float) -> float:
        """The new fleet's share of the traffic after `elapsed_s`."""
        begun = [step.share for step in self.steps if elapsed_s >= step.at_s]
        return begun[-1] if begun else 0.0

    @property
    def first_s(self) -> float:
        """When the new fleet stands and the first traffic reaches it."""
        return self.steps[0].at_s


def course_of(settings: Document, provision_s: float, capacity: int) -> Course:
    """The course that a DeploymentConfig describes; an empty one is blue/green, all at once, without baking.

    `provision_s` is how long capacity takes to come up, `capacity` the fleet's instances (a component's copies).
    """
    alarms = tuple(alarm["AlarmName"] for alarm in settings.get("AutoRollbackConfiguration", {}).get("Alarms", []))
    rolling = settings.get("RollingUpdatePolicy")
    if rolling:
        return _rolling(rolling, provision_s, capacity, alarms)
    policy = settings.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {"Type": "ALL_AT_ONCE"})
    wait_s = float(routing.get("WaitIntervalInSeconds", 0))
    shares = _traffic_shares(routing, capacity)
    baked_s = provision_s + wait_s * len(shares)
    return Course(
        steps=tuple(Step(provision_s + wait_s * index, share) for index, share in enumerate(shares)),
        baked_s=baked_s,
        done_s=baked_s + float(policy.get("TerminationWaitInSeconds", 0)),
        alarms=alarms,
    )


def course_back(course: Course, elapsed_s: float, settings: Document, provision_s: float, capacity: int) -> Course:
    """The way back from where a deployment has come to.

    Blue/green gives all traffic back at once. Rolling brings the old capacity up again, by default all of it at once.
    """
    share = course.share(elapsed_s)
    if not course.in_batches or share == 0:
        return Course(steps=(Step(0.0, 0.0),), baked_s=0.0, done_s=provision_s, in_batches=course.in_batches)
    moved = round(share * capacity)
    batch = _units(settings["RollingUpdatePolicy"].get("RollbackMaximumBatchSize"), capacity, default=capacity)
    left = [max(0, moved - batch * index) / capacity for index in range(1, math.ceil(moved / batch) + 1)]
    steps = [Step(0.0, share), *(Step(provision_s * index, one) for index, one in enumerate(left, 1))]
    return Course(steps=tuple(steps), baked_s=0.0, done_s=steps[-1].at_s, in_batches=True)


def _rolling(policy: Document, provision_s: float, capacity: int, alarms: tuple[str, ...]) -> Course:
    batch = _units(policy["MaximumBatchSize"], capacity, default=capacity)
    wait_s = float(policy["WaitIntervalInSeconds"])
    batches = max(1, math.ceil(capacity / batch))
    steps = tuple(
        Step(provision_s * (index + 1) + wait_s * index, min(1.0, batch * (index + 1) / max(1, capacity)))
        for index in range(batches)
    )
    done_s = (provision_s + wait_s) * batches
    return Course(steps=steps, baked_s=done_s, done_s=done_s, in_batches=True, alarms=alarms)


def _traffic_shares(routing: Document, capacity: int) -> list[float]:
    """Shares after each step: all at once in one, a canary in two, linear in as many as its size needs."""
    if routing["Type"] == "ALL_AT_ONCE":
        return [1.0]
    if routing["Type"] == "CANARY":
        return [_fraction(routing["CanarySize"], capacity), 1.0]
    size = _fraction(routing["LinearStepSize"], capacity)
    steps = math.ceil(1.0 / size - 1e-9)
    return [min(1.0, size * (index + 1)) for index in range(steps)]


def _fraction(size: Document, capacity: int) -> float:
    if size["Type"] == "CAPACITY_PERCENT":
        return float(size["Value"]) / 100
    return float(size["Value"]) / max(1, capacity)


def _units(size: Document | None, capacity: int, *, default: int) -> int:
    """Instances or copies in a batch: at least one, a percentage rounded down."""
    if size is None:
        return max(1, default)
    return max(1, math.floor(_fraction(size, capacity) * capacity + 1e-9))


def faults(settings: Document, capacity: int | None) -> list[str]:
    """What SageMaker refuses of a DeploymentConfig, in words; `capacity` is what the sizes are measured by, None while
    nothing runs that it would be applied to."""
    blue_green, rolling = settings.get("BlueGreenUpdatePolicy"), settings.get("RollingUpdatePolicy")
    if blue_green and rolling:
        return ["BlueGreenUpdatePolicy and RollingUpdatePolicy are mutually exclusive."]
    found: list[str] = []
    if blue_green:
        found.extend(_routing_faults(blue_green["TrafficRoutingConfiguration"], capacity))
    if rolling:
        found.extend(_size_faults("MaximumBatchSize", rolling["MaximumBatchSize"], capacity))
    longest_s = (blue_green or rolling or {}).get("MaximumExecutionTimeoutInSeconds")
    if longest_s is not None and capacity is not None and not found:
        waits_s = course_of(settings, 0.0, max(1, capacity)).done_s
        if waits_s >= longest_s:
            found.append(
                f"MaximumExecutionTimeoutInSeconds ({longest_s}) must be larger than the total waiting time of the "
                f"deployment ({waits_s:g} seconds)."
            )
    return found


def _routing_faults(routing: Document, capacity: int | None) -> Iterator[str]:
    needed = {"CANARY": "CanarySize", "LINEAR": "LinearStepSize"}.get(routing["Type"])
    for name in ("CanarySize", "LinearStepSize"):
        if name == needed and name not in routing:
            yield f"{name} is required for traffic routing type {routing['Type']}."
        if name != needed and name in routing:
            yield f"{name} is not allowed for traffic routing type {routing['Type']}."
    if needed is not None and needed in routing:
        yield from _size_faults(needed, routing[needed], capacity)


def _size_faults(name: str, size: Document, capacity: int | None) -> Iterator[str]:
    low, high = _PERCENT_BOUNDS[name]
    if size["Type"] == "CAPACITY_PERCENT":
        if not low <= size["Value"] <= high:
            yield f"{name} must be between {low}% and {high}% of the capacity, found {size['Value']}%."
    elif capacity is not None and size["Value"] * 100 > high * capacity:
        yield f"{name} must be at most {high}% of the capacity, which is {capacity}, found {size['Value']}."
