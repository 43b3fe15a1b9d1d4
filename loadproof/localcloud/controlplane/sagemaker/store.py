"""What SageMaker remembers. Every access happens under `Store.lock`; statuses settle with the clock, when looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from loadproof.localcloud.controlplane.sagemaker.deployments import Course
from loadproof.localcloud.wire import AwsError, Caller, Regional, key
from loadproof.wire.documents import Document

Kept = TypeVar("Kept")


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
    request: Document
    created: datetime = field(default_factory=utc_now)


@dataclass(slots=True)
class Variant:
    """One production variant of one fleet. `instances` by type; `copies` of components on it, see `Component`."""

    config: Document
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
    settings: Document
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
    capture: Document | None = None
    pending_config: str | None = None
    pending_variants: list[Variant] = field(default_factory=list)
    pending_capture: Document | None = None
    rollout: Rollout | None = None
    deployment: Document | None = None
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
    specifications: list[Document]
    desired_copies: int
    status: str
    ready_at_s: float
    copies: int = 0
    generation: int = 1
    pending: list[Document] | None = None
    pending_copies: int | None = None
    rollout: Rollout | None = None
    deployment: Document | None = None
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


class Table(Regional[Kept]):
    """All resources of one kind: its name in ARNs and, where they differ, in words."""

    def __init__(self, kind: str, words: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.words = words or kind.replace("-", " ")

    def arn(self, caller: Caller, name: str) -> str:
        return caller.arn("sagemaker", f"{self.kind}/{name.lower()}")

    def new_arn(self, caller: Caller, name: str) -> str:
        """Of a resource that is to be made. Raises ValidationException for a name that is taken."""
        if key(caller, name) in self:
            what = self.kind.replace("-", " ")
            raise refuse(f'Cannot create already existing {what} "{self.arn(caller, name)}".')
        return self.arn(caller, name)

    def find(self, caller: Caller, name: str) -> Kept:
        """Raises ValidationException."""
        found = self.named(caller, name)
        if found is None:
            raise refuse(f'Could not find {self.words} "{self.arn(caller, name)}".')
        return found


def refuse(message: str) -> AwsError:
    return AwsError("ValidationException", message)


@dataclass(slots=True)
class Store:
    """All accounts and regions of one local cloud.

    `alarm_state` gives that of a named alarm, None where there is none; `limit` how many instances of a type there are.
    """

    timing: Timing = field(default_factory=Timing)
    clock: Callable[[], float] = time.monotonic
    alarm_state: Callable[[Caller, str], str | None] = lambda caller, name: "OK"
    limit: Callable[[Caller, str], int | None] = lambda caller, instance_type: None
    lock: threading.RLock = field(default_factory=threading.RLock)
    models: Table[Stored] = field(default_factory=lambda: Table("model"))
    configs: Table[Stored] = field(default_factory=lambda: Table("endpoint-config", "endpoint configuration"))
    endpoints: Table[Endpoint] = field(default_factory=lambda: Table("endpoint"))
    components: Table[Component] = field(default_factory=lambda: Table("inference-component"))
    tags: dict[str, dict[str, str]] = field(default_factory=dict)  # by ARN

    def components_of(self, caller: Caller, endpoint_name: str) -> list[Component]:
        """The components on one endpoint, oldest first."""
        return [one for one in self.components.of(caller) if one.endpoint_name == endpoint_name]

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
            for endpoint in self.endpoints.of(caller)
            for fleet in endpoint.fleets()
            for variant in fleet
        )
