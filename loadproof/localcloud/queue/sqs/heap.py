"""A heap whose entries may stop to hold: they are dropped when they come up, or when they become too many."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[object, ...])
_FEWEST_BEFORE_SWEEP = 64


class LazyHeap(Generic[Entry]):
    """`holds` says whether an entry is still true; one that is not never becomes true again unless pushed again.

    Every operation is O(log n), amortized, in the number of entries that hold.
    """

    def __init__(self, holds: Callable[[Entry], bool]) -> None:
        self._holds = holds
        self._entries: list[Entry] = []
        self._sweep_at = _FEWEST_BEFORE_SWEEP

    def push(self, entry: Entry) -> None:
        heapq.heappush(self._entries, entry)
        if len(self._entries) > self._sweep_at:
            self._entries = [one for one in self._entries if self._holds(one)]
            heapq.heapify(self._entries)
            self._sweep_at = max(_FEWEST_BEFORE_SWEEP, 2 * len(self._entries))

    def first(self) -> Entry | None:
        """The least entry that holds."""
        while self._entries:
            if self._holds(self._entries[0]):
                return self._entries[0]
            heapq.heappop(self._entries)
        return None
