"""Copies behind a router in virtual time: the clock jumps from event to event, never from token to token.

An event is an arrival or the end of a copy's run. Results are yielded as requests end, so memory holds what is in
flight and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Literal

from loadproof.errors import InputError
from loadproof.simulation.results import RefusedRequest, SimulatedRequest
from loadproof.simulation.scheduling import Request, Scheduler
from loadproof.simulation.traffic import ClosedLoop, OpenLoop

Routing = Literal["random", "least_outstanding"]
Sizes = Iterable[tuple[int, int]]  # (input tokens, output tokens) of each request in turn
Result = SimulatedRequest | RefusedRequest


def simulate_fleet(
    copies: Sequence[Scheduler],
    traffic: ClosedLoop | OpenLoop,
    sizes: Sizes,
    *,
    routing: Routing = "least_outstanding",
    seed: int = 0,
) -> Iterator[Result]:
    """Send one request for each of `sizes`, endless ones included, and yield each as it ends or is refused.

    `copies` must be fresh schedulers. `random` and `least_outstanding` are SageMaker's two routing strategies; ties
    among the least loaded are broken by chance. The same arguments give the same results. Raises InputError for no
    copies, a size below 1 and send times that fall.
    """
    if not copies:
        raise InputError("a fleet needs at least one copy")
    return _Fleet(copies, traffic, iter(sizes), _router(copies, routing, Random(seed))).run()


def _router(copies: Sequence[Scheduler], routing: Routing, chance: Random) -> Callable[[], int]:
    count = len(copies)
    if count == 1:
        return lambda: 0
    if routing == "random":
        return lambda: chance.randrange(count)

    def least_outstanding() -> int:
        loads = [copy.outstanding for copy in copies]
        least = min(loads)
        return chance.choice([index for index, load in enumerate(loads) if load == least])

    return least_outstanding


class _Fleet:
    def __init__(
        self,
        copies: Sequence[Scheduler],
        traffic: ClosedLoop | OpenLoop,
        sizes: Iterator[tuple[int, int]],
        route: Callable[[], int],
    ) -> None:
        self._copies = copies
        self._route = route
        self._sizes = sizes
        self._busy = [False] * len(copies)
        self._woken: list[int] = []  # copies to plan for, once all of this instant has happened
        # Ends of planned runs as (end, copy). A run that was cut leaves its old end behind, which is then skipped.
        self._ends: list[tuple[float, int]] = []
        self._closed = traffic if isinstance(traffic, ClosedLoop) else None
        self._times = iter([0.0] * traffic.concurrency if isinstance(traffic, ClosedLoop) else traffic.times_ms)
        self._returning: deque[float] = deque()  # when clients that were refused come back, ascending
        self._next_time_ms = next(self._times, inf)

    def run(self) -> Iterator[Result]:
        ends, copies, busy, closed = self._ends, self._copies, self._busy, self._closed
        while True:
            next_ms = self._next_time_ms
            if self._returning and self._returning[0] < next_ms:
                next_ms = self._returning[0]
            if ends and ends[0][0] <= next_ms:
                now_ms, index = heappop(ends)
                copy = copies[index]
                if not busy[index] or copy.end_ms != now_ms:
                    continue
                busy[index] = False
                self._woken.append(index)
                ended = copy.commit()
                for request in ended:
                    yield SimulatedRequest(
                        request.sent_ms, request.first_ms, now_ms, request.output_tokens, request.input_tokens, index
                    )
                if closed is not None:
                    for _ in ended:
                        if (refused := self._send(now_ms)) is not None:
                            yield refused
            elif next_ms < inf:
                now_ms = next_ms
            else:
                return
            # Whoever arrives in the same instant joins before the copies decide.
            while next_ms <= now_ms:
                next_ms = self._take_arrival(next_ms)
                if (refused := self._send(now_ms)) is not None:
                    yield refused
            for index in self._woken:
                copy = copies[index]
                if copy.plan(now_ms):
                    busy[index] = True
                    heappush(ends, (copy.end_ms, index))
            self._woken.clear()

    def _take_arrival(self, at_ms: float) -> float:
        """Let the arrival at `at_ms` pass; when the next one is due."""
        if self._returning and self._returning[0] == at_ms:
            self._returning.popleft()
        else:
            self._next_time_ms = next(self._times, inf)
            if self._next_time_ms < at_ms:
                raise InputError(f"send times must not fall, found {self._next_time_ms} ms after {at_ms} ms")
        return min(self._next_time_ms, self._returning[0]) if self._returning else self._next_time_ms

    def _send(self, now_ms: float) -> RefusedRequest | None:
        """The next request, to the copy the router chooses; the refusal, if that copy refuses it."""
        size = next(self._sizes, None)
        if size is None:
            self._times, self._next_time_ms = iter(()), inf
            self._returning.clear()
            return None
        input_tokens, output_tokens = size
        if input_tokens < 1 or output_tokens < 1:
            raise InputError(f"expected at least 1 input and 1 output token, found {input_tokens} and {output_tokens}")
        index = self._route()
        copy = self._copies[index]
        if (reason := copy.refusal(input_tokens, output_tokens)) is not None:
            if self._closed is not None:
                self._returning.append(now_ms + self._closed.pause_after_refusal_ms)
            return RefusedRequest(now_ms, reason, input_tokens, output_tokens, index)
        copy.waiting.append(Request("", input_tokens, output_tokens, now_ms))
        if not self._busy[index]:
            if index not in self._woken:
                self._woken.append(index)
        elif copy.open_to_arrivals and copy.cut(now_ms):
            heappush(self._ends, (copy.end_ms, index))
        return None
