"""The levels of a run, one after another: warm up, load, tell how it goes."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from loadproof.bench.batch import Batch
from loadproof.bench.live.lines import Loaded, OnLine
from loadproof.bench.live.meter import Meter, Watch, start_of
from loadproof.bench.load.batches import measured_batch, warm_up_batch
from loadproof.bench.load.runner import Runner, Sender
from loadproof.bench.load.workers import Together
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.plan import PlannedLevel, RunPlan
from loadproof.bench.workload.prompts import Prompts
from loadproof.errors import CouldNotRunError
from loadproof.invocation.faults import InvocationFault
from loadproof.loads import Load

if TYPE_CHECKING:  # a sender comes up without numpy
    from loadproof.bench.search.probes import Probe

MOST_WARM = 1024  # connections opened ahead of an open loop


class WarmSender(Sender, Protocol):
    """A sender whose connections can be opened ahead."""

    async def warm(self, count: int) -> None: ...


OnPlan = Callable[[RunPlan], None]

_ASLEEP = " (asleep? This request wakes it, if its scaling says so: try again once it has a copy)"


@dataclass(slots=True)
class Sweep:
    """Runs what is left of a plan, level by level. `records` are those of earlier sessions.

    Every record goes to `keep` first, and every change of the plan to `save` before the load it is about. `on_line`
    is called on the loop that drives the load: what it costs shows up as lag, and `live.meter` bounds it.
    """

    plan: RunPlan
    sender: WarmSender | Together  # a crew sends from several processes
    keep: Callable[[RequestRecord], None]
    save: OnPlan
    on_line: OnLine
    zero_ns: int
    records: Sequence[RequestRecord] = ()
    clock_ns: Callable[[], int] = time.perf_counter_ns
    runner: Runner | Together = field(init=False)
    _watch: Watch = field(init=False)
    _meter: Meter | None = field(init=False, default=None)
    _warm_up_records: list[RequestRecord] = field(init=False, default_factory=list)  # of the last level
    _taken: list[RequestRecord] = field(init=False, default_factory=list)  # of a search: levels not judged yet
    _judged: dict[int, Probe] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.sender, Together):
            self.sender.on_record, self.sender.session = self._on_record, self.plan.session
            self.runner = self.sender
        else:
            self.runner = Runner(
                self.sender,
                Prompts(self.plan.spec.workload, chat=self.plan.spec.target.chat),
                self.plan.spec.target.streaming,
                self.plan.session,
                self.zero_ns,
                self._on_record,
                self.clock_ns,
            )
        self._watch = Watch(self.on_line, self.runner, self.waiting, self.cpu_s, self.clock_ns)

    async def run(self) -> None:
        """Raises CouldNotRunError when the endpoint cannot be reached, or refuses every warm-up request."""
        try:
            await self.sender.warm(1)
        except InvocationFault as fault:
            mend = "look at its address and the network"
            raise CouldNotRunError(f"the endpoint cannot be reached: {fault}; {mend}") from fault
        self.on_line(start_of(self.plan))
        level = 0
        while level < len(self.plan.levels) or self._plan_another():
            await self._level(level)
            level += 1
        self.on_line(Loaded(self.runner.stopped))

    def _plan_another(self) -> bool:
        """Add the level a search wants next; False when it is over, and for a run whose levels were all known."""
        if self.plan.spec.search is None or self.runner.stopped:
            return False
        level = _wanted(self.plan, [*self.records, *self._taken], self._judged)
        self._taken.clear()
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
        gc.freeze()  # what lives now lives until the end: the collector need not walk it between two tokens
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
        meter = self._meter = Meter(self._watch, self.plan, batch, total, self.clock_ns())
        self._warm_up_records.clear()
        meter.arm()
        try:
            await self.runner.run(batch)
        finally:
            meter.end()
        if batch.phase == "warmup" and not self.runner.stopped:
            reason = why_never_ran(self._warm_up_records)
            if reason:
                mend = _ASLEEP if reason.startswith("no_capacity") else ""
                raise CouldNotRunError(f"no warm-up request got through: {reason}{mend}")

    def waiting(self) -> int | None:
        """How many requests in flight have no token yet; None where the sender cannot tell."""
        ask = getattr(self.sender, "waiting_for_first_token", None)
        return ask() if ask else None

    def cpu_s(self) -> float | None:
        """CPU time of all processes that send; None where the sender cannot tell."""
        ask = getattr(self.sender, "cpu_s", time.process_time)
        return ask()

    def _on_record(self, record: RequestRecord) -> None:
        self.keep(record)
        if self.plan.spec.search is not None:
            self._taken.append(record)
        if record.phase == "warmup":
            self._warm_up_records.append(record)
        if self._meter is not None:
            self._meter.add(record)


def _expected_in_flight(load: Load, each_s: float | None) -> int:
    """Little's law on the warm-up's requests, doubled: a connection too many costs nothing, one too few a handshake."""
    return min(MOST_WARM, math.ceil(2 * (load.requests_per_s or 1.0) * (each_s or 1.0)) + 4)


def anything_left(plan: RunPlan, records: Sequence[RequestRecord]) -> bool:
    """Is there a request of this plan still to be sent? Raises InputError as `measured_batch` does."""
    if not plan.levels or any(measured_batch(plan, level, records) for level in range(len(plan.levels))):
        return True
    if plan.spec.search is None:
        return False
    return any(level.ended_utc is None for level in plan.levels) or _wanted(plan, records, {}) is not None


def _wanted(plan: RunPlan, records: Sequence[RequestRecord], judged: dict[int, Probe]) -> PlannedLevel | None:
    """The level that a search wants next; `judged` grows by those that ended since."""
    from loadproof.bench.search.planned import next_planned  # noqa: PLC0415  a sender comes up without numpy

    return next_planned(plan, records, judged)


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
