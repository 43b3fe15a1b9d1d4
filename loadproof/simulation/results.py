"""What a simulation yields, one request at a time, and its summary in constant memory. All of it is *predicted*."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, exp, log
from typing import NamedTuple

from loadproof.simulation.scheduling import Rejection


class SimulatedRequest(NamedTuple):
    """One request's virtual times, in ms from the start: *predicted*, never measured.

    A named tuple, because making a frozen dataclass would be a tenth of a request's whole cost.
    """

    sent_ms: float
    first_token_ms: float
    end_ms: float
    output_tokens: int
    input_tokens: int
    copy: int
    part: int = 0  # the class of its session, by its place

    @property
    def ttft_ms(self) -> float:
        return self.first_token_ms - self.sent_ms

    @property
    def e2e_ms(self) -> float:
        return self.end_ms - self.sent_ms

    @property
    def tpot_ms(self) -> float | None:
        """(E2E - TTFT) / (output tokens - 1); None for a single token."""
        return (self.end_ms - self.first_token_ms) / (self.output_tokens - 1) if self.output_tokens > 1 else None


class RefusedRequest(NamedTuple):
    """A request the server did not take, and why; `copy` is -1 where there was none (`no_capacity`)."""

    sent_ms: float
    reason: Rejection
    input_tokens: int
    output_tokens: int
    copy: int


class TimedOutRequest(NamedTuple):
    """A request whose client gave up at `gave_up_ms`; what it got until then is thrown away."""

    sent_ms: float
    gave_up_ms: float
    input_tokens: int
    output_tokens: int
    copy: int


Result = SimulatedRequest | RefusedRequest | TimedOutRequest


# Bucket bounds grow by this factor: a percentile is at most half of it off.
_GROWTH = 1.005
_LOG_GROWTH = log(_GROWTH)


class Latencies:
    """A sample's mean, extremes and percentiles in memory that does not grow with it.

    Counts in logarithmic buckets, 0.5% wide: a percentile is within 0.25% of the sample's own (nearest rank); count,
    mean and extremes are exact. Values are ms, 0 or more.
    """

    __slots__ = ("_buckets", "_zeros", "count", "max_ms", "min_ms", "total_ms")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._zeros = 0
        self.count = 0
        self.total_ms = 0.0
        self.min_ms: float | None = None
        self.max_ms: float | None = None

    def add(self, value_ms: float) -> None:
        self.count += 1
        self.total_ms += value_ms
        if self.min_ms is None or self.max_ms is None:
            self.min_ms = self.max_ms = value_ms
        elif value_ms > self.max_ms:
            self.max_ms = value_ms
        elif value_ms < self.min_ms:
            self.min_ms = value_ms
        if value_ms <= 0:
            self._zeros += 1
            return
        bucket = ceil(log(value_ms) / _LOG_GROWTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def absorb(self, other: Latencies) -> None:
        """Add all of another sample's values."""
        if other.min_ms is None or other.max_ms is None:
            return
        self.count += other.count
        self.total_ms += other.total_ms
        self.min_ms = other.min_ms if self.min_ms is None else min(self.min_ms, other.min_ms)
        self.max_ms = other.max_ms if self.max_ms is None else max(self.max_ms, other.max_ms)
        self._zeros += other._zeros
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    @property
    def mean_ms(self) -> float | None:
        return self.total_ms / self.count if self.count else None

    def percentile_ms(self, percent: float) -> float | None:
        """The value at nearest rank ceil(percent/100 · count), to within half a bucket; None without values."""
        if self.min_ms is None or self.max_ms is None:
            return None
        rank = max(1, ceil(percent / 100 * self.count - 1e-9))
        if rank <= self._zeros:
            return 0.0
        seen = self._zeros
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(self.max_ms, max(self.min_ms, exp((bucket - 0.5) * _LOG_GROWTH)))
        return self.max_ms


@dataclass(slots=True)
class SimulationSummary:
    """Totals of a simulation; every request sent is in exactly one of `requests` (served), `refused`, `timed_out`.

    Latencies and tokens are of the served. Rates are over the time from 0 to the last end; None where nothing was
    served. `good` of them met every bound given to `summarise`.
    """

    ttft: Latencies
    tpot: Latencies
    e2e: Latencies
    requests: int = 0
    refused: int = 0
    timed_out: int = 0
    good: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    end_ms: float = 0.0

    @property
    def output_tokens_per_s(self) -> float | None:
        return self.output_tokens / self.end_ms * 1000 if self.requests else None

    @property
    def requests_per_s(self) -> float | None:
        return self.requests / self.end_ms * 1000 if self.requests else None

    @property
    def goodput_per_s(self) -> float | None:
        return self.good / self.end_ms * 1000 if self.requests else None


def summarise(
    results: Iterable[Result], meets: Callable[[SimulatedRequest], bool] = lambda _: True
) -> SimulationSummary:
    """Read a simulation to its end, keeping none of its requests; `meets` says which served ones count as good."""
    summary = SimulationSummary(Latencies(), Latencies(), Latencies())
    for result in results:
        if isinstance(result, RefusedRequest):
            summary.refused += 1
            continue
        if isinstance(result, TimedOutRequest):
            summary.timed_out += 1
            summary.end_ms = max(summary.end_ms, result.gave_up_ms)
            continue
        summary.good += meets(result)
        summary.requests += 1
        summary.input_tokens += result.input_tokens
        summary.output_tokens += result.output_tokens
        summary.end_ms = max(summary.end_ms, result.end_ms)
        summary.ttft.add(result.ttft_ms)
        summary.e2e.add(result.e2e_ms)
        if (tpot_ms := result.tpot_ms) is not None:
            summary.tpot.add(tpot_ms)
    return summary
