"""What the consumer imports as threading, time, random, uuid and futures, in virtual time."""

from __future__ import annotations

import random as real_random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sim_kernel import RUNNING, Killed, Task


def _alive() -> None:
    if RUNNING.host().dead:
        raise Killed


class _Waiters:
    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def wait(self, timeout_s: float | None) -> None:
        task = RUNNING.kernel.current
        assert task is not None
        self._tasks.append(task)
        RUNNING.kernel.park(timeout_s)
        if task in self._tasks:
            self._tasks.remove(task)

    def wake(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            RUNNING.kernel.wake(task)


class Lock:
    def __init__(self) -> None:
        self._held = False
        self._waiters = _Waiters()

    def __enter__(self) -> None:
        _alive()
        while self._held:
            self._waiters.wait(None)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        self._waiters.wake()


class Event:
    def __init__(self) -> None:
        self._set = False
        self._waiters = _Waiters()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._waiters.wake()

    def wait(self, timeout_s: float | None = None) -> bool:
        _alive()
        if not self._set:
            self._waiters.wait(timeout_s)
        return self._set


class Thread:
    def __init__(self, *, target: Callable[..., None], args: tuple[Any, ...] = (), **_: object) -> None:
        self._work = lambda: target(*args)

    def start(self) -> None:
        _alive()
        RUNNING.kernel.spawn(RUNNING.host(), self._work)


class Future:
    """One that is looked at often is woken instead: when it ends, or its process is told to stop."""

    def __init__(self) -> None:
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None
        self._waiters = _Waiters()
        RUNNING.host().futures.append(self)

    def done(self) -> bool:
        return self._done

    def look(self) -> None:
        self._waiters.wake()

    def set_result(self, result: Any) -> None:
        self._result, self._done = result, True
        self._waiters.wake()

    def set_exception(self, error: Exception) -> None:
        self._error, self._done = error, True
        self._waiters.wake()

    def exception(self, timeout_s: float | None = None) -> Exception | None:
        _alive()
        if not self._done:
            self._waiters.wait(timeout_s if RUNNING.host().stopped else None)
        if not self._done:
            raise TimeoutError
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


threading = SimpleNamespace(Lock=Lock, Event=Event, Thread=Thread)
time = SimpleNamespace(time=lambda: RUNNING.kernel.now_s + RUNNING.host().skew_s)
random = SimpleNamespace(
    uniform=lambda least, most: RUNNING.random.uniform(least, most),
    Random=lambda seed=None: real_random.Random(RUNNING.random.random()),
)
uuid = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{RUNNING.random.getrandbits(64):016x}"))
