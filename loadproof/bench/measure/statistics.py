"""Percentiles over samples held whole. Nothing here knows what a request is.

Percentiles are exact: numpy's `linear` method (Hyndman and Fan's type 7), which for n sorted samples x_0..x_(n-1) takes
the point at rank q·(n − 1), between its two neighbours in proportion. No sample, no statistic: None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
Whole = NDArray[np.uint32] | NDArray[np.int64]
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """The shape of one metric, in the metric's own unit; every field None when there was no sample."""

    p50: float | None = None
    """median"""
    p90: float | None = None
    """percentile"""
    p95: float | None = None
    """percentile"""
    p99: float | None = None
    """percentile"""
    mean: float | None = None
    """mean"""
    max: float | None = None
    """largest"""


def spread(samples: Samples | Whole, per_unit: float = 1.0, *, in_place: bool = False) -> Spread:
    """The spread in units of which a sample of 1 is the `per_unit`-th part. `in_place` may order the samples anew."""
    if samples.size == 0:
        return Spread()
    mean, largest = samples.mean(), samples.max()
    values = *np.percentile(samples, (50, 90, 95, 99), overwrite_input=in_place), mean, largest
    return Spread(*(tidy(value / per_unit) for value in values))


def spread_above_zeros(zeros: int, samples: Samples) -> Spread:
    """The spread of `samples`, none below 0, and of `zeros` times 0 besides, which are counted and not held."""
    count = zeros + samples.size
    if count == 0:
        return Spread()
    ordered = np.sort(samples)

    def at(rank: int) -> float:
        return float(ordered[rank - zeros]) if rank >= zeros else 0.0

    def quantile(share: float) -> float:
        position = share * (count - 1)
        below = floor(position)
        return tidy(at(below) + (at(min(below + 1, count - 1)) - at(below)) * (position - below))

    p50, p90, p95, p99 = map(quantile, (0.50, 0.90, 0.95, 0.99))
    return Spread(p50, p90, p95, p99, tidy(samples.sum() / count), tidy(at(count - 1)))


def percentile(samples: Samples | Whole, rank_percent: float, per_unit: float = 1.0) -> float | None:
    if not samples.size:
        return None
    position = rank_percent / 100 * (samples.size - 1)
    below = floor(position)
    above = min(below + 1, samples.size - 1)
    ordered = np.partition(samples, (below, above))  # numpy's own `percentile` takes ten times as long for one request
    return tidy((ordered[below] + (ordered[above] - ordered[below]) * (position - below)) / per_unit)


def tidy(value: SupportsFloat) -> float:
    """A plain float to nine decimals: below a nanosecond there is only floating-point noise."""
    return round(float(value), 9)
