"""SQS for everyone in this process: one lock around the engine, and receives that wait without asking again and again.

Long polling: a receive that found nothing sleeps until a message can be there (one was sent, made visible or moved, or
a visibility ends), or until its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadproof.localcloud.queue.sqs.api import SqsApi
from loadproof.localcloud.queue.sqs.checks import check_types
from loadproof.localcloud.queue.sqs.engine import Engine
from loadproof.localcloud.queue.sqs.queue import Queue
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

Result = Document
_RECEIVE = "ReceiveMessage"
_SHORTEST_S = 0.001


@dataclass(slots=True, eq=False)
class _Waiter:
    """A receive that waits for a message in `queue`."""

    queue: Queue
    wake: Callable[[], None]


class SqsService:
    """All operations, from any thread (`call`) or from an event loop (`answer`)."""

    def __init__(
        self,
        *,
        endpoint_url: Callable[[], str],
        now_s: Callable[[], float] = time.time,
        name_reuse_s: float = 0.0,
    ) -> None:
        """`endpoint_url` begins the queues' addresses; it may be known only once the server listens."""
        self._now_s = now_s
        self._lock = threading.RLock()
        self.engine = Engine(now_s, name_reuse_s=name_reuse_s)
        self.api = SqsApi(self.engine, lambda account, name: f"{endpoint_url()}/{account}/{name}")
        self._waiters: set[_Waiter] = set()

    @contextlib.contextmanager
    def locked(self) -> Iterator[Engine]:
        """The engine for a moment, alone. Receives that wait hear of what has become visible."""
        with self._lock:
            try:
                yield self.engine
            finally:
                for waiter in self._waiters:
                    if waiter.queue.next_visible() is not None:
                        waiter.wake()

    def call(self, caller: Caller, action: str, params: Params) -> Result:
        """One operation; a receive blocks this thread while it waits. Raises AwsError."""
        if action != _RECEIVE:
            return self._now(caller, action, params)
        woken = threading.Event()
        with self._waiting(caller, params, woken.set) as pause_after:
            while True:
                woken.clear()
                result = self._now(caller, action, params)
                pause_s = pause_after(result)
                if pause_s <= 0:
                    return result
                woken.wait(pause_s)

    async def answer(
        self, caller: Caller, action: str, params: Params, connected: Callable[[], bool] = lambda: True
    ) -> Result:
        """As `call`, for an event loop. A client that is not `connected` any more is given no message."""
        if action != _RECEIVE:
            return self._now(caller, action, params)
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its receives with it
                loop.call_soon_threadsafe(woken.set)

        with self._waiting(caller, params, wake) as pause_after:
            while True:
                woken.clear()
                if not connected():
                    return {}
                result = self._now(caller, action, params)
                pause_s = pause_after(result)
                if pause_s <= 0:
                    return result
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), pause_s)

    def _now(self, caller: Caller, action: str, params: Params) -> Result:
        check_types(action, params)
        method = getattr(self.api, action, None)
        if method is None:
            raise AwsError("UnsupportedOperation", f"The local cloud does not provide sqs:{action}.")
        with self.locked():
            return method(caller, params) or {}

    @contextlib.contextmanager
    def _waiting(self, caller: Caller, params: Params, wake: Callable[[], None]) -> Iterator[Callable[[Result], float]]:
        """Registers a waiter. Yields what tells how long to sleep after a look and its result: 0 or less is the end."""
        check_types(_RECEIVE, params)
        with self._lock:
            queue = self.api.queue_of(caller, params)
            end_s = self._now_s() + self.api.wait_s(queue, params)
            waiter = _Waiter(queue, wake)
            self._waiters.add(waiter)

        def pause_s(result: Result) -> float:
            if result:
                return 0.0
            with self._lock:
                now_s, change_s = self._now_s(), self.engine.next_change_s(queue)
                if now_s >= end_s:
                    queue.traffic["NumberOfEmptyReceives"] += 1
            return min(end_s, end_s if change_s is None else max(change_s, now_s + _SHORTEST_S)) - now_s

        try:
            yield pause_s
        finally:
            with self._lock:
                self._waiters.discard(waiter)
