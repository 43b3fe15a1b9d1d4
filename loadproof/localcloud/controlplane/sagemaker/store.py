"""What SageMaker remembers. Every access happens under `Store.lock`; statuses settle with the clock, when looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from loadproof.localcloud.controlplane.sagemaker.deployments import Course
from loadproof.localcloud.controlplane.wire import Caller

Key = tuple[str, str, str]  # account, region, name


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the emulated service takes, in seconds. AWS takes minutes; the order of events is the same."""

    endpoint_s: float = 0.4
    component_s: float = 0.4
    delete_s: float = 0.2


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Stored:
    """A resource that never changes once made (Model, EndpointConfig): `request` is what created it."""

    name: str
    arn: str
    request: dict[str, Any]
    created: datetime = field(default_factory=utc_now)


@dataclass(slots=True)
class Variant:
    """One production variant of one fleet. `instances` by type; `copies` of components on it, see `Component`."""

    config: dict[str, Any]
    instances: dict[str, int]
    desired_count: int
    weight: float
    desired_weight: float
    generation: int = 1
    copies: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.config["VariantName"])

    @property
    def current_count(self) -> int:
        return sum(self.instances.values())


@dataclass(slots=True)
class Rollout:
    """A deployment under way. `settings` is its DeploymentConfig, `reason` why it goes back, if it does."""

    course: Course
    settings: dict[str, Any]
    capacity: int
    began_s: float
    began: datetime = field(default_factory=utc_now)
    provisioned: bool = False
    watched_s: float = 0.0
    reason: str | None = None


@dataclass(slots=True)
class Endpoint:
    """One endpoint. `pending_*` is what an update moves to, `rollout` how far it is."""

    name: str
    arn: str
    caller: Caller
    config_name: str
    status: str
    ready_at_s: float
    variants: list[Variant]
    capture: dict[str, Any] | None = None
    pending_config: str | None = None
    pending_variants: list[Variant] = field(default_factory=list)
    pending_capture: dict[str, Any] | None = None
    rollout: Rollout | None = None
    deployment: dict[str, Any] | None = None
    failure_reason: str | None = None
    created: datetime = field(default_factory=utc_now)
    modified: datetime = field(default_factory=utc_now)

    def fleets(self) -> list[list[Variant]]:
        """The fleets that stand now: the one in service and, once an update has brought it up, the new one."""
        new = self.rollout is not None and self.rollout.provisioned
        return [self.variants, self.pending_variants] if new else [self.variants]


@dataclass(slots=True)
class Component:
    """One inference component. `specifications` are what runs (one, or one an instance type), `pending` what an update
    moves to. Copies of `pending` stand on a variant under `next_name`.
    """

    name: str
    arn: str
    caller: Caller
    endpoint_name: str
    variant_name: str
    specifications: list[dict[str, Any]]
    desired_copies: int
    status: str
    ready_at_s: float
    copies: int = 0
    generation: int = 1
    pending: list[dict[str, Any]] | None = None
    pending_copies: int | None = None
    rollout: Rollout | None = None
    deployment: dict[str, Any] | None = None
    failure_reason: str | None = None
    created: datetime = field(default_factory=utc_now)
    modified: datetime = field(default_factory=utc_now)

    @property
    def next_name(self) -> str:
        return f"{self.name}/next"

    @property
    def base_name(self) -> str | None:
        """The component whose containers an adapter runs in."""
        return self.specifications[0].get("BaseInferenceComponentName")


@dataclass(slots=True)
class Store:
    """All accounts and regions of one local cloud.

    `in_alarm` gives those of the named alarms that are in ALARM, `missing_alarms` those that do not exist; `limit` how
    many instances of a type there are.
    """

    timing: Timing = field(default_factory=Timing)
    clock: Callable[[], float] = time.monotonic
    in_alarm: Callable[[Caller, Collection[str]], list[str]] = lambda caller, names: []
    missing_alarms: Callable[[Caller, Collection[str]], list[str]] = lambda caller, names: []
    limit: Callable[[Caller, str], int | None] = lambda caller, instance_type: None
    lock: threading.RLock = field(default_factory=threading.RLock)
    models: dict[Key, Stored] = field(default_factory=dict)
    configs: dict[Key, Stored] = field(default_factory=dict)
    endpoints: dict[Key, Endpoint] = field(default_factory=dict)
    components: dict[Key, Component] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)  # by ARN

    def components_of(self, caller: Caller, endpoint_name: str) -> list[Component]:
        """The components on one endpoint, oldest first."""
        return [
            component
            for (account, region, _), component in self.components.items()
            if (account, region) == (caller.account, caller.region) and component.endpoint_name == endpoint_name
        ]

    def room(self, caller: Caller, instance_type: str) -> int | None:
        """How many more instances of a type can be had now; None: as many as wanted."""
        total = self.limit(caller, instance_type)
        if total is None:
            return None
        return max(0, total - self.in_use(caller, instance_type))

    def in_use(self, caller: Caller, instance_type: str) -> int:
        """Instances of a type that all endpoints have now."""
        return sum(
            variant.instances.get(instance_type, 0)
            for (account, region, _), endpoint in self.endpoints.items()
            if (account, region) == (caller.account, caller.region)
            for fleet in endpoint.fleets()
            for variant in fleet
        )


def key(caller: Caller, name: str) -> Key:
    return (caller.account, caller.region, name)
