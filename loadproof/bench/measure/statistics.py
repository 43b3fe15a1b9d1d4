"""Percentiles over samples held whole, and the interval of a ratio. Nothing here knows what a request is.

Percentiles are exact: numpy's `linear` method (Hyndman and Fan's type 7), which for n sorted samples x_0..x_(n-1) takes
the point at rank q·(n − 1), between its two neighbours in proportion. No sample, no statistic: None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
Whole = NDArray[np.uint32] | NDArray[np.int64]
CONFIDENCE = 0.95
RESAMPLES_MOST = 1000
RESAMPLES_FEWEST = 100
RESAMPLE_BUDGET = 20_000_000  # samples drawn in all: keeps a verdict over millions of gaps to seconds


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


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the true value lies with 95% confidence."""

    low: float
    high: float


def spread(samples: Samples | Whole, per_unit: float = 1.0, *, in_place: bool = False) -> Spread:
    """The spread in units of which a sample of 1 is the `per_unit`-th part. `in_place` may order the samples anew."""
    if samples.size == 0:
        return Spread()
    mean, largest = samples.mean(), samples.max()
    values = *np.percentile(samples, (50, 90, 95, 99), overwrite_input=in_place), mean, largest
    return Spread(*(_tidy(value / per_unit) for value in values))


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
        return _tidy(at(below) + (at(min(below + 1, count - 1)) - at(below)) * (position - below))

    p50, p90, p95, p99 = map(quantile, (0.50, 0.90, 0.95, 0.99))
    return Spread(p50, p90, p95, p99, _tidy(samples.sum() / count), _tidy(at(count - 1)))


def percentile(samples: Samples | Whole, rank_percent: float, per_unit: float = 1.0) -> float | None:
    if not samples.size:
        return None
    position = rank_percent / 100 * (samples.size - 1)
    below = floor(position)
    above = min(below + 1, samples.size - 1)
    ordered = np.partition(samples, (below, above))  # numpy's own `percentile` takes ten times as long for one request
    return _tidy((ordered[below] + (ordered[above] - ordered[below]) * (position - below)) / per_unit)


def ratio_interval(amounts: Samples, durations: Samples, scale: float, seed: int) -> Interval | None:
    """Bootstrap interval of `scale · Σ amounts / Σ durations` over pairs in the order sent. None without samples.

    Blocks of ⌈n^(1/3)⌉ neighbours are drawn, round the end (the circular block bootstrap of Politis and Romano, 1992):
    requests that were served together rise and fall together. Percentile method (Efron), seeded.
    """
    if amounts.size == 0 or durations.sum() <= 0:
        return None
    length = ceil(amounts.size ** (1 / 3))
    blocks = ceil(amounts.size / length)
    random = np.random.default_rng(seed)
    draws = max(RESAMPLES_FEWEST, min(RESAMPLES_MOST, RESAMPLE_BUDGET // amounts.size))
    ratios = np.empty(draws)
    for draw in range(draws):
        starts = random.integers(0, amounts.size, blocks)
        drawn = ((starts[:, None] + np.arange(length)) % amounts.size).ravel()[: amounts.size]
        ratios[draw] = amounts[drawn].sum() / durations[drawn].sum()
    return _middle(scale * ratios)


def _middle(estimates: Samples) -> Interval:
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(estimates, (tail, 100 - tail))
    return Interval(_tidy(low), _tidy(high))


def _tidy(value: SupportsFloat) -> float:
    """A plain float to nine decimals: below a nanosecond there is only floating-point noise."""
    return round(float(value), 9)
