"""From a plan to the stretches of load a runner drives; and a share of one, where several processes drive it together.

    batch = measured_batch(plan, level, records_of_earlier_sessions)
    await runner.run(share_of(batch, number, of), start_ns)   # in process `number` of `of`; start_ns: the same instant

All of it follows from the plan alone, so every process arrives at the same schedule and takes its own part.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress, count, cycle

from loadproof.bench.batch import Batch
from loadproof.bench.measure.records import Phase, RequestRecord
from loadproof.bench.plan import RunPlan
from loadproof.bench.spec import LEVELS_APART, REQUESTS_APART
from loadproof.bench.workload.arrivals import Schedule, closed_loop, schedule_of
from loadproof.bench.workload.drawn_sessions import DrawnSessions
from loadproof.errors import InputError


def measured_batch(plan: RunPlan, level: int, records: Sequence[RequestRecord]) -> Batch | None:
    """What is left of a level after earlier sessions; None when nothing is.

    Raises InputError when the schedule is no longer the planned one: a trace file that changed.
    """
    planned, workload = plan.levels[level], plan.spec.workload
    load = planned.load
    if load.in_one_piece and planned.ended_utc is not None:
        return None
    schedule = schedule_of(load, workload.seed, level, workload.mixture.requests)
    if load.is_open and schedule.sha256 != planned.schedule_sha256:
        raise InputError(
            f"{load.words}: the schedule is not the planned one; has {load.trace} changed, or did another Loadproof "
            "begin this run?"
        )
    sessions = DrawnSessions(workload)
    conversations: Iterable[int] = count()
    if planned.requests is not None:
        conversations = range(len(schedule.due_ns) or sessions.enough_for(level, planned.requests))
        if not load.in_one_piece:
            conversations = _not_held(conversations, workload.stride, sessions, level, records)
        if not conversations:
            return None
    return Batch(
        phase="measured",
        level=level,
        concurrency=load.concurrency or 0,
        schedule=schedule,
        conversations=(_indices(workload.stride, sessions, level, one) for one in conversations),
        first_number=first_number(plan.session, level, "measured"),
        duration_s=None if load.is_open else load.duration_s,
        drain_s=plan.spec.drain_s,
    )


def warm_up_batch(plan: RunPlan, level: int) -> Batch:
    """What goes out before a level and counts in nothing: as many at once as in it, before an open loop all at once."""
    requests, load = plan.spec.warmup_requests, plan.levels[level].load
    return Batch(
        phase="warmup",
        level=level,
        concurrency=load.concurrency or 0,
        schedule=closed_loop(requests, load.concurrency or max(1, requests)),
        conversations=((one,) for one in range(requests)),
        first_number=first_number(plan.session, level, "warmup"),
    )


def share_of(batch: Batch, number: int, of: int) -> Batch:
    """The part of process `number` (from 0) of `of`: every `of`-th slot or due time, and the conversations dealt to it.

    A share of a share is a share: number w of W of the part h of H is the part h + H · w of H · W.
    """
    whole = batch.schedule
    schedule = Schedule(
        array("q", whole.due_ns[number::of]),
        whole.slot_open_ns[number::of],
        whole.tokens[number::of],
        whole.blocks[number::of],
    )
    if not (schedule.due_ns or schedule.slot_open_ns):  # more processes than slots
        return replace(batch, schedule=schedule, conversations=iter(()))
    ours = (place == number for place in places_of(batch, of))
    return replace(batch, schedule=schedule, conversations=compress(batch.conversations, ours))


def places_of(batch: Batch, of: int) -> Iterator[int]:
    """To which of `of` shares each conversation is dealt, in order: as many to each as it has slots or due times."""
    slots = len(batch.schedule.slot_open_ns)
    return cycle([slot % of for slot in range(slots)] or range(of))


def first_number(session: int, level: int, phase: Phase) -> int:
    """Numbers every request of every session apart, so that no prompt is sent twice: a block for each phase."""
    return ((session * LEVELS_APART + level) * 2 + (phase == "warmup")) * REQUESTS_APART


def _not_held(
    conversations: range, stride: int, sessions: DrawnSessions, level: int, records: Sequence[RequestRecord]
) -> list[int]:
    ours = (record for record in records if record.phase == "measured" and record.level == level)
    done = {record.index for record in ours if record.finished}
    return [one for one in conversations if not done.issuperset(_indices(stride, sessions, level, one))]


def _indices(stride: int, sessions: DrawnSessions, level: int, session: int) -> tuple[int, ...]:
    first = session * stride
    return tuple(range(first, first + sessions.steps(level, session)))
