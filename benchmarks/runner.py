"""Drives one level: keeps `concurrency` requests in flight until all planned ones are answered.

A slot sends its next request when its last one ended; that moment is the next one's *intended* time, so whatever delays
the client between the two is recorded as lag and counted in the latency. Nothing is retried. Prompts cost microseconds
and are made at once; a record (a line to disk) is written right after the slot's next request has left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.arrivals import closed_loop
from benchmarks.loop_probe import LoopProbe
from benchmarks.records import Phase, RequestRecord
from benchmarks.workload import PlannedPrompt, Prompts
from invocation import GenerationRequest, Invocation

CANCEL_GRACE_S = 0.5  # what a stopped run leaves requests to end by themselves


class Sender(Protocol):
    """What the runner needs of `invocation.Invoker`."""

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation: ...

    def cancel_all(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """One stretch of load: the `indices` of a level still to send. Prompts are numbered from `first_number`."""

    phase: Phase
    level: int
    concurrency: int
    indices: tuple[int, ...]
    first_number: int


@dataclass(slots=True)
class Runner:
    """Runs batches one after another. `zero_ns` is the clock's reading at the run's zero."""

    sender: Sender
    prompts: Prompts
    streaming: bool
    session: int
    zero_ns: int
    on_record: Callable[[RequestRecord], None]
    clock_ns: Callable[[], int] = time.perf_counter_ns
    stopped: bool = False
    _probe: LoopProbe = field(init=False)
    _failure: Exception | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._probe = LoopProbe(self.clock_ns)

    def stop(self) -> None:
        """Send nothing more and end what is in flight; `run` then returns within `CANCEL_GRACE_S`."""
        self.stopped = True
        self.sender.cancel_all()

    async def run(self, batch: Batch) -> None:
        """Returns when every request has a record, or soon after `stop`. Raises what `on_record` raised."""
        self._probe.start()
        try:
            await self._run(batch)
            await asyncio.sleep(0)  # the last records are kept a turn of the loop after their requests ended
        finally:
            self._probe.stop()
        if self._failure is not None:
            raise self._failure

    async def _run(self, batch: Batch) -> None:
        queue = iter(batch.indices)
        start_ns = self.clock_ns()
        schedule = closed_loop(len(batch.indices), batch.concurrency)
        slots = {asyncio.create_task(self._slot(batch, queue, start_ns + open_ns)) for open_ns in schedule.slot_open_ns}
        while slots:
            done, slots = await asyncio.wait(slots, timeout=CANCEL_GRACE_S, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()  # a slot's own error is a bug, and must not end as a hang
            if self.stopped:
                for task in slots:
                    task.cancel()
                await asyncio.gather(*slots, return_exceptions=True)
                return

    async def _slot(self, batch: Batch, queue: Iterator[int], open_ns: int) -> None:
        await self._sleep_until(open_ns)
        free_ns = open_ns
        while not self.stopped:
            index = next(queue, None)
            if index is None:
                return
            free_ns = await self._send(batch, index, free_ns)

    async def _sleep_until(self, due_ns: int) -> None:
        while not self.stopped and (left_ns := due_ns - self.clock_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)

    async def _send(self, batch: Batch, index: int, intended_ns: int) -> int:
        """Send one request, record it and return when its slot became free."""
        planned = self.prompts.planned(batch.first_number + index)
        request = GenerationRequest(
            planned.text, planned.output_tokens, stream=self.streaming, temperature=0.0, ignore_eos=True
        )
        dispatched_ns = self.clock_ns()
        try:
            invocation = await self.sender.invoke(request, intended_ns)
        except asyncio.CancelledError:
            self._keep(batch, index, planned, intended_ns, dispatched_ns, None)
            raise
        # Not now: the next request of this slot is due, and leaves before the loop comes to this.
        keep = (batch, index, planned, intended_ns, dispatched_ns, invocation)
        asyncio.get_running_loop().call_soon(self._keep, *keep)
        return invocation.end_ns

    def _keep(
        self,
        batch: Batch,
        index: int,
        planned: PlannedPrompt,
        intended_ns: int,
        dispatched_ns: int,
        invocation: Invocation | None,
    ) -> None:
        self._probe.catch_up()
        try:
            self.on_record(self._record(batch, index, planned, intended_ns, dispatched_ns, invocation))
        except Exception as error:  # a full disk, a broken display: end the run, which then raises it
            self._failure = self._failure or error
            self.stop()

    def _record(
        self,
        batch: Batch,
        index: int,
        planned: PlannedPrompt,
        intended_ns: int,
        dispatched_ns: int,
        invocation: Invocation | None,
    ) -> RequestRecord:
        """`invocation` None: the run was stopped before there was any answer to speak of."""
        arrivals = [self._relative(time_ns) for time_ns in invocation.arrival_ns] if invocation else []
        end_ns = invocation.end_ns if invocation else self.clock_ns()
        outcome = invocation.outcome if invocation else None
        return RequestRecord(
            phase=batch.phase,
            session=self.session,
            level=batch.level,
            concurrency=batch.concurrency,
            index=index,
            intended_ns=self._relative(intended_ns),
            dispatched_ns=self._relative(dispatched_ns),
            sent_ns=self._relative(invocation.sent_ns) if invocation and invocation.sent_ns is not None else None,
            first_token_ns=arrivals[0] if arrivals else None,
            last_token_ns=arrivals[-1] if arrivals else None,
            end_ns=self._relative(end_ns),
            token_times_ns=tuple(arrivals),
            tokens_at=tuple(invocation.arrival_tokens) if invocation else (),
            planned_input_tokens=planned.input_tokens,
            planned_output_tokens=planned.output_tokens,
            input_tokens=invocation.input_tokens if invocation else None,
            output_tokens=invocation.output_tokens if invocation else None,
            token_source=invocation.token_source if invocation else "none",
            stalls_ns=self._probe.stalls_between(intended_ns, end_ns),
            outcome=str(outcome.kind) if outcome else "canceled",
            http_status=outcome.http_status if outcome else None,
            error_code=(outcome.code or None) if outcome else None,
            error_message=(outcome.message or None) if outcome else None,
        )

    def _relative(self, time_ns: int) -> int:
        return time_ns - self.zero_ns
