"""The clock of recorded traffic: its days and hours (UTC), and time counted by the shape of a week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from loadproof.bench.learn.recorded import Recorded
from loadproof.profiles.schema import Arrivals
from loadproof.simulation.traffic import week_of

DAY_S: Final = 86_400
HOUR_S: Final = 3_600
_THURSDAY_H: Final = 72  # the epoch's first hour, in hours from Monday on


def spans(times_s: np.ndarray, span_s: int, within: slice = slice(0, None)) -> Iterator[slice]:
    """Times of one day or hour after another, as places of `times_s`; `within`: of these alone."""
    numbers = np.floor(times_s[within] / span_s)
    start = 0
    for end in (*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)):
        yield slice(within.start + start, within.start + end)
        start = end


def shaped_s(times_s: np.ndarray, week: Sequence[float]) -> np.ndarray:
    """Seconds since the first time, each counted by its hour's factor: in them a shaped rate is a steady one.

    `week`: 168 factors of mean 1 from Monday on; none: seconds as they are.
    """
    if not week:
        week = (1.0,)
    first = int(times_s[0] // HOUR_S)
    hours = np.arange(first, int(times_s[-1] // HOUR_S) + 2)
    factors = np.asarray(week)[(hours + _THURSDAY_H) % len(week)]
    gone = np.concatenate([[0.0], np.cumsum(factors)]) * HOUR_S
    places = (times_s // HOUR_S).astype(int) - first
    counted = gone[places] + factors[places] * (times_s % HOUR_S)
    found: np.ndarray = counted - counted[0]
    return found


def week_in(arrivals: Arrivals, recorded: Recorded) -> tuple[float, ...]:
    """The 168 factors of a profile's shape; none where it has none, or the traffic does not tell the hour."""
    shaped = recorded.dated and (arrivals.hours or arrivals.days)
    return week_of(arrivals.hours, arrivals.days) if shaped else ()
