"""Metric data and their statistics. Times are the cloud's (`localcloud.clock`); each series is kept in their order."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from loadproof.localcloud.controlplane.cloudwatch.statistics import statistic_of

Dimensions = tuple[tuple[str, str], ...]
KEPT_S = 3 * 3600.0  # CloudWatch keeps data of less than a minute for 3 hours
_PRUNE_EVERY = 1000
_KNOWN_POINTS = 1000


@dataclass(frozen=True, slots=True)
class MetricKey:
    """One metric of one account and region; `dimensions` are sorted."""

    account: str
    region: str
    namespace: str
    name: str
    dimensions: Dimensions


@dataclass(slots=True)
class Series:
    """The data of one metric, oldest first: a value that came `counts[i]` times at `times_s[i]`."""

    times_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)
    # (statistic, from, until) -> how many data it was computed of, and the value. Data only ever come on top.
    known: dict[tuple[str, float, float], tuple[int, float | None]] = field(default_factory=dict)

    def point(self, from_s: float, until_s: float, statistic: str) -> float | None:
        """The statistic of the data in [from, until); None without one. Periods that are over are computed once."""
        low, high = bisect_left(self.times_s, from_s), bisect_left(self.times_s, until_s)
        if low == high:
            return None
        size, value = self.known.get((statistic, from_s, until_s), (0, 0.0))
        if size != high - low:
            value = statistic_of(self.values[low:high], self.counts[low:high], statistic)
            if len(self.known) >= _KNOWN_POINTS:
                self.known.clear()
            self.known[statistic, from_s, until_s] = high - low, value
        return value

    def any_within(self, from_s: float, until_s: float) -> bool:
        return bisect_left(self.times_s, from_s) < bisect_left(self.times_s, until_s)

    def add(self, at_s: float, value: float, count: float) -> None:
        index = len(self.times_s)
        if index and at_s < self.times_s[-1]:
            index = bisect_right(self.times_s, at_s)
        self.times_s.insert(index, at_s)
        self.values.insert(index, value)
        self.counts.insert(index, count)

    def prune(self, before_s: float) -> None:
        keep = bisect_left(self.times_s, before_s)
        del self.times_s[:keep], self.values[:keep], self.counts[:keep]


class MetricStore:
    """All accounts and regions of one local cloud. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[MetricKey, dict[str, Series]] = {}  # one series for each unit: they are never mixed

    def put(self, key: MetricKey, at_s: float, value: float, count: float = 1.0, unit: str = "None") -> None:
        with self._lock:
            series = self._series.setdefault(key, {}).setdefault(unit, Series())
            series.add(at_s, value, count)
            if len(series.times_s) % _PRUNE_EVERY == 0:
                series.prune(at_s - KEPT_S)

    def keys(self, account: str, region: str) -> list[tuple[MetricKey, float]]:
        """The metrics of a region, each with the time of its last datum."""
        with self._lock:
            return [
                (key, max(series.times_s[-1] for series in by_unit.values()))
                for key, by_unit in self._series.items()
                if (key.account, key.region) == (account, region)
            ]

    def units(self, key: MetricKey, from_s: float, until_s: float) -> list[str]:
        """The units of the data in [from, until), in the order of the alphabet."""
        with self._lock:
            return self._units(key, from_s, until_s)

    def _units(self, key: MetricKey, from_s: float, until_s: float) -> list[str]:
        by_unit = self._series.get(key, {})
        return sorted(unit for unit, series in by_unit.items() if series.any_within(from_s, until_s))

    def points(
        self, key: MetricKey, edges_s: Sequence[float], statistic: str, unit: str | None = None
    ) -> list[float | None]:
        """The statistic of each period between two edges, None where there are no data (of that unit).

        Where several units came and none is asked for, AWS answers with the first of the alphabet; so does this.
        """
        with self._lock:
            if unit is None:
                unit = next(iter(self._units(key, edges_s[0], edges_s[-1])), None)
            series = self._series.get(key, {}).get(unit or "")
            if series is None or series.times_s[-1] < edges_s[0]:
                return [None] * (len(edges_s) - 1)
            return [series.point(low_s, high_s, statistic) for low_s, high_s in pairwise(edges_s)]


def dimensions_of(rows: Iterable[Mapping[str, str]] | None) -> Dimensions:
    """CloudWatch's list of names and values as part of a key."""
    return tuple(sorted((row["Name"], row["Value"]) for row in rows or ()))
