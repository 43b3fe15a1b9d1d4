"""How the number of copies follows the load."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.vocabulary import Form, Name, Part, PositiveInt, PositiveNumber

ScalingMetric = Literal[
    "concurrent_requests_per_copy",
    "invocations_per_copy",
    "concurrent_requests_per_model",
    "invocations_per_instance",
    "backlog_per_copy",
    "async_backlog_per_instance",
]
Cooldown = Annotated[int, Field(ge=0)] | Literal["auto"]


class TargetTracking(Part):
    """Keeps a metric at a target, like a thermostat."""

    type: Literal["target_tracking"]
    metric: ScalingMetric
    target: PositiveNumber | Literal["auto"] = Field(
        description="a number, or auto: derived from the plan's knee and the objectives (docs/scaling.md)"
    )
    scale_out_cooldown_s: Cooldown = Field(
        default=60, description="seconds, or auto: as long as a copy is predicted to take to come up"
    )
    scale_in_cooldown_s: Cooldown = Field(
        default=300, description="seconds, or auto: as long as a copy takes to come back, at least 300"
    )
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
    cooldown_s: Cooldown = Field(default=60, description="seconds, or auto: as long as a copy takes to come up")


class SimpleScaling(Part):
    """One alarm, one number of copies, one wait: a step policy of one step, since SageMaker offers no simple policy.

    The alarm is above the threshold where copies are added, below it where they are removed.
    """

    type: Literal["simple"]
    metric: ScalingMetric
    threshold: PositiveNumber
    add_copies: int
    evaluation_periods: PositiveInt = 1
    period_s: Literal[10, 20, 30, 60, 120, 300] = 60
    cooldown_s: Cooldown = Field(default=300, description="seconds, or auto: as long as a copy takes to come up")

    def as_step(self) -> StepScaling:
        """The step policy that does the same."""
        return StepScaling(
            type="step",
            metric=self.metric,
            threshold=self.threshold,
            comparison="above" if self.add_copies > 0 else "below",
            evaluation_periods=self.evaluation_periods,
            period_s=self.period_s,
            steps=(Step(at=0, add_copies=self.add_copies),),
            cooldown_s=self.cooldown_s,
        )


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
    wake_cooldown_s: Cooldown = Field(
        default=60,
        description="seconds until one more copy may follow the first, or auto: as long as the first takes to come up",
    )


Policy = TargetTracking | StepScaling | SimpleScaling | ScheduledScaling


class Scaling(Part):
    """How the number of copies follows the load. Without it the count stays at copies.min."""

    policies: tuple[Annotated[Policy, Field(discriminator="type")], ...] = ()
    to_zero: ToZero | None = None
