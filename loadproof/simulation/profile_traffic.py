"""What is sent to a profile's endpoint: its workload's own traffic, or the same requests at another load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

from loadproof.capacity.workload import planned_workload
from loadproof.errors import InputError
from loadproof.profiles.mixture import planned_mixture_of
from loadproof.profiles.schema import Profile
from loadproof.simulation.chunked import BLOCK_TOKENS
from loadproof.simulation.fleet import Sizes
from loadproof.simulation.routing import Routing
from loadproof.simulation.sizes import request_sizes
from loadproof.simulation.traffic import (
    JITTER_MS,
    ClosedLoop,
    OpenLoop,
    Process,
    arrival_times_ms,
    ramped_times_ms,
    shaped_times_ms,
    week_of,
)

MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
_OPEN: Final[dict[str, Process]] = {"constant": "constant", "poisson": "poisson", "gamma": "gamma"}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent: when, of which sizes, and in words. `block_tokens`: of the blocks that sizes name, 0 without.

    `routing` stands in for the profile's own. `shared_prefix_tokens` begin every prompt, where no blocks tell it.
    """

    load: ClosedLoop | OpenLoop
    sizes: Sizes
    words: str
    block_tokens: int = 0
    routing: Routing | None = None
    shared_prefix_tokens: int = 0


@dataclass(frozen=True, slots=True)
class OtherLoad:
    """A load in place of the workload's own: a number in flight, or a rate, which `process` (else the workload's own,
    else Poisson) makes arrivals of. `from_requests_per_s` ramps up (or down) to the rate over `ramp_minutes`."""

    concurrency: int | None = None
    requests_per_s: float | None = None
    process: Process | None = None
    burstiness: float | None = None
    from_requests_per_s: float | None = None
    ramp_minutes: float | None = None


def traffic_of(
    profile: Profile, other: OtherLoad | None = None, *, starts_at: datetime = MONDAY, seed: int = 0
) -> Traffic:
    """The workload's own traffic, or the same requests at another load.

    Sessions begin at a rate over their mean number of requests. The workload's own rate follows the shape of its day
    and week from `starts_at` on. A closed workload without a rate keeps the objectives' concurrency in flight.
    Raises InputError for a load that means nothing.
    """
    other = other or OtherLoad()
    arrivals, mixture = profile.workload.arrivals, planned_mixture_of(profile)
    block_tokens = 0 if mixture.single else BLOCK_TOKENS
    shared = profile.workload.shared_prefix_tokens
    sizes = request_sizes(mixture, seed, block_tokens)
    if other.concurrency is not None and other.requests_per_s is not None:
        raise InputError("expected a concurrency or a rate, found both; leave one out")
    if other.concurrency is not None or (other.requests_per_s is None and arrivals.process == "closed"):
        if replace(other, concurrency=None) != OtherLoad():
            raise InputError("arrivals and ramps need a rate, and the load is a number in flight; give a rate")
        clients = other.concurrency or profile.objectives.at_concurrency
        return Traffic(
            ClosedLoop(clients, jitter_ms=JITTER_MS), sizes, f"{clients} in flight", block_tokens, None, shared
        )
    times, words = _open(profile, other, mixture.requests, starts_at, seed)
    return Traffic(OpenLoop(times), sizes, words, block_tokens, None, shared)


def _open(
    profile: Profile, other: OtherLoad, requests_a_session: float, starts_at: datetime, seed: int
) -> tuple[Iterator[float], str]:
    """When sessions begin, in ms, and in words."""
    arrivals, own_rate = profile.workload.arrivals, other.requests_per_s is None
    if own_rate and arrivals.process == "trace":
        raise InputError(
            "workload.arrivals: a trace has no rate; replay it (`loadproof simulate --trace`) or give a rate"
        )
    rate = arrivals.requests_per_s if own_rate else other.requests_per_s
    if rate is None:
        raise InputError(f"workload.arrivals: {arrivals.process} needs requests_per_s")
    process = other.process or _OPEN.get(arrivals.process, "poisson")
    burstiness = other.burstiness
    if process != "gamma":
        if burstiness is not None:
            raise InputError(f"burstiness has no use with {process} arrivals; make them gamma, or leave it out")
    elif burstiness is None:
        burstiness = arrivals.burstiness
    start, ramp_minutes = other.from_requests_per_s, other.ramp_minutes
    if own_rate and start is None:  # the workload's own ramp
        start, duration_s = arrivals.from_requests_per_s, profile.benchmark.duration_s
        if start is not None and ramp_minutes is None and duration_s is not None:
            ramp_minutes = duration_s / 60
    begin = rate / requests_a_session
    if start is None and ramp_minutes is None:
        if own_rate and (arrivals.hours or arrivals.days):
            hour = 24 * starts_at.weekday() + starts_at.hour + starts_at.minute / 60
            week = week_of(arrivals.hours, arrivals.days)
            times = shaped_times_ms(process, begin, week, from_hour=hour, burstiness=burstiness, seed=seed)
            return times, f"{process}, {rate:g} requests/s in the mean, by the week's shape"
        times = arrival_times_ms(process, begin, burstiness=burstiness, seed=seed)
        return times, f"{process}, {rate:g} requests/s"
    start, ramp = start or 0.0, ramp_minutes if ramp_minutes is not None else 10.0
    times = ramped_times_ms(process, start / requests_a_session, begin, ramp * 60, burstiness=burstiness, seed=seed)
    return times, f"{process}, {start:g} to {rate:g} requests/s in {ramp:g} min"


def request_tokens(profile: Profile, traffic: Traffic) -> float:
    """Prompt plus answer: a trace's mean, else the workload's."""
    if isinstance(traffic.sizes, Sequence) and traffic.sizes:
        return float(sum(size[0] + size[1] for size in traffic.sizes)) / len(traffic.sizes)  # no sessions are recorded
    planned = planned_workload(profile)
    return planned.input_tokens + planned.output_tokens


def until(load: ClosedLoop | OpenLoop, end_ms: float) -> ClosedLoop | OpenLoop:
    """The load without what would be sent from `end_ms` on; a closed loop is told elsewhere."""
    if isinstance(load, ClosedLoop):
        return load
    return OpenLoop(takewhile(lambda at_ms: at_ms < end_ms, load.times_ms))
