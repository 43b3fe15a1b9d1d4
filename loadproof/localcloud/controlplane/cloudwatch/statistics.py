"""Statistics of a sample: CloudWatch's five, percentiles, and means, counts, sums and shares between two bounds.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from loadproof.localcloud.wire import AwsError

_SIMPLE: Final = ("Average", "Maximum", "Minimum", "SampleCount", "Sum")
_NUMBER: Final = r"\d+(?:\.\d{1,10})?"
_PERCENTILE: Final = re.compile(rf"p({_NUMBER})")
_SHORT: Final = re.compile(rf"(tm|wm|tc|ts)({_NUMBER})")
_PERCENTS: Final = re.compile(rf"(TM|WM|TC|TS)\((?:({_NUMBER})%)?:(?:({_NUMBER})%)?\)")
_VALUES: Final = re.compile(rf"(TM|WM|TC|TS|PR)\(({_NUMBER})?:({_NUMBER})?\)")
_INTERQUARTILE: Final = "IQM"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What lies between two shares of the data in percent, or two values: above `low`, and up to `high`."""

    kind: str  # TM | WM | TC | TS | PR
    low: float
    high: float
    in_percent: bool


def check_statistic(statistic: str) -> None:
    """Raises for a statistic that CloudWatch does not know."""
    percentile = _PERCENTILE.fullmatch(statistic)
    known = statistic in _SIMPLE or (percentile and float(percentile[1]) <= 100) or _bounds_of(statistic)
    if not known:
        raise AwsError(
            "ValidationError",
            f"The statistic {statistic} is invalid: use {', '.join(_SIMPLE)}, a percentile such as p95, or one with "
            "bounds such as tm90, IQM, TM(10%:90%), WM(:95%), TC(0.1:0.5), TS(80%:) or PR(:300).",
        )


@cache
def _bounds_of(statistic: str) -> _Bounds | None:
    if statistic == _INTERQUARTILE:
        return _Bounds("TM", 25.0, 75.0, in_percent=True)
    short = _SHORT.fullmatch(statistic)
    if short is not None:
        return _sound(_Bounds(short[1].upper(), 0.0, float(short[2]), in_percent=True))
    percents = _PERCENTS.fullmatch(statistic)
    found = percents or _VALUES.fullmatch(statistic)
    if found is None or found[2] is found[3] is None:
        return None
    highest = 100.0 if percents else math.inf
    lowest = 0.0 if percents else -math.inf
    low, high = float(found[2] or lowest), float(found[3] or highest)
    return _sound(_Bounds(found[1], low, high, in_percent=percents is not None))


def _sound(bounds: _Bounds) -> _Bounds | None:
    within = not bounds.in_percent or bounds.high <= 100
    return bounds if within and bounds.low < bounds.high else None


def statistic_of(values: Sequence[float], counts: Sequence[float], statistic: str) -> float | None:
    """One statistic of a non-empty sample; None for a mean of what lies between two values where nothing does.

    Percentiles interpolate between neighbours: p50 of 1 and 3 is 2.
    """
    if statistic == "Maximum":
        return max(values)
    if statistic == "Minimum":
        return min(values)
    if statistic == "SampleCount":
        return math.fsum(counts)
    total = math.fsum(value * count for value, count in zip(values, counts, strict=True))
    if statistic == "Sum":
        return total
    if statistic == "Average":
        return total / math.fsum(counts)
    sample = sorted(value for value, count in zip(values, counts, strict=True) for _ in range(max(1, int(count))))
    bounds = _bounds_of(statistic)
    return _percentile(sample, float(statistic[1:])) if bounds is None else _bounded(sample, bounds)


def _percentile(sample: Sequence[float], percent: float) -> float:
    rank = (len(sample) - 1) * percent / 100
    low = int(rank)
    high = min(low + 1, len(sample) - 1)
    return sample[low] + (sample[high] - sample[low]) * (rank - low)


def _bounded(sample: Sequence[float], bounds: _Bounds) -> float | None:
    if bounds.kind == "WM":
        low, high = bounds.low, bounds.high
        if bounds.in_percent:
            low, high = _percentile(sample, low), _percentile(sample, high)
        return math.fsum(min(max(value, low), high) for value in sample) / len(sample)
    kept = _kept(sample, bounds)
    if bounds.kind == "TC":
        return float(len(kept))
    if bounds.kind == "PR":
        return 100.0 * len(kept) / len(sample)
    total = math.fsum(kept)
    if bounds.kind == "TS":
        return total
    return total / len(kept) if kept else None


def _kept(sample: Sequence[float], bounds: _Bounds) -> Sequence[float]:
    """What lies within the bounds; of a share in percent whole data are cut off."""
    if not bounds.in_percent:
        return [value for value in sample if bounds.low < value <= bounds.high]
    below, above = (int(round(len(sample) * share / 100, 6)) for share in (bounds.low, 100 - bounds.high))
    return sample[below : len(sample) - above]
