"""How a figure would have come out of other requests like these: a bootstrap over requests, for changes between runs.

Requests are drawn with replacement, in the order sent, and the figure computed anew, `RESAMPLES` times; a change is the
ratio of two runs' figures, its 95% interval the middle of such ratios (Efron's percentile method), seeded. Drawn are

- requests, each with all its samples (a stream's gaps stay together); of conversations whole ones, whose turns wait for
  each other. More than `MOST_UNITS` are drawn as so many batches of neighbours;
- blocks of neighbours, round the end (Politis and Romano 1992), where requests hang together. A block's length is that
  of Politis and White (2004, as corrected in 2009), by normal scores of the requests and by what each does to the
  figure, whichever is longer; 1 for independent requests. Differences within `ALIKE` of the median count for nothing
  there.

Few blocks tell little of how much they vary: distances grow by Student's t over the normal's, and below `FEWEST_BLOCKS`
an interval has no ends. Nor has a percentile's an end that order statistics do not have (`intervals`): no resample of
60 requests holds a p95 that is slower than the slowest of them.

What it cannot see is what differs between two runs of one endpoint and within neither: the machine, its neighbours, the
day. That is what the tolerance is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadproof.bench.measure.dependence import FEWEST_BLOCKS, block_length, student
from loadproof.bench.measure.intervals import ALIKE, effective_size, ranks
from loadproof.bench.measure.latencies import Pool
from loadproof.bench.measure.statistics import CONFIDENCE, Samples

RESAMPLES = 2000
MOST_UNITS = 2000
FEWEST_ROUNDS = 20
_THRESHOLDS = 512  # over 16 standard errors: a resampled percentile is right to a thirtieth of one
_REACH = 8.0  # standard errors
_AT_ONCE = 250  # resamples
_SAMPLES_AT_ONCE = 1 << 20
_NORMAL = NormalDist()
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Resampled:
    """A figure, and what it was over each resample (empty: too few requests to say).

    `low_known`, `high_known`: whether these requests bound the true figure from below and above. `blocks`: how many
    drawn blocks make up a resample.
    """

    observed: float | None
    estimates: Samples
    low_known: bool
    high_known: bool
    blocks: int

    @property
    def log_error(self) -> float:
        """The standard error of the figure's logarithm; 0 where nothing could be drawn."""
        drawn = self.estimates[self.estimates > 0]
        return float(np.log(drawn).std()) if drawn.size else 0.0


NOTHING = Resampled(None, np.empty(0), low_known=False, high_known=False, blocks=0)


def percentile_resampled(pool: Pool, rank_percent: float, owners: Whole, seed: Sequence[int]) -> Resampled:
    """A percentile of `pool`, in ms. `owners[k]`: the unit of its k-th request, from 0 and rising."""
    if pool.values.size == 0:
        return NOTHING
    observed, share = pool.percentile_ms(rank_percent), rank_percent / 100
    sizes = np.diff(pool.ends, prepend=0)
    unit_ends = pool.ends[np.append(np.flatnonzero(np.diff(owners)), owners.size - 1)]
    units, owners = _batched(owners)
    of_unit = np.bincount(owners, sizes, units)
    middle = float(np.quantile(pool.values, share, method="inverted_cdf"))
    below = _counts(pool, owners, units, np.asarray([middle]))[:, 0]
    influence = below - share * of_unit
    means = _sums(pool, owners, units) / of_unit
    length = max(block_length(_scores(means)), block_length(influence))
    wide = _REACH * sqrt(length * float((influence**2).sum())) / pool.values.size + 2 / pool.values.size
    at = np.linspace(max(0.0, share - wide), min(1.0, share + wide), _THRESHOLDS)
    thresholds = np.unique(np.quantile(pool.values, at, method="inverted_cdf"))
    counts = _counts(pool, owners, units, thresholds)

    def estimate(*how: Any) -> Samples:
        weights = _weights(*how)
        wanted = np.asarray(share * (weights @ of_unit) * (1 - 1e-9), np.float64)
        reached = _first_reached(weights, counts, wanted)
        return np.asarray(thresholds[reached] / pool.per_ms)

    first, last = ranks(effective_size(pool.values, unit_ends, share), share)
    return _resampled(observed, estimate, units, length, seed, low=first > 0, high=last is not None)


def _first_reached(weights: NDArray[np.float32], counts: NDArray[np.float32], wanted: Samples) -> Whole:
    """The first threshold, by its place, that `wanted` of a resample's samples are at most; else the last one.

    Counts rise from threshold to threshold: one of every `step` is looked at, then those before the first that does.
    """
    last = counts.shape[1] - 1
    step = round(sqrt(last + 1))
    begins = (weights @ counts[:, step - 1 : last : step] < wanted[:, None]).sum(axis=1) * step
    found: Whole = np.empty(begins.size, np.int64)
    for begin in np.unique(begins):
        rows = begins == begin
        between = counts[:, begin : min(begin + step - 1, last)]
        found[rows] = begin + (weights[rows] @ between < wanted[rows, None]).sum(axis=1)
    return found


def rate_resampled(
    observed: float | None,
    amounts: Samples,
    busy_s: Samples,
    owners: Whole,
    seed: Sequence[int],
    slots: int | None = None,
) -> Resampled:
    """A rate: amount over the time it takes. `busy_s`: each request's time in service; `slots`: of a closed loop.

    A closed loop is played again: each request drawn goes to the slot that is free first, and the time is that of the
    last one's end. A short level's rate depends on how long its slots stand empty at the end, which no sum over its
    requests shows. Beyond `MOST_UNITS` requests that end counts for little, and where it does not (fewer than
    `FEWEST_ROUNDS` requests a slot) nothing is said. There, and in an open loop, by Little's law: amount over time in
    service, times the mean number in flight, which is not resampled.
    """
    if observed is None or amounts.sum() <= 0 or busy_s.sum() <= 0:
        return NOTHING
    units, batches = _batched(owners)
    amount, busy = (np.bincount(batches, values, units).astype(np.float64) for values in (amounts, busy_s))
    length = block_length(amount - amount.sum() / busy.sum() * busy)
    if slots is not None and np.unique(owners).size == units:  # none stands for several
        rate = float(amount.sum() / _makespans(busy[None, :], slots)[0])

        def replayed(drawn: Whole) -> Samples:
            return np.asarray(observed / rate * amount[drawn].sum(axis=1) / _makespans(busy[drawn], slots))

        return _resampled(observed, lambda *how: replayed(_drawn(*how)), units, length, seed, low=True, high=True)
    in_flight = observed * busy.sum() / amount.sum()

    def by_little(weights: NDArray[np.float32]) -> Samples:
        return np.asarray(in_flight * (weights @ amount) / (weights @ busy))

    known = slots is None or amounts.size >= FEWEST_ROUNDS * slots
    return _resampled(observed, lambda *how: by_little(_weights(*how)), units, length, seed, low=known, high=known)


def _makespans(busy_s: Samples, slots: int) -> Samples:
    """When the last of each row's requests ends, each begun in order in the slot that is free first."""
    rows = np.arange(busy_s.shape[0])
    free_s = np.zeros((rows.size, slots))
    for column in busy_s.T:
        free_s[rows, free_s.argmin(axis=1)] += column
    return np.asarray(free_s.max(axis=1))


def ratio_resampled(before: Resampled, after: Resampled) -> tuple[float | None, float | None, float | None]:
    """(after / before, low, high): the ratio and its 95% interval; None for what cannot be told."""
    if not before.observed or not after.observed:
        return None, None, None
    centre = log(after.observed / before.observed)
    low: float | None = None
    high: float | None = None
    if before.estimates.size and after.estimates.size and before.estimates.all() and after.estimates.all():
        tail = (1 - CONFIDENCE) / 2 * 100
        ends = np.percentile(np.log(after.estimates / before.estimates), (tail, 100 - tail))
        wider = student(min(before.blocks, after.blocks) - 1) / _NORMAL.inv_cdf(0.5 + CONFIDENCE / 2)
        low = centre - wider * max(0.0, centre - float(ends[0]))
        high = centre + wider * max(0.0, float(ends[1]) - centre)
    return (
        round(exp(centre), 6),
        round(exp(low), 6) if low is not None and before.high_known and after.low_known else None,
        round(exp(high), 6) if high is not None and before.low_known and after.high_known else None,
    )


def _resampled(
    observed: float | None,
    estimate: Callable[[np.random.Generator, int, int, int], Samples],
    units: int,
    length: int,
    seed: Sequence[int],
    *,
    low: bool,
    high: bool,
) -> Resampled:
    blocks = units // length
    if blocks < FEWEST_BLOCKS:
        return Resampled(observed, np.empty(0), low_known=False, high_known=False, blocks=blocks)
    random = np.random.default_rng([part % 2**32 for part in seed])
    parts = [estimate(random, min(_AT_ONCE, RESAMPLES - done), units, length) for done in range(0, RESAMPLES, _AT_ONCE)]
    return Resampled(observed, np.concatenate(parts), low_known=low, high_known=high, blocks=blocks)


def _drawn(random: np.random.Generator, resamples: int, units: int, length: int) -> Whole:
    """(resample, place): units as drawn, blocks of `length` that begin anywhere and go on at the beginning."""
    starts = random.integers(0, units, (resamples, ceil(units / length)))
    return ((starts[:, :, None] + np.arange(length)) % units).reshape(resamples, -1)[:, :units]


def _weights(random: np.random.Generator, resamples: int, units: int, length: int) -> NDArray[np.float32]:
    """How often each unit is in each resample, by the same draws; blocks are whole."""
    starts = random.integers(0, units, (resamples, ceil(units / length)))
    starts += (np.arange(resamples) * units)[:, None]
    begun = np.bincount(starts.ravel(), minlength=resamples * units).reshape(resamples, units)
    if length == 1:
        return begun.astype(np.float32)
    # In how many blocks is unit u? In those that began at the last `length` units up to u, round the end.
    summed = np.zeros((resamples, units + length), np.int32)
    summed[:, 1:length] = begun[:, units - length + 1 :]
    summed[:, length:] = begun
    np.cumsum(summed, axis=1, dtype=np.int32, out=summed)
    drawn: NDArray[np.float32] = (summed[:, length:] - summed[:, :-length]).astype(np.float32)
    return drawn


def _batched(owners: Whole) -> tuple[int, Whole]:
    """(units, owners): numbered without holes, and as batches of neighbours where there are more than `MOST_UNITS`."""
    _, owners = np.unique(owners, return_inverse=True)
    units = int(owners[-1]) + 1 if owners.size else 0
    batch = ceil(units / MOST_UNITS)
    return (units, owners) if batch <= 1 else (ceil(units / batch), owners // batch)


def _scores(means: Samples) -> Samples:
    """Normal scores; means within `ALIKE` of their median count as equal to it: a steady server drifts by little."""
    median = float(np.median(means))
    means = np.where(np.abs(means - median) <= ALIKE * abs(median), median, means)
    _, owner, counts = np.unique(means, return_inverse=True, return_counts=True)
    middles = (np.cumsum(counts) - counts / 2) / means.size
    return np.asarray([_NORMAL.inv_cdf(middle) for middle in middles])[owner]


def _counts(pool: Pool, owners: Whole, units: int, thresholds: NDArray[Any]) -> NDArray[np.float32]:
    """(unit, threshold): how many of the unit's samples are at most the threshold."""
    width = thresholds.size + 1
    found = np.zeros(units * width, np.int64)
    for samples, owner in _in_parts(pool, owners):
        found += np.bincount(owner * width + np.searchsorted(thresholds, samples), minlength=units * width)
    return np.cumsum(found.reshape(units, width)[:, :-1], axis=1).astype(np.float32)


def _sums(pool: Pool, owners: Whole, units: int) -> Samples:
    sums = np.zeros(units)
    for samples, owner in _in_parts(pool, owners):
        sums += np.bincount(owner, samples, units)
    return sums


def _in_parts(pool: Pool, owners: Whole) -> Iterator[tuple[NDArray[Any], Whole]]:
    """(samples, unit of each), so many requests at a time that memory stays bounded."""
    first, begin = 0, 0
    while first < pool.ends.size:
        stop = max(first + 1, int(np.searchsorted(pool.ends, begin + _SAMPLES_AT_ONCE, side="right")))
        end = int(pool.ends[stop - 1])
        sizes = np.diff(pool.ends[first:stop], prepend=begin)
        yield pool.values[begin:end], np.repeat(owners[first:stop], sizes)
        first, begin = stop, end
