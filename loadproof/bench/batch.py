"""One stretch of load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loadproof.bench.measure.records import Phase
from loadproof.bench.workload.arrivals import Schedule


@dataclass(frozen=True, slots=True)
class Batch:
    """One stretch of load: a schedule and what is sent by it.

    `conversations` yields the indices of each conversation's turns (most have one); of an open loop the k-th starts at
    `schedule.due_ns[k]`. Prompts are numbered from `first_number`. A closed loop takes no new conversation after
    `duration_s`. `drain_s` bounds how long the last requests are waited for.
    """

    phase: Phase
    level: int
    concurrency: int  # 0 in an open loop
    schedule: Schedule
    conversations: Iterator[tuple[int, ...]]
    first_number: int
    duration_s: float | None = None
    drain_s: float | None = None
