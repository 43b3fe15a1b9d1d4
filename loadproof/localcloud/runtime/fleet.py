"""The running containers: a group per component or variant, as many copies as the control plane has in service."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import Container
from loadproof.localcloud.model_server.contract import Place

log = logging.getLogger(__name__)

StartContainer = Callable[[ContainerView, Place], Container]


@dataclass(slots=True, eq=False)
class Copy:
    """One container, what it was started from, and the requests it has not answered yet."""

    container: Container
    runs: ContainerView
    outstanding: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Copies that are all alike: what the control plane wants to run under one key. A restart is another key."""

    key: str
    container: ContainerView
    place: Place
    copies: int


class Fleet:
    """Starts, drains and picks copies. Belongs to one event loop."""

    def __init__(self, start: StartContainer, seed: int = 0) -> None:
        self._start = start
        self._groups: dict[str, list[Copy]] = {}
        self._random = random.Random(seed)
        self._turns = itertools.count()
        self._drains: set[asyncio.Task[None]] = set()

    @property
    def groups(self) -> dict[str, list[Copy]]:
        return self._groups

    def pick(self, wanted: Sequence[Wanted], *, at_random: bool = False) -> Copy:
        """The copy for the next request, of all groups given; they want at least one. Raises CannotStartError."""
        copies = [copy for group in wanted for copy in self.reconcile(group)]
        if at_random:
            return self._random.choice(copies)
        least = min(copy.outstanding for copy in copies)
        idle = [copy for copy in copies if copy.outstanding == least]
        return idle[next(self._turns) % len(idle)]

    def reconcile(self, wanted: Wanted) -> list[Copy]:
        """Bring one group to its number of copies. Raises CannotStartError.

        What was deleted and made again under its old name has its old key: copies of something else go.
        """
        copies = self._groups.setdefault(wanted.key, [])
        for copy in [one for one in copies if one.runs != wanted.container]:
            copies.remove(copy)
            self._drain(copy)
        while len(copies) < wanted.copies:
            copies.append(Copy(self._start(wanted.container, wanted.place), wanted.container))
        while len(copies) > wanted.copies:
            self._drain(copies.pop())
        return copies

    def retire(self, key: str) -> None:
        """Take a group out of service; running requests end first."""
        for copy in self._groups.pop(key, ()):
            self._drain(copy)

    async def close(self) -> None:
        """Stop everything at once."""
        for drain in self._drains:
            drain.cancel()
        closing: list[Awaitable[None]] = [copy.container.close() for g in self._groups.values() for copy in g]
        self._groups.clear()
        await asyncio.gather(*closing, *self._drains, return_exceptions=True)

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
