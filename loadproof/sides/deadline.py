"""How long a review may take. What it does not come to in that time is told as not reviewed, and breaks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Final

OF_A_STRANGER_S: Final = 60.0  # with --trust base, where nothing else is said
# Of the time: where reading and checking ends, where synthesis does, where looking at what came of it does.
CHECKED, SYNTHESIZED, REVIEWED = 0.2, 0.75, 0.9


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


NONE: Final = Deadline()
