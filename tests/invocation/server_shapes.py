"""Servers of many shapes in virtual time, and a client that sends a work list to one at a pace: no sockets, no sleep.

A server works in steps, as engines with continuous batching do: each step brings every running answer one token and
works on a part of the prompts that wait. What a step costs, how many run, how many are held and what memory there is
make the shape. Thousands of seconds of traffic take seconds.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from virtual_twin import made_invocation

from loadproof.invocation import Outcome, OutcomeKind, RetryClass
from loadproof.invocation.concurrency import Pace
from loadproof.invocation.engine import TICK_S
from loadproof.invocation.invoker import UnderWay
from loadproof.invocation.retry import Attempts, Retries, RetryBudget, RetryPolicy

OK = Outcome(OutcomeKind.OK, 200)
BUSY = Outcome(OutcomeKind.THROTTLED, 429, "HTTP 429", "busy", RetryClass.SLOW_DOWN)
NO_COPY = Outcome(OutcomeKind.NO_CAPACITY, 400, "ValidationError", "no capacity", RetryClass.NO_CAPACITY_YET)


class Size(NamedTuple):
    """Tokens of one request."""

    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A step with n running answers takes `token_s` + n · `slope_s`, and past `knee` (n / knee)^`power` times that.

    `slots`: more than that wait at the door. `held`: more than that are refused; `per_s` and `burst`: so are more
    requests a second than that. A prompt takes its length / `prompt_tokens_per_s`. `memory_tokens`: past that the
    newest is put aside and computed again. `scale`: capacity is multiplied from a time on. No copy before `up_at_s`.
    `whole`: answers come in one piece, when they are ready.
    """

    name: str
    token_s: float = 0.02
    slope_s: float = 0.0
    knee: float = inf
    power: float = 1.0
    slots: float = inf
    held: float = inf
    per_s: float = inf
    burst: float = 1.0
    retry_after_s: float | None = None
    prompt_tokens_per_s: float = 20_000.0
    memory_tokens: float = inf
    scale: tuple[tuple[float, float], ...] = ()
    up_at_s: float = 0.0
    whole: bool = False
    jitter: float = 0.05
    network_s: float = 0.01

    def scale_at(self, now_s: float) -> float:
        return next((factor for from_s, factor in reversed(self.scale) if now_s >= from_s), 1.0)


@dataclass(slots=True)
class Job:
    """One attempt, as client and server see it."""

    item: int
    size: Size
    sent_s: float
    prompt_left: int
    arrivals: array[int] = field(default_factory=lambda: array("q"))
    tokens: int = 0

    @property
    def in_memory(self) -> int:
        return self.size.prompt + self.tokens


_CHUNK = 2048  # prompt tokens worked on in one step


class Server:
    """The shape at work. `step` is called whenever the one before has ended."""

    def __init__(self, shape: Shape, chance: Random) -> None:
        self._shape, self._chance = shape, chance
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self._memory = 0
        self._tokens_left, self._refilled_s = shape.burst, 0.0

    def submit(self, job: Job, now_s: float) -> Outcome | None:
        """Why it is refused, if it is."""
        shape = self._shape
        scale = shape.scale_at(now_s)
        if now_s < shape.up_at_s:
            return NO_COPY
        if shape.per_s < inf:
            self._tokens_left = min(shape.burst, self._tokens_left + (now_s - self._refilled_s) * shape.per_s * scale)
            self._refilled_s = now_s
            if self._tokens_left < 1:
                return BUSY
            self._tokens_left -= 1
        if len(self.waiting) + len(self.running) >= shape.held * scale:
            return BUSY
        self.waiting.append(job)
        return None

    def step(self, now_s: float) -> tuple[float, list[Job]]:
        """How long the next step takes, and who has a token after it; (0, []): there is nothing to do."""
        shape, scale = self._shape, self._shape.scale_at(now_s)
        self._admit(shape, scale)
        if not self.running:
            return 0.0, []
        budget, served = _CHUNK, []
        for job in self.running:
            if job.prompt_left:
                worked = min(budget, job.prompt_left)
                job.prompt_left -= worked
                budget -= worked
            if not job.prompt_left:
                served.append(job)
        worked = _CHUNK - budget
        n = len(self.running)
        decode_s = (shape.token_s + shape.slope_s * n / scale) * max(1.0, n / (shape.knee * scale)) ** shape.power
        taken_s = decode_s + worked / (shape.prompt_tokens_per_s * scale)
        return taken_s * self._chance.uniform(1 - shape.jitter, 1 + shape.jitter), served

    def deliver(self, served: Sequence[Job], now_s: float) -> list[Job]:
        """The step has ended; those that are complete."""
        done = []
        at_ns = round(now_s * 1e9)
        for job in served:
            job.tokens += 1
            if not self._shape.whole or job.tokens == job.size.answer:
                job.arrivals.append(at_ns)
            if job.tokens >= job.size.answer:
                done.append(job)
        self._memory += len(served)
        for job in done:
            self.running.remove(job)
            self._memory -= job.in_memory
        while self._memory > self._shape.memory_tokens * self._shape.scale_at(now_s) and len(self.running) > 1:
            newest = self.running.pop()
            self._memory -= newest.in_memory
            newest.prompt_left = newest.in_memory
            self.waiting.appendleft(newest)
        return done

    def _admit(self, shape: Shape, scale: float) -> None:
        while self.waiting and len(self.running) < max(1, int(min(shape.slots, 1e9) * scale)):
            job = self.waiting[0]
            if self.running and self._memory + job.in_memory > shape.memory_tokens * scale:
                return
            self.running.append(self.waiting.popleft())
            self._memory += job.in_memory


@dataclass(slots=True)
class Run:
    """What came of a work list."""

    took_s: float = 0.0
    tokens: int = 0
    refused: int = 0
    in_flight: list[tuple[float, int]] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.took_s

    def most_after(self, from_s: float, to_s: float = inf) -> int:
        return max((n for at_s, n in self.in_flight if from_s <= at_s < to_s), default=0)


class Client:
    """Does what `Many` does, without its tasks: as many in flight as the pace allows, refusals tried again."""

    def __init__(self, shape: Shape, work: Sequence[Size], pace: Pace, seed: int) -> None:
        chance = Random(seed)
        self.now_s, self.run = 0.0, Run(tokens=sum(size.answer for size in work))
        self._shape, self._pace, self._server = shape, pace, Server(shape, chance)
        self._items = deque((number, size, Attempts(0.0)) for number, size in enumerate(work))
        self._again: list[tuple[float, int, Size, Attempts]] = []
        self._retries = Retries(RetryPolicy(), RetryBudget(), chance)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._jobs: dict[int, tuple[Job, Attempts]] = {}
        self._left = len(work)
        self._stepping = False
        self.received = 0

    def complete(self, most_s: float = inf) -> Run:
        self._tick()
        while self._left and self.now_s < most_s:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
        self.run.took_s = self.now_s
        self.run.tokens -= sum(size.answer for _, size, _ in self._items)
        return self.run

    def _at(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + delay_s, next(self._order), event))

    def _tick(self) -> None:
        under_way = [_so_far(job) for job, _ in self._jobs.values()]
        more = bool(self._items or self._again)
        self._pace.tick(under_way, len(self._jobs), more, self.now_s)
        self.run.in_flight.append((self.now_s, len(self._jobs)))
        self._fill()
        self._at(TICK_S, self._tick)

    def _fill(self) -> None:
        while self._pace.room(len(self._jobs), self.now_s):
            if self._again and self._again[0][0] <= self.now_s:
                _, number, size, attempts = heapq.heappop(self._again)
            elif self._items:
                number, size, attempts = self._items.popleft()
            else:
                return
            job = Job(number, size, self.now_s, size.prompt)
            attempts.sent += 1
            self._jobs[number] = job, attempts
            self._at(self._shape.network_s, partial(self._submit, job))

    def _submit(self, job: Job) -> None:
        outcome = self._server.submit(job, self.now_s)
        if outcome is BUSY and self._shape.retry_after_s is not None:
            outcome = replace(outcome, retry_after_s=self._shape.retry_after_s)
        if outcome is not None:
            self._at(self._shape.network_s, lambda: self._ended(job, outcome))
        elif not self._stepping:
            self._step()

    def _step(self) -> None:
        taken_s, served = self._server.step(self.now_s)
        self._stepping = taken_s > 0
        if self._stepping:
            self._at(taken_s, lambda: self._deliver(served))

    def _deliver(self, served: list[Job]) -> None:
        for job in self._server.deliver(served, self.now_s):
            self._ended(job, OK)
        self._step()

    def _ended(self, job: Job, outcome: Outcome) -> None:
        _, attempts = self._jobs.pop(job.item)
        now_ns = round(self.now_s * 1e9)
        invocation = made_invocation(outcome, round(job.sent_s * 1e9), job.arrivals, now_ns, job.size.prompt)
        if self._shape.whole:
            invocation = replace(invocation, output_tokens=job.tokens)
        self._pace.ended(invocation, len(self._jobs), self.now_s)
        if outcome.ok:
            self._left -= 1
            self._retries.succeeded()
        else:
            self.run.refused += 1
            delay_s = self._retries.after(outcome, attempts, self.now_s).delay_s
            heapq.heappush(self._again, (self.now_s + delay_s, job.item, job.size, attempts))
        self._fill()


def _so_far(job: Job) -> UnderWay:
    arrivals = job.arrivals
    first_ns, last_ns = (arrivals[0], arrivals[-1]) if arrivals else (None, None)
    return UnderWay(round(job.sent_s * 1e9), first_ns, last_ns, len(arrivals))


def work_of(number: int, prompt: tuple[int, int], answer: tuple[int, int], seed: int = 3) -> list[Size]:
    """Sizes drawn evenly between two bounds each."""
    draw = Random(seed)
    return [Size(draw.randint(*prompt), draw.randint(*answer)) for _ in range(number)]
