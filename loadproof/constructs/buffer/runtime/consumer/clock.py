"""Time as the consumer sees it, and the wish to stop."""

from __future__ import annotations

import threading
import time


class Clock:
    """Wall time: leases are compared between hosts, and a frozen function's monotonic clock may stand still."""

    def __init__(self, drain_s: float = 25.0) -> None:
        self._drain_s = drain_s
        self._stop = threading.Event()
        self._drained_s = 0.0

    def now_s(self) -> float:
        """Unix time."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Ends early when the consumer is told to stop."""
        self._stop.wait(max(0.0, seconds))

    def stop(self) -> None:
        """Take no more work; what runs may go on for `drain_s`."""
        if not self._stop.is_set():
            self._drained_s = self.now_s() + self._drain_s
            self._stop.set()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def drained(self) -> bool:
        """The drain's time is over: what still runs is given up."""
        return self.stopping and self.now_s() >= self._drained_s
