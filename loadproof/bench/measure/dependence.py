"""How far requests hang together, and how many independent ones would tell as much.

What counts is whether they pass a bound together, so it is asked of the *indicator* of lying beyond it, one a request
in the order sent (of several samples: how many lie beyond it, less their usual share). With R(k) its autocovariances, n
requests tell as much as n / D, D = Σ R(k) / R(0), which is estimated twice, and the larger counts:

- by the flat-top window of Politis and White (2004, as corrected in 2009), which reaches to twice the lag beyond which
  autocovariances are chance; independent requests have no such lag, and each counts;
- by blocks of the length b that they choose, Σ (1 − |k|/b)·R(k).

A mean taken from the sample hides a part b/n of it, which is given back. Nor do requests tell more than their slow
spells do: C clusters beyond the bound, b apart, count as C samples (the runs estimator of the extremal index), which
matters where one or two were all there was. Few blocks tell little of how much they vary: what is left shrinks by
(z/t)² of Student's t.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, log10, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadproof.bench.measure.statistics import CONFIDENCE, Samples, Whole

FEWEST_BLOCKS = 5
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
_AT_ONCE = 4096  # requests
DRIFT_Z = 3.0  # standard errors between two halves


@dataclass(frozen=True, slots=True)
class Dependence:
    """Of a series: `length` of the blocks that its neighbours make (1: none do), `effect` = D."""

    length: int
    effect: float
    lag: int = 0


INDEPENDENT = Dependence(1, 1.0)


def dependence(series: Samples, lag: int = 0) -> Dependence:
    """How a series hangs together; `INDEPENDENT` where that may be chance.

    With λ the flat-top window and M twice the last lag beyond chance: b³ = n · 3/2 · (G/D)², G = Σ λ(k/M)·|k|·R(k).
    """
    size = series.size
    centred = series - series.mean()
    if size < 2 * FEWEST_BLOCKS or not centred.any():
        return INDEPENDENT
    in_a_row = max(5, ceil(sqrt(log10(size))))
    most = min(ceil(sqrt(size)) + in_a_row, size - 1)
    longest = min(3 * sqrt(size), size / 3)
    shares = _autocorrelations(centred, max(2 * most, ceil(longest)))
    last = max(lag, _last_lag(np.abs(shares[1 : most + 1]) >= 2 * sqrt(log10(size) / size), in_a_row))
    if last == 0:
        return INDEPENDENT
    reach = min(2 * last, 2 * most, size - 1)
    lags = np.arange(1, reach + 1)
    weighted = np.minimum(1.0, 2 * (1 - lags / reach)) * shares[1 : reach + 1]
    flat_top = 1 + 2 * float(weighted.sum())
    slope = 2 * float((lags * weighted).sum())
    length = longest if flat_top <= 0 else min(longest, (1.5 * slope**2 / flat_top**2 * size) ** (1 / 3))
    blocks_of = max(1, ceil(length))
    if blocks_of == 1:
        return INDEPENDENT
    lags = np.arange(1, blocks_of)
    by_blocks = 1 + 2 * float(((1 - lags / blocks_of) * shares[1:blocks_of]).sum())
    effect = max(flat_top, by_blocks)
    return Dependence(blocks_of, effect / (1 - blocks_of / size) if effect > 1 else 1.0, last)


def block_length(series: Samples) -> int:
    """How many neighbours a circular block bootstrap draws together; 1 where they do not hang together."""
    return dependence(series).length


@dataclass(frozen=True, slots=True)
class Seen:
    """What requests tell: as much as so many `independent` samples. `drift`: their halves differ beyond chance."""

    independent: float
    drift: bool = False
    lag: int = 0


def seen(values: Samples | Whole, ends: NDArray[np.int64], threshold: float, lag: int = 0) -> Seen:
    """How much samples tell of the share beyond a threshold. `ends[k]`: where those of the k-th request end."""
    requests = ends.size
    beyond = values > threshold
    share = float(beyond.mean())
    if requests < 2 or share in (0.0, 1.0):
        return Seen(requests)
    one_each = values.size == requests
    counts = beyond.astype(np.float64) if one_each else sums(beyond, ends)
    deviations = counts - share * np.diff(ends, prepend=0)
    variance = requests / (requests - 1) * float((deviations**2).sum()) / values.size**2
    if variance <= 0:
        return Seen(values.size)
    found = dependence(deviations, lag)
    told = requests / found.effect
    looks = floor(requests / max(found.length, found.effect)) if found.effect > 1 else requests
    if one_each and found.effect > 1:
        clusters = _clusters(beyond if share <= 0.5 else ~beyond, min(found.length, 1 / min(share, 1 - share)))
        looks = min(looks, 2 * clusters)
        told = min(told, clusters / (share * (1 - share)))
    few = (Z / student(looks - 1)) ** 2
    if found.effect > 1:
        told *= few
    if not one_each:
        told = max(told, share * (1 - share) / (variance * found.effect) * few)
    return Seen(min(values.size, told), _drift(deviations, found))


def seen_by_ranks(series: Samples | Whole) -> Seen:
    """The same of a series by its ranks, whatever the threshold; equal ones share a rank."""
    _, owner, counts = np.unique(series, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[owner]
    found = dependence(ranks)
    drift = _drift(ranks - ranks.mean(), found)
    return Seen(series.size / found.effect, drift, 0 if drift else found.lag)


def _drift(deviations: Samples, found: Dependence) -> bool:
    """Is the sum of the first half, and so that of the other, beyond chance? It varies by half as much as all do."""
    chance = sqrt(found.effect * float((deviations**2).sum())) / 2
    return abs(float(deviations[: deviations.size // 2].sum())) > DRIFT_Z * chance > 0


def sums(values: NDArray[Any], ends: NDArray[np.int64]) -> Samples:
    """Of each request's samples; some requests at a time, since numpy makes floats of all it is given to add up."""
    found, first = np.empty(ends.size), 0
    for begin in range(0, ends.size, _AT_ONCE):
        stop = ends[min(begin + _AT_ONCE, ends.size) - 1]
        starts = np.concatenate([[first], ends[begin : begin + _AT_ONCE - 1]]) - first
        found[begin : begin + _AT_ONCE] = np.add.reduceat(
            values[first:stop], starts[: ends.size - begin], dtype=np.float64
        )
        first = int(stop)
    return found


def student(freedom: int) -> float:
    """The 97.5% point of Student's t (Abramowitz and Stegun 26.7.5); infinite below one degree of freedom."""
    if freedom < 1:
        return inf
    if freedom <= 2:
        return {1: 12.706, 2: 4.303}[freedom]
    return Z + (Z**3 + Z) / (4 * freedom) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * freedom**2)


def _autocorrelations(centred: Samples, most: int) -> Samples:
    """R(k) / R(0) for k up to `most`, by FFT."""
    padded = 1 << (centred.size + most).bit_length()
    spectrum = np.fft.rfft(centred, padded)
    found = np.fft.irfft(spectrum * spectrum.conj(), padded)[: most + 1]
    return np.asarray(found / found[0])


def _last_lag(beyond_chance: NDArray[np.bool_], in_a_row: int) -> int:
    """The last lag before `in_a_row` of them that are chance; where there are none such, the last beyond chance."""
    for lag in range(beyond_chance.size - in_a_row + 1):
        if not beyond_chance[lag : lag + in_a_row].any():
            return lag
    found = np.flatnonzero(beyond_chance)
    return int(found[-1]) + 1 if found.size else 0


def _clusters(marked: NDArray[np.bool_], apart: float) -> int:
    """Of marked places, those more than `apart` from the one before."""
    return 1 + int((np.diff(np.flatnonzero(marked)) > apart).sum())
