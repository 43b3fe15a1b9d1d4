"""When requests are due. A schedule is made before the load starts, absolute and seeded; the runner only follows it.

Closed loop: request k is due when a slot becomes free, and only the slots' own opening times are planned. Open loop (a
rate, whatever the endpoint does) will plan `due_ns` for every request; the runner already sends at a due time.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOT_SPACING_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """`requests` to send through `slot_open_ns` slots (offsets from the level's start, in ns, ascending)."""

    requests: int
    slot_open_ns: tuple[int, ...]


def closed_loop(requests: int, concurrency: int) -> Schedule:
    """`concurrency` slots, opened one a millisecond.

    Opening all at once would make the last request late by the time it takes to send all others: a lag of the
    generator's own making. A slot that no request is left for is not opened.
    """
    return Schedule(requests, tuple(slot * SLOT_SPACING_NS for slot in range(min(concurrency, requests))))
