"""What else could serve a profile's model: machines, degrees, server families and numbers of instances, pruned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf

from loadproof import catalog
from loadproof.advice.changes import KeyChange, change_to, changed
from loadproof.advice.families import container_changes, families_for
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.catalog import Architecture, Instance
from loadproof.errors import InputError
from loadproof.profiles.schema import Family, Profile
from loadproof.profiles.settings import accelerators_per_copy, components_of

# What the service keeps of a host's memory. Source: ml.g5.xlarge (16 GiB) took a reservation of 1,024 MiB and refused
# 4,096; larger hosts are taken to keep a quarter.
_HOST_RESERVE_GIB = 12.5
_HOST_RESERVE_SHARE = 0.25
_COUNTS_IN_A_ROW = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """One machine type, degree and family: `deployment` has the copies of one instance; `instances` may be chosen.

    `changes` are those of machine and container; the numbers of copies and instances come with `counted`.
    """

    instance: Instance
    degree: int
    family: Family
    room: int
    deployment: PlannedDeployment
    changes: tuple[KeyChange, ...]


def limits_of_search(profile: Profile) -> str | None:
    """Why nothing but the profile's own configuration can be offered, in words; None where there is a choice."""
    endpoint = profile.endpoint
    if endpoint is None or profile.backend != "sagemaker":
        return "Bedrock shows no machines"
    if profile.components:
        return "further components share the instances"
    if endpoint.instance_pools:
        return "the endpoint is filled from instance pools; write one instance_type to compare others"
    return None


def candidates(profile: Profile, own: PlannedDeployment, instance_types: Sequence[str] = ()) -> Iterator[Candidate]:
    """Every machine, degree and family worth predicting, the profile's own among them.

    Of machine types that differ only by their host, the cheapest that takes as many copies stands for all: the model of
    capacity sees no other difference. An instance is always filled: fewer copies cost the same and do less.
    """
    families, _ = families_for(profile)
    for instance, degree, room in _machines(profile, own, instance_types):
        for family in families:
            changes = (
                *change_to(profile, ("endpoint", "instance_type"), instance.instance_type),
                *_accelerators(profile, degree),
                *container_changes(profile, family, degree),
            )
            deployment = own if not changes else deployment_of(changed(profile, changes))
            yield Candidate(instance, degree, family, room, replace(deployment, copies=room), changes)


def counts(profile: Profile) -> tuple[int, ...]:
    """Numbers of instances to compare: from min_instances on one by one, then by doublings, to max_instances."""
    endpoint = profile.endpoint
    assert endpoint is not None
    if _goes_to_zero(profile):
        return (1,)
    low, high = max(1, endpoint.min_instances), endpoint.max_instances
    found = list(range(low, min(high, low + _COUNTS_IN_A_ROW - 1) + 1))
    while found[-1] < high:
        found.append(min(2 * found[-1], high))
    return tuple(found)


def copies_at(profile: Profile, room: int, instances: int) -> int:
    """Copies that are planned: all that the instances take, or the first one of a model that idles at zero."""
    return 1 if _goes_to_zero(profile) else room * instances


def count_changes(profile: Profile, room: int, instances: int) -> tuple[KeyChange, ...]:
    """What sets the numbers of copies and instances. Room to scale out stays in proportion, within max_instances."""
    endpoint, copies = profile.endpoint, profile.copies
    assert endpoint is not None
    if _goes_to_zero(profile):
        most = min(copies.max, room * endpoint.max_instances)
        return change_to(profile, ("copies", "max"), most)
    machines = change_to(profile, ("endpoint", "min_instances"), instances)
    if endpoint.hosting == "plain_variant":
        return machines
    fewest = room * instances
    in_proportion = -(-fewest * copies.max // max(1, copies.min))
    most = max(fewest, min(in_proportion, room * endpoint.max_instances))
    return (
        *machines,
        *change_to(profile, ("copies", "min"), fewest),
        *change_to(profile, ("copies", "max"), most),
    )


def _machines(
    profile: Profile, own: PlannedDeployment, instance_types: Sequence[str]
) -> Iterator[tuple[Instance, int, int]]:
    """(instance, degree, copies it takes), twins left out unless they are named."""
    endpoint = profile.endpoint
    assert endpoint is not None
    if endpoint.capacity_reservation is not None:
        if others := [name for name in instance_types if name != endpoint.instance_type]:
            raise InputError(
                f"--instances: {', '.join(others)} cannot come from the capacity reservation of "
                f"{endpoint.instance_type}; delete endpoint.capacity_reservation to compare others"
            )
        named = [own.instance]
    else:
        named = [catalog.instance(name) for name in instance_types]
    pool = named or [
        row for row in catalog.instances().values() if catalog.accelerator(row.accelerator).vendor != "AWS"
    ]
    for _, group in groupby(sorted(pool, key=_hardware), key=_hardware):
        machines = sorted(group, key=lambda row: inf if row.usd_per_hour is None else row.usd_per_hour)
        for degree in _degrees(own.architecture, machines[0].accelerator_count):
            seen: set[int] = set()
            for machine in machines:
                room = _room(profile, machine, degree)
                if not room or (room in seen and not named and machine != own.instance):
                    continue
                seen.add(room)
                yield machine, degree, room


def _hardware(instance: Instance) -> tuple[str, int, str]:
    return instance.accelerator, instance.accelerator_count, instance.fabric


def _degrees(shape: Architecture, most: int) -> Iterable[int]:
    """Powers of two that divide the attention heads and fit the key-value heads (LP305, LP306)."""
    for power in range(most.bit_length()):
        degree = 1 << power
        if shape.heads % degree == 0 and (shape.kv_heads % degree == 0 or degree % shape.kv_heads == 0):
            yield degree


def _room(profile: Profile, instance: Instance, degree: int) -> int:
    """Copies one instance takes beside what the service keeps of its memory; 0 when not even one."""
    endpoint = profile.endpoint
    if endpoint is not None and endpoint.hosting == "plain_variant":
        return 1
    kept_gib = max(_HOST_RESERVE_GIB, _HOST_RESERVE_SHARE * instance.host_memory_gib)
    by_memory = int((instance.host_memory_gib - kept_gib) * 1024 // profile.copies.memory_mib_per_copy)
    cpus = profile.copies.cpus_per_copy
    by_cpus = int(instance.vcpu // cpus) if cpus else by_memory
    return max(0, min(instance.accelerator_count // degree, by_memory, by_cpus))


def _accelerators(profile: Profile, degree: int) -> tuple[KeyChange, ...]:
    """Accelerators a copy follow its degree; unset, they do so by themselves."""
    if profile.copies.accelerators_per_copy is not None:
        return change_to(profile, ("copies", "accelerators_per_copy"), degree)
    main = components_of(profile)[0]
    unset = profile.container is not None and profile.container.settings.tensor_parallel_degree is None
    if unset and accelerators_per_copy(main) != degree:
        return change_to(profile, ("copies", "accelerators_per_copy"), degree)
    return ()


def _goes_to_zero(profile: Profile) -> bool:
    return profile.copies.min == 0
