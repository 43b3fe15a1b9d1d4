"""What an hourly price comes to: a month's, a million tokens'."""

from __future__ import annotations

from typing import Final

HOURS_A_MONTH: Final = 730


def usd_per_month(usd_per_hour: float | None) -> float | None:
    """730 hours of it; None without a price."""
    return None if usd_per_hour is None else usd_per_hour * HOURS_A_MONTH


def usd_per_million_tokens(usd_per_hour: float | None, tokens_per_s: float | None) -> float | None:
    """Cost of a million tokens = price per hour / (tokens/s · 3600) · 10^6; None without a price or throughput."""
    if usd_per_hour is None or not tokens_per_s:
        return None
    return usd_per_hour / (tokens_per_s * 3600) * 1e6
