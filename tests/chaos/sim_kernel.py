"""Tasks that take turns in virtual time: the same seed gives the same order, always.

Each task is a greenlet, a stack of its own within one thread, so that code under test runs as it is; it runs until it
sleeps or waits. A process that is killed does nothing more: whatever it calls next is killed as well, so that no
`finally` does what `kill -9` would not let it do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, Final

from greenlet import getcurrent, greenlet

MOST_TURNS: Final = 100_000  # the longest of 1,000 schedules had 3,422
BEGIN_S: Final = 1_790_000_000.0
Work = Callable[[], None]


class Killed(BaseException):
    """`kill -9`: nobody catches it."""


class Host:
    """What tasks belong to: dies, freezes, and has a clock of its own."""

    def __init__(self, skew_s: float = 0.0) -> None:
        self.skew_s = skew_s
        self.dead = False
        self.frozen_until_s = 0.0
        self.tasks: dict[Task, None] = {}  # in the order of their beginning


class Task:
    """One greenlet's turn-taking."""

    __slots__ = ("green", "host", "ticket")

    def __init__(self, host: Host, live: Callable[[Task], None], hub: greenlet) -> None:
        self.green = greenlet(lambda: live(self), hub)  # where it goes on when this has ended
        self.host = host
        self.ticket = 0  # of its latest place in the queue; older ones no longer count


class Kernel:
    """`now_s` is true time. `order` decides between what is due at the same moment."""

    def __init__(self, order: Random) -> None:
        self.now_s = BEGIN_S
        self.order = order
        self.current: Task | None = None
        self.broke: BaseException | None = None
        self.end_s = float("inf")
        self.most_turns: float = MOST_TURNS
        self._queue: list[tuple[float, float, int, Task | Work, int]] = []
        self._number = 0
        self._hub = getcurrent()  # whoever calls `run`

    def at(self, at_s: float, work: Work) -> None:
        """Do something that neither sleeps nor waits."""
        self._push(at_s, work, 0)

    def spawn(self, host: Host, work: Work) -> Task:
        task = Task(host, lambda task: self._live(task, work), self._hub)
        host.tasks[task] = None
        self._push(self.now_s, task, task.ticket)
        return task

    def run(self) -> None:
        """Until nothing is due, or `stop`."""
        while (task := self._next()) is not None:
            self.current = task
            task.green.switch()

    def _live(self, task: Task, work: Work) -> None:
        try:
            if not task.host.dead:
                work()
        except Killed:
            pass
        except BaseException as error:
            self.broke = self.broke or error
            self.stop()
        del task.host.tasks[task]
        task.ticket += 1

    @property
    def restless(self) -> bool:
        """Whether it had more turns than any run that comes to rest."""
        return self._number > self.most_turns

    def stop(self) -> None:
        """Nothing that is due later happens any more."""
        self.end_s = self.now_s

    def forget(self) -> None:
        """Nothing that was to happen happens."""
        self._queue.clear()

    def kill(self, host: Host, but: Task | None = None) -> None:
        """`but`: the task that is running, where it is one of the host's."""
        host.dead = True
        host.frozen_until_s = 0.0
        for task in list(host.tasks):
            if task is not but:
                self.wake(task)

    def sleep(self, seconds: float) -> None:
        task = self.current
        assert task is not None
        self.wake(task, self.now_s + max(0.0, seconds))
        self._switch(task)

    def park(self, timeout_s: float | None = None) -> None:
        """Until woken, or for so long."""
        if timeout_s is not None:
            self.sleep(timeout_s)
            return
        task = self.current
        assert task is not None
        task.ticket += 1
        self._switch(task)

    def wake(self, task: Task, at_s: float | None = None) -> None:
        if task not in task.host.tasks:  # it has ended
            return
        task.ticket += 1
        self._push(self.now_s if at_s is None else at_s, task, task.ticket)

    def _switch(self, task: Task) -> None:
        self._hub.switch()
        if task.host.dead:
            raise Killed

    def _push(self, at_s: float, what: Task | Work, ticket: int) -> None:
        self._number += 1
        heapq.heappush(self._queue, (at_s, self.order.random(), self._number, what, ticket))

    def _next(self) -> Task | None:
        while self._queue and not self.restless:
            at_s, _, _, what, ticket = heapq.heappop(self._queue)
            if at_s > self.end_s:
                continue
            if not isinstance(what, Task):
                self.now_s = max(self.now_s, at_s)
                what()
                continue
            if ticket != what.ticket:
                continue
            if what.host.frozen_until_s > max(at_s, self.now_s):
                self._push(what.host.frozen_until_s, what, ticket)
                continue
            self.now_s = max(self.now_s, at_s)
            return what
        return None


class Running:
    """The kernel of the run that is under way: the code under test asks for it by the modules in sim_shims."""

    kernel: Kernel
    random: Random

    def host(self) -> Any:
        assert self.kernel.current is not None
        return self.kernel.current.host


RUNNING: Final = Running()
