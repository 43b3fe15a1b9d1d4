"""An event loop whose clock jumps, and the twin's schedulers as a sender on it: minutes of traffic in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from array import array
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from loadproof.capacity import PlannedDeployment, StepTimes
from loadproof.capacity.memory import batch_limits
from loadproof.invocation import GenerationRequest, Invocation, Outcome, OutcomeKind, RetryClass
from loadproof.invocation.invoker import UnderWay
from loadproof.simulation import ContinuousBatcher

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Where the loop would sleep, time jumps instead."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is due any more: the test would hang")
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is virtual and starts at 0; no threads, no sockets."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jumping.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main` on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now_s() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


def now_ns() -> int:
    return round(now_s() * 1e9)


def refused(status: int = 429) -> Outcome:
    return Outcome(OutcomeKind.THROTTLED, status, f"HTTP {status}", "busy", RetryClass.SLOW_DOWN)


def made_invocation(
    outcome: Outcome, sent_ns: int, arrivals: array[int], end_ns: int, input_tokens: int, text: str | None = None
) -> Invocation:
    tokens = len(arrivals)
    return Invocation(
        intended_ns=sent_ns,
        sent_ns=sent_ns,
        first_token_ns=arrivals[0] if tokens else None,
        last_token_ns=arrivals[-1] if tokens else None,
        end_ns=end_ns,
        arrival_ns=arrivals,
        arrival_tokens=array("q", [1] * tokens),
        input_tokens=input_tokens,
        output_tokens=tokens,
        token_source="server" if tokens else "none",
        text_length=tokens,
        finish_reason="length" if outcome.ok else None,
        outcome=outcome,
        text=text,
    )


@dataclass
class _Request:
    sent_ns: int
    arrivals: array[int] = field(default_factory=lambda: array("q"))
    done: asyncio.Future[None] | None = None


class TwinSender:
    """Copies of a deployment behind a router that takes the least loaded one; `invoke` is what `Invoker` has.

    A prompt is its length in words. `fault(number)` may refuse the request of that number, counted from 0.
    """

    def __init__(
        self, deployment: PlannedDeployment, fault: Callable[[int], Outcome | None] = lambda number: None
    ) -> None:
        times, limits = StepTimes(deployment), batch_limits(deployment)
        self._copies = [ContinuousBatcher(times, limits) for _ in range(deployment.copies)]
        self._loads = [0] * deployment.copies
        self._running = [False] * deployment.copies
        self._known: dict[str, _Request] = {}
        self._fault = fault
        self.sent = 0
        self.most_in_flight = 0

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
        number, self.sent = self.sent, self.sent + 1
        entry = _Request(now_ns())
        input_tokens = len(request.prompt.split())
        outcome = self._fault(number)
        copy = self._loads.index(min(self._loads))
        name = str(number)
        if outcome is None and self._copies[copy].submit(name, input_tokens, request.max_output_tokens, now_s() * 1e3):
            outcome = refused()
        if outcome is not None:
            await asyncio.sleep(0.005)
            return made_invocation(outcome, entry.sent_ns, array("q"), now_ns(), input_tokens)
        self._known[name] = entry
        self._loads[copy] += 1
        self.most_in_flight = max(self.most_in_flight, len(self._known))
        entry.done = asyncio.get_running_loop().create_future()
        if not self._running[copy]:
            self._running[copy] = True
            asyncio.get_running_loop().call_soon(self._step, copy)
        try:
            await entry.done
        finally:
            self._loads[copy] -= 1
            self._known.pop(name, None)
            self._copies[copy].cancel(name)
        return made_invocation(Outcome(OutcomeKind.OK, 200), entry.sent_ns, entry.arrivals, now_ns(), input_tokens)

    def under_way(self) -> list[UnderWay]:
        return [
            UnderWay(
                one.sent_ns, *((one.arrivals[0], one.arrivals[-1]) if one.arrivals else (None, None)), len(one.arrivals)
            )
            for one in self._known.values()
        ]

    def cancel_all(self) -> None:
        pass

    def _step(self, copy: int) -> None:
        step = self._copies[copy].next_step(now_s() * 1e3)
        if step is None:
            self._running[copy] = False
            return
        asyncio.get_running_loop().call_later(step.duration_ms / 1e3, self._deliver, copy, step)

    def _deliver(self, copy: int, step: Any) -> None:
        at_ns = now_ns()
        for name in step.tokens:
            if name in self._known:
                self._known[name].arrivals.append(at_ns)
        for name in step.finished:
            entry = self._known.get(name)
            if entry is not None and entry.done is not None and not entry.done.done():
                entry.done.set_result(None)
        self._step(copy)
