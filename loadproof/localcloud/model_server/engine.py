"""One copy's engine: the twin's scheduler driven against a clock, on an absolute schedule.

A step that ends late does not push the next one back: the schedule is cumulative, so sleeping errors never add up, and
a stalled machine catches up afterwards. How late steps really end is measured and can be read as `lateness`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import dataclass

from loadproof.localcloud.model_server.clock import Clock
from loadproof.localcloud.model_server.container import ContainerDiedError
from loadproof.simulation.batching import ContinuousBatcher, Step

log = logging.getLogger(__name__)

# Late by more than this, and the figures measured against the twin begin to tell of this machine instead.
_TELL_MS = 50.0
_TELL_EVERY_MS = 10_000.0
# Past this the machine was stopped rather than busy: the schedule starts anew instead of replaying the gap.
_RESYNCHRONISE_MS = 1000.0


class RejectedError(Exception):
    """The scheduler refused the request: its queue is full, or the request is larger than the whole cache."""


@dataclass(slots=True)
class Lateness:
    """How late steps ended against their schedule, in milliseconds."""

    steps: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0

    def record(self, late_ms: float) -> None:
        self.steps += 1
        self.total_ms += late_ms
        self.max_ms = max(self.max_ms, late_ms)

    @property
    def mean_ms(self) -> float | None:
        return self.total_ms / self.steps if self.steps else None


class Generation:
    """One request's tokens as they come: iterate to get 0, 1, 2 … up to `output_tokens` - 1."""

    __slots__ = ("_failure", "_ready", "_taken", "_waiter", "id", "output_tokens")

    def __init__(self, request_id: str, output_tokens: int) -> None:
        self.id = request_id
        self.output_tokens = output_tokens
        self._ready = 0
        self._taken = 0
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def complete(self) -> bool:
        return self._ready >= self.output_tokens

    @property
    def taken(self) -> int:
        """Tokens that were handed out."""
        return self._taken

    def deliver(self) -> None:
        self._ready += 1
        self._wake()

    def fail(self, failure: Exception) -> None:
        self._failure = failure
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> int:
        if self._taken == self.output_tokens:
            raise StopAsyncIteration
        while self._taken == self._ready:
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._taken += 1
        return self._taken - 1


class Engine:
    """Runs a batcher until closed. All methods belong to one event loop."""

    def __init__(self, batcher: ContinuousBatcher, clock: Clock) -> None:
        self._batcher = batcher
        self._clock = clock
        self._ids = itertools.count()
        self._running: dict[str, Generation] = {}
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._told_ms = -_TELL_EVERY_MS
        self.lateness = Lateness()

    @property
    def outstanding(self) -> int:
        """Requests submitted and not yet complete, canceled or failed."""
        return len(self._running)

    def submit(self, input_tokens: int, output_tokens: int) -> Generation:
        """Queue one request. Raises RejectedError; iterating raises ContainerDiedError once the engine is closed."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        generation = Generation(str(next(self._ids)), output_tokens)
        refused = self._batcher.submit(generation.id, input_tokens, output_tokens, self._clock.now_ms())
        if refused is not None:
            raise RejectedError(refused)
        self._running[generation.id] = generation
        self._work.set()
        return generation

    def cancel(self, generation: Generation) -> None:
        """Forget a request; nothing happens if it is complete already."""
        if self._running.pop(generation.id, None) is not None:
            self._batcher.cancel(generation.id)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail_all(ContainerDiedError("the container was stopped"))

    async def _run(self) -> None:
        try:
            await self._step_forever()
        except Exception:
            # A defect in the scheduler must look like a crashed container, not like an endpoint that hangs.
            log.exception("the model server's engine crashed")
            self._fail_all(ContainerDiedError("the model server's engine crashed"))
            raise

    async def _step_forever(self) -> None:
        at_ms = self._clock.now_ms()
        while True:
            step = self._batcher.next_step(at_ms)
            if step is None:
                self._work.clear()
                await self._work.wait()
                at_ms = max(at_ms, self._clock.now_ms())
                continue
            at_ms += step.duration_ms
            await self._clock.sleep_until(at_ms)
            late_ms = self._clock.now_ms() - at_ms
            self.lateness.record(late_ms)
            if late_ms > _TELL_MS:
                self._tell(at_ms, late_ms)
            if late_ms > _RESYNCHRONISE_MS:
                at_ms += late_ms
            self._deliver(step)

    def _tell(self, at_ms: float, late_ms: float) -> None:
        if at_ms - self._told_ms >= _TELL_EVERY_MS:
            self._told_ms = at_ms
            log.warning("this machine is busy: the twin's tokens came %.0f ms late", late_ms)

    def _deliver(self, step: Step) -> None:
        for request_id in step.tokens:
            generation = self._running.get(request_id)
            if generation is None:
                continue
            generation.deliver()
            if generation.complete:
                del self._running[request_id]

    def _fail_all(self, failure: Exception) -> None:
        for generation in self._running.values():
            generation.fail(failure)
        self._running.clear()
