"""Consumers of a buffer on a simulated server, in virtual time: each slot takes the next message when the pace lets it.

The pace is the consumer's own, one a process, over a shared record; the server is one of `server_shapes`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from consumer_memory import Life, MemoryBoard, World
from server_shapes import BUSY, Job, Run, Server, Shape, Size

from loadproof.constructs.buffer.runtime.consumer.failures import Kind
from loadproof.constructs.buffer.runtime.consumer.pace import Pace, Stream
from loadproof.constructs.buffer.runtime.consumer.steering import Steering

BATCH = 10  # messages of one process


class ConsumerFleet:
    """`slots` messages at a time, of processes with `BATCH` each. `steered` False: all that refusals allow."""

    def __init__(self, shape: Shape, work: Sequence[Size], slots: int, seed: int = 1, *, steered: bool = True) -> None:
        chance = self._random = Random(seed)
        self.world, self.run = World(), Run(tokens=sum(size.answer for size in work))
        self._begun_s = self.world.clock.now_s()
        self._shape, self._server = shape, Server(shape, chance)
        self._messages, self._left = deque(enumerate(work)), len(work)
        processes = -(-slots // BATCH)
        self._paces = [
            Pace(MemoryBoard(self.world, Life()), self.world.clock, max_in_flight=slots, seed=100 * seed + number)
            for number in range(processes)
        ]
        if not steered:
            for pace in self._paces:
                pace._steering = Steering(0, "")
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._streams: dict[int, tuple[Stream, Pace, Callable[[Kind | None], None]]] = {}
        self._stepping = False
        for slot in range(slots):
            self._at(3 * chance.random(), self._taking(self._paces[slot // BATCH], slot % BATCH))

    @property
    def now_s(self) -> float:
        return self.world.clock.now_s() - self._begun_s

    def complete(self, most_s: float = 20_000) -> Run:
        while self._left and self.now_s < most_s:
            at_s, _, event = heapq.heappop(self._events)
            self.world.clock.time_s = max(self.world.clock.time_s, self._begun_s + at_s)
            event()
        self.run.took_s = self.now_s
        self.run.tokens -= sum(size.answer for _, size in self._messages)
        return self.run

    def _at(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + delay_s, next(self._order), event))

    def _taking(self, pace: Pace, slot: int) -> Callable[[], None]:
        """A slot's life: take a message, ask the pace, invoke; after a failure pause with full jitter."""

        def take() -> None:
            if self._messages:
                ask(*self._messages.popleft(), 0)

        def ask(number: int, size: Size, failures: int) -> None:
            wait_s = pace.wait_s(slot)
            if wait_s:
                self._at(min(wait_s, 1.0), lambda: ask(number, size, failures))
                return
            started_s, stream = self.world.clock.now_s(), pace.begin()

            def ended(kind: Kind | None) -> None:
                stream.over()
                self._note(-1)
                if kind is None:
                    pace.answered(started_s)
                    self._left -= 1
                    self._at(0.05, take)  # result, done, delete
                    return
                pace.refused(kind, started_s)
                self.run.refused += 1
                pause_s = self._random.uniform(0, min(2.0, 0.5 * 2 ** (failures + 1)))
                self._at(pause_s, lambda: ask(number, size, failures + 1))

            self._streams[number] = stream, pace, ended
            self._note(1)
            self._at(self._shape.network_s, lambda: self._submit(Job(number, size, self.now_s, size.prompt)))

        return take

    def _note(self, change: int) -> None:
        before = self.run.in_flight[-1][1] if self.run.in_flight else 0
        self.run.in_flight.append((self.now_s, before + change))

    def _submit(self, job: Job) -> None:
        outcome = self._server.submit(job, self.now_s)
        if outcome is not None:
            kind = Kind.SLOW_DOWN if outcome is BUSY else Kind.NO_CAPACITY_YET
            _, _, ended = self._streams.pop(job.item)
            self._at(self._shape.network_s, lambda: ended(kind))
        elif not self._stepping:
            self._step()

    def _step(self) -> None:
        taken_s, served = self._server.step(self.now_s)
        self._stepping = taken_s > 0
        if self._stepping:
            self._at(taken_s, lambda: self._deliver(served))

    def _deliver(self, served: list[Job]) -> None:
        done = self._server.deliver(served, self.now_s)
        for job in served:
            if not self._shape.whole or job in done:
                stream, pace, _ = self._streams[job.item]
                stream.heard()
                pace.tend()
        for job in done:
            _, _, ended = self._streams.pop(job.item)
            ended(None)
        self._step()
