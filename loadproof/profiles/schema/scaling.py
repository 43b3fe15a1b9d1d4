"""How the number of copies follows the load."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.profiles.schema.vocabulary import Form, Name, Part, PositiveInt, PositiveNumber

ScalingMetric = Literal[
    "concurrent_requests_per_copy",
    "invocations_per_copy",
    "concurrent_requests_per_model",
    "invocations_per_instance",
    "backlog_per_copy",
]


class TargetTracking(Part):
    """Keeps a metric at a target, like a thermostat."""

    type: Literal["target_tracking"]
    metric: ScalingMetric
    target: PositiveNumber | Literal["auto"] = Field(description="a number, or auto: derived from the plan's knee")
    scale_out_cooldown_s: Annotated[int, Field(ge=0)] = 60
    scale_in_cooldown_s: Annotated[int, Field(ge=0)] = 300
    scale_in: bool = Field(default=True, description="false: this policy only ever adds copies")


class Step(Part):
    """One row of a step policy: from `at` (above the alarm's threshold) add `add_copies`."""

    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    add_copies: int


class StepScaling(Part):
    """Adds (or removes) a fixed number of copies when an alarm fires."""

    type: Literal["step"]
    metric: ScalingMetric
    threshold: PositiveNumber
    comparison: Literal["above", "below"] = "above"
    evaluation_periods: PositiveInt = 1
    period_s: Literal[10, 20, 30, 60, 120, 300] = 60
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20)]
    cooldown_s: Annotated[int, Field(ge=0)] = 60


class ScheduledScaling(Part):
    """Moves the bounds at a time known in advance."""

    type: Literal["scheduled"]
    name: Name
    schedule: Annotated[
        str,
        StringConstraints(pattern=r"^(at|rate|cron)\(.+\)$", max_length=256),
        Form("an at(...), rate(...) or cron(...) expression", "cron(0 8 ? * MON-FRI *)"),
    ]
    timezone: str = "UTC"
    min_copies: Annotated[int, Field(ge=0)] | None = None
    max_copies: Annotated[int, Field(ge=0)] | None = None


class ToZero(Part):
    """Down to no copy and no instance when idle, and back when a request arrives."""

    wake_on_failed_invocation: bool = Field(
        default=True, description="add the first copy when a request found no capacity"
    )
    wake_on_backlog: bool = Field(default=False, description="add the first copy when the buffer holds messages")
    wake_cooldown_s: Annotated[int, Field(ge=0)] = 60


class Scaling(Part):
    """How the number of copies follows the load. Without it the count stays at copies.min."""

    policies: tuple[Annotated[TargetTracking | StepScaling | ScheduledScaling, Field(discriminator="type")], ...] = ()
    to_zero: ToZero | None = None
