"""Sessions in virtual time: which steps may be sent, what their prompts' blocks are, when a session is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Final

from loadproof.sessions import DrawnStep, Mixture

_MOST_BLOCKS: Final = 1 << 24  # of a step
_MOST_STEPS: Final = 1 << 12  # of a session


class Session:
    """One session while it goes on. `part` is its class; `block_tokens` 0: nobody keeps its prompts."""

    __slots__ = (
        "_block_tokens",
        "_blocks",
        "_later",
        "_prefix",
        "_second_ms",
        "_waits_for",
        "broken",
        "in_flight",
        "left",
        "number",
        "part",
        "steps",
    )

    def __init__(
        self,
        number: int,
        part: int,
        steps: Sequence[DrawnStep],
        prefix_tokens: int = 0,
        block_tokens: int = 0,
        second_ms: float = 1000.0,
    ) -> None:
        self._second_ms = second_ms
        self.number, self.part, self.steps = number, part, steps
        self.left, self.in_flight, self.broken = len(steps), 0, False
        self._block_tokens = block_tokens
        self._prefix = range(
            -(part + 1) * _MOST_BLOCKS, -(part + 1) * _MOST_BLOCKS + _whole(prefix_tokens, block_tokens)
        )
        self._blocks: dict[int, list[int]] = {}
        self._later: list[list[int]] = [[] for _ in steps]  # who waits for each step
        for place, step in enumerate(steps):
            for before in set(step.after):
                self._later[before].append(place)
        self._waits_for = [len(set(step.after)) for step in steps]

    @property
    def over(self) -> bool:
        return self.left == 0

    def first(self) -> list[int]:
        """The steps that wait for nothing."""
        return [place for place, step in enumerate(self.steps) if not step.after]

    def sent(self) -> None:
        self.in_flight += 1

    def ended(self, place: int, now_ms: float) -> list[tuple[float, int]]:
        """(when, which step) may be sent now that this one has its answer."""
        self.in_flight -= 1
        self.left -= 1
        if self.broken:
            return []
        due = []
        for later in self._later[place]:
            self._waits_for[later] -= 1
            if not self._waits_for[later]:
                due.append((now_ms + self._second_ms * self.steps[later].pause_s, later))
        return due

    def broke(self, *, in_flight: bool) -> None:
        """One of its steps got no answer: nobody goes on; what is under way ends. `in_flight`: that step was."""
        self.in_flight -= in_flight
        self.broken, self.left = True, self.in_flight

    def blocks(self, place: int) -> Sequence[int]:
        """Ids of the whole blocks of a step's prompt and answer; servers keep what they made, too.

        But for the last token, whose KV nobody needed.
        """
        if not self._block_tokens:
            return ()
        step = self.steps[place]
        before = self._blocks[step.after[0]] if step.after else self._prefix
        whole = _whole(step.input_tokens + step.output_tokens - 1, self._block_tokens)
        first = (self.number * _MOST_STEPS + place) * _MOST_BLOCKS
        self._blocks[place] = found = [*before[:whole], *range(first, first + whole - len(before))]
        return found


def sessions_of(mixture: Mixture, seed: int = 0, block_tokens: int = 0, faster: float = 1.0) -> Iterator[Session]:
    """One session after another, without end, as the mixture draws them."""
    chance = Random(seed)
    for number in count():
        part = mixture.place(chance)
        one = mixture.classes[part]
        yield Session(number, part, one.drawn(chance), one.shared_prefix_tokens, block_tokens, 1000 / faster)


def _whole(tokens: int, block_tokens: int) -> int:
    return tokens // block_tokens if block_tokens else 0
