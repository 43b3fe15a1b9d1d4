"""What it costs, from on-demand prices; None wherever no price is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.catalog import Instance
from loadproof.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """Instances billed at the fewest and the most copies, and what they cost per hour (None: no known price)."""

    instances_min: int
    instances_max: int
    usd_per_hour_min: float | None
    usd_per_hour_max: float | None
    price_source: str
    price_derived: bool


def hourly_cost(instance: Instance, instances_min: int, instances_max: int) -> HourlyCost:
    """On-demand cost of the endpoint's instances; storage, traffic and reservations are not in it."""
    price = instance.usd_per_hour
    return HourlyCost(
        instances_min=instances_min,
        instances_max=instances_max,
        usd_per_hour_min=None if price is None else price * instances_min,
        usd_per_hour_max=None if price is None else price * instances_max,
        price_source=instance.price_source,
        price_derived=instance.price_derived,
    )


def cost_of(profile: Profile, deployment: PlannedDeployment) -> HourlyCost:
    """Instances needed for the fewest and the most copies, within the endpoint's own bounds.

    A plain variant scales its instances themselves. The profile must have an endpoint (`deployment_of` refuses it
    otherwise).
    """
    endpoint = profile.endpoint
    assert endpoint is not None
    if endpoint.hosting == "plain_variant":
        most = endpoint.max_instances if profile.scaling else endpoint.min_instances
        return hourly_cost(deployment.instance, endpoint.min_instances, most)
    per_instance = copies_on_instance(profile, deployment.instance, deployment.accelerators)
    fewest = max(endpoint.min_instances, ceil(profile.copies.min / per_instance))
    most = max(fewest, min(endpoint.max_instances, ceil(profile.copies.max / per_instance)))
    return hourly_cost(deployment.instance, fewest, most)


def copies_on_instance(profile: Profile, instance: Instance, accelerators: int) -> int:
    """How many copies of `accelerators` each one instance takes: by accelerators, host memory and vCPUs; at least 1.

    A plain variant has one copy an instance.
    """
    if profile.endpoint is not None and profile.endpoint.hosting == "plain_variant":
        return 1
    copies = profile.copies
    rooms = [instance.accelerator_count // accelerators, instance.host_memory_gib * 1024 // copies.memory_mib_per_copy]
    if copies.cpus_per_copy:
        rooms.append(instance.vcpu // copies.cpus_per_copy)
    return max(1, int(min(rooms)))


def usd_per_million_tokens(usd_per_hour: float | None, tokens_per_s: float | None) -> float | None:
    """Cost of a million tokens = price per hour / (tokens/s · 3600) · 10^6; None without a price or throughput."""
    if usd_per_hour is None or not tokens_per_s:
        return None
    return usd_per_hour / (tokens_per_s * 3600) * 1e6
