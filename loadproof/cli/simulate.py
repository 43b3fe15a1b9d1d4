"""`loadproof simulate PROFILE`: hours of traffic in seconds, on the twin. Everything shown is predicted."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadproof.errors import ExitCode, InputError

if TYPE_CHECKING:
    from loadproof.profiles.schema import Profile
    from loadproof.simulation import StartUp, Traffic


class Arrivals(StrEnum):
    """The arrival processes of an open loop."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


class Format(StrEnum):
    """How the simulation is printed."""

    TEXT = "text"
    JSON = "json"


def simulate(
    profile: Annotated[Path, typer.Argument(help="profile file, for example deploy_profiles/prod/chat.yaml")],
    minutes: Annotated[
        float | None, typer.Option(help="how long traffic is sent; default 60, or the trace's length")
    ] = None,
    requests_per_s: Annotated[
        float | None, typer.Option("--rate", "--requests-per-s", help="open loop: requests per second")
    ] = None,
    arrivals: Annotated[
        Arrivals | None, typer.Option(help="how an open loop's requests follow one another (default: the workload's)")
    ] = None,
    burstiness: Annotated[
        float | None, typer.Option(min=0.001, help="of gamma arrivals: 1 is Poisson, below 1 comes in bursts")
    ] = None,
    ramp_from: Annotated[
        float | None, typer.Option(min=0, help="rate to start from, growing to --rate over --ramp-minutes")
    ] = None,
    ramp_minutes: Annotated[float | None, typer.Option(help="how long the ramp takes; default 10")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="closed loop with so many requests in flight")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="CSV or JSON Lines: timestamp_s, input_tokens, output_tokens of each request")
    ] = None,
    instance_start_s: Annotated[
        float | None, typer.Option(min=0, help="new instance, image included, in seconds")
    ] = None,
    copy_start_s: Annotated[float | None, typer.Option(min=0, help="weights and server of a copy, in seconds")] = None,
    starts_at: Annotated[
        str, typer.Option(help="date and time it begins (UTC), for scheduled policies")
    ] = "2026-01-05T00:00",
    seed: Annotated[int, typer.Option(min=0, help="chance of arrivals, sizes and routing")] = 0,
    format: Annotated[Format, typer.Option(help="text for people, json for programs")] = Format.TEXT,
) -> int:
    """Simulate a profile's endpoint under traffic: waiting, time-outs, copies coming and going, cost.

    Without a load, the workload's own: its arrivals, or the objectives' concurrency. Exit 1 when nothing was served.
    """
    from loadproof.profiles import load_profile
    from loadproof.simulation import simulate_profile, traffic_of
    from loadproof.simulation.document import simulation_document
    from loadproof.terminal import Terminal

    loaded = load_profile(profile)
    recorded = loaded.workload.arrivals.trace
    if trace is None and concurrency is None and requests_per_s is None and recorded:
        trace = profile.parent / recorded
    wanted = (concurrency, requests_per_s, arrivals, burstiness, ramp_from, ramp_minutes)
    if trace is None:
        load = traffic_of(
            loaded,
            concurrency=concurrency,
            requests_per_s=requests_per_s,
            process=None if arrivals is None else arrivals.value,
            burstiness=burstiness,
            from_requests_per_s=ramp_from,
            ramp_minutes=ramp_minutes,
            seed=seed,
        )
    elif any(value is not None for value in wanted):
        raise InputError("--trace brings its own load; leave --concurrency, --rate, --arrivals and the ramp out")
    else:
        load, lasts_minutes = _recorded(trace)
        minutes = lasts_minutes if minutes is None else minutes
    lasting = 60.0 if minutes is None else minutes
    start_up, begins = _start_up(loaded, instance_start_s, copy_start_s), _moment(starts_at)
    with Terminal(stderr=True).status(f"simulating {load.words}") as status:
        made = simulate_profile(
            loaded,
            minutes=lasting,
            traffic=load,
            start_up=start_up,
            starts_at=begins,
            seed=seed,
            tell=lambda requests, minute: status.update(
                f"simulating {load.words}: {requests:,} requests, minute {minute:.1f} of {lasting:g}"
            ),
        )
    if format is Format.JSON:
        import json

        print(json.dumps(simulation_document(made), indent=2, allow_nan=False))
    else:
        from loadproof.cli.simulate_text import print_simulation

        print_simulation(made)
    return ExitCode.OK if made.summary.requests else ExitCode.MISSED


def _recorded(trace: Path) -> tuple[Traffic, float]:
    """The recorded traffic, and the minutes it lasts (its last request included)."""
    from benchmarks.traces import read_trace
    from loadproof.simulation import OpenLoop, Traffic

    rows = read_trace(trace)
    times = [row.due_s * 1000 for row in rows]
    sizes = [(row.input_tokens, row.output_tokens) for row in rows]
    traffic = Traffic(OpenLoop(times), sizes, f"trace {trace.name}, {len(rows):,} requests")
    return traffic, max(1.0, times[-1] / 60_000 + 1e-3)


def _start_up(profile: Profile, instance_s: float | None, copy_s: float | None) -> StartUp | None:
    if instance_s is None and copy_s is None:
        return None
    from loadproof.capacity import deployment_of
    from loadproof.simulation import StartUp, start_up_of

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
