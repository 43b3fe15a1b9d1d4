"""What it costs, from on-demand prices; None wherever no price is known."""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.catalog import Instance


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


def usd_per_million_tokens(usd_per_hour: float | None, tokens_per_s: float | None) -> float | None:
    """Cost of a million tokens = price per hour / (tokens/s · 3600) · 10^6; None without a price or throughput."""
    if usd_per_hour is None or not tokens_per_s:
        return None
    return usd_per_hour / (tokens_per_s * 3600) * 1e6
