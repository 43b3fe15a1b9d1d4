"""When requests are sent: a fixed number in flight (closed), or at times that do not wait for answers (open)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from math import inf, isfinite, sqrt
from random import Random
from typing import Final, Literal

from loadproof.errors import InputError

Process = Literal["constant", "poisson", "gamma"]
HOURS_A_WEEK: Final = 168
JITTER_MS: Final = 2.0
"""Mean of what a client takes before its next request: it breaks step, and stands for no network."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`concurrency` clients, each sending its next request when the last one ended.

    A client that was refused waits `pause_after_refusal_ms` before it sends the next one. Between an answer and the
    next request lie, by chance, `jitter_ms` in the mean (exponential): no two clients are equal.
    """

    concurrency: int
    pause_after_refusal_ms: float = 1000.0
    jitter_ms: float = 0.0
    seed: int = 0  # of the jitter

    def __post_init__(self) -> None:
        if self.concurrency < 1 or not self.pause_after_refusal_ms > 0:
            raise InputError("a closed loop needs at least 1 client and a pause after refusals above 0 ms")

    def gaps_ms(self) -> Iterator[float]:
        """How long each client in turn takes before its next request."""
        chance = Random(self.seed)
        while True:
            yield chance.expovariate(1 / self.jitter_ms)


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests sent at `times_ms`, ascending, whatever becomes of them; endless where the times are."""

    times_ms: Iterable[float]


def arrival_times_ms(
    process: Process, requests_per_s: float, *, burstiness: float | None = None, seed: int = 0
) -> Iterator[float]:
    """Endless send times in ms from 0, by one of three renewal processes of mean gap 1/rate.

    `constant`: gaps of exactly 1/rate, the first request at 0. `poisson`: exponential gaps. `gamma`: gaps of shape
    `burstiness` and scale 1/(rate · burstiness), so the squared coefficient of variation is 1/burstiness: 1 is
    Poisson, below 1 comes in bursts. Raises InputError for a rate or burstiness that is not above 0.
    """
    if not (requests_per_s > 0 and isfinite(requests_per_s)):
        raise InputError(f"arrivals: expected requests_per_s above 0, found {requests_per_s}")
    if process == "gamma" and not (burstiness is not None and burstiness > 0 and isfinite(burstiness)):
        raise InputError(f"arrivals: gamma needs a burstiness above 0, found {burstiness}; 1 is Poisson")
    return _renewals(process, 1000.0 / requests_per_s, burstiness or 1.0, Random(seed))


def _renewals(process: Process, gap_ms: float, burstiness: float, chance: Random) -> Iterator[float]:
    if process == "constant":
        # Multiplied, not added up: rounding must not drift over hours.
        yield from (index * gap_ms for index in count())
    now_ms = 0.0
    while True:
        if process == "poisson":
            now_ms += chance.expovariate(1.0) * gap_ms
        else:
            now_ms += chance.gammavariate(burstiness, gap_ms / burstiness)
        yield now_ms


def ramped_times_ms(
    process: Process,
    from_requests_per_s: float,
    to_requests_per_s: float,
    ramp_s: float,
    *,
    burstiness: float | None = None,
    seed: int = 0,
) -> Iterator[float]:
    """Endless send times in ms whose rate goes from a to b in a straight line over T = `ramp_s`, then stays at b.

    The unit process put through the inverse of the mean count: Λ(t) = a·t + (b - a)·t²/(2T) up to T, so the request
    whose unit-rate time is u is sent at 2u / (a + √(a² + 2u(b - a)/T)), and b beyond. Raises InputError for rates
    below 0, a last rate of 0 and a ramp of no length.
    """
    start, end = from_requests_per_s, to_requests_per_s
    if not (0 <= start < inf and 0 < end < inf and 0 < ramp_s < inf):
        raise InputError(
            f"ramp: expected rates of at least 0 (the last one above) and a length above 0 s, found {start:g} to "
            f"{end:g} requests/s in {ramp_s:g} s"
        )
    units = (unit_ms / 1000 for unit_ms in arrival_times_ms(process, 1.0, burstiness=burstiness, seed=seed))
    growth, in_ramp = (end - start) / ramp_s, (start + end) / 2 * ramp_s
    return (
        1000 * (ramp_s + (unit - in_ramp) / end if unit >= in_ramp else _ramp_time_s(unit, start, growth))
        for unit in units
    )


def shaped_times_ms(
    process: Process,
    requests_per_s: float,
    week: Sequence[float],
    *,
    from_hour: float = 0.0,
    burstiness: float | None = None,
    seed: int = 0,
) -> Iterator[float]:
    """Endless send times in ms whose rate is `requests_per_s` times the factor of each hour of the `week`.

    `week` has 168 factors of mean 1, the first of Monday 0:00 UTC; time 0 is `from_hour` of it. The unit process is put
    through the inverse of the mean count, a straight line within an hour. Raises InputError for another length.
    """
    if len(week) != HOURS_A_WEEK:
        raise InputError(f"week: expected {HOURS_A_WEEK} factors, found {len(week)}")
    units = (unit_ms / 1000 for unit_ms in arrival_times_ms(process, 1.0, burstiness=burstiness, seed=seed))
    hour, now_s, counted = from_hour, 0.0, 0.0
    for unit in units:
        while True:
            rate, left_s = requests_per_s * week[int(hour) % HOURS_A_WEEK], 3600 * (int(hour) + 1 - hour)
            if counted + rate * left_s > unit:
                break
            counted, now_s, hour = counted + rate * left_s, now_s + left_s, float(int(hour) + 1)
        gone_s = (unit - counted) / rate
        counted, now_s, hour = unit, now_s + gone_s, hour + gone_s / 3600
        yield 1000 * now_s


def week_of(hours: Sequence[float], days: Sequence[float]) -> tuple[float, ...]:
    """168 factors of mean 1 from the shape of a day and of a week, either of which may be missing."""
    day, week = hours or (1.0,) * 24, days or (1.0,) * 7
    mean = sum(day) * sum(week) / HOURS_A_WEEK
    return tuple(by_day * by_hour / mean for by_day in week for by_hour in day)


def _ramp_time_s(unit: float, start: float, growth: float) -> float:
    return 2 * unit / (start + sqrt(max(0.0, start * start + 2 * unit * growth))) if unit else 0.0


def recorded_times_ms(timestamps_s: Iterable[float]) -> tuple[float, ...]:
    """A trace's timestamps as send times in ms, the first at 0. Raises InputError where they go back in time."""
    stamps = tuple(timestamps_s)
    for index, (before, after) in enumerate(pairwise(stamps)):
        if not (isfinite(before) and isfinite(after) and after >= before):
            raise InputError(
                f"trace, row {index + 2}: expected timestamps that never fall, found {after} after {before}; "
                "sort the rows by timestamp"
            )
    return tuple((stamp - stamps[0]) * 1000.0 for stamp in stamps)
