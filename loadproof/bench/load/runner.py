"""Drives one level: a closed loop keeps slots busy, an open loop sends at the planned times, whatever becomes of it.

A request's *intended* time is when its slot became free or when the schedule had it due, so whatever delays the client
is recorded as lag and counted in the latency. Nothing is retried. A conversation's next turn is due when its last
answer has ended and its reader has thought. A record (a line to disk) is written right after what is due next left.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Protocol

from loadproof.bench.batch import Batch
from loadproof.bench.measure.loop_probe import LoopProbe
from loadproof.bench.measure.records import CANCELED, UNFINISHED, RequestRecord
from loadproof.bench.workload.prompts import PlannedPrompt, Prompts
from loadproof.errors import CouldNotRunError
from loadproof.invocation import GenerationRequest, Invocation

MOST_PREPARED = 2000
CANCEL_GRACE_S = 0.5  # what a stopped run leaves requests to end by themselves
MOST_IN_FLIGHT = 8192  # of an open loop: past that requests leave late, and the level is invalid for it


class Sender(Protocol):
    """What the runner needs of `invocation.Invoker`."""

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation: ...

    def cancel_all(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Turn:
    """One request of a conversation: its index in the level, which turn it is, what it asks."""

    index: int
    turn: int
    planned: PlannedPrompt
    keep_text: bool


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
    incomplete: bool = False  # is a part of the last batch missing? Never here, but see `workers`
    under_way: dict[tuple[int, int], int] = field(default_factory=dict)  # (level, index) -> when it left
    _cut: bool = False  # the drain's time is over
    _probe: LoopProbe = field(init=False)
    _failure: Exception | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._probe = LoopProbe(self.clock_ns)

    def stop(self) -> None:
        """Send nothing more and end what is in flight; `run` then returns within `CANCEL_GRACE_S`."""
        self.stopped = True
        self.sender.cancel_all()

    def prepared(self, batch: Batch) -> Batch:
        """The batch with its first prompts made where they are costly, and what their conversations' later turns add,
        so that making them delays nothing later: least of all in a loop that all conversations of a step wait for."""
        if not self.prompts.costly:
            return batch
        first = list(islice(batch.conversations, MOST_PREPARED))
        pairs = zip(first, batch.schedule.recorded(), strict=False)
        later = islice((turn for turns in first for turn in turns[1:]), MOST_PREPARED)
        self.prompts.prepare(
            ((batch.first_number + turns[0], *recorded) for turns, recorded in pairs),
            later=(batch.first_number + turn for turn in later),
        )
        return replace(batch, conversations=chain(first, batch.conversations))

    async def run(self, batch: Batch, start_ns: int | None = None) -> None:
        """Returns when every request has a record, or soon after `stop`. Raises what `on_record` raised.

        `start_ns` is the schedule's zero on this runner's clock; None: now.
        """
        self._probe.start()
        self._cut = False
        try:
            start_ns = self.clock_ns() if start_ns is None else start_ns
            await (self._open_loop if batch.schedule.due_ns else self._closed_loop)(batch, start_ns)
            await asyncio.sleep(0)  # the last records are kept a turn of the loop after their requests ended
        finally:
            self._probe.stop()
        if self._failure is not None:
            raise self._failure

    async def _closed_loop(self, batch: Batch, start_ns: int) -> None:
        end_ns = None if batch.duration_s is None else start_ns + round(batch.duration_s * 1e9)
        slots = {
            asyncio.create_task(self._slot(batch, start_ns + open_ns, end_ns))
            for open_ns in batch.schedule.slot_open_ns
        }
        await self._drain(slots, None if end_ns is None or batch.drain_s is None else end_ns + batch.drain_s * 1e9)

    async def _slot(self, batch: Batch, open_ns: int, end_ns: int | None) -> int:
        """Hold one conversation after the other; return when the last one ended."""
        await self._sleep_until(open_ns)
        free_ns = open_ns
        while not self.stopped and (end_ns is None or free_ns < end_ns):
            turns = next(batch.conversations, None)
            if turns is None:
                break
            free_ns = await self._converse(batch, turns, free_ns)
        return free_ns

    async def _open_loop(self, batch: Batch, start_ns: int) -> None:
        """Start each conversation at its time. The next prompt is made before it is due."""
        under_way: set[asyncio.Task[int]] = set()
        schedule = batch.schedule
        for offset_ns, recorded, turns in zip(schedule.due_ns, schedule.recorded(), batch.conversations, strict=False):
            due_ns = start_ns + offset_ns
            first = self.prompts.planned(batch.first_number + turns[0], *recorded)
            await self._sleep_until(due_ns)
            while len(under_way) >= MOST_IN_FLIGHT and not self.stopped:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            if self.stopped:
                break
            task = asyncio.create_task(self._converse(batch, turns, due_ns, first))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            task.add_done_callback(self._ended)
            await asyncio.sleep(0)  # it leaves now, also when the next one is due already
        last_due_ns = start_ns + batch.schedule.due_ns[-1]
        await self._drain(set(under_way), None if batch.drain_s is None else last_due_ns + batch.drain_s * 1e9)

    def _ended(self, task: asyncio.Task[int]) -> None:
        """A task's own error is a bug, and must not go unheard."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._failure = self._failure or error
            self.stop()

    async def _drain(self, tasks: set[asyncio.Task[int]], until_ns: float | None) -> None:
        """Wait for what is under way; past `until_ns` it is cut off and recorded as unfinished."""
        left = tasks
        while left:
            wait_s = CANCEL_GRACE_S
            if until_ns is not None and not self._cut:
                wait_s = max(0.0, min(wait_s, (until_ns - self.clock_ns()) / 1e9))
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()  # a task's own error is a bug, and must not end as a hang
            if self.stopped:
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)
                return
            if until_ns is not None and not self._cut and self.clock_ns() >= until_ns:
                self._cut = True
                self.sender.cancel_all()

    async def _converse(
        self, batch: Batch, turns: tuple[int, ...], intended_ns: int, first: PlannedPrompt | None = None
    ) -> int:
        """Send the steps of one session, each when the answers that it waits for are there; when the last one ended."""
        if first is None:
            first = self.prompts.planned(batch.first_number + turns[0])
        if len(turns) == 1:
            return (await self._send(batch, _Turn(turns[0], 0, first, False), intended_ns)).end_ns
        return await _Session(self, batch, turns, intended_ns, first).run()

    async def _sleep_until(self, due_ns: int) -> None:
        while not self.stopped and (left_ns := due_ns - self.clock_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)

    async def _send(self, batch: Batch, turn: _Turn, intended_ns: int) -> Invocation:
        """Send one request and have it recorded."""
        planned = turn.planned
        request = GenerationRequest(
            planned.text,
            planned.output_tokens,
            stream=self.streaming,
            temperature=0.0,
            ignore_eos=True,
            history=planned.history,
            images=planned.images,
            keep_text=turn.keep_text,
        )
        dispatched_ns = self.clock_ns()
        self.under_way[batch.level, turn.index] = dispatched_ns
        try:
            invocation = await self.sender.invoke(request, intended_ns)
        except asyncio.CancelledError:
            self._keep(batch, turn, intended_ns, dispatched_ns, None)
            raise
        finally:
            self.under_way.pop((batch.level, turn.index), None)
        # Not now: the next request of this slot is due, and leaves before the loop comes to this.
        asyncio.get_running_loop().call_soon(self._keep, batch, turn, intended_ns, dispatched_ns, invocation)
        impossible = impossible_count(invocation, planned.output_tokens) is not None
        return counted_by_chunks(invocation) if impossible else invocation

    def _keep(
        self, batch: Batch, turn: _Turn, intended_ns: int, dispatched_ns: int, invocation: Invocation | None
    ) -> None:
        self._probe.catch_up()
        try:
            self.on_record(self._record(batch, turn, intended_ns, dispatched_ns, invocation))
            if invocation is not None and invocation.outcome.is_own_shortage:
                raise CouldNotRunError(f"this machine is short of what connections need: {invocation.outcome.message}")
        except Exception as error:  # a full disk, a broken display: end the run, which then raises it
            self._failure = self._failure or error
            self.stop()

    def _record(
        self, batch: Batch, turn: _Turn, intended_ns: int, dispatched_ns: int, invocation: Invocation | None
    ) -> RequestRecord:
        """`invocation` None: the run was stopped before there was any answer to speak of."""
        arrivals = [self._relative(time_ns) for time_ns in invocation.arrival_ns] if invocation else []
        end_ns = invocation.end_ns if invocation else self.clock_ns()
        outcome = invocation.outcome if invocation else None
        kind = str(outcome.kind) if outcome and not outcome.is_own_shortage else CANCELED
        disbelieved = impossible_count(invocation, turn.planned.output_tokens) if invocation else None
        if invocation and disbelieved is not None:
            invocation = counted_by_chunks(invocation)
        return RequestRecord(
            phase=batch.phase,
            session=self.session,
            level=batch.level,
            concurrency=batch.concurrency,
            index=turn.index,
            intended_ns=self._relative(intended_ns),
            dispatched_ns=self._relative(dispatched_ns),
            sent_ns=self._relative(invocation.sent_ns) if invocation and invocation.sent_ns is not None else None,
            first_token_ns=arrivals[0] if arrivals else None,
            last_token_ns=arrivals[-1] if arrivals else None,
            end_ns=self._relative(end_ns),
            token_times_ns=array("q", arrivals),
            tokens_at=invocation.arrival_tokens if invocation else (),
            planned_input_tokens=turn.planned.input_tokens,
            planned_output_tokens=turn.planned.output_tokens,
            input_tokens=invocation.input_tokens if invocation else None,
            output_tokens=invocation.output_tokens if invocation else None,
            token_source=invocation.token_source if invocation else "none",
            stalls_ns=self._probe.stalls_between(intended_ns, end_ns),
            outcome=UNFINISHED if kind == CANCELED and self._cut and not self.stopped else kind,
            http_status=outcome.http_status if outcome else None,
            error_code=(outcome.code or None) if outcome else None,
            error_message=(outcome.message or None) if outcome else None,
            read_lag_max_ns=(max(invocation.read_lag_ns, default=0) or None) if invocation else None,
            turn=turn.turn,
            part=self.prompts.part(batch.first_number + turn.index).name,
            counted_by=turn.planned.counted_by,
            first_token_early_max_ns=self._early_max_ns(invocation) if invocation else None,
            disbelieved_output_tokens=disbelieved,
        )

    def _early_max_ns(self, invocation: Invocation) -> int | None:
        """By how much the first token may have come before its read's stamp, which is the last of its tokens'."""
        arrivals, lags = invocation.arrival_ns, invocation.read_lag_ns
        if len(arrivals) < 2 or arrivals[0] != arrivals[1]:
            return None
        since_ns = self._probe.waited_since(arrivals[0] + (lags[0] if lags else 0))
        sent_ns = invocation.intended_ns if invocation.sent_ns is None else invocation.sent_ns
        return max(0, arrivals[0] - max(sent_ns, since_ns or sent_ns))

    def _relative(self, time_ns: int) -> int:
        return time_ns - self.zero_ns


@dataclass(slots=True)
class _Session:
    """One session while it goes on: a task for each step, which waits for those it comes after."""

    runner: Runner
    batch: Batch
    turns: tuple[int, ...]
    began_ns: int
    first: PlannedPrompt
    last_ns: int = 0
    _tasks: list[asyncio.Task[tuple[PlannedPrompt, Invocation] | None]] = field(default_factory=list)

    async def run(self) -> int:
        self.last_ns = self.began_ns
        steps = self.runner.prompts.part(self.batch.first_number + self.turns[0]).steps[: len(self.turns)]
        continued = {step.after[0] for step in steps if step.after}
        for place, step in enumerate(steps):
            waits_for = [self._tasks[before] for before in step.after]
            self._tasks.append(asyncio.create_task(self._step(place, waits_for, place in continued)))
        await asyncio.gather(*self._tasks)
        return self.last_ns

    async def _step(
        self, place: int, waits_for: list[asyncio.Task[tuple[PlannedPrompt, Invocation] | None]], keep_text: bool
    ) -> tuple[PlannedPrompt, Invocation] | None:
        """What it asked and was answered; None where nobody goes on: it, or what it waits for, broke off."""
        runner, number = self.runner, self.batch.first_number + self.turns[place]
        planned: PlannedPrompt | None = self.first if place == 0 else None
        intended_ns = self.began_ns
        if waits_for:
            before = [one for one in await asyncio.gather(*waits_for) if one is not None]
            if len(before) < len(waits_for):
                return None
            intended_ns = max(invocation.end_ns for _, invocation in before)
            asked, answer = before[0]
            planned = runner.prompts.following(number, asked, answer.text, answer.output_tokens)
        elif planned is None:
            planned = runner.prompts.planned(number)
        if planned is None:
            return None
        intended_ns += round(runner.prompts.pause_s(number) * 1e9)
        await runner._sleep_until(intended_ns)
        if runner.stopped or (runner._cut and place):
            return None
        turn = _Turn(self.turns[place], place, planned, keep_text)
        invocation = await runner._send(self.batch, turn, intended_ns)
        self.last_ns = max(self.last_ns, invocation.end_ns)
        return (planned, invocation) if invocation.outcome.ok else None


def impossible_count(invocation: Invocation, asked_tokens: int) -> int | None:
    """The server's count of an answer's tokens where it cannot be true: above what was asked for, by more than the end
    token that some count too, or below the number of pieces with text in them. None where it may be true."""
    tokens = invocation.output_tokens if invocation.token_source == "server" else None
    least = len(invocation.arrival_ns) or min(1, invocation.text_length)
    if tokens is None or least <= tokens <= asked_tokens + 1:
        return None
    return tokens


def counted_by_chunks(invocation: Invocation) -> Invocation:
    """The answer with each piece counted as one token, and none where it came whole."""
    pieces = len(invocation.arrival_ns)
    return replace(
        invocation,
        output_tokens=pieces or None,
        token_source="chunks" if pieces else "none",
        arrival_tokens=array("q", [1]) * pieces,
    )
