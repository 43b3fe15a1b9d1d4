"""Where a percentile truly lies: exact order-statistic intervals, for samples that may hang together.

Of n independent samples the number below the p-quantile is binomial, so the r-th and s-th smallest enclose it with the
confidence wanted whatever the distribution (David and Nagaraja, "Order Statistics", 7.1). Too few samples have no such
s: the p95 of fewer than 72 requests has no upper end at 95%, however alike they are. A bootstrap has no way to say so:
it never leaves the sample, and of 32 requests its "95%" interval of a p95 covers in about three of four cases
(docs/decisions/0010).

Samples that hang together tell less than as many independent ones. n is then the *effective* number (Korn and Graubard,
"Confidence intervals for proportions with small expected number of positive counts estimated from survey data", 1998):
the least of what they tell of the bound and of the percentile itself (`dependence`, docs/decisions/0027). Where the
later half of them is unlike the earlier one, an end holds for that half alone, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, inf, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from loadproof.bench.measure.dependence import FEWEST_BLOCKS, Seen, Z, dependence, seen, seen_by_ranks, student, sums
from loadproof.bench.measure.statistics import CONFIDENCE, Samples, Whole, tidy
from loadproof.sizing import TAIL

_NORMAL = NormalDist()
_EXACT_UP_TO = 20_000  # beyond, the normal approximation is off by less than one rank in 10,000
_MOST_REQUESTS = 1_000_000  # past this, "more requests" is no advice
ALIKE = 0.05
FAR = 3.0  # times the largest sample's distance from the median
LOOKS = 8.0
FEWEST_BEYOND = 20
RESAMPLES_MOST = 1000
RESAMPLES_FEWEST = 100
RESAMPLE_BUDGET = 20_000_000  # requests drawn in all: keeps a verdict over a long run to a second
RESAMPLED_AT_ONCE = 50_000  # of them: a few hundred kilobytes, which stay in the processor's cache
SETTLED_IN = 0.85  # of the cases, by the prediction; of those simulated at least four in five


@dataclass(frozen=True, slots=True)
class QuantileInterval:
    """An end that the samples cannot give is None.

    `effective`: as many independent samples would tell as much. `drifts`: the later half is unlike the earlier one, and
    the ends hold for it alone as well.
    """

    low: float | None
    high: float | None
    effective: int
    drifts: bool = False


def quantile_interval(
    values: Samples | Whole,
    ends: NDArray[np.int64],
    rank_percent: float,
    bound: float | None = None,
    low_tail: float = TAIL,
) -> QuantileInterval | None:
    """The 95% interval of a percentile over samples that request after request has; None without any.

    `ends[k]`: where those of the k-th request end, in the order sent. `bound`: what the percentile is to stay within,
    where the interval is to decide that. `low_tail`: how likely the percentile may lie below the interval. Leaves
    `values` in another order: a long run's gaps are hundreds of MB, so there is no second array of them.
    """
    if values.size == 0:
        return None
    share = rank_percent / 100
    told = _told(values, ends, share, bound)
    later: tuple[float | None, float | None] | None = None
    if told.drift:
        half = ends.size // 2
        rest, ends_of_rest = values[ends[half - 1] :], ends[half:] - ends[half - 1]
        later = _ends(rest, _told(rest, ends_of_rest, share, bound), share, low_tail)
    low, high = _ends(values, told, share, low_tail)
    if later is not None:
        low = None if low is None or later[0] is None else min(low, later[0])
        high = None if high is None or later[1] is None else max(high, later[1])
    return QuantileInterval(low, high, _whole(told.independent), told.drift)


def _ends(values: Samples | Whole, told: Seen, share: float, low_tail: float) -> tuple[float | None, float | None]:
    """The samples at the ranks of as many independent ones; sorts them."""
    effective = _whole(told.independent)
    first, last = ranks(effective, share, low_tail)
    values.sort()
    scale = values.size / effective
    low = tidy(values[floor((first - 1) * scale)]) if first else None
    high = tidy(values[min(values.size, ceil(last * scale)) - 1]) if last is not None else None
    return low, high


def _whole(independent: float) -> int:
    return max(1, floor(independent))


def fail_tail(objectives: int) -> float:
    """How unlikely the good end of an interval is to miss wrongly: of several together at most 5% (Bonferroni)."""
    return min(TAIL, (1 - CONFIDENCE) / max(1, objectives))


def unseen_spells(requests: int) -> int:
    """Spells that come once in more requests than this stay unseen in one run of twenty: e^-3 (the rule of three)."""
    return max(1, requests // 3)


@lru_cache(maxsize=4096)
def ranks(samples: int, share: float, low_tail: float = TAIL) -> tuple[int, int | None]:
    """(r, s), from 1: the r-th and s-th smallest of independent samples enclose the quantile. 0 and None: no such end.

    r = max{r : P(X < r) ≤ low tail}, s = min{s : P(X ≥ s) ≤ 2.5%} with X ~ Binomial(samples, share).
    """
    first = binomial_quantile(samples, share, low_tail)
    last = binomial_quantile(samples, share, 1 - TAIL) + 1
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
    """How many independent samples tell as much about the quantile; at least 1. Each request has one sample or more."""
    return _whole(_told(values, ends, share, bound).independent)


def _told(values: Samples | Whole, ends: NDArray[np.int64], share: float, bound: float | None) -> Seen:
    """What the samples tell of the quantile and of the `bound`, the less of the two.

    A bound that lies far off (`_far_off`) is of another distribution altogether, and every request counts. Without a
    bound, samples within `ALIKE` of the median are alike: a steady server's answers drift by microseconds.
    """
    median = float(np.median(values))
    if bound is None:
        return _own(values, ends, share, (1 + ALIKE) * median)
    means = values if values.size == ends.size else sums(values, ends) / np.diff(ends, prepend=0)
    told = seen_by_ranks(means)
    if _far_off(bound, median, values, told.independent):
        return Seen(max(ends.size, _own(values, ends, share).independent))
    own, at_bound = _own(values, ends, share, lag=told.lag), seen(values, ends, bound, told.lag)
    return Seen(min(own.independent, at_bound.independent), told.drift or own.drift or at_bound.drift)


def _far_off(bound: float, median: float, values: Samples | Whole, looks: float) -> bool:
    """Does it lie `FAR` times as far from the median as the outermost sample on its side?

    Of few independent looks that sample says less of how far others reach: its distance grows by 1 + `LOOKS` / looks.
    Above it counts the difference, below, where nothing is quicker than no time at all, the ratio.
    """
    if bound >= median:
        reach, distance = float(values.max()) - median, bound - median
    else:
        fastest = float(values.min())
        if min(bound, fastest) <= 0:
            return False
        reach, distance = log(median / fastest), log(median / bound)
    return distance > reach and distance >= FAR * (1 + LOOKS / looks) * reach


def _own(values: Samples | Whole, ends: NDArray[np.int64], share: float, at_least: float = -inf, lag: int = 0) -> Seen:
    """Of the quantile itself; where fewer than `FEWEST_BEYOND` lie beyond it, of those so many largest, or of half."""
    rank = min(ceil(share * values.size), max(values.size - FEWEST_BEYOND, ceil(values.size / 2))) - 1
    return seen(values, ends, max(at_least, float(np.partition(values, rank)[rank])), lag)


def ratio_interval(
    amounts: Samples, durations: Samples, scale: float, seed: int, high_tail: float = TAIL
) -> tuple[float, float] | None:
    """The 95% interval of `scale · Σ amounts / Σ durations` over requests in the order sent; None of fewer than two.

    Blocks of neighbours are drawn, round the end (the circular block bootstrap of Politis and Romano, 1992), as long as
    what each request does to the ratio hangs together. Efron's percentile method, seeded, and wider where blocks are
    few. `high_tail`: how likely the ratio may lie above the interval.
    """
    if amounts.size < 2 or durations.sum() <= 0:
        return None
    ratio = amounts.sum() / durations.sum()
    found = dependence(amounts - ratio * durations)
    length = min(found.length, max(1, amounts.size // FEWEST_BLOCKS)) if found.effect > 1 else 1
    blocks = ceil(amounts.size / length)
    random = np.random.default_rng(seed)
    draws = max(RESAMPLES_FEWEST, min(RESAMPLES_MOST, RESAMPLE_BUDGET // amounts.size))
    parts = list[Samples]()
    at_once = max(1, RESAMPLED_AT_ONCE // amounts.size)
    for done in range(0, draws, at_once):
        starts = random.integers(0, amounts.size, (min(at_once, draws - done), blocks))
        drawn = ((starts[:, :, None] + np.arange(length)) % amounts.size).reshape(len(starts), -1)[:, : amounts.size]
        parts.append(amounts[drawn].sum(axis=1) / durations[drawn].sum(axis=1))
    ratios = np.concatenate(parts)
    wider = student(blocks - 1) / Z
    low, high = ratio + wider * (np.percentile(ratios, (100 * TAIL, 100 - 100 * high_tail)) - ratio)
    return tidy(scale * min(low, ratio)), tidy(scale * max(high, ratio))


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
    sigma, needed = width / (2 * Z), requests
    while sigma > 0 and needed <= _MOST_REQUESTS:
        needed += max(1, needed // 50)
        reach, wander = Z * sigma * sqrt(requests / needed), sigma * sqrt(1 - requests / needed)
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
