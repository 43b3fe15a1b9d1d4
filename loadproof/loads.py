"""What one level sends, and when: so many requests in flight (closed loop), or at times that wait for nobody (open)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from loadproof.errors import InputError

Process = Literal["closed", "constant", "poisson", "gamma", "trace"]
PROCESSES: tuple[Process, ...] = ("closed", "constant", "poisson", "gamma", "trace")
MOST_CONCURRENCY = 4096
MOST_REQUESTS_PER_S = 10_000.0
MOST_REQUESTS = 1_000_000  # of one open level: its schedule is held whole
FEWEST_A_SLOT = 2  # requests of a closed loop, unless told otherwise: fewer show how it starts and ends


@dataclass(frozen=True, slots=True)
class Load:
    """One level's load.

    Closed: `concurrency` slots, opened over `ramp_s`. Open: `requests_per_s` by a renewal process, rising or falling to
    it in a straight line from `from_requests_per_s`; or the times of a `trace` file. It ends after `requests` requests
    or after `duration_s`, whichever comes first; a trace ends by itself.
    """

    process: Process = "closed"
    """closed loop, or the arrivals of an open one"""
    concurrency: int | None = None
    """requests in flight, of a closed loop"""
    ramp_s: float | None = None
    """over how long its slots are opened"""
    requests_per_s: float | None = None
    """the rate of an open loop"""
    from_requests_per_s: float | None = None
    """the rate that a ramp starts from"""
    burstiness: float | None = None
    """shape of gamma arrivals; 1 is Poisson"""
    trace: str | None = None
    """file of recorded traffic"""
    speed: float | None = None
    """how many times as fast a trace is played; default: as it was recorded"""
    requests: int | None = None
    """ends the level"""
    duration_s: float | None = None
    """ends the level, whichever comes first"""

    @property
    def is_open(self) -> bool:
        return self.process != "closed"

    @property
    def in_one_piece(self) -> bool:
        """A queue that built up and a clock that ran cannot be picked up later: resumed, such a level begins again.

        A closed loop over a number of requests is the same load whenever its missing requests are sent.
        """
        return self.is_open or self.duration_s is not None

    @property
    def never_full(self) -> str | None:
        """Why a closed loop cannot be as concurrent as it is called, and what to set; None where it can."""
        if self.concurrency is None or self.requests is None or self.requests >= self.concurrency:
            return None
        return (
            f"{self.requests} requests are never {self.concurrency} in flight: "
            f"set --requests-per-level {FEWEST_A_SLOT * self.concurrency} or more"
        )

    @property
    def value(self) -> float:
        """How much load: requests in flight or requests per second; 0 for a trace, which has no one figure."""
        return float(self.concurrency or self.requests_per_s or 0)

    @property
    def words(self) -> str:
        """`8 in flight`, `poisson 2.5 requests/s`, `constant 1 to 8 requests/s`, `trace monday.csv`."""
        if self.process == "closed":
            return f"{self.concurrency} in flight"
        if self.process == "trace":
            fast = "" if self.speed in (None, 1) else f" at {self.speed:g} times its speed"
            return f"trace {PurePath(self.trace or '').name}{fast}"
        start = "" if self.from_requests_per_s is None else f"{self.from_requests_per_s:g} to "
        burst = "" if self.burstiness is None else f" (burstiness {self.burstiness:g})"
        return f"{self.process} {start}{self.requests_per_s:g} requests/s{burst}"

    @property
    def length(self) -> str:
        """`80 requests`, `80 requests or 3600 s`, `60 s, opened over 15 s`, `the whole trace`."""
        ends = [] if self.requests is None else [f"{self.requests:,} requests"]
        ends += [] if self.duration_s is None else [f"{self.duration_s:g} s"]
        ramp = f", opened over {self.ramp_s:g} s" if self.ramp_s else ""
        return (" or ".join(ends) or "the whole trace") + ramp


def problems_of(load: Load) -> tuple[str, ...]:
    """Everything wrong with a load, each as `what is wrong; what would do`; empty when it can be driven."""
    if load.process == "closed":
        found = [*_closed_problems(load)]
    elif load.process == "trace":
        found = [] if load.trace else ["trace needs the file of its timestamps; give a CSV or JSONL file"]
        found += _useless(
            load, "trace", ("concurrency", "ramp_s", "requests_per_s", "from_requests_per_s", "burstiness")
        )
    else:
        found = [*_rate_problems(load)]
    if load.process != "trace" and load.requests is None and load.duration_s is None:
        found.append("nothing ends it; give requests or duration_s")
    if load.requests is not None and not 1 <= load.requests <= MOST_REQUESTS:
        found.append(f"requests {load.requests} is out of bounds; expected 1..{MOST_REQUESTS:,}")
    if load.duration_s is not None and not 0 < load.duration_s <= 7 * 86400:
        found.append(f"duration_s {load.duration_s:g} is out of bounds; expected above 0, at most a week")
    return tuple(found)


def checked(load: Load, place: str) -> Load:
    """The load itself. Raises InputError with all its problems."""
    found = problems_of(load)
    if found:
        raise InputError("\n".join(f"{place}: {problem}" for problem in found))
    return load


def _closed_problems(load: Load) -> list[str]:
    found = _useless(load, "closed", ("requests_per_s", "from_requests_per_s", "burstiness", "trace"))
    if load.concurrency is None or not 1 <= load.concurrency <= MOST_CONCURRENCY:
        given = "no concurrency" if load.concurrency is None else f"concurrency {load.concurrency}"
        found.append(f"{given}; closed needs 1..{MOST_CONCURRENCY} requests in flight")
    if load.ramp_s is not None and load.ramp_s < 0:
        found.append(f"ramp_s {load.ramp_s:g} is below 0; expected 0 or more")
    return found


def _rate_problems(load: Load) -> list[str]:
    found = _useless(load, load.process, ("concurrency", "ramp_s", "trace"))
    if load.requests_per_s is None or not 0 < load.requests_per_s <= MOST_REQUESTS_PER_S:
        given = "no requests_per_s" if load.requests_per_s is None else f"requests_per_s {load.requests_per_s:g}"
        found.append(f"{given}; {load.process} needs a rate above 0, at most {MOST_REQUESTS_PER_S:,.0f}")
    if load.from_requests_per_s is not None:
        if not 0 <= load.from_requests_per_s <= MOST_REQUESTS_PER_S:
            given = f"from_requests_per_s {load.from_requests_per_s:g}"
            found.append(f"{given} is out of bounds; expected 0..{MOST_REQUESTS_PER_S:,.0f}")
        if load.duration_s is None:
            found.append("a ramp takes its time from duration_s; give one")
    if load.process == "gamma" and not (load.burstiness and load.burstiness > 0):
        found.append("gamma needs a burstiness above 0; 1 is Poisson, below 1 comes in bursts")
    if load.process != "gamma" and load.burstiness is not None:
        found.append(f"burstiness has no use with {load.process}; write gamma, or leave it out")
    return found


def _useless(load: Load, process: str, names: tuple[str, ...]) -> list[str]:
    return [f"{name} has no use with {process}; leave it out" for name in names if getattr(load, name) is not None]
