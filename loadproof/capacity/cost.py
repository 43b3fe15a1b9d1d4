"""What it costs, from on-demand prices; None wherever no price is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.instances import expected_instances, instance_bounds
from loadproof.catalog import Instance
from loadproof.knee import Knee
from loadproof.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """Instances billed at the fewest and the most copies, and what they cost per hour (None: no known price).

    `instances_expected` is what the workload needs at its objectives, predicted; None where that is not known, and
    `expected_note` then says why.
    """

    instances_min: int
    instances_max: int
    usd_per_hour_min: float | None
    usd_per_hour_max: float | None
    price_source: str
    price_derived: bool
    instances_expected: int | None = None
    usd_per_hour_expected: float | None = None
    expected_note: str = ""


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
    return hourly_cost(deployment.instance, *instance_bounds(profile, deployment.instance))


def with_expected(
    cost: HourlyCost, profile: Profile, deployment: PlannedDeployment, knees: Sequence[Knee]
) -> HourlyCost:
    """The same with what the workload needs."""
    expected, price = (
        expected_instances(profile, deployment.instance, deployment, knees),
        deployment.instance.usd_per_hour,
    )
    return replace(
        cost,
        instances_expected=expected.instances,
        usd_per_hour_expected=None if price is None or expected.instances is None else price * expected.instances,
        expected_note=expected.note,
    )


def price_of(instance: Instance) -> str:
    """Whence an instance's price is: `ml.g5.2xlarge: on demand in us-west-2, seen 2026-07; SOURCE`; empty for none."""
    if instance.usd_per_hour is None:
        return ""
    return f"{instance.instance_type}: on demand in {price_place(instance)}; {instance.price_source}"


def price_place(instance: Instance) -> str:
    """Where and when an instance costs that: `us-west-2 (= us-east-1 where both are known), seen 2026-07`."""
    return f"{instance.price_region}, seen {instance.price_date}" if instance.price_date else instance.price_region


def priced_elsewhere(instance: Instance, region: str) -> str:
    """That the price is another region's; empty where it is this one's, or where there is none."""
    if instance.usd_per_hour is None or region in instance.price_region:
        return ""
    return f"prices are those of {instance.price_region}; {region}'s own are not known here"


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
