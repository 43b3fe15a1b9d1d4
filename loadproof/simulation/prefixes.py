"""A copy's cache of prompts: blocks from the first on; the least recently used go first, and none that is in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockCache:
    """One copy's cache of prompt blocks. A block counts only where all before it are there too.

    A request in flight holds its blocks, which several may share; what nobody holds is kept while there is room.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._held: dict[int, int] = {}

    @property
    def held(self) -> int:
        """Blocks that requests in flight hold, each once."""
        return len(self._held)

    def found(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt would find."""
        kept, held = self._kept, self._held
        for count, block in enumerate(blocks):
            if block not in kept and block not in held:
                return count
        return len(blocks)

    def hold(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt finds; it holds all of them."""
        found, kept, held = self.found(blocks), self._kept, self._held
        for block in blocks:
            count = held.get(block)
            if count is None:
                held[block] = 1
                kept.pop(block, None)
            else:
                held[block] = count + 1
        return found

    def release(self, blocks: Sequence[int]) -> None:
        """One request less holds these: what nobody else does is kept, as the most recently used."""
        kept, held = self._kept, self._held
        for block in reversed(blocks):  # the last blocks of a prompt go before its first, which others may share
            count = held[block]
            if count == 1:
                del held[block]
                kept[block] = None
            else:
                held[block] = count - 1

    def shrink(self, room: int) -> None:
        """Keep so many blocks that nobody holds, the least recently used ones not."""
        kept = self._kept
        while len(kept) > room:
            kept.popitem(last=False)
