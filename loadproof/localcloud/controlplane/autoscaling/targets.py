"""Scalable targets and what has happened to them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from loadproof.localcloud.wire import Caller, known
from loadproof.wire.documents import Document

COPIES = "sagemaker:inference-component:DesiredCopyCount"
INSTANCES = "sagemaker:variant:DesiredInstanceCount"
CONCURRENCY = "sagemaker:variant:DesiredProvisionedConcurrency"

_KEPT_ACTIVITIES = 500


@dataclass(frozen=True, slots=True)
class Capacity:
    """Copies or instances of a target: in service now, and wanted. `steady`: SageMaker would take a change."""

    current: int
    desired: int
    steady: bool
    failure: str | None = None


@dataclass(slots=True)
class Activity:
    """One scaling activity; times are the cloud's. `not_scaled` holds the reason of one that changed nothing."""

    description: str
    cause: str
    started_s: float
    status: Literal["InProgress", "Successful", "Failed"] = "InProgress"
    message: str = ""
    ended_s: float | None = None
    not_scaled: Document | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def end(self, at_s: float, status: Literal["Successful", "Failed"], message: str) -> None:
        self.ended_s, self.status, self.message = at_s, status, message

    def described(self, names: dict[str, str], wall: Callable[[float], datetime]) -> Document:
        return known(
            **names,
            ActivityId=self.id,
            Description=self.description,
            Cause=self.cause,
            StartTime=wall(self.started_s),
            EndTime=None if self.ended_s is None else wall(self.ended_s),
            StatusCode=self.status,
            StatusMessage=self.message or None,
            NotScaledReasons=[self.not_scaled] if self.not_scaled else None,
        )


@dataclass(slots=True)
class Cooldown:
    """After a policy's last change. `base` is the capacity before it, `until_s` None while it is still under way."""

    out: bool
    base: int
    until_s: float | None = None

    def lasts(self, now_s: float) -> bool:
        return self.until_s is None or now_s < self.until_s


@dataclass(slots=True)
class Policy:
    """One scaling policy. `configurations` are the API's own, by member; `tracking` or `steps` is the one in force."""

    name: str
    arn: str
    kind: str
    created: datetime
    configurations: Document
    alarms: list[dict[str, str]]

    @property
    def tracking(self) -> Document | None:
        return self.configurations.get("TargetTrackingScalingPolicyConfiguration")

    @property
    def steps(self) -> Document:
        return dict(self.configurations["StepScalingPolicyConfiguration"])


@dataclass(slots=True)
class ScheduledAction:
    """One scheduled action: what was asked for, in all requests together."""

    request: Document
    arn: str
    created_s: float  # the cloud's time


@dataclass(slots=True)
class Target:
    """One scalable target with all that hangs on it."""

    caller: Caller
    arn: str
    resource_id: str
    dimension: str
    min_capacity: int
    max_capacity: int
    suspended: dict[str, bool]
    created: datetime
    policies: dict[str, Policy] = field(default_factory=dict)
    scheduled: dict[str, ScheduledAction] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    activities: list[Activity] = field(default_factory=list)
    cooldowns: dict[str, Cooldown] = field(default_factory=dict)  # by policy name
    under_way: Activity | None = None
    growing: bool = False  # what is under way adds capacity
    changed_s: float = 0.0  # when the last change was complete
    grown_s: float = 0.0  # when the last change that added capacity was
    bounds_changed: bool = False  # and not yet enforced

    def names(self) -> dict[str, str]:
        return {
            "ServiceNamespace": "sagemaker",
            "ResourceId": self.resource_id,
            "ScalableDimension": self.dimension,
        }

    @property
    def counted(self) -> str:
        """What is counted, as activities word it."""
        return "copy count" if self.dimension == COPIES else "instance count"

    def note(self, activity: Activity) -> None:
        self.activities.append(activity)
        del self.activities[:-_KEPT_ACTIVITIES]
