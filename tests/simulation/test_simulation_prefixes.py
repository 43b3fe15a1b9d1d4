"""A copy's cache of prompts: whatever is held, left and evicted, as of a cache that knows each block by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.simulation.prefixes import BlockCache

Block = tuple[int, ...]


class Plain:
    """Block by block, each named by all blocks up to it: no tree, and nothing that is not looked for."""

    def __init__(self) -> None:
        self.held = Counter[Block]()
        self.kept: list[Block] = []  # the least recently used first

    def found(self, prompt: Sequence[int]) -> int:
        return self._first(prompt, {*self.kept, *+self.held})

    def shared(self, prompt: Sequence[int]) -> int:
        return self._first(prompt, {*+self.held})

    def hold(self, prompt: Sequence[int]) -> int:
        found = self.found(prompt)
        self.held.update(self._named(prompt))
        self.kept = [block for block in self.kept if not self.held[block]]
        return found

    def release(self, prompt: Sequence[int], of_prompt: int, computed: int) -> int:
        self.held.subtract(self._named(prompt[:of_prompt]))
        left = [block for block in self._named(prompt[:computed]) if not self.held[block]]
        self.kept = [block for block in self.kept if block not in left] + left[::-1]
        return self.shared(prompt[:of_prompt])

    def shrink(self, room: int) -> None:
        self.kept = self.kept[max(0, len(self.kept) - room) :]

    @staticmethod
    def _named(prompt: Sequence[int]) -> list[Block]:
        return [tuple(prompt[: end + 1]) for end in range(len(prompt))]

    def _first(self, prompt: Sequence[int], there: set[Block]) -> int:
        return next((at for at, block in enumerate(self._named(prompt)) if block not in there), len(prompt))


class Both:
    """The cache and the plain one, held to the same after every step: every prompt that there was is asked for."""

    def __init__(self) -> None:
        self.cache, self.plain = BlockCache(), Plain()
        self.prompts: list[Any] = []
        self.running: list[tuple[Any, int]] = []  # with how many blocks of each are its prompt's

    def come(self, blocks: Any, of_answer: int) -> None:
        of_prompt = max(0, len(blocks) - of_answer)
        self.prompts.append(blocks)
        self.running.append((blocks, of_prompt))
        assert self.cache.hold(blocks[:of_prompt]) == self.plain.hold(blocks[:of_prompt])

    def go(self, which: int, not_computed: int) -> None:
        blocks, of_prompt = self.running.pop(which % len(self.running))
        left = blocks, of_prompt, max(0, len(blocks) - not_computed)
        assert self.cache.release(*left) == self.plain.release(*left)

    def shrink(self, room: int) -> None:
        self.cache.shrink(room)
        self.plain.shrink(room)

    def same(self) -> None:
        for prompt in self.prompts:
            assert self.cache.found(prompt) == self.plain.found(prompt)
            assert self.cache.shared(prompt) == self.plain.shared(prompt)


# What happens, which of those before, how many blocks, and new ones.
steps = st.lists(
    st.tuples(
        st.sampled_from(("come", "go on", "text", "go", "put back", "shrink")),
        st.integers(0, 30),
        st.integers(0, 12),
        st.lists(st.integers(0, 2), max_size=8),
    ),
    min_size=10,
    max_size=60,
)


@given(steps, st.sampled_from((list, tuple)))
def test_every_block_is_kept_and_evicted_as_by_itself(steps: Any, kind: type[Any]) -> None:
    """Trees of prompts whose ids mean nothing without those before, and beginnings of texts told as ranges; requests
    that end, that are put back with part computed, and what is held beside takes the room. At the end all goes, block
    by block."""
    both = Both()
    for name, which, size, new in steps:
        before = [*both.prompts[which % len(both.prompts)]] if both.prompts else []
        if name == "come":
            both.come(kind(before[:size] + new), which % 4)
        elif name == "go on":
            both.come(kind(before + new), size % 4)
        elif name == "text":
            both.come(range(which % 2, which % 2 + 2 * size), len(new))
        elif name == "shrink":
            both.shrink(which)
        elif both.running:
            both.go(which, size if name == "put back" else 0)
        both.same()
    while both.running:
        both.go(0, 0)
        both.same()
    for room in range(len(both.plain.kept), -1, -1):
        both.shrink(room)
        both.same()


def test_the_same_id_after_other_blocks_is_another_block() -> None:
    """As in a server, whose hash of a block has all before it in it: of four blocks the first prompt's last goes."""
    cache = BlockCache()
    for prompt in ((1, 5), (2, 5)):
        assert cache.hold(prompt) == 0
        cache.release(prompt, 2, 2)
    cache.shrink(3)
    assert cache.found((1, 5)) == 1
    assert cache.found((2, 5)) == 2


def test_who_used_a_beginning_last_keeps_it_and_ends_go_first() -> None:
    """Ten blocks, then a prompt of the first four and four others: of 14 the old six go, last first, then the new."""
    cache, old, new = BlockCache(), [*range(10)], [0, 1, 2, 3, 20, 21, 22, 23]
    for prompt in (old, new):
        cache.hold(prompt)
        cache.release(prompt, len(prompt), len(prompt))
    for room, of_old, of_new in ((12, 8, 8), (8, 4, 8), (6, 4, 6), (3, 3, 3), (0, 0, 0)):
        cache.shrink(room)
        assert (cache.found(old), cache.found(new)) == (of_old, of_new)


def test_what_comes_after_a_block_that_was_not_computed_is_found_once_that_is_there_again() -> None:
    """Ten blocks are kept; one who holds the first five is put back with three computed; the next one computes all."""
    cache, prompt = BlockCache(), [*range(10)]
    cache.hold(prompt)
    cache.release(prompt, 10, 10)
    cache.hold(prompt[:5])
    cache.release(prompt[:5], 5, 3)
    assert cache.found(prompt) == 3
    cache.hold(prompt[:5])
    assert cache.found(prompt) == 10


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_prompts_blocks_may_be_told_as_a_range_or_one_by_one(kind: type[Any]) -> None:
    """Six of eight are the same."""
    cache = BlockCache()
    cache.hold(range(8))
    assert cache.shared(kind([*range(6), 90, 91])) == 6
    assert cache.hold(kind([*range(6), 90, 91])) == 6
