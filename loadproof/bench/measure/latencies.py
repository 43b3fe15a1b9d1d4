"""A request's own latencies, and those of many pooled. What each is: `metrics`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadproof.bench.measure.client_share import NS_PER_MS, added, longest_gaps_ns, shortest_gaps_ns
from loadproof.bench.measure.records import RequestRecord, TokenTimes
from loadproof.bench.measure.statistics import Samples, Spread, Whole, percentile, spread

NS_PER_S = 1_000_000_000


End = Literal["counted", "shortest", "longest"]  # of a figure: as it was counted, and between what it may have been


def ttft_ms(record: RequestRecord) -> float | None:
    return record.ttft_ms


def e2e_ms(record: RequestRecord) -> float | None:
    return (record.end_ns - record.intended_ns) / NS_PER_MS if record.ok else None


def tpot_ms(record: RequestRecord) -> float | None:
    """(E2E − TTFT) / (output tokens − 1); None below two tokens, where there is no gap to speak of."""
    first, last, tokens = ttft_ms(record), e2e_ms(record), record.output_tokens
    if first is None or last is None or tokens is None or tokens < 2:
        return None
    return (last - first) / (tokens - 1)


def itl_gaps_ns(record: RequestRecord) -> Whole:
    """Gaps between the distinct instants at which tokens came; empty below two instants."""
    steps_ns = _steps_ns(record)
    return steps_ns if steps_ns.all() else steps_ns[steps_ns > 0]  # 0: tokens that came together


def _steps_ns(record: RequestRecord) -> Whole:
    """From each token's instant to the next one's."""
    if not record.ok:
        return np.empty(0, np.uint32)
    times = record.token_times_ns
    if isinstance(times, TokenTimes):
        return np.frombuffer(times.steps_ns, dtype=np.uint32)
    instants_ns = np.sort(np.asarray(times, dtype=np.int64))
    return instants_ns[1:] - instants_ns[:-1]


def lag_ms(record: RequestRecord) -> float:
    return (record.dispatched_ns - record.intended_ns) / NS_PER_MS


PER_REQUEST = {"ttft": ttft_ms, "tpot": tpot_ms, "e2e": e2e_ms}


@dataclass(frozen=True, slots=True)
class Pool:
    """A metric's samples, request after request; `ends[k]` is where those of the k-th request that has any end.

    1 ms is `per_ms`: gaps between tokens stay whole nanoseconds, in half the memory, for a long run has many.
    """

    values: Samples | Whole
    ends: NDArray[np.int64]
    per_ms: float = 1.0

    def spread_ms(self) -> Spread:
        """Leaves the values out of their order, to need no second array of them."""
        return spread(self.values, self.per_ms, in_place=True)

    def percentile_ms(self, rank_percent: float) -> float | None:
        return percentile(self.values, rank_percent, self.per_ms)


def pooled(metric: str, records: Sequence[RequestRecord], end: End = "counted", bound_ms: float = float("inf")) -> Pool:
    """All samples of ttft, itl, tpot or e2e (ITL has many a request, the others one).

    `end`: as counted, or the shortest or longest that they may have been without what the client added. The longest
    gaps between tokens are those of which most exceed `bound_ms`.
    """
    if metric == "itl":
        return _pooled_gaps(records, end, bound_ms * NS_PER_MS)
    found = ((record, PER_REQUEST[metric](record)) for record in records)
    values = np.asarray([_at_end(metric, *one, end) for one in found if one[1] is not None], dtype=np.float64)
    return Pool(values, np.arange(1, values.size + 1))


def _at_end(metric: str, record: RequestRecord, counted_ms: float | None, end: End) -> float:
    assert counted_ms is not None
    if end == "counted":
        return counted_ms
    share = added(metric, record)
    return max(0.0, counted_ms - share.too_long_ms) if end == "shortest" else counted_ms + share.too_short_ms


def _pooled_gaps(records: Sequence[RequestRecord], end_of_figure: End, bound_ns: float) -> Pool:
    compact = all(isinstance(record.token_times_ns, TokenTimes) or not record.token_times_ns for record in records)
    most = sum(len(record.token_times_ns) for record in records)
    values: Whole = np.empty(most, np.uint32) if compact else np.empty(most, np.int64)
    ends, end = array("q"), 0
    for record in records:
        if end_of_figure == "counted" or not record.stalls_ns:
            gaps = itl_gaps_ns(record)
        elif end_of_figure == "shortest":
            gaps = shortest_gaps_ns(_steps_ns(record), record)
        else:
            gaps = longest_gaps_ns(_steps_ns(record), record, bound_ns)
        if gaps.size:
            values[end : end + gaps.size] = gaps
            end += gaps.size
            ends.append(end)
    return Pool(values[:end], np.asarray(ends, dtype=np.int64), NS_PER_MS)


def same_at_both_ends(metric: str, records: Sequence[RequestRecord]) -> bool:
    """Gaps between tokens are as counted where the client never stood still; other figures have a send in them."""
    return metric == "itl" and not any(record.stalls_ns for record in records)
