"""The levels of a run, one after another: warm up, load, report progress."""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loadproof.bench.load.batches import measured_batch, warm_up_batch
from loadproof.bench.load.runner import Batch, Runner, Sender
from loadproof.bench.load.workers import Together
from loadproof.bench.measure.records import Phase, RequestRecord
from loadproof.bench.plan import PlannedLevel, RunPlan
from loadproof.bench.workload.prompts import Prompts
from loadproof.errors import CouldNotRunError
from loadproof.invocation.faults import InvocationFault
from loadproof.loads import Load

PROGRESS_INTERVAL_S = 0.25
TICK_S = 1.0  # a run whose requests hang is heard of this often
RECENT_REQUESTS = 500
MOST_WARM = 1024  # connections opened ahead of an open loop


class WarmSender(Sender, Protocol):
    """A sender whose connections can be opened ahead."""

    async def warm(self, count: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the run is. `level` counts from 0; figures are of this level's phase so far, None without data.

    `total` None: the level ends by time. `levels` None: they follow from what is measured. `ttft_p50_ms` is of the
    last `RECENT_REQUESTS`. `oldest_s`: for how long the oldest request in flight has been under way. `waiting`: how
    many of those in flight have no token yet, None where that is not known.
    """

    level: int
    levels: int | None
    concurrency: int
    phase: Phase
    done: int
    total: int | None
    errors: int
    requests_per_s: float | None
    ttft_p50_ms: float | None
    load: str | None = None
    elapsed_s: float = 0.0
    in_flight: int = 0
    waiting: int | None = None
    oldest_s: float | None = None
    ended: bool = False


OnProgress = Callable[[Progress], None]
OnPlan = Callable[[RunPlan], None]

_ASLEEP = " (asleep? This request wakes it, if its scaling says so: try again once it has a copy)"


@dataclass(slots=True)
class Sweep:
    """Runs what is left of a plan, level by level. `records` are those of earlier sessions.

    Every record goes to `keep` first, and every change of the plan to `save` before the load it is about. `on_progress`
    is called at most every `PROGRESS_INTERVAL_S` and at each phase's end, on the loop that drives the load: what it
    costs shows up as lag.
    """

    plan: RunPlan
    sender: WarmSender | Together  # a crew sends from several processes
    keep: Callable[[RequestRecord], None]
    save: OnPlan
    on_progress: OnProgress
    zero_ns: int
    records: Sequence[RequestRecord] = ()
    clock_ns: Callable[[], int] = time.perf_counter_ns
    runner: Runner | Together = field(init=False)
    _meter: _Meter | None = field(init=False, default=None)
    _taken: list[RequestRecord] = field(init=False, default_factory=list)  # of a search: what it decides by

    def __post_init__(self) -> None:
        if isinstance(self.sender, Together):
            self.sender.on_record, self.sender.session = self._on_record, self.plan.session
            self.runner = self.sender
            return
        self.runner = Runner(
            self.sender,
            Prompts(self.plan.spec.workload, chat=self.plan.spec.target.chat),
            self.plan.spec.target.streaming,
            self.plan.session,
            self.zero_ns,
            self._on_record,
            self.clock_ns,
        )

    async def run(self) -> None:
        """Raises CouldNotRunError when the endpoint cannot be reached, or refuses every warm-up request."""
        try:
            await self.sender.warm(1)
        except InvocationFault as fault:
            raise CouldNotRunError(f"the endpoint cannot be reached: {fault}") from fault
        level = 0
        while level < len(self.plan.levels) or self._plan_another():
            await self._level(level)
            level += 1

    def _plan_another(self) -> bool:
        """Add the level a search wants next; False when it is over, and for a run whose levels were all known."""
        if self.plan.spec.search is None or self.runner.stopped:
            return False
        level = _wanted(self.plan, [*self.records, *self._taken])
        if level is None:
            return False
        self.plan = self.plan.with_level(level)
        self.save(self.plan)
        return True

    async def _level(self, level: int) -> None:
        if self.runner.stopped:
            return
        batch = measured_batch(self.plan, level, self.records)
        if batch is None:
            if self.plan.levels[level].ended_utc is None:  # killed after its last record
                self._end(level)
            return
        load = self.plan.levels[level].load
        warm_up_s = await self._warm_up(level)
        if load.is_open:
            await self._open_connections(_expected_in_flight(load, warm_up_s))
        # What lives now lives until the end: the collector need not walk it between two tokens.
        gc.collect()
        gc.freeze()
        await self._phase(batch, self._total(level))
        if not self.runner.stopped and not self.runner.incomplete:
            self._end(level)

    def _end(self, level: int) -> None:
        self.plan = self.plan.with_end(level, time.time_ns())
        self.save(self.plan)

    async def _warm_up(self, level: int) -> float | None:
        """Send the warm-up; seconds it took."""
        requests = self.plan.spec.warmup_requests
        await self._open_connections(self.plan.levels[level].load.concurrency or requests)
        start_ns = self.clock_ns()
        await self._phase(warm_up_batch(self.plan, level), requests)
        return (self.clock_ns() - start_ns) / 1e9 if requests else None

    def _total(self, level: int) -> int | None:
        """How many requests are still to be sent, where that is known ahead."""
        planned = self.plan.levels[level]
        if planned.requests is None or planned.load.in_one_piece:
            return planned.requests
        ours = (record for record in self.records if record.phase == "measured" and record.level == level)
        return planned.requests - len({record.index for record in ours if record.finished})

    async def _open_connections(self, in_flight: int) -> None:
        """Open those that a higher level needs beyond the last one's, so that no handshake is in a first token."""
        try:
            await self.sender.warm(in_flight)
        except InvocationFault:
            return  # the requests themselves will meet it and say so in their records

    async def _phase(self, batch: Batch, total: int | None) -> None:
        if total == 0 or self.runner.stopped:
            return
        if isinstance(self.runner, Runner):
            batch = self.runner.prepared(batch)
        meter = self._meter = _Meter(self, batch, total, self.clock_ns())
        meter.arm()
        try:
            await self.runner.run(batch)
        finally:
            meter.end()
        if batch.phase == "warmup" and not self.runner.stopped:
            reason = why_never_ran(meter.kept)
            if reason:
                mend = _ASLEEP if reason.startswith("no_capacity") else ""
                raise CouldNotRunError(f"no warm-up request got through: {reason}{mend}")

    def waiting(self) -> int | None:
        """How many requests in flight have no token yet; None where the sender cannot tell."""
        ask = getattr(self.sender, "waiting_for_first_token", None)
        return ask() if ask else None

    def _on_record(self, record: RequestRecord) -> None:
        self.keep(record)
        if self.plan.spec.search is not None:
            self._taken.append(record)
        if self._meter is not None:
            self._meter.add(record)


def _expected_in_flight(load: Load, each_s: float | None) -> int:
    """Little's law on the warm-up's requests, doubled: a connection too many costs nothing, one too few a handshake."""
    return min(MOST_WARM, math.ceil(2 * (load.requests_per_s or 1.0) * (each_s or 1.0)) + 4)


@dataclass(slots=True)
class _Meter:
    """Live figures of one phase, shown as requests end and, where none does, by time."""

    sweep: Sweep
    batch: Batch
    total: int | None
    start_ns: int
    done: int = 0
    errors: int = 0
    kept: list[RequestRecord] = field(default_factory=list)  # of a warm-up: what became of it
    first_tokens_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_REQUESTS))
    shown_ns: int = 0
    _timer: asyncio.TimerHandle | None = None

    def add(self, record: RequestRecord) -> None:
        if self.batch.phase == "warmup":
            self.kept.append(record)
        if record.finished:
            self.done += 1
            self.errors += not record.ok
            if record.ttft_ms is not None:
                self.first_tokens_ms.append(record.ttft_ms)
        due = self.sweep.clock_ns() - self.shown_ns > PROGRESS_INTERVAL_S * 1e9
        if due and self.done != self.total:  # the phase's end shows itself
            self.show()

    def tick(self) -> None:
        """Show what there is when nothing ended for a while, and come again."""
        if self.sweep.clock_ns() - self.shown_ns > (TICK_S - PROGRESS_INTERVAL_S) * 1e9:
            self.show()
        self.arm()

    def arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self.tick)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.show(ended=True)

    def show(self, ended: bool = False) -> None:
        now_ns = self.shown_ns = self.sweep.clock_ns()
        runner, plan = self.sweep.runner, self.sweep.plan
        elapsed_s = (now_ns - self.start_ns) / 1e9
        first_tokens = sorted(self.first_tokens_ms)
        oldest_ns = next(iter(runner.under_way.values()), None)
        self.sweep.on_progress(
            Progress(
                level=self.batch.level,
                levels=None if plan.spec.search else len(plan.levels),
                concurrency=self.batch.concurrency,
                phase=self.batch.phase,
                done=self.done,
                total=self.total,
                errors=self.errors,
                requests_per_s=self.done / elapsed_s if elapsed_s > 0 else None,
                ttft_p50_ms=first_tokens[len(first_tokens) // 2] if first_tokens else None,
                load=plan.levels[self.batch.level].load.words,
                elapsed_s=elapsed_s,
                in_flight=len(runner.under_way),
                waiting=self.sweep.waiting(),
                oldest_s=None if oldest_ns is None else (now_ns - oldest_ns) / 1e9,
                ended=ended,
            )
        )


def anything_left(plan: RunPlan, records: Sequence[RequestRecord]) -> bool:
    """Is there a request of this plan still to be sent? Raises InputError as `measured_batch` does."""
    if not plan.levels or any(measured_batch(plan, level, records) for level in range(len(plan.levels))):
        return True
    if plan.spec.search is None:
        return False
    return any(level.ended_utc is None for level in plan.levels) or _wanted(plan, records) is not None


def _wanted(plan: RunPlan, records: Sequence[RequestRecord]) -> PlannedLevel | None:
    """The level that a search wants next."""
    from loadproof.bench.measure.levels import next_planned  # noqa: PLC0415  a sender comes up without numpy

    return next_planned(plan, records)


def why_never_ran(records: Iterable[RequestRecord]) -> str | None:
    """Why none of these requests reached a model, in the endpoint's own words; None if one did (even if it failed).

    Not there, not ours, not ready or without capacity: that is "could not run", not a bad result. A connection that was
    reset after the request had left is one: somebody was there.
    """
    finished = [record for record in records if record.finished]
    if not finished or not all(_got_nowhere(record) for record in finished):
        return None
    last = finished[-1]
    return ": ".join(part for part in (last.outcome, last.error_code, last.error_message) if part)


def _got_nowhere(record: RequestRecord) -> bool:
    if record.outcome in ("no_capacity", "not_ready") or (record.outcome == "connection" and record.sent_ns is None):
        return True
    if record.outcome == "timeout" and record.error_code == "connect":
        return True
    missing = record.error_code == "ValidationError" and "not found" in (record.error_message or "").lower()
    return record.outcome == "validation" and (missing or record.http_status in (401, 403, 404))
