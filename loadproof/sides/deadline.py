"""How long a review may take. What it does not come to in that time is told as not reviewed, and breaks."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from loadproof.review.assemble import LateError

OF_A_STRANGER_S: Final = 60.0  # with --trust base, where nothing else is said
# Of the time: where reading and checking ends, where synthesis does, where looking at what came of it does.
# What is left then is for writing.
CHECKED, SYNTHESIZED, REVIEWED = 0.2, 0.65, 0.8
_LEAST_S: Final = 2.0  # that a profile is looked at, where so much is left
_AGAIN_S: Final = 0.5  # until an alarm that nobody heard rings again


@dataclass(frozen=True, slots=True)
class Deadline:
    """Counts from when it is made."""

    within_s: float = math.inf
    _started_s: float = field(default_factory=time.monotonic)

    @property
    def is_one(self) -> bool:
        return math.isfinite(self.within_s)

    def left_s(self, part: float) -> float:
        """Seconds until this part of the time is over; negative after it."""
        return self._started_s + part * self.within_s - time.monotonic()

    def is_over(self, part: float) -> bool:
        return self.left_s(part) <= 0

    @property
    def refusal(self) -> str:
        """What is said of a profile that the review did not come to."""
        return (
            f"not reviewed: the review's {self.within_s:g} s were over before; give it more with --within, or choose "
            "with -c env=NAME and -c profile=NAME"
        )

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """One profile takes half of what is left for looking at the most: whatever it has the planner play, time stays
        for the others. Raises LateError, in the main thread of a system that has such an alarm.

        It rings until it is heard: what it raises where compiled code calls back, or within `__del__`, is lost.
        """
        if not (self.is_one and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()):
            yield
            return
        left_s = max(self.left_s(REVIEWED), 0.0)
        most_s = max(left_s / 2, min(left_s, _LEAST_S), 0.1)
        refusal = (
            f"not reviewed: it alone takes more than {most_s:.1f} s, half of what was left of the review's "
            f"{self.within_s:g} s; give it more with --within, or let it ask for less (turns, steps, what is in flight)"
        )

        def late(*_: object) -> None:
            raise LateError(refusal)

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, most_s, _AGAIN_S)
        try:
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # also where it rang again on the way out
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


NONE: Final = Deadline()
