"""Which class a session of a level is of and how many of its steps are sent: by seed, level and number alone, so that
every process that shares a level's load, and every later look at it, draws the same."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Final

from loadproof.bench.spec import WorkloadSpec
from loadproof.sessions import DrawnStep, SessionClass

_KEPT: Final = 8192  # sessions under way, and some that are over


class DrawnSessions:
    """A workload's sessions, each by its level and its number there."""

    def __init__(self, workload: WorkloadSpec) -> None:
        self._seed, self._mixture = workload.seed, workload.mixture
        first = self._mixture.classes[0]
        self._all_alike = not workload.classes and first.continues == 1 and not first.drawn_whole
        self._steps = len(first.steps)
        self._drawn = lru_cache(maxsize=_KEPT)(self._draw)

    def part(self, level: int, session: int) -> SessionClass:
        """Its class."""
        return self._mixture.classes[0 if self._all_alike else self._drawn(level, session)[0]]

    def steps(self, level: int, session: int) -> int:
        """How many of its steps are sent."""
        return self._steps if self._all_alike else self._drawn(level, session)[1]

    def lengths(self, level: int, session: int) -> tuple[DrawnStep, ...]:
        """Its steps, where their lengths decide which is the last one; empty of any other."""
        return () if self._all_alike else self._drawn(level, session)[2]

    def enough_for(self, level: int, requests: int) -> int:
        """How many of a level's sessions have that many requests together."""
        if self._all_alike:
            return -(-requests // self._steps)
        number = sent = 0
        while sent < requests:
            sent += self.steps(level, number)
            number += 1
        return number

    def _draw(self, level: int, session: int) -> tuple[int, int, tuple[DrawnStep, ...]]:
        chance = Random(f"session {self._seed} {level} {session}")
        place = self._mixture.place(chance)
        one, sent = self._mixture.classes[place], 1
        if one.drawn_whole:
            lengths = tuple(one.drawn(chance))
            return place, len(lengths), lengths
        while sent < len(one.steps) and (one.continues == 1 or chance.random() < one.continues):
            sent += 1
        return place, sent, ()
