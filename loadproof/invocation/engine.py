"""The engine of many requests: as many in flight as the pace allows, results as they end, nothing lost on the way.

Items are read only as they are needed, so memory holds what is in flight, what waits to be tried again, and the
sessions that are not over yet.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Protocol

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.chains import Chains, Follow, Item, chat_turn
from loadproof.invocation.codecs.types import GenerationRequest
from loadproof.invocation.concurrency import Pace
from loadproof.invocation.invoker import Invocation, UnderWay
from loadproof.invocation.outcomes import Outcome, OutcomeKind, RetryClass
from loadproof.invocation.quotas import Quotas
from loadproof.invocation.retry import Attempts, GiveUpReason, Retries, RetryBudget, RetryPolicy

TICK_S = 0.05
_NOT_ADMITTED = frozenset({"throttled", "no_capacity", "not_ready", "unavailable", "validation"})
MOST_UNDELIVERED = 1024  # results that nobody has taken yet; past that nothing more is sent
PATIENCE_S = 1800.0  # a scale-out from zero takes ten minutes


class Sender(Protocol):
    """What this needs of `Invoker`."""

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation: ...

    def under_way(self) -> Sequence[UnderWay]: ...


@dataclass(frozen=True, slots=True)
class ItemResult:
    """How an item ended. `request` is as sent, its session's history included; `attempts` counts what was sent.

    `invocation` is the last attempt; None: never sent, because the item before it in its session failed. `give_up`
    says why it is not tried again; None: it succeeded.
    """

    item: Item
    request: GenerationRequest
    outcome: Outcome
    invocation: Invocation | None
    attempts: int
    give_up: GiveUpReason | None


@dataclass(slots=True)
class _Work:
    item: Item
    request: GenerationRequest
    attempts: Attempts
    tokens: tuple[int, int]  # of its input, counted where there are quotas, and of the longest answer


class Many:
    """One pass over many items. `run` may be called once."""

    def __init__(
        self,
        sender: Sender,
        pace: Pace,
        *,
        policy: RetryPolicy | None = None,
        quotas: Quotas | None = None,
        follow: Follow = chat_turn,
        patience_s: float = PATIENCE_S,
        chance: Random | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """After `patience_s` without any answer `run` gives up."""
        self._sender, self.pace, self._quotas = sender, pace, quotas
        budget = RetryBudget(floor=max(10.0, 2.0 * pace.most))  # a blip may hit all that is in flight
        self._retries = Retries(policy or RetryPolicy(), budget, chance or Random())
        self._chains = Chains(follow)
        self._patience_s, self.now_s = patience_s, clock_s
        self._items: Iterator[Item] = iter(())
        self._waiting: list[tuple[float, int, _Work]] = []  # a heap of what is tried again, by when
        self._number = count()
        self._held: _Work | None = None  # next to go, waiting for its quota
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: deque[ItemResult] = deque()
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None
        self._exhausted = False
        self.in_flight = self.most_in_flight = 0
        self.stopped = False  # nothing more is sent
        self.stopped_early = False  # by `stop`
        self.retried = 0

    def stop(self) -> None:
        """Send nothing more; what is in flight ends and is yielded. What waits to be tried again has no result."""
        self.stopped = self.stopped_early = True
        self._news.set()

    async def run(self, items: Iterable[Item]) -> AsyncGenerator[ItemResult]:
        """Results in the order in which they end. Raises CouldNotRunError when nothing is answered any more."""
        self._items = iter(items)
        ticker = asyncio.create_task(self._tick())
        try:
            while True:
                self._fill()
                while self._ended:
                    yield self._ended.popleft()
                if self._failure is not None:
                    raise self._failure
                if not self._tasks and not self._ended and (self.stopped or self._all_done()):
                    return
                await self._news.wait()
                self._news.clear()
        finally:
            self.stopped = True
            if self._timer is not None:
                self._timer.cancel()
            for task in (ticker, *self._tasks):
                task.cancel()
            await asyncio.gather(ticker, *self._tasks, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------ sending

    def _fill(self) -> None:
        """Send all that may go now, and have this called again when more may."""
        if self._failure is not None:
            return
        now_s = self.now_s()
        again_s: float | None = None
        while not self.stopped and len(self._ended) < MOST_UNDELIVERED and self.pace.room(self.in_flight, now_s):
            work = self._next(now_s)
            if work is None:
                break
            wait_s = self._quota_wait_s(work, now_s)
            if wait_s > 0:
                self._held, again_s = work, now_s + wait_s
                break
            self._send(work, now_s)
        if self._waiting and not self._held:
            again_s = min(again_s or self._waiting[0][0], self._waiting[0][0])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if again_s is not None and again_s > now_s:
            self._timer = asyncio.get_running_loop().call_later(again_s - now_s, self._fill)

    def _next(self, now_s: float) -> _Work | None:
        """What waited to be tried again goes before what was never sent."""
        if self._held is not None:
            work, self._held = self._held, None
            return work
        if self._waiting and self._waiting[0][0] <= now_s:
            return heappop(self._waiting)[2]
        while (item := self._chains.ready()) is None and not self._exhausted and not self._chains.full:
            try:
                read = next(self._items, None)
            except Exception as error:  # the caller's iterator: raised where it is awaited, not in a timer
                self._fail(error)
                return None
            if read is None:
                self._exhausted = True
            else:
                for skipped in self._chains.add(read):
                    self._skip(skipped)
        if item is None:
            return None
        request = self._chains.request_of(item)
        input_tokens = 0 if self._quotas is None else self._quotas.count_input_tokens(request)
        return _Work(item, request, Attempts(now_s), (input_tokens, request.max_output_tokens))

    def _send(self, work: _Work, now_s: float) -> None:
        work.attempts.sent += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self._quotas is not None:
            self._quotas.admit(*work.tokens, now_s)
        task = asyncio.get_running_loop().create_task(self._attempt(work))
        self._tasks.add(task)
        task.add_done_callback(self._after)

    async def _attempt(self, work: _Work) -> None:
        try:
            try:
                invocation = await self._sender.invoke(work.request)
            finally:
                self.in_flight -= 1
        except InputError as error:
            outcome = Outcome(OutcomeKind.VALIDATION, code="InputError", message=str(error), retry=RetryClass.POISON)
            self._end(work, outcome, None, "poison")
            return
        now_s = self.now_s()
        outcome = invocation.outcome
        if self._quotas is not None and (used := _used(invocation)) is not None:
            self._quotas.settle(work.tokens, (work.tokens[0] if used[0] is None else used[0], used[1]), now_s)
        self.pace.ended(invocation, self.in_flight, now_s)
        if outcome.ok:
            self._retries.succeeded()
            self._end(work, outcome, invocation, None)
            return
        decision = self._retries.after(outcome, work.attempts, now_s)
        if decision.give_up is None:
            self.retried += 1
            heappush(self._waiting, (now_s + decision.delay_s, next(self._number), work))
        elif decision.give_up != "canceled":
            self._end(work, outcome, invocation, decision.give_up)

    def _after(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        self._fill()
        self._news.set()

    def _end(self, work: _Work, outcome: Outcome, invocation: Invocation | None, give_up: GiveUpReason | None) -> None:
        self._ended.append(ItemResult(work.item, work.request, outcome, invocation, work.attempts.sent, give_up))
        text = invocation.text if invocation is not None and outcome.ok else None
        for skipped in self._chains.ended(work.item, work.request, text, outcome.ok):
            self._skip(skipped)

    def _skip(self, item: Item) -> None:
        message = f"not sent: an item before it in `{item.chain}` failed"
        outcome = Outcome(OutcomeKind.CANCELED, code="ChainBroken", message=message)
        self._ended.append(ItemResult(item, item.request, outcome, None, 0, "canceled"))
        self._news.set()

    # ------------------------------------------------------------------------------------------------ waiting

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self.now_s()
            more = bool(self._waiting) or self._held is not None or not self._exhausted
            self.pace.tick(self._sender.under_way(), self.in_flight, more, now_s)
            if not self.in_flight and (reason := self.pace.given_up(now_s, self._patience_s)):
                self._fail(CouldNotRunError(reason))
            self._fill()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._news.set()

    def _all_done(self) -> bool:
        return self._exhausted and not self._waiting and self._held is None and self._chains.idle

    def _quota_wait_s(self, work: _Work, now_s: float) -> float:
        return 0.0 if self._quotas is None else self._quotas.wait_s(*work.tokens, now_s)


def _used(invocation: Invocation) -> tuple[int | None, int] | None:
    """What an ended request came to, in (input, output) tokens; an input of None: as it was counted before.

    None where nobody knows: a stream that was cut may have been generated to its end, and would pass the quota.
    """
    outcome = invocation.outcome
    if outcome.kind in _NOT_ADMITTED or invocation.sent_ns is None:
        return 0, 0
    if not outcome.ok or invocation.output_tokens is None or invocation.token_source != "server":
        return None
    return invocation.input_tokens, invocation.output_tokens
