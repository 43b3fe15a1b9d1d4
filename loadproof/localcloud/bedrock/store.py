"""What Bedrock remembers: application inference profiles, provisioned throughput, tags. Statuses follow the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from loadproof.localcloud.wire import Caller

# A commitment's length, on the cloud's clock.
COMMITMENT_S = {"OneMonth": 30 * 86400.0, "SixMonths": 180 * 86400.0}


@dataclass(frozen=True, slots=True)
class InferenceProfile:
    """An application inference profile: a name, with tags, for a model or for a cross-region profile."""

    arn: str
    name: str
    description: str | None
    caller: Caller
    model_id: str
    prefix: str
    model_arns: tuple[str, ...]
    created_s: float

    @property
    def profile_id(self) -> str:
        return self.arn.rpartition("/")[2]


@dataclass(slots=True)
class ProvisionedThroughput:
    """Model units for one's own. Changes of units take effect when `ready_at_s` has come."""

    arn: str
    name: str
    caller: Caller
    model_id: str
    units: int
    desired_units: int
    commitment: str | None
    created_s: float
    ready_at_s: float
    modified_s: float

    def status(self, now_s: float) -> str:
        if now_s < self.ready_at_s:
            return "Creating" if self.modified_s == self.created_s else "Updating"
        self.units = self.desired_units
        return "InService"

    @property
    def committed_until_s(self) -> float | None:
        return None if self.commitment is None else self.created_s + COMMITMENT_S[self.commitment]


@dataclass(slots=True)
class BedrockStore:
    """All accounts and regions of one local cloud; whoever changes it holds `lock`."""

    now_s: Callable[[], float]
    ready_after_s: float = 0.4
    lock: threading.RLock = field(default_factory=threading.RLock)
    profiles: dict[str, InferenceProfile] = field(default_factory=dict)  # by ARN
    throughputs: dict[str, ProvisionedThroughput] = field(default_factory=dict)  # by ARN
    tags: dict[str, dict[str, str]] = field(default_factory=dict)  # by ARN
    quota_values: dict[tuple[str, str, str], float] = field(default_factory=dict)  # account, region, quota's name

    def profile(self, arn: str) -> InferenceProfile | None:
        with self.lock:
            return self.profiles.get(arn)

    def provisioned(self, arn: str) -> ProvisionedThroughput | None:
        with self.lock:
            return self.throughputs.get(arn)
