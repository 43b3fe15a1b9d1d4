"""Where a percentile truly lies: exact order-statistic intervals, for samples that may hang together.

Of n independent samples the number below the p-quantile is binomial, so the r-th and s-th smallest enclose it with the
confidence wanted whatever the distribution (David and Nagaraja, "Order Statistics", 7.1). Too few samples have no such
s: the p95 of fewer than 72 requests has no upper end at 95%, however alike they are. A bootstrap has no way to say so:
it never leaves the sample, and of 32 requests its "95%" interval of a p95 covers in about three of four cases
(docs/decisions/0010).

Samples that hang together tell less than as many independent ones. n is then the *effective* number (Korn and Graubard,
"Confidence intervals for proportions with small expected number of positive counts estimated from survey data", 1998):

- one sample a request, in the order sent: n over the design effect of blocks of ⌈n^(1/3)⌉ neighbours, by normal
  scores, where it is beyond what independent samples show by chance; n itself where a bound lies far beyond them all;
- several samples a request (gaps between tokens): by the variance between requests of how many lie below the
  percentile; never fewer than there are requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, inf, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadproof.bench.measure.statistics import CONFIDENCE, Samples, Whole

_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(0.5 + CONFIDENCE / 2)
_EXACT_UP_TO = 20_000  # beyond, the normal approximation is off by less than one rank in 10,000
_MOST_REQUESTS = 1_000_000  # past this, "more requests" is no advice
_FEWEST_BLOCKS = 6
_AT_ONCE = 4096  # requests
ALIKE = 0.05
FAR = 3.0  # times the largest sample's distance from the median
_BEYOND_CHANCE = 2.0  # standard errors
SETTLED_IN = 0.85  # of the cases, by the prediction; of those simulated at least four in five


@dataclass(frozen=True, slots=True)
class QuantileInterval:
    """An end that the samples cannot give is None. `effective`: as many independent samples would tell as much."""

    low: float | None
    high: float | None
    effective: int


def quantile_interval(
    values: Samples | Whole, ends: NDArray[np.int64], rank_percent: float, bound: float | None = None
) -> QuantileInterval | None:
    """The 95% interval of a percentile over samples that request after request has; None without any.

    `ends[k]`: where those of the k-th request end, in the order sent. `bound`: what the percentile is to stay within,
    where the interval is to decide that (see `effective_size`). Leaves `values` sorted: a long run's gaps are hundreds
    of MB, so there is no second array of them.
    """
    if values.size == 0:
        return None
    share = rank_percent / 100
    effective = effective_size(values, ends, share, bound)
    first, last = ranks(effective, share)
    values.sort()
    scale = values.size / effective
    low = float(values[floor(first * scale) - 1]) if first else None
    high = float(values[min(values.size, ceil(last * scale)) - 1]) if last is not None else None
    return QuantileInterval(_rounded(low), _rounded(high), effective)


def fewest_requests(rank_percent: float) -> int:
    """How many independent requests a percentile's interval needs for an upper end: p^n ≤ α/2; 72 for a p95."""
    return ceil(log((1 - CONFIDENCE) / 2) / log(rank_percent / 100))


@lru_cache(maxsize=4096)
def ranks(samples: int, share: float, confidence: float = CONFIDENCE) -> tuple[int, int | None]:
    """(r, s), from 1: the r-th and s-th smallest of independent samples enclose the quantile. 0 and None: no such end.

    r = max{r : P(X < r) ≤ α/2}, s = min{s : P(X ≥ s) ≤ α/2} with X ~ Binomial(samples, share).
    """
    tail = (1 - confidence) / 2
    first = binomial_quantile(samples, share, tail)
    last = binomial_quantile(samples, share, 1 - tail) + 1
    return first, last if last <= samples else None


def binomial_quantile(samples: int, share: float, probability: float) -> int:
    """min{k : P(X ≤ k) ≥ probability}, X ~ Binomial(samples, share)."""
    if samples > _EXACT_UP_TO:
        spread = sqrt(samples * share * (1 - share))
        return round(samples * share + _NORMAL.inv_cdf(probability) * spread)
    k = np.arange(1, samples + 1)
    steps = np.log((samples - k + 1) / k * (share / (1 - share)))
    log_mass = samples * np.log1p(-share) + np.concatenate([[0.0], np.cumsum(steps)])
    reached = np.cumsum(np.exp(log_mass)) >= probability - 1e-12
    return int(np.argmax(reached)) if reached.any() else samples


def effective_size(values: Samples | Whole, ends: NDArray[np.int64], share: float, bound: float | None = None) -> int:
    """How many independent samples tell as much about the quantile; at least 1. Each request has one sample or more.

    Of requests that rise and fall together, what matters is whether they pass the `bound` together. Where it lies
    `FAR` beyond them all, a quantile there could not have gone with samples like these, and every request counts; where
    it lies nearer, so does the least drift. Without a bound, drift within `ALIKE` of the median counts for nothing.
    """
    requests = ends.size
    if values.size == requests:
        return max(1, floor(requests / _effect(values, bound)))
    within = values <= np.quantile(values, share)
    sizes = np.diff(ends, prepend=0)
    counts, below = _sums(within, ends), float(within.mean())
    del within
    means = _sums(values, ends) / sizes
    floor_of = max(1, floor(requests / _effect(means, bound)))
    if requests < 2 or below == 1.0:
        return floor_of
    # The ratio estimator's variance, linearised: z_i = x_i − p·m_i.
    variance = requests / (requests - 1) * float(((counts - below * sizes) ** 2).sum()) / values.size**2
    if variance <= 0:
        return int(values.size)
    shrunk = (_Z / student(requests - 1)) ** 2
    return max(floor_of, min(int(values.size), floor(below * (1 - below) / variance * shrunk)))


def _effect(samples: Samples | Whole, bound: float | None) -> float:
    if bound is None:
        return block_effect(samples)
    median = float(np.median(samples))
    return 1.0 if bound - median >= FAR * (float(samples.max()) - median) else block_effect(samples, alike=0.0)


def _sums(values: NDArray[Any], ends: NDArray[np.int64]) -> Samples:
    """Of each request's samples; some requests at a time, since numpy makes floats of all it is given to add up."""
    sums, first = np.empty(ends.size), 0
    for begin in range(0, ends.size, _AT_ONCE):
        stop = ends[min(begin + _AT_ONCE, ends.size) - 1]
        starts = np.concatenate([[first], ends[begin : begin + _AT_ONCE - 1]]) - first
        sums[begin : begin + _AT_ONCE] = np.add.reduceat(
            values[first:stop], starts[: ends.size - begin], dtype=np.float64
        )
        first = int(stop)
    return sums


def block_effect(samples: Samples | Whole, alike: float = ALIKE) -> float:
    """Variance of block means over that of independent samples, by normal scores; 1 where chance may explain it.

    Samples within `alike` of the median count as equal to it: a steady server's answers drift by microseconds, which
    ranks would make as much of as of seconds.
    """
    median = float(np.median(samples))
    samples = np.where(np.abs(samples - median) <= alike * abs(median), median, samples)
    length = ceil(samples.size ** (1 / 3))
    blocks = samples.size // length
    if blocks < _FEWEST_BLOCKS or np.all(samples == samples[0]):
        return 1.0
    _, owner, counts = np.unique(samples, return_inverse=True, return_counts=True)
    middles = (np.cumsum(counts) - counts / 2) / samples.size  # equal samples share a rank
    scores = np.asarray([_NORMAL.inv_cdf(middle) for middle in middles])[owner]
    means = scores[: blocks * length].reshape(blocks, length).mean(axis=1)
    effect = float(means.var(ddof=1) * length / scores.var())
    chance = _BEYOND_CHANCE * sqrt(2 / (blocks - 1))
    return effect if effect > 1 + chance else 1.0


def requests_to_settle(within: float, share: float, requests: int, effective: int) -> int | None:
    """How many requests in all settle a bound on a quantile in `SETTLED_IN` of the cases, whichever way.

    `within` of `requests` meet the bound, `effective` of them independent. The verdict is PASS once the s-th smallest
    lies within the bound, FAIL once the r-th lies beyond it. How many of m more will meet it is beta-binomial, with
    Jeffreys' prior: the share seen so far is itself only an estimate, and a number that took it for the truth would
    settle about every other case. None where a million would not do.
    """
    met = round(within * effective)
    low, high = effective, effective + 1
    while _settled(met, effective, share, high) < SETTLED_IN:
        low, high = high, high + 2 * (high - effective)
        if high * requests > _MOST_REQUESTS * effective:
            return None
    while high - low > max(1, high // 100):  # a percent is near enough
        middle = (low + high) // 2
        low, high = (low, middle) if _settled(met, effective, share, middle) >= SETTLED_IN else (middle, high)
    return ceil(high * requests / effective)


def requests_to_settle_rate(distance: float, width: float, requests: int) -> int | None:
    """The same for a rate `distance` from its bound, whose 95% interval over `requests` is `width` wide.

    With σ the standard error of n requests, that of m is σ·√(n/m), and the rate they will show is normal about the one
    of n with variance σ²·(1 − n/m).
    """
    sigma, needed = width / (2 * _Z), requests
    while sigma > 0 and needed <= _MOST_REQUESTS:
        needed += max(1, needed // 50)
        reach, wander = _Z * sigma * sqrt(requests / needed), sigma * sqrt(1 - requests / needed)
        if _NORMAL.cdf((distance - reach) / wander) + _NORMAL.cdf((-distance - reach) / wander) >= SETTLED_IN:
            return needed
    return None


def _settled(met: int, samples: int, share: float, in_all: int) -> float:
    """How likely a bound that `met` of `samples` meet is settled by `in_all` samples."""
    first, last = ranks(in_all, share)
    more = in_all - samples
    a, b = met + 0.5, samples - met + 0.5
    k = np.arange(more)
    log_mass = np.concatenate([[0.0], np.cumsum(np.log((more - k) / (k + 1) * (a + k) / (b + more - k - 1)))])
    mass = np.exp(log_mass - log_mass.max())
    passing = 0.0 if last is None else mass[max(0, last - met) :].sum()
    failing = mass[: max(0, first - met)].sum()  # fewer than r meet it in all
    return float((passing + failing) / mass.sum())


def student(freedom: int) -> float:
    """The 97.5% point of Student's t (Abramowitz and Stegun 26.7.5); infinite below one degree of freedom."""
    if freedom < 1:
        return inf
    z = _Z
    if freedom <= 2:
        return {1: 12.706, 2: 4.303}[freedom]
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)
