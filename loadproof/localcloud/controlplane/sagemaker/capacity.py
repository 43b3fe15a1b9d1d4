"""Where copies go: instances of a variant, their accelerators, CPUs and memory.

Rules as SageMaker's: a copy never spans instances; what a component reserves is taken from its instance; managed
instance scaling adds instances up to its maximum, without it the variant's own count is all there is. Pools are tried
by priority; what is idle goes, the last pool's instances first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from loadproof.catalog.readers import instances
from loadproof.wire.documents import Document


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


def copy_size(specification: Document) -> Size:
    """What one copy of a component reserves; adapters reserve nothing of their own."""
    needs = specification.get("ComputeResourceRequirements", {})
    return Size(
        needs.get("NumberOfAcceleratorDevicesRequired", 0),
        needs.get("NumberOfCpuCoresRequired", 0),
        needs.get("MinMemoryRequiredInMb", 0),
    )


def instance_types(variant: Document) -> tuple[str, ...]:
    """The variant's instance types in the order in which they are tried: its own, or its pools' by priority."""
    if variant.get("InstanceType"):
        return (str(variant["InstanceType"]),)
    pools = sorted(variant.get("InstancePools", []), key=lambda pool: int(pool["Priority"]))
    return tuple(str(pool["InstanceType"]) for pool in pools)


def specification_for(specifications: Iterable[Document], instance_type: str) -> Document | None:
    """What a copy on this instance type runs: the specification for it, or the one for all types."""
    return next((one for one in specifications if one.get("InstanceType", instance_type) == instance_type), None)


def instance_bounds(variant: Document) -> tuple[int, int]:
    """Fewest and most instances that the variant may have."""
    initial = int(variant.get("InitialInstanceCount", 1))
    managed = variant.get("ManagedInstanceScaling", {})
    if managed.get("Status") != "ENABLED":
        return initial, initial
    return int(managed.get("MinInstanceCount", 1)), int(managed.get("MaxInstanceCount", initial))


Room = Callable[[str], int | None]  # how many more instances of a type can be had; None: as many as wanted


def endless(instance_type: str) -> int | None:
    """Room on a cloud that never runs out."""
    return None


@dataclass(frozen=True, slots=True)
class Load:
    """Copies to be placed, and what each reserves on an instance type; None where it cannot run."""

    name: str
    copies: int
    size_on: Callable[[str], Size | None]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where copies went, by load and instance type, and the instances in use, by type."""

    copies: dict[str, dict[str, int]]
    instances: dict[str, int]
    out_of_capacity: bool  # an instance was allowed and wanted, and none of any type was to be had

    def placed(self, name: str) -> int:
        return sum(self.copies[name].values())


def fill(variant: Document, count: int, present: Mapping[str, int], room: Room = endless) -> Placement:
    """`count` instances: those present first, then new ones by priority. Too many: the last type's go first."""
    found: Counter[str] = Counter()
    for kind in instance_types(variant):
        found[kind] += min(present.get(kind, 0), count - found.total())
    for kind in instance_types(variant):
        missing, left = count - found.total(), room(kind)
        found[kind] += missing if left is None else min(missing, max(0, left))
    return Placement({}, dict(+found), found.total() < count)


def place(
    variant: Document, loads: Iterable[Load], present: Mapping[str, int] | None = None, room: Room = endless
) -> Placement:
    """Place copies first-fit, in the order given: on the instances present, then on new ones by priority."""
    fewest, most = instance_bounds(variant)
    kinds = instance_types(variant)
    there = present or {}
    hosts = [_Host(kind, instance_size(kind)) for kind in kinds for _ in range(there.get(kind, 0))]
    added: Counter[str] = Counter()
    copies: dict[str, dict[str, int]] = {}
    out_of_capacity = False

    def left(kind: str) -> int | None:
        total = room(kind)
        return None if total is None else total - added[kind]

    for load in loads:
        placed: Counter[str] = Counter()
        for _ in range(load.copies):
            host = next((one for one in hosts if one.holds(load)), None)
            if host is None and sum(one.used for one in hosts) < most:
                fitting = [kind for kind in kinds if _Host(kind, instance_size(kind)).holds(load)]
                kind = next((one for one in fitting if left(one) is None or (left(one) or 0) > 0), None)
                out_of_capacity = out_of_capacity or (kind is None and bool(fitting))
                if kind is not None:
                    added[kind] += 1
                    hosts.append(host := _Host(kind, instance_size(kind)))
            if host is not None:
                host.take(load)
                placed[host.kind] += 1
        copies[load.name] = dict(placed)
    used = Counter(host.kind for host in hosts if host.used)
    idle = Counter(host.kind for host in hosts if not host.used)
    rest = fill(variant, max(0, fewest - used.total()), idle, left)
    return Placement(copies, dict(used + Counter(rest.instances)), out_of_capacity or rest.out_of_capacity)


@dataclass(slots=True)
class _Host:
    """One instance while copies are placed; `free` is None for a type that the catalog does not know."""

    kind: str
    free: Size | None
    used: bool = False

    def holds(self, load: Load) -> bool:
        size = load.size_on(self.kind)
        return size is not None and (self.free is None or self.free.holds(size))

    def take(self, load: Load) -> None:
        size = load.size_on(self.kind)
        assert size is not None
        self.used = True
        if self.free is not None:
            self.free = self.free.minus(size)
