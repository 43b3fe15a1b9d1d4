"""How long a copy takes until it serves. Every figure here is *predicted*."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import weight_bytes
from loadproof.errors import InputError

# No published table tells these apart: orders of magnitude whose sum from zero for an 8B model, alarm included, is
# about the 9.4 minutes that a third party measured. Give your own where you know them.
INSTANCE_START_S: Final = 240.0
IMAGE_PULL_S: Final = 120.0
WEIGHTS_GIB_PER_S: Final = 0.5
SERVER_START_S: Final = 60.0


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
