"""A simulation cut into windows of time: how waiting, refusals and copies went while it ran."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from loadproof.simulation.elastic import CopyCount
from loadproof.simulation.results import Latencies, RefusedRequest, Result, TimedOutRequest


class Window:
    """Requests *sent* from `start_ms` to `end_ms`; `copies` is what served at the window's end."""

    __slots__ = ("copies", "end_ms", "instances", "refused", "served", "start_ms", "timed_out", "ttft")

    def __init__(self, start_ms: float, end_ms: float) -> None:
        self.start_ms, self.end_ms = start_ms, end_ms
        self.served = self.refused = self.timed_out = 0
        self.copies = self.instances = 0
        self.ttft = Latencies()

    @property
    def sent(self) -> int:
        return self.served + self.refused + self.timed_out


def merged(rows: Sequence[Window], most: int) -> list[Window]:
    """At most `most` windows: neighbours put together, copies and instances as of the last of them."""
    each = -(-len(rows) // most)
    found = []
    for first in range(0, len(rows), each):
        group = rows[first : first + each]
        whole = Window(group[0].start_ms, group[-1].end_ms)
        whole.copies, whole.instances = group[-1].copies, group[-1].instances
        for row in group:
            whole.served += row.served
            whole.refused += row.refused
            whole.timed_out += row.timed_out
            whole.ttft.absorb(row.ttft)
        found.append(whole)
    return found


class Windows:
    """`count` equal windows over `duration_ms`. Reads results as they pass and keeps none."""

    def __init__(self, duration_ms: float, count: int) -> None:
        width_ms = duration_ms / count
        self._width_ms = width_ms
        self.rows = [Window(index * width_ms, (index + 1) * width_ms) for index in range(count)]

    def watch(self, results: Iterable[Result]) -> Iterator[Result]:
        """The same results, each counted in the window in which it was sent."""
        rows, width_ms, last = self.rows, self._width_ms, len(self.rows) - 1
        for result in results:
            row = rows[min(last, int(result.sent_ms / width_ms))]
            if isinstance(result, RefusedRequest):
                row.refused += 1
            elif isinstance(result, TimedOutRequest):
                row.timed_out += 1
            else:
                row.served += 1
                row.ttft.add(result.ttft_ms)
            yield result

    def add_copies(self, history: Sequence[CopyCount]) -> None:
        """Fill in copies and instances, from a history that begins at 0."""
        times = [row.at_ms for row in history]
        for row in self.rows:
            count = history[bisect_right(times, row.end_ms) - 1]
            row.copies, row.instances = count.serving, count.instances
