"""Percentiles over samples held whole. Nothing here knows what a request is.

Percentiles are exact: numpy's `linear` method (Hyndman and Fan's type 7), which for n sorted samples x_0..x_(n-1) takes
the point at rank q·(n − 1), between its two neighbours in proportion. No sample, no statistic: None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    values = *_percentiles(samples, (50, 90, 95, 99), in_place=in_place), mean, largest
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
    (value,) = _percentiles(samples, (rank_percent,))
    return tidy(value / per_unit)


def _percentiles(
    samples: Samples | Whole, ranks_percent: Sequence[float], *, in_place: bool = False
) -> Iterator[float]:
    """As numpy's own, which takes ten times as long for one request and loads a part of numpy that nobody needs."""
    last = samples.size - 1
    positions = [rank_percent / 100 * last for rank_percent in ranks_percent]
    places = [(floor(position), min(floor(position) + 1, last)) for position in positions]
    ordered = samples if in_place else samples.copy()
    ordered.partition(sorted({place for pair in places for place in pair}))
    for position, (below, above) in zip(positions, places, strict=True):
        yield ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def tidy(value: SupportsFloat) -> float:
    """A plain float to nine decimals: below a nanosecond there is only floating-point noise."""
    return round(float(value), 9)
