"""Whose fault a time-out is: the message's own, or the endpoint's. What others met meanwhile is handed in.

A request that times out while others are answered is suspect; one that times out as many others do is not. So each
time-out says as much against its message as it would be rare for a healthy one: with `p` the share of the others'
requests that timed out meanwhile, `-log10(p)`. These add up over the message's time-outs, and it is buried only when a
healthy one would have met all of them once in 10,000 times.
"""

from __future__ import annotations

from math import log10, sqrt
from typing import Final, NamedTuple

# Hundredths of a decade, a whole number in the table. Beside many that are answered: two time-outs.
MOST: Final = 400
_KNOWN_BEFORE: Final = 0.3  # as if that much of one other had timed out: few that are answered prove little
MANY: Final = 3  # others that time out as well: it is the endpoint's, and no attempt is spent


class Met(NamedTuple):
    """How many requests were answered, and how many timed out. Both only grow."""

    answered: int = 0
    timed_out: int = 0

    def since(self, before: Met) -> Met:
        return Met(max(0, self.answered - before.answered), max(0, self.timed_out - before.timed_out))


def suspicion(others: Met) -> int:
    """Of one time-out, in hundredths: `-100 · log10(p)`, `p = (t + √t + 0.3) / (answered + t + 1)`, `t` timed out.

    `others` is what other requests met from when it was sent until it timed out. The root is a time-out's own chance:
    few are easily too few. Where nobody else was there, nothing is said; then attempts are counted, as of any accident.
    """
    if others == (0, 0):
        return 0
    struck = others.timed_out
    share = (struck + sqrt(struck) + _KNOWN_BEFORE) / (others.answered + struck + 1)
    return max(0, round(-100 * log10(share)))
