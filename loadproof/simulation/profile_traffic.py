"""What is sent to a profile's endpoint: its workload's own traffic, or the same requests at another load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from loadproof.capacity.workload import planned_workload
from loadproof.errors import InputError
from loadproof.profiles.schema import Profile
from loadproof.simulation.chunked import BLOCK_TOKENS
from loadproof.simulation.routing import Routing
from loadproof.simulation.sizes import conversations, request_sizes
from loadproof.simulation.traffic import ClosedLoop, OpenLoop, Process, arrival_times_ms, ramped_times_ms

_OPEN: Final[dict[str, Process]] = {"constant": "constant", "poisson": "poisson", "gamma": "gamma"}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent: when, of which sizes, and in words. `block_tokens`: of the blocks that sizes name, 0 without.

    `routing` stands in for the profile's own.
    """

    load: ClosedLoop | OpenLoop
    sizes: Iterable[tuple[Any, ...]]
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
    seed: int = 0,
) -> Traffic:
    """The workload's own traffic, or the same requests at another load.

    A rate makes it open: by `process`, else the workload's own, else Poisson. `from_requests_per_s` ramps up (or down)
    to the rate over `ramp_minutes`. A closed workload without a rate keeps the objectives' concurrency in flight.
    Raises InputError for a load that means nothing.
    """
    arrivals = profile.workload.arrivals
    in_flight = concurrency or profile.objectives.at_concurrency
    sizes: Iterable[tuple[Any, ...]] = request_sizes(profile.workload, seed)
    block_tokens = BLOCK_TOKENS if profile.workload.turns > 1 else 0
    if block_tokens:
        sizes = conversations(profile.workload, in_flight, block_tokens, seed)
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
    if from_requests_per_s is None and ramp_minutes is None:
        times = arrival_times_ms(process, rate, burstiness=burstiness, seed=seed)
        return Traffic(OpenLoop(times), sizes, f"{process}, {rate:g} requests/s", block_tokens)
    start, ramp = from_requests_per_s or 0.0, ramp_minutes if ramp_minutes is not None else 10.0
    times = ramped_times_ms(process, start, rate, ramp * 60, burstiness=burstiness, seed=seed)
    words = f"{process}, {start:g} to {rate:g} requests/s in {ramp:g} min"
    return Traffic(OpenLoop(times), sizes, words, block_tokens)


def request_tokens(profile: Profile, traffic: Traffic) -> float:
    """Prompt plus answer: a trace's mean, else the workload's."""
    if isinstance(traffic.sizes, Sequence) and traffic.sizes:
        return float(sum(size[0] + size[1] for size in traffic.sizes)) / len(traffic.sizes)
    planned = planned_workload(profile)
    return planned.input_tokens + planned.output_tokens


def until(load: ClosedLoop | OpenLoop, end_ms: float) -> ClosedLoop | OpenLoop:
    """The load without what would be sent from `end_ms` on; a closed loop is told elsewhere."""
    if isinstance(load, ClosedLoop):
        return load
    return OpenLoop(takewhile(lambda at_ms: at_ms < end_ms, load.times_ms))
