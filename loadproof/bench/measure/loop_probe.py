"""How late the client's event loop was, at moments that have nothing to do with requests.

A closed loop sends its next request right after reading the last answer, so a client that was frozen or starved reads
late *and* sends late, and its dispatch lag looks small. The probe wants to run every `TICK_NS`; how much later it runs
is the delay that any read or send at that moment would have met. A tick that fell due while the loop stood still counts
too: a freeze of 100 ms is 20 late ticks (100, 95, 90, … ms), so that quantiles over ticks are quantiles over time.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable

TICK_NS = 5_000_000
MOST_TICKS = 500_000  # late ones kept; half of them are 20 minutes of a loop that is never on time
MOST_TURNS = 250_000  # half of them are 10 minutes, and 1 MB
SHORTEST_S = 0.001  # less, and uvloop runs a timer in the turn of the loop that set it
# Timers of event loops are good to a millisecond or so: what is below this is the timer, not the client.
TIMER_SLACK_NS = 2_000_000


class LoopProbe:
    """Ticks on the running loop between `start` and `stop`."""

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._due_ns = 0
        self._handle: asyncio.TimerHandle | None = None
        self._late_due_ns, self._late_by_ns = array("q"), array("q")
        self._turns_ns = array("q")  # when a tick ran: no two in one turn of the loop

    def start(self) -> None:
        del self._late_due_ns[:], self._late_by_ns[:], self._turns_ns[:]
        self._due_ns = self._clock_ns() + TICK_NS
        self._arm()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def stalls_between(self, from_ns: int, to_ns: int) -> array[int]:
        """By how much (ns) each tick due in the window was late, of those later than a timer may be."""
        first, last = bisect_left(self._late_due_ns, from_ns), bisect_right(self._late_due_ns, to_ns)
        return self._late_by_ns[first:last]

    def waited_since(self, read_ns: int) -> int | None:
        """A moment after which all that a read at `read_ns` found there must have come; None: not known any more.

        Between the last tick but two before the read and the turn of the loop that read, the loop has looked at its
        sockets at least once: two ticks lie further apart than the pause between two looks (`sockets.PAUSE_S`).
        """
        place = bisect_right(self._turns_ns, read_ns) - 3
        return self._turns_ns[place] if place >= 0 else None

    def catch_up(self) -> None:
        """Count the ticks due by now; also called when a request ends, lest the freeze it ended after be missed."""
        now_ns = self._clock_ns()
        while self._due_ns <= now_ns:
            late_by_ns = now_ns - self._due_ns
            if late_by_ns > TIMER_SLACK_NS:
                self._late_due_ns.append(self._due_ns)
                self._late_by_ns.append(late_by_ns)
            self._due_ns += TICK_NS
        if len(self._late_due_ns) > MOST_TICKS:  # of a soak: only requests under way are still asked about
            del self._late_due_ns[: MOST_TICKS // 2], self._late_by_ns[: MOST_TICKS // 2]

    def _arm(self) -> None:
        delay_s = max(SHORTEST_S, (self._due_ns - self._clock_ns()) / 1e9)
        self._handle = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._turns_ns.append(self._clock_ns())
        if len(self._turns_ns) > MOST_TURNS:
            del self._turns_ns[: MOST_TURNS // 2]
        self.catch_up()
        self._arm()
