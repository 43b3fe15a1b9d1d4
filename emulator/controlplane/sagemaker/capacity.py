"""Where copies go: instances of a variant, their accelerators, CPUs and memory.

Rules as SageMaker's: a copy never spans instances; what a component reserves is taken from its instance; managed
instance scaling adds instances up to its maximum, without it the variant's own count is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from loadproof.catalog.readers import instances


@dataclass(frozen=True, slots=True)
class Size:
    """What one copy takes, or one instance offers: accelerators, vCPUs, host memory in MiB."""

    accelerators: float
    cpus: float
    memory_mib: float

    def holds(self, other: Size) -> bool:
        return (
            other.accelerators <= self.accelerators and other.cpus <= self.cpus and other.memory_mib <= self.memory_mib
        )

    def minus(self, other: Size) -> Size:
        return Size(self.accelerators - other.accelerators, self.cpus - other.cpus, self.memory_mib - other.memory_mib)


def instance_size(instance_type: str) -> Size | None:
    """What an instance offers; None for a type that the catalog does not know (then nothing is refused)."""
    row = instances().get(instance_type)
    if row is None:
        return None
    return Size(row.accelerator_count, row.vcpu, row.host_memory_gib * 1024)


def copy_size(specification: dict[str, Any]) -> Size:
    """What one copy of a component reserves; adapters reserve nothing of their own."""
    needs = specification.get("ComputeResourceRequirements", {})
    return Size(
        needs.get("NumberOfAcceleratorDevicesRequired", 0),
        needs.get("NumberOfCpuCoresRequired", 0),
        needs.get("MinMemoryRequiredInMb", 0),
    )


def instance_type_of(variant: dict[str, Any]) -> str:
    """The variant's instance type; with pools, the one that is tried first (lowest priority number)."""
    if variant.get("InstanceType"):
        return str(variant["InstanceType"])
    pools = sorted(variant.get("InstancePools", []), key=lambda pool: pool["Priority"])
    return str(pools[0]["InstanceType"]) if pools else ""


def instance_bounds(variant: dict[str, Any]) -> tuple[int, int]:
    """Fewest and most instances that the variant may have."""
    initial = int(variant.get("InitialInstanceCount", 1))
    managed = variant.get("ManagedInstanceScaling", {})
    if managed.get("Status") != "ENABLED":
        return initial, initial
    return int(managed.get("MinInstanceCount", 1)), int(managed.get("MaxInstanceCount", initial))


def place(variant: dict[str, Any], wanted: Iterable[tuple[str, Size, int]]) -> tuple[dict[str, int], int]:
    """Place copies first-fit, in the order given.

    `wanted` is (component name, size of a copy, copies). Returns copies placed by component and instances in use
    (at least the variant's minimum).
    """
    fewest, most = instance_bounds(variant)
    offer = instance_size(instance_type_of(variant))
    placed: dict[str, int] = {}
    free: list[Size] = []
    for name, size, copies in wanted:
        placed[name] = 0
        for _ in range(copies):
            if offer is None or _take(free, offer, size, most):
                placed[name] += 1
    return placed, max(fewest, len(free))


def _take(free: list[Size], offer: Size, size: Size, most: int) -> bool:
    for index, room in enumerate(free):
        if room.holds(size):
            free[index] = room.minus(size)
            return True
    if len(free) < most and offer.holds(size):
        free.append(offer.minus(size))
        return True
    return False
