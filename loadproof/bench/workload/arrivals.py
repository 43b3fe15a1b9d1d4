"""When requests are due. A schedule is made before the load starts, absolute and seeded; the runner only follows it.

Closed loop: request k is due when a slot becomes free, and only the slots' own opening times are planned. Open loop:
every due time is planned, whatever the endpoint will do; what is late is late by the plan.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, repeat, takewhile
from math import ceil, inf
from pathlib import Path
from typing import Literal, cast

from loadproof.bench.workload.blocks import Blocks, blocks_of
from loadproof.bench.workload.traces import read_trace
from loadproof.errors import InputError
from loadproof.loads import MOST_REQUESTS, Load

SLOT_SPACING_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """`due_ns[k]`: when conversation k starts (offsets from the level's start, ascending). A closed loop has none.

    `slot_open_ns`: when each slot of a closed loop opens. `tokens[k]`: (input, output) tokens a trace recorded, else
    empty; `blocks[k]` those that its prompt begins with, where the trace tells any. `sha256` is over all that is due:
    the same schedule has the same hash on every machine.
    """

    due_ns: array[int]
    slot_open_ns: tuple[int, ...] = ()
    tokens: tuple[tuple[int, int], ...] = ()
    blocks: tuple[Blocks, ...] = ()

    @property
    def sha256(self) -> str:
        text = " ".join(map(str, self.due_ns)) + "|" + " ".join(f"{left},{right}" for left, right in self.tokens)
        found = hashlib.sha256(text.encode())
        for blocks in self.blocks:
            found.update(f"|{blocks.block_tokens}|".encode())
            found.update(array("Q", blocks.ids).tobytes())
        return found.hexdigest()

    def recorded(self) -> Iterator[tuple[tuple[int, int] | None, Blocks | None]]:
        """Of each conversation the tokens and blocks of its first prompt, None where no trace tells them."""
        return zip(self.tokens or repeat(None), self.blocks or repeat(None), strict=False)


def schedule_of(load: Load, seed: int, level: int, requests: float = 1.0) -> Schedule:
    """The schedule of one level, the same for the same load, seed and level. Raises InputError for a bad trace.

    What is due are sessions, of so many `requests` in the mean: they begin at the load's rate over that.
    """
    if load.process == "closed":
        assert load.concurrency is not None
        return closed_loop(load.requests, load.concurrency, load.ramp_s)
    if load.process == "trace":
        assert load.trace is not None
        return _recorded(load, Path(load.trace))
    return Schedule(array("q", _due_times_ns(_of_sessions(load, requests), _stream(seed, level))))


def _of_sessions(load: Load, requests: float) -> Load:
    if requests == 1:
        return load
    start, whole = load.from_requests_per_s, load.requests
    return replace(
        load,
        requests_per_s=None if load.requests_per_s is None else load.requests_per_s / requests,
        from_requests_per_s=None if start is None else start / requests,
        requests=None if whole is None else ceil(whole / requests),
    )


def closed_loop(requests: int | None, concurrency: int, ramp_s: float | None = None) -> Schedule:
    """`concurrency` slots, opened one a millisecond, or evenly over `ramp_s`.

    Opening all at once would make the last request late by the time it takes to send all others: a lag of the
    generator's own making. A slot that no request is left for is not opened.
    """
    slots = concurrency if requests is None else min(concurrency, requests)
    spacing_ns = SLOT_SPACING_NS if ramp_s is None else max(SLOT_SPACING_NS, round(ramp_s * 1e9 / concurrency))
    return Schedule(array("q"), tuple(slot * spacing_ns for slot in range(slots)))


def _due_times_ns(load: Load, seed: int) -> list[int]:
    """Times of a renewal process or of a ramp: the twin's own."""
    from loadproof.simulation import arrival_times_ms, ramped_times_ms  # noqa: PLC0415  a closed loop needs no simulator

    assert load.requests_per_s is not None
    process, burstiness = cast(Literal["constant", "poisson", "gamma"], load.process), load.burstiness
    start, end = load.from_requests_per_s, load.requests_per_s
    if start is None:
        times_ms = arrival_times_ms(process, end, burstiness=burstiness, seed=seed)
    else:
        assert load.duration_s is not None
        times_ms = ramped_times_ms(process, start, end, load.duration_s, burstiness=burstiness, seed=seed)
    limit_ns = inf if load.duration_s is None else load.duration_s * 1e9
    within_ns = takewhile(lambda time_ns: time_ns < limit_ns, (round(time_ms / 1e3 * 1e9) for time_ms in times_ms))
    due_ns = list(islice(within_ns, load.requests or MOST_REQUESTS))
    if len(due_ns) == MOST_REQUESTS and load.requests is None:
        raise InputError(f"{load.words}: more than {MOST_REQUESTS:,} requests; shorten duration_s or lower the rate")
    if not due_ns:
        raise InputError(f"{load.words}: no request falls into {load.duration_s:g} s; lengthen it or raise the rate")
    return due_ns


def _recorded(load: Load, path: Path) -> Schedule:
    until_s = load.duration_s if load.duration_s is not None else inf
    kept = read_trace(path, load.speed or 1.0, until_s)[: load.requests]
    tokens = tuple((row.input_tokens, row.output_tokens) for row in kept)
    return Schedule(array("q", (round(row.due_s * 1e9) for row in kept)), tokens=tokens, blocks=blocks_of(kept))


def _stream(seed: int, level: int) -> int:
    """A level's own stream of chance: two levels of one rate are two samples, not one sample twice."""
    return int.from_bytes(hashlib.sha256(f"arrivals {seed} {level}".encode()).digest()[:8], "big")
