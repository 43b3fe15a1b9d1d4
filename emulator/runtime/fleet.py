"""The running containers: a group per component or variant, as many copies as the control plane has in service."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from emulator.directory import ContainerView
from emulator.model_server.container import Container
from emulator.model_server.start import Place

log = logging.getLogger(__name__)

StartContainer = Callable[[ContainerView, Place], Container]


@dataclass(slots=True, eq=False)
class Copy:
    """One container and the requests it has not answered yet."""

    container: Container
    outstanding: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the control plane wants to run under one key."""

    container: ContainerView
    place: Place
    copies: int
    generation: int
    random_routing: bool = False


@dataclass(slots=True)
class Group:
    """The copies of one component or variant, all of one generation."""

    generation: int
    copies: list[Copy] = field(default_factory=list)


class Fleet:
    """Starts, drains and picks copies. Belongs to one event loop."""

    def __init__(self, start: StartContainer, seed: int = 0) -> None:
        self._start = start
        self._groups: dict[str, Group] = {}
        self._random = random.Random(seed)
        self._turns = itertools.count()
        self._drains: set[asyncio.Task[None]] = set()

    @property
    def groups(self) -> dict[str, Group]:
        return self._groups

    def pick(self, key: str, wanted: Wanted) -> Copy:
        """The copy for the next request; `wanted.copies` is at least 1. Raises CannotStartError."""
        group = self.reconcile(key, wanted)
        if wanted.random_routing:
            return self._random.choice(group.copies)
        least = min(copy.outstanding for copy in group.copies)
        idle = [copy for copy in group.copies if copy.outstanding == least]
        return idle[next(self._turns) % len(idle)]

    def reconcile(self, key: str, wanted: Wanted) -> Group:
        """Bring one group to its generation and number of copies. Raises CannotStartError."""
        group = self._groups.get(key)
        if group is None or group.generation != wanted.generation:
            # The new copies start before the old ones drain, as in a rolling update.
            fresh = Group(wanted.generation, [self._new(wanted) for _ in range(wanted.copies)])
            self.retire(key)
            self._groups[key] = fresh
            return fresh
        while len(group.copies) < wanted.copies:
            group.copies.append(self._new(wanted))
        while len(group.copies) > wanted.copies:
            self._drain(group.copies.pop())
        return group

    def retire(self, key: str) -> None:
        """Take a group out of service; running requests end first."""
        group = self._groups.pop(key, None)
        for copy in group.copies if group else ():
            self._drain(copy)

    async def close(self) -> None:
        """Stop everything at once."""
        for drain in self._drains:
            drain.cancel()
        closing: list[Awaitable[None]] = [copy.container.close() for g in self._groups.values() for copy in g.copies]
        self._groups.clear()
        await asyncio.gather(*closing, *self._drains, return_exceptions=True)

    def _new(self, wanted: Wanted) -> Copy:
        return Copy(self._start(wanted.container, wanted.place))

    def _drain(self, copy: Copy) -> None:
        task = asyncio.get_running_loop().create_task(_close_when_idle(copy))
        self._drains.add(task)
        task.add_done_callback(self._drains.discard)


async def _close_when_idle(copy: Copy) -> None:
    try:
        while copy.outstanding:
            await asyncio.sleep(0.05)
    finally:
        await copy.container.close()
