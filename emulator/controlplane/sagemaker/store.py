"""What SageMaker remembers. Every access happens under `Store.lock`; statuses settle with the clock, when looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from emulator.controlplane.wire import Caller

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
    """One production variant in service; `counts` are instances."""

    config: dict[str, Any]
    current_count: int
    desired_count: int
    generation: int = 1

    @property
    def name(self) -> str:
        return str(self.config["VariantName"])


@dataclass(slots=True)
class Endpoint:
    """One endpoint. `pending` holds the configuration that an update is moving to."""

    name: str
    arn: str
    caller: Caller
    config_name: str
    status: str
    ready_at_s: float
    variants: list[Variant]
    pending_config: str | None = None
    pending_variants: list[Variant] | None = None
    deployment: dict[str, Any] | None = None
    failure_reason: str | None = None
    created: datetime = field(default_factory=utc_now)
    modified: datetime = field(default_factory=utc_now)


@dataclass(slots=True)
class Component:
    """One inference component. `specification` is what runs; `pending` what an update is moving to."""

    name: str
    arn: str
    caller: Caller
    endpoint_name: str
    variant_name: str
    specification: dict[str, Any]
    desired_copies: int
    status: str
    ready_at_s: float
    copies: int = 0
    generation: int = 1
    pending: dict[str, Any] | None = None
    pending_copies: int | None = None
    deployment: dict[str, Any] | None = None
    failure_reason: str | None = None
    created: datetime = field(default_factory=utc_now)
    modified: datetime = field(default_factory=utc_now)


@dataclass(slots=True)
class Store:
    """All accounts and regions of one local cloud."""

    timing: Timing = field(default_factory=Timing)
    clock: Callable[[], float] = time.monotonic
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


def key(caller: Caller, name: str) -> Key:
    return (caller.account, caller.region, name)
