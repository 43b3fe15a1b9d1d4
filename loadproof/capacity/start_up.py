"""How long a copy takes until it serves. Every figure here is *predicted*, by catalog/start_up."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import weight_bytes
from loadproof.catalog.start_up import IMAGE_PULL_S, INSTANCE_START_S, SERVER_START_S, WEIGHTS_GIB_PER_S
from loadproof.errors import InputError


@dataclass(frozen=True, slots=True)
class StartUp:
    """How long until a copy serves: `instance_s` where it needs a new instance (machine and image), then `copy_s`
    (weights, compilation, health check) on any."""

    instance_s: float
    copy_s: float

    def __post_init__(self) -> None:
        for name, value in (("instance_s", self.instance_s), ("copy_s", self.copy_s)):
            if not 0 <= value < inf:
                raise InputError(f"start-up: expected {name} of 0 or more, found {value:g}; give seconds")


def start_up_of(deployment: PlannedDeployment) -> StartUp:
    """New instance = machine + image; any copy = weights / rate + server. The constants are estimates."""
    weights_gib = weight_bytes(deployment) / (1 << 30)
    return StartUp(instance_s=INSTANCE_START_S + IMAGE_PULL_S, copy_s=weights_gib / WEIGHTS_GIB_PER_S + SERVER_START_S)
