"""What the client itself may have added to a figure, request by request, as far as its own record shows it.

A figure has two ends. *As counted*, latency begins at the intended send and holds all that the client added. The other
end, *without the client's share*, leaves out what it demonstrably did:

- **late sends**: dispatched − intended, and what lies between dispatch and write as far as a stall explains it (the
  rest is the opening of a connection, the network's time);
- **late reads**: nothing where the kernel stamps arrivals, else as long as its loop stood still;
- **merged reads**: tokens that came while the loop was away share the last one's stamp. A first token may have come
  earlier (`first_token_early_max_ns`), which makes TTFT too long and TPOT too short. A gap that ends in a read of m
  tokens stands for m gaps, of which all but the first began while the loop was away.

A client that is late in a closed loop offers less load, and less load is quicker: so the other end is a bound for what
surely misses, never for what passes. How much of the load asked for was there is `offered`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from loadproof.bench.measure.loop_probe import TICK_NS
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.statistics import Spread, Whole
from loadproof.invocation.sockets import PAUSE_S

NS_PER_MS = 1_000_000
_NOTICED_NS = 100 * NS_PER_MS
_PAUSE_NS = round(PAUSE_S * 1e9)


@dataclass(frozen=True, slots=True)
class ClientShare:
    """The distance between both ends of each latency, statistic by statistic, in ms."""

    ttft_ms: Spread = field(default_factory=Spread)
    """of the time to first token: a [distribution](#a-distribution)"""
    itl_ms: Spread = field(default_factory=Spread)
    """of gaps between tokens: a [distribution](#a-distribution)"""
    tpot_ms: Spread = field(default_factory=Spread)
    """of the time per output token: a [distribution](#a-distribution)"""
    e2e_ms: Spread = field(default_factory=Spread)
    """of whole requests: a [distribution](#a-distribution)"""


@dataclass(frozen=True, slots=True)
class Added:
    """By how much one request's figure may be too long, and too short, in ms."""

    too_long_ms: float
    too_short_ms: float = 0.0


def away_ns(record: RequestRecord) -> int:
    """For how long at most the client looked at no socket while its loop stood still: a stall shows in the first tick
    that fell due in it, and began within a pause between two looks."""
    return max(record.stalls_ns) + TICK_NS + _PAUSE_NS if record.stalls_ns else 0


def sent_late_ns(record: RequestRecord) -> int:
    """How late the client sent it: until it let go, and as much of the time to the write as a stall explains."""
    writing_ns = 0 if record.sent_ns is None else record.sent_ns - record.dispatched_ns
    return record.dispatched_ns - record.intended_ns + min(writing_ns, away_ns(record))


def read_late_ns(record: RequestRecord) -> int:
    """By how much its stamps may be late: nothing where the kernel made them."""
    return away_ns(record) if record.read_lag_max_ns is None else 0


def added(metric: str, record: RequestRecord) -> Added:
    """To ttft, tpot or e2e of a successful request that has it."""
    read_ns, early_ns = read_late_ns(record), record.first_token_early_max_ns or 0
    if metric == "tpot":
        gaps = NS_PER_MS * ((record.output_tokens or 0) - 1)
        return Added(read_ns / gaps, (read_ns + early_ns) / gaps)
    return Added((sent_late_ns(record) + read_ns + (early_ns if metric == "ttft" else 0)) / NS_PER_MS)


def shortest_gaps_ns(steps_ns: Whole, record: RequestRecord) -> Whole:
    """Gaps as short as they may have been. `steps_ns`: between token after token, 0 for one read with the one before.

    A gap g that ends in a read of m tokens while the loop was away for a: the first of them came at least g − a after
    the last read, and at least one of the m gaps was g/m or longer.
    """
    absent_ns, starts = away_ns(record), np.flatnonzero(steps_ns)
    gaps = steps_ns[starts].astype(np.int64)
    if read_late_ns(record):
        return np.maximum(gaps - absent_ns, 0)
    merged = np.diff(starts, append=steps_ns.size)
    if not absent_ns or gaps.size == 0 or merged.max() == 1:
        return gaps
    first = np.maximum(gaps - absent_ns, gaps // merged)
    found = np.repeat((gaps - first) // np.maximum(merged - 1, 1), merged)
    found[starts - starts[0]] = first
    return found


def longest_gaps_ns(steps_ns: Whole, record: RequestRecord, bound_ns: float) -> Whole:
    """Gaps with as many beyond the bound as there may have been: of m read together, no two share a stretch of time."""
    absent_ns, starts = away_ns(record), np.flatnonzero(steps_ns)
    gaps = steps_ns[starts].astype(np.int64)
    if read_late_ns(record):
        return np.minimum(gaps + absent_ns, np.maximum(gaps, np.iinfo(np.uint32).max))  # what is held in 4 bytes
    if absent_ns <= bound_ns or gaps.size == 0:
        return gaps
    merged = np.diff(starts, append=steps_ns.size)
    beyond = np.minimum(merged, np.minimum(gaps // bound_ns, 1 + absent_ns // bound_ns))
    return np.repeat(gaps, np.maximum(beyond, 1).astype(np.int64))


def offered(records: Sequence[RequestRecord], *, is_open: bool) -> float | None:
    """The share of the load asked for that was really there; None without a request.

    Of a closed loop: the share of its slots' time in which their requests had left. Of an open loop: the rate at which
    requests left, over the one at which they were due (in bunches after a stall, and late: but that is in the figures).
    """
    if is_open:
        return _offered_rate(records)
    asked_ns = sum(record.end_ns - record.intended_ns for record in records)
    late_ns = sum(map(sent_late_ns, records))
    return 1 - late_ns / asked_ns if asked_ns > 0 else None


def _offered_rate(records: Sequence[RequestRecord]) -> float | None:
    if not records:
        return None
    first_ns = min(record.intended_ns for record in records)
    asked_ns = max(record.intended_ns for record in records) - first_ns
    taken_ns = max(record.intended_ns + sent_late_ns(record) for record in records) - first_ns
    return asked_ns / taken_ns if asked_ns > 0 else 1.0


def faster_without(records: Sequence[RequestRecord], *, is_open: bool, duration_s: float | None) -> float:
    """By what factor a rate might have been higher without late sends, at most.

    A closed loop's by the time in which its slots stood empty; an open loop's, which is that of its arrivals, by the
    longest delay at its end.
    """
    late_ns = [*map(sent_late_ns, records)]
    if is_open:
        taken_ns, own_ns = (duration_s or 0.0) * 1e9, max(late_ns, default=0)
    else:
        taken_ns, own_ns = float(sum(record.end_ns - record.intended_ns for record in records)), sum(late_ns)
    return taken_ns / (taken_ns - own_ns) if taken_ns > own_ns else 1.0


def may_be_the_clients(record: RequestRecord) -> bool:
    """Could a time-out or a broken connection come of the client's own standing still? If it did for 100 ms or more,
    and for a tenth of the request."""
    own_ns = sent_late_ns(record) + away_ns(record)
    return own_ns >= max(_NOTICED_NS, (record.end_ns - record.intended_ns) // 10)


def widths(counted: Spread, other: Spread) -> Spread:
    """Statistic by statistic, how far apart."""
    pairs = ((getattr(counted, name), getattr(other, name)) for name in Spread.__dataclass_fields__)
    return Spread(*(None if one is None or two is None else round(abs(one - two), 9) for one, two in pairs))
