"""What is sent to a profile's endpoint: its workload's own traffic, or the same requests at another load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

    `routing` stands in for the profile's own.
    """

    load: ClosedLoop | OpenLoop
    sizes: Sizes
    words: str
    block_tokens: int = 0
    routing: Routing | None = None


def traffic_of(
    profile: Profile,
    *,
    concurrency: int | None = None,
    requests_per_s: float | None = None,
    process: Process | None = None,
    burstiness: float | None = None,
    from_requests_per_s: float | None = None,
    ramp_minutes: float | None = None,
    starts_at: datetime | None = None,
    seed: int = 0,
) -> Traffic:
    """The workload's own traffic, or the same requests at another load.

    A rate makes it open: by `process`, else the workload's own, else Poisson; sessions begin at that rate over their
    mean number of requests. `from_requests_per_s` ramps up (or down) to the rate over `ramp_minutes`. The workload's
    own rate follows the shape of its day and week from `starts_at` on. A closed workload without a rate keeps the
    objectives' concurrency in flight.
    Raises InputError for a load that means nothing.
    """
    arrivals = profile.workload.arrivals
    mixture = planned_mixture_of(profile)
    block_tokens = 0 if mixture.single else BLOCK_TOKENS
    sizes = request_sizes(mixture, seed, block_tokens)
    if concurrency is not None and requests_per_s is not None:
        raise InputError("expected a concurrency or a rate, found both; leave one out")
    if concurrency is not None or (requests_per_s is None and arrivals.process == "closed"):
        if any(value is not None for value in (process, burstiness, from_requests_per_s, ramp_minutes)):
            raise InputError("arrivals and ramps need a rate, and the load is a number in flight; give a rate")
        clients = concurrency or profile.objectives.at_concurrency
        return Traffic(ClosedLoop(clients), sizes, f"{clients} in flight", block_tokens)
    if requests_per_s is None and arrivals.process == "trace":
        raise InputError(
            "workload.arrivals: a trace has no rate; replay it (`loadproof simulate --trace`) or give a rate"
        )
    rate = requests_per_s if requests_per_s is not None else arrivals.requests_per_s
    if rate is None:
        raise InputError(f"workload.arrivals: {arrivals.process} needs requests_per_s")
    if process is None:
        process = _OPEN.get(arrivals.process, "poisson")
    if process != "gamma":
        if burstiness is not None:
            raise InputError(f"burstiness has no use with {process} arrivals; make them gamma, or leave it out")
    elif burstiness is None:
        burstiness = arrivals.burstiness
    if requests_per_s is None and from_requests_per_s is None:  # the workload's own ramp
        from_requests_per_s, duration_s = arrivals.from_requests_per_s, profile.benchmark.duration_s
        if from_requests_per_s is not None and ramp_minutes is None and duration_s is not None:
            ramp_minutes = duration_s / 60
    begin = rate / mixture.requests
    if from_requests_per_s is None and ramp_minutes is None:
        if requests_per_s is None and (arrivals.hours or arrivals.days):
            began = starts_at or MONDAY
            hour = 24 * began.weekday() + began.hour + began.minute / 60
            week = week_of(arrivals.hours, arrivals.days)
            times = shaped_times_ms(process, begin, week, from_hour=hour, burstiness=burstiness, seed=seed)
            words = f"{process}, {rate:g} requests/s in the mean, by the week's shape"
            return Traffic(OpenLoop(times), sizes, words, block_tokens)
        times = arrival_times_ms(process, begin, burstiness=burstiness, seed=seed)
        return Traffic(OpenLoop(times), sizes, f"{process}, {rate:g} requests/s", block_tokens)
    start, ramp = from_requests_per_s or 0.0, ramp_minutes if ramp_minutes is not None else 10.0
    times = ramped_times_ms(process, start / mixture.requests, begin, ramp * 60, burstiness=burstiness, seed=seed)
    words = f"{process}, {start:g} to {rate:g} requests/s in {ramp:g} min"
    return Traffic(OpenLoop(times), sizes, words, block_tokens)


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
