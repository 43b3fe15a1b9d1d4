"""Distributions that merge: what several machines measured as one, without their requests.

Counts in logarithmic buckets (DDSketch: Masson, Rim and Lee, VLDB 2019): bucket i holds the values in (g^(i−1), g^i]
with g = 1.005, so a percentile is within √g − 1 < 0.25% of the sample's own at nearest rank, whatever its range. An HDR
histogram of that precision needs its range beforehand and three times the buckets; merging either is addition.

Figures of one machine do not come from here: they are exact (`statistics`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from loadproof.bench.measure.statistics import Samples, Whole

GROWTH = 1.005
RELATIVE_ERROR = GROWTH**0.5 - 1
_AT_ONCE = 2**18  # samples: a long run's gaps fit the memory, several arrays of them may not


@dataclass(frozen=True, slots=True)
class HistogramRow:
    """Latencies as buckets that add up over runs, as files have them."""

    growth: float
    """each bucket's end over its beginning"""
    count: int
    """samples"""
    zeros: int
    """samples of 0"""
    smallest: float | None
    """in milliseconds"""
    largest: float | None
    """in milliseconds"""
    buckets: str
    """`bucket:count`, separated by spaces"""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by bucket; `zeros` of values at or below 0. Smallest and largest are exact, None without values."""

    buckets: Mapping[int, int] = field(default_factory=dict)
    zeros: int = 0
    smallest: float | None = None
    largest: float | None = None

    @property
    def count(self) -> int:
        return self.zeros + sum(self.buckets.values())

    def percentile(self, rank_percent: float) -> float | None:
        """The value at nearest rank ⌈percent/100 · count⌉, to within RELATIVE_ERROR; None without values."""
        if self.smallest is None or self.largest is None:
            return None
        rank = max(1, ceil(rank_percent / 100 * self.count - 1e-9))
        seen = self.zeros
        if rank <= seen:
            return 0.0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return min(self.largest, max(self.smallest, float(GROWTH ** (bucket - 0.5))))
        return self.largest

    def to_row(self) -> HistogramRow:
        """On a few lines: the buckets as `812:3 813:5`."""
        said = " ".join(f"{bucket}:{count}" for bucket, count in sorted(self.buckets.items()))
        return HistogramRow(GROWTH, self.count, self.zeros, self.smallest, self.largest, said)

    @classmethod
    def from_row(cls, row: HistogramRow) -> Histogram:
        """The inverse of `to_row`. Raises ValueError for buckets of another growth, or that are none."""
        if row.growth != GROWTH:
            raise ValueError(f"buckets that grow by {row.growth!r}, not by {GROWTH}")
        pairs = (part.split(":") for part in row.buckets.split())
        return cls({int(bucket): int(count) for bucket, count in pairs}, row.zeros, row.smallest, row.largest)


def histogram_of(samples: Samples | Whole, per_unit: float = 1.0) -> Histogram:
    """Of samples in units of which 1 is the `per_unit`-th part."""
    if samples.size == 0:
        return Histogram()
    buckets: Counter[int] = Counter()
    for start in range(0, samples.size, _AT_ONCE):
        part = samples[start : start + _AT_ONCE] / per_unit
        logarithms = np.log(part[part > 0]) / np.log(GROWTH)
        found, counts = np.unique(np.ceil(logarithms).astype(np.int64), return_counts=True)
        buckets.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
    zeros = int((samples <= 0).sum())
    smallest, largest = (round(float(end) / per_unit, 9) for end in (samples.min(), samples.max()))
    return Histogram(buckets, zeros, smallest, largest)


def merged(parts: Iterable[Histogram]) -> Histogram:
    """All values of all parts, in any order and grouping."""
    buckets: dict[int, int] = {}
    zeros, ends = 0, []
    for part in parts:
        zeros += part.zeros
        ends += [end for end in (part.smallest, part.largest) if end is not None]
        for bucket, count in part.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
    return Histogram(buckets, zeros, min(ends, default=None), max(ends, default=None))
