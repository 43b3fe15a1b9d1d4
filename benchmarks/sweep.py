"""The levels of a run, one after another: warm up, load, report progress."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.metrics import ttft_ms
from benchmarks.records import Phase, RequestRecord
from benchmarks.runner import Batch, Runner, Sender
from benchmarks.spec import BenchmarkSpec
from benchmarks.workload import Prompts
from invocation.faults import InvocationFault
from loadproof.errors import CouldNotRunError

PROGRESS_INTERVAL_S = 0.25


class WarmSender(Sender, Protocol):
    """A sender whose connections can be opened ahead."""

    async def warm(self, count: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the run is. `level` counts from 0; figures are of this level's phase so far, None without data."""

    level: int
    levels: int
    concurrency: int
    phase: Phase
    done: int
    total: int
    errors: int
    requests_per_s: float | None
    ttft_p50_ms: float | None


OnProgress = Callable[[Progress], None]


@dataclass(slots=True)
class Sweep:
    """Runs what is left of a spec. `done` names the (level, index) that earlier sessions finished.

    Every record goes to `keep` first. `on_progress` is called at most every `PROGRESS_INTERVAL_S` and at each phase's
    end, on the loop that drives the load: what it costs shows up as lag.
    """

    spec: BenchmarkSpec
    sender: WarmSender
    keep: Callable[[RequestRecord], None]
    on_progress: OnProgress
    session: int
    zero_ns: int
    done: Collection[tuple[int, int]] = ()
    clock_ns: Callable[[], int] = time.perf_counter_ns
    runner: Runner = field(init=False)
    _meter: _Meter | None = field(init=False, default=None)
    _opened: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.runner = Runner(
            self.sender,
            Prompts(self.spec.workload),
            self.spec.target.streaming,
            self.session,
            self.zero_ns,
            self._on_record,
            self.clock_ns,
        )

    async def run(self) -> None:
        """Raises CouldNotRunError when the endpoint cannot be reached, or refuses every warm-up request."""
        try:
            await self.sender.warm(1)
            self._opened = 1
        except InvocationFault as fault:
            raise CouldNotRunError(f"the endpoint cannot be reached: {fault}") from fault
        for level, concurrency in enumerate(self.spec.concurrency):
            left = tuple(index for index in range(self.spec.requests_per_level) if (level, index) not in self.done)
            if not left or self.runner.stopped:
                continue
            await self._open_connections(concurrency)
            await self._phase("warmup", level, concurrency, tuple(range(self.spec.warmup_requests)))
            # What lives now lives until the end: the collector need not walk it between two tokens.
            gc.collect()
            gc.freeze()
            await self._phase("measured", level, concurrency, left)

    async def _open_connections(self, concurrency: int) -> None:
        """Open those that a higher level needs beyond the last one's, so that no handshake is in a first token."""
        missing, self._opened = concurrency - self._opened, max(concurrency, self._opened)
        try:
            await self.sender.warm(max(0, missing))
        except InvocationFault:
            return  # the requests themselves will meet it and say so in their records

    async def _phase(self, phase: Phase, level: int, concurrency: int, indices: tuple[int, ...]) -> None:
        if not indices or self.runner.stopped:
            return
        self._meter = _Meter(self, phase, level, concurrency, len(indices), self.clock_ns())
        number = _first_number(self.spec, self.session, level, phase)
        await self.runner.run(Batch(phase, level, concurrency, indices, number))
        self._meter.show()
        if phase == "warmup" and not self.runner.stopped:
            reason = why_never_ran(self._meter.records)
            if reason:
                raise CouldNotRunError(f"no warm-up request got through: {reason}")

    def _on_record(self, record: RequestRecord) -> None:
        self.keep(record)
        if self._meter is not None:
            self._meter.add(record)


@dataclass(slots=True)
class _Meter:
    """Live figures of one phase."""

    sweep: Sweep
    phase: Phase
    level: int
    concurrency: int
    total: int
    start_ns: int
    records: list[RequestRecord] = field(default_factory=list)
    shown_ns: int = 0

    def add(self, record: RequestRecord) -> None:
        self.records.append(record)
        due = self.sweep.clock_ns() - self.shown_ns > PROGRESS_INTERVAL_S * 1e9
        if due and len(self.records) < self.total:  # the phase's end shows itself
            self.show()

    def show(self) -> None:
        now_ns = self.shown_ns = self.sweep.clock_ns()
        finished = [record for record in self.records if record.finished]
        first_tokens = sorted(value for record in finished if (value := ttft_ms(record)) is not None)
        self.sweep.on_progress(
            Progress(
                level=self.level,
                levels=len(self.sweep.spec.concurrency),
                concurrency=self.concurrency,
                phase=self.phase,
                done=len(finished),
                total=self.total,
                errors=sum(not record.ok for record in finished),
                requests_per_s=len(finished) / ((now_ns - self.start_ns) / 1e9) if now_ns > self.start_ns else None,
                ttft_p50_ms=first_tokens[len(first_tokens) // 2] if first_tokens else None,
            )
        )


def why_never_ran(records: Iterable[RequestRecord]) -> str | None:
    """Why none of these requests reached a model, in the endpoint's own words; None if one did (even if it failed).

    Not there, not ours, not ready or without capacity: that is "could not run", not a bad result.
    """
    finished = [record for record in records if record.finished]
    if not finished or not all(_got_nowhere(record) for record in finished):
        return None
    last = finished[-1]
    return ": ".join(part for part in (last.outcome, last.error_code, last.error_message) if part)


def _got_nowhere(record: RequestRecord) -> bool:
    if record.outcome in ("no_capacity", "not_ready") or (record.outcome == "connection" and not record.http_status):
        return True
    if record.outcome == "timeout" and record.error_code == "connect":
        return True
    missing = record.error_code == "ValidationError" and "not found" in (record.error_message or "").lower()
    return record.outcome == "validation" and (missing or record.http_status in (401, 403, 404))


def _first_number(spec: BenchmarkSpec, session: int, level: int, phase: Phase) -> int:
    """Numbers every request of every session apart, so that no prompt is sent twice."""
    a_level = spec.requests_per_level + spec.warmup_requests
    before = (session * len(spec.concurrency) + level) * a_level
    return before + (spec.requests_per_level if phase == "warmup" else 0)
