"""`loadproof simulate PROFILE`: hours of traffic in seconds, on the twin. Everything shown is predicted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from loadproof.bench.workload.played import played
from loadproof.bench.workload.traces import trace_notes, trace_of
from loadproof.capacity import deployment_of
from loadproof.capacity.cost import priced_elsewhere
from loadproof.cli.bench.load import Arrivals
from loadproof.cli.options import TextOrJson, grouped
from loadproof.cli.profile_names import ProfileFile
from loadproof.cli.simulate.text import print_routings, print_simulation
from loadproof.errors import ExitCode, InputError
from loadproof.profiles import Environment, load_profile
from loadproof.profiles.loader import environment_beside
from loadproof.profiles.mixture import mixture_of
from loadproof.profiles.schema import Profile
from loadproof.simulation import OtherLoad, StartUp, Traffic, simulate_profile, start_up_of, traffic_of
from loadproof.simulation.document import simulation_document
from loadproof.simulation.profile import ProfileSimulation
from loadproof.simulation.routing import ROUTINGS, Routing
from loadproof.terminal import Terminal, tell

Strategy = Literal["random", "least_outstanding", "sticky", "prefix_aware", "kv_aware", "all"]


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """What is sent, and how long."""

    HEADING: ClassVar = "Traffic"

    minutes: Annotated[
        float | None, typer.Option(help="how long traffic is sent; default 60, or the trace's length")
    ] = None
    requests_per_s: Annotated[
        float | None, typer.Option("--rate", "--requests-per-s", help="open loop: requests per second")
    ] = None
    arrivals: Annotated[
        Arrivals | None, typer.Option(help="how an open loop's requests follow one another (default: the workload's)")
    ] = None
    burstiness: Annotated[
        float | None, typer.Option(min=0.001, help="of gamma arrivals: 1 is Poisson, below 1 comes in bursts")
    ] = None
    ramp_from: Annotated[
        float | None, typer.Option(min=0, help="rate to start from, growing to --rate over --ramp-minutes")
    ] = None
    ramp_minutes: Annotated[float | None, typer.Option(help="how long the ramp takes; default 10")] = None
    concurrency: Annotated[int | None, typer.Option(min=1, help="closed loop with so many requests in flight")] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            help="recorded traffic: Mooncake, Bailian, Azure, BurstGPT, OpenTelemetry, LiteLLM, agents, ServeGen, our "
            "own (docs/twin.md)"
        ),
    ] = None
    speed: Annotated[float | None, typer.Option(min=0.001, help="play --trace so many times as fast")] = None


@grouped
def simulate(
    *,
    profile: ProfileFile,
    options: TrafficOptions,
    instance_start_s: Annotated[
        float | None, typer.Option(min=0, help="new instance, image included, in seconds")
    ] = None,
    copy_start_s: Annotated[float | None, typer.Option(min=0, help="weights and server of a copy, in seconds")] = None,
    starts_at: Annotated[
        str, typer.Option(help="date and time it begins (UTC), for scheduled policies")
    ] = "2026-01-05T00:00",
    routing: Annotated[
        Strategy | None,
        typer.Option(help="in place of the profile's own; all: one after another, beside each other"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="chance of arrivals, sizes and routing")] = 0,
    format: TextOrJson = "text",
) -> int:
    """Simulate a profile's endpoint under traffic.

    Waiting, time-outs, copies coming and going, cost.

    Without a load, the workload's own: its arrivals, or the objectives' concurrency. Exit 1 when nothing was served.
    """
    loaded = load_profile(profile)
    strategies: list[Routing | None] = [None] if routing is None else [routing] if routing != "all" else [*ROUTINGS]
    begins, found = _moment(starts_at), list[ProfileSimulation]()
    load, minutes = _traffic(loaded, profile, options, begins, seed)
    if routing == "sticky":
        _refuse_without_sessions(loaded, load)
    with Terminal(stderr=True).status("simulating") as status:
        for strategy in strategies:
            if found and not isinstance(load.sizes, Sequence):  # what is drawn is used up
                load, minutes = _traffic(loaded, profile, options, begins, seed)
            words = f"simulating {load.words}" + (f", routed {strategy}" if strategy else "")
            status.update(words)
            made = simulate_profile(
                loaded,
                minutes=minutes,
                traffic=replace(load, routing=strategy),
                start_up=_start_up(loaded, instance_start_s, copy_start_s),
                starts_at=begins,
                seed=seed,
                tell=lambda requests, minute, words=words, minutes=minutes: status.update(  # type: ignore[misc]
                    f"{words}: {requests:,} requests, minute {minute:.1f} of {minutes:g}"
                ),
            )
            found.append(made)
    found = _of_region(found, loaded, environment_beside(profile))
    if format == "json":
        documents = [simulation_document(one) for one in found]
        print(json.dumps(documents[0] if routing != "all" else documents, indent=2, allow_nan=False))
    elif routing == "all":
        print_routings(found)
    else:
        print_simulation(found[0])
    return ExitCode.OK if all(made.summary.requests for made in found) else ExitCode.MISSED


def _of_region(
    found: list[ProfileSimulation], profile: Profile, environment: Environment | None
) -> list[ProfileSimulation]:
    """With a note where the price is another region's."""
    elsewhere = priced_elsewhere(deployment_of(profile).instance, environment.region) if environment else ""
    return [replace(made, notes=(*made.notes, elsewhere)) for made in found] if elsewhere else found


def _refuse_without_sessions(profile: Profile, traffic: Traffic) -> None:
    rows = traffic.sizes if isinstance(traffic.sizes, Sequence) else None
    if rows is None and not mixture_of(profile.workload).single:
        return
    if not any(isinstance(row, tuple) and row[3:] not in ((), (None,)) for row in rows or ()):
        raise InputError(
            "--routing sticky: requests have no sessions; it goes with turns of 2 or more, steps or classes, or with a "
            "trace that tells conversations"
        )


def _traffic(
    loaded: Profile, file: Path, options: TrafficOptions, begins: datetime, seed: int
) -> tuple[Traffic, float]:
    """What is sent, and the minutes it lasts: the trace's, the options', or the workload's own. Raises InputError."""
    trace, recorded = options.trace, loaded.workload.arrivals.trace
    if trace is None and options.concurrency is None and options.requests_per_s is None and recorded:
        trace = file.parent / recorded
    if trace is None:
        if options.speed is not None:
            raise InputError("--speed: goes with --trace; a rate or a number in flight says its own")
        other = OtherLoad(
            concurrency=options.concurrency,
            requests_per_s=options.requests_per_s,
            process=options.arrivals,
            burstiness=options.burstiness,
            from_requests_per_s=options.ramp_from,
            ramp_minutes=options.ramp_minutes,
        )
        load = traffic_of(loaded, other, starts_at=begins, seed=seed)
        return load, 60.0 if options.minutes is None else options.minutes
    if replace(options, minutes=None, trace=None, speed=None) != TrafficOptions():
        raise InputError("--trace brings its own load; leave --concurrency, --rate, --arrivals and the ramp out")
    load, lasts_minutes = _recorded(trace, options.speed or 1.0, options.minutes)
    return load, lasts_minutes if options.minutes is None else options.minutes


def _recorded(trace: Path, speed: float, minutes: float | None) -> tuple[Traffic, float]:
    """The recorded traffic, so many minutes of it, and those it lasts (its last request included)."""
    read = trace_of(trace, speed, inf if minutes is None else 60 * minutes)
    for note in trace_notes(trace, read, blocks_used=True):
        tell(note)
    traffic = played(read.rows, f"trace {trace.name}, {len(read.rows):,} requests")
    return traffic, max(1.0, read.rows[-1].due_s / 60 + 1e-3)


def _start_up(profile: Profile, instance_s: float | None, copy_s: float | None) -> StartUp | None:
    if instance_s is None and copy_s is None:
        return None
    estimated = start_up_of(deployment_of(profile))
    return StartUp(
        instance_s=estimated.instance_s if instance_s is None else instance_s,
        copy_s=estimated.copy_s if copy_s is None else copy_s,
    )


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--starts-at: expected a date and time such as 2026-01-05T08:00, found `{text}`") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
