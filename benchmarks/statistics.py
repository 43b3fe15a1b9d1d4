"""Percentiles and intervals over samples held whole. Nothing here knows what a request is.

Percentiles are exact: numpy's `linear` method (Hyndman and Fan's type 7), which for n sorted samples x_0..x_(n-1) takes
the point at rank q·(n − 1), between its two neighbours in proportion. No sample, no statistic: None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
CONFIDENCE = 0.95
RESAMPLES_MOST = 1000
RESAMPLES_FEWEST = 100
RESAMPLE_BUDGET = 20_000_000  # samples drawn in all: keeps a verdict over millions of gaps to seconds


@dataclass(frozen=True, slots=True)
class Spread:
    """The shape of one metric, in the metric's own unit; every field None when there was no sample."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the true value lies with 95% confidence."""

    low: float
    high: float


def spread(samples: Samples) -> Spread:
    if samples.size == 0:
        return Spread()
    p50, p90, p95, p99 = (_tidy(value) for value in np.percentile(samples, (50, 90, 95, 99)))
    return Spread(p50, p90, p95, p99, _tidy(samples.mean()), _tidy(samples.max()))


def percentile(samples: Samples, rank_percent: float) -> float | None:
    return _tidy(np.percentile(samples, rank_percent)) if samples.size else None


def percentile_interval(per_request: Sequence[Samples], rank_percent: float, seed: int) -> Interval | None:
    """Bootstrap interval of a percentile over the pooled samples of `per_request`. None without samples.

    Whole requests are drawn, not single samples: the gaps of one stream rise and fall together, and drawing them one
    by one would make the interval far too narrow. Percentile method (Efron), `RESAMPLES_MOST` draws at most, seeded.
    """
    pooled = np.concatenate(per_request) if per_request else np.empty(0)
    if pooled.size == 0:
        return None
    owner = np.repeat(np.arange(len(per_request)), [samples.size for samples in per_request])
    draws = max(RESAMPLES_FEWEST, min(RESAMPLES_MOST, RESAMPLE_BUDGET // pooled.size))
    estimates = []
    for times_drawn in _draws(len(per_request), draws, seed):
        drawn = np.repeat(pooled, times_drawn[owner])
        if drawn.size:
            estimates.append(np.percentile(drawn, rank_percent))
    return _middle(np.asarray(estimates))


def ratio_interval(amounts: Samples, durations: Samples, scale: float, seed: int) -> Interval | None:
    """Bootstrap interval of `scale · Σ amounts / Σ durations`, drawing pairs. None without samples."""
    if amounts.size == 0 or durations.sum() <= 0:
        return None
    weights = np.asarray(list(_draws(amounts.size, RESAMPLES_MOST, seed)))
    return _middle(scale * (weights @ amounts) / (weights @ durations))


def _draws(size: int, draws: int, seed: int) -> Any:
    """Yield how often each of `size` requests was drawn, with replacement, `draws` times over."""
    random = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.bincount(random.integers(0, size, size), minlength=size)


def _middle(estimates: Samples) -> Interval:
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(estimates, (tail, 100 - tail))
    return Interval(_tidy(low), _tidy(high))


def _tidy(value: Any) -> float:
    """A plain float to nine decimals: below a nanosecond there is only floating-point noise."""
    return round(float(value), 9)
