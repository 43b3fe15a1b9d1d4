"""A copy's cache of prompts: blocks from the first on; the least used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile


class BlockCache:
    """One copy's cache of prompt blocks. A block counts only where all before it are there too."""

    def __init__(self, most_blocks: int) -> None:
        self._most = most_blocks
        self._kept: OrderedDict[int, None] = OrderedDict()

    def found(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt would find."""
        return sum(1 for _ in takewhile(self._kept.__contains__, blocks))

    def use(self, blocks: Sequence[int], most_blocks: int | None = None) -> int:
        """How many of these a prompt finds; it leaves all of them, and the least recently used make room.

        `most_blocks`: what there is room for now, where that changes.
        """
        found, kept = self.found(blocks), self._kept
        for block in reversed(blocks):  # the last blocks of a prompt go before its first, which others may share
            kept[block] = None
            kept.move_to_end(block)
        while len(kept) > (self._most if most_blocks is None else most_blocks):
            kept.popitem(last=False)
        return found
