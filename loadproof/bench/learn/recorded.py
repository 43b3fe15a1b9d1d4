"""Recorded requests as columns of numbers, in memory that does not grow with them.

34 bytes a request are held, of at most `MOST_HELD` requests: where there are more, half of them are dropped by chance,
and what is left stands for all, as a capture's sample does.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import numpy as np

from loadproof.bench.learn.captures import Request
from loadproof.bench.workload.traces import TraceRow

MOST_HELD: Final = 2_000_000  # requests: 68 MB
COLUMNS: Final = ("at_s", "input_tokens", "output_tokens", "new_tokens", "turns")
_MOST_TURNS: Final = 65_535
_MOST_PREFIXES: Final = 10_000  # system prompts that are told apart; who has more shares none
_MOST_MODELS: Final = 100


@dataclass(slots=True)
class Recorded:
    """Requests by time, the first at 0, which is `began_s` of the epoch if they are `dated`.

    `turns` count from 1; 0 where nothing tells which turn a request is.

    `estimated` of them have lengths reckoned from characters. `captured`: by SageMaker, which may take a `share` only.
    `read` of them there were; so many times were they `halved`, which `share` knows.
    `prefixes`: how often a system prompt was seen, and the tokens of all of these, by its keyed hash. `models`: how
    many requests each had, where a log names it. `pauses_s` lie before later turns, since the answer's end where
    `ends_told`, else since its request.
    """

    began_s: float = 0.0
    at_s: array[float] = field(default_factory=lambda: array("d"))
    input_tokens: array[int] = field(default_factory=lambda: array("q"))
    output_tokens: array[int] = field(default_factory=lambda: array("q"))
    new_tokens: array[int] = field(default_factory=lambda: array("q"))
    turns: array[int] = field(default_factory=lambda: array("H"))
    prefixes: dict[int, list[int]] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    captured: bool = False
    dated: bool = True
    share: float = 1.0
    halved: int = 0
    read: int = 0
    estimated: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)
    pauses_s: array[float] = field(default_factory=lambda: array("d"))
    ends_told: bool = False
    rows: Sequence[TraceRow] = ()
    """of a trace that tells the blocks of its prompts, or names their conversations"""

    def __len__(self) -> int:
        return len(self.at_s)

    def add(self, request: Request) -> None:
        self.read += 1
        self.estimated += request.estimated
        if request.model and (request.model in self.models or len(self.models) < _MOST_MODELS):
            self.models[request.model] = self.models.get(request.model, 0) + 1
        if request.prefix and (request.prefix in self.prefixes or len(self.prefixes) < _MOST_PREFIXES):
            seen = self.prefixes.setdefault(request.prefix, [0, 0])
            seen[0] += 1
            seen[1] += request.prefix_tokens
        if self.halved and _drawn(self.read) % 2**self.halved:
            return
        self.at_s.append(request.at_s)
        self.input_tokens.append(request.input_tokens)
        self.output_tokens.append(request.output_tokens)
        self.new_tokens.append(request.new_tokens)
        self.turns.append(min(request.turn, _MOST_TURNS))
        if request.pause_s is not None:
            self.pauses_s.append(request.pause_s)
        if len(self) >= MOST_HELD:
            self._halve()

    def sort(self) -> None:
        """By time, the first at 0."""
        times = np.asarray(self.at_s)
        order = np.argsort(times, kind="stable")
        self.began_s = float(times[order[0]])
        for name in COLUMNS:
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, np.asarray(column)[order].tobytes()))
        self.at_s = array("d", (times[order] - self.began_s).tobytes())

    def _halve(self) -> None:
        """Drop half of what is held, by chance, and of all that follow as many."""
        self.halved += 1
        self.share /= 2
        kept = np.array([_drawn(place + self.read) % 2 == 0 for place in range(len(self))])
        for name in COLUMNS:
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, np.asarray(column)[kept].tobytes()))
        self.pauses_s = self.pauses_s[::2]


def _drawn(number: int) -> int:
    """32 bits by chance, always the same for a request's number."""
    return crc32(number.to_bytes(8, "big"))
