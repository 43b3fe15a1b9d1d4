"""From the load options of `loadproof bench` to the levels of a run: fixed ones, phases, or a search."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer

from loadproof.bench.spec import BenchmarkSpec, Search
from loadproof.errors import InputError
from loadproof.loads import MOST_CONCURRENCY, MOST_REQUESTS_PER_S, PROCESSES, Load, checked

_RANGE = re.compile(r"(?P<start>[0-9.]+?)\.\.(?P<most>[0-9.]+)")
Arrivals = Literal["constant", "poisson", "gamma"]
CROWD = 1024  # requests in flight that keep more than one core busy
DEFAULT_SPAN = (1.0, 256.0)  # of --find-max


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What was said about the load; None where the profile or the default decides."""

    HEADING: ClassVar = "Load"

    concurrency: Annotated[
        str | None,
        typer.Option(
            help="requests in flight, one level each: 1,2,4 (default with --target: 1,2,4,8); "
            "1..64 doubles until a stop rule ends it"
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(help="open loop: requests per second, one level each: 1,2.5; 1..64 doubles until a stop rule"),
    ] = None
    arrivals: Annotated[
        Arrivals | None, typer.Option(help="how an open loop's requests follow one another (default: poisson)")
    ] = None
    burstiness: Annotated[
        float | None, typer.Option(min=0.001, help="of gamma arrivals: 1 is Poisson, below 1 comes in bursts")
    ] = None
    ramp_from: Annotated[
        float | None, typer.Option(min=0, help="rate to start from, growing to --rate over --duration-s")
    ] = None
    ramp_s: Annotated[float | None, typer.Option(min=0, help="open a closed loop's slots over that long")] = None
    trace: Annotated[
        Path | None,
        typer.Option(help="recorded traffic (Mooncake, Bailian, Azure, BurstGPT, OpenTelemetry, LiteLLM, our own)"),
    ] = None
    speed: Annotated[float | None, typer.Option(min=0.001, help="play --trace so many times as fast")] = None
    duration_s: Annotated[float | None, typer.Option(min=0.001, help="end a level after that long (a soak: hours)")] = (
        None
    )
    phase: Annotated[
        list[str] | None,
        typer.Option(help="a level of its own, repeatable: process=gamma,requests_per_s=2,requests=90"),
    ] = None
    find_max: Annotated[
        bool, typer.Option("--find-max", help="search the highest --rate or --concurrency that meets the objectives")
    ] = False
    repeats: Annotated[
        int | None, typer.Option(min=1, max=9, help="of --find-max: most measurements of either end (default: 3)")
    ] = None
    drain_s: Annotated[
        float | None,
        typer.Option(min=0, help="longest wait for the last answers of an open or timed level; the rest is unfinished"),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="processes to share the load, at most one a core (default: 1; from 1,024 in flight one a core)",
        ),
    ] = None
    requests_per_level: Annotated[
        int | None,
        typer.Option(min=1, help="requests at each level (default with --target: 32, and 2 a slot at least)"),
    ] = None


def with_load(spec: BenchmarkSpec, options: LoadOptions) -> BenchmarkSpec:
    """The spec with the load that was asked for; the spec's own where nothing was. Raises InputError."""
    _refuse_mixtures(options)
    changes: dict[str, Any] = {}
    if options.requests_per_level is not None:
        changes |= {"requests_per_level": options.requests_per_level, "exact_requests": True}
    if options.drain_s is not None:
        changes["drain_s"] = options.drain_s
    if options.workers is not None:
        changes["workers"] = options.workers
    spec = replace(spec, **changes)
    if options.phase:
        return replace(spec, loads=tuple(_phase(text, spec) for text in options.phase), search=None)
    if options.trace is not None:
        load = Load(
            "trace",
            trace=str(options.trace),
            speed=options.speed,
            requests=options.requests_per_level,
            duration_s=options.duration_s,
        )
        return replace(spec, loads=(checked(load, "--trace"),), search=None)
    if options.rate is not None or (options.find_max and _opens(spec, options)):
        return _with_rates(spec, options)
    return _with_concurrency(spec, options)


def refuse_crowd(workers: int | None) -> None:
    """Worker processes that share a core make each other late, and offer less load than one a core."""
    cores = _cores()
    if workers is not None and workers > cores:
        raise InputError(
            f"--workers {workers}: at most one a core, and this machine has {cores}; give --workers {cores}, "
            "or share the load among machines (--remote --hosts)"
        )


def with_crew(spec: BenchmarkSpec, workers: int | None) -> BenchmarkSpec:
    """As many processes as this machine has cores for a load that one cannot send and read in time."""
    most = max((load.concurrency or 0 for load in spec.fixed_loads), default=0)
    if workers is not None or most < CROWD:
        return spec
    return replace(spec, workers=_cores())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _opens(spec: BenchmarkSpec, options: LoadOptions) -> bool:
    return options.concurrency is None and any(load.is_open for load in spec.loads)


def _with_rates(spec: BenchmarkSpec, options: LoadOptions) -> BenchmarkSpec:
    own = next((load for load in spec.loads if load.is_open and load.process != "trace"), Load("poisson"))
    process = options.arrivals or ("gamma" if options.burstiness is not None else own.process)
    requests = (
        None if options.duration_s is not None and options.requests_per_level is None else spec.requests_per_level
    )
    pattern = Load(
        process,
        burstiness=options.burstiness if options.burstiness is not None or process != own.process else own.burstiness,
        from_requests_per_s=options.ramp_from,
        requests=None if options.ramp_from is not None else requests,
        duration_s=options.duration_s,
    )
    span = _span("--rate", options.rate, MOST_REQUESTS_PER_S, options.find_max)
    if span is not None:
        return _searching(spec, options, pattern, span)
    rates = _numbers("--rate", options.rate or "", MOST_REQUESTS_PER_S)
    loads = tuple(checked(replace(pattern, requests_per_s=rate), f"--rate {rate:g}") for rate in rates)
    return _judged_within(replace(spec, loads=loads, search=None))


def _with_concurrency(spec: BenchmarkSpec, options: LoadOptions) -> BenchmarkSpec:
    span = _span("--concurrency", options.concurrency, MOST_CONCURRENCY, options.find_max)
    requests = (
        None if options.duration_s is not None and options.requests_per_level is None else spec.requests_per_level
    )
    pattern = Load(ramp_s=options.ramp_s, requests=requests, duration_s=options.duration_s)
    if span is not None:
        return _searching(spec, options, pattern, span)
    if options.concurrency is None and spec.loads:
        loads = (
            checked(_adjusted(load, options), f"level {number}") for number, load in enumerate(spec.loads, start=1)
        )
        return _judged_within(replace(spec, loads=tuple(loads)))
    levels = spec.concurrency if options.concurrency is None else parse_concurrency(options.concurrency)
    spec = replace(spec, concurrency=levels, loads=(), search=None)
    if options.duration_s is not None or options.ramp_s is not None:
        loads = (replace(pattern, concurrency=level) for level in levels)
        spec = replace(spec, loads=tuple(checked(load, f"--concurrency {load.concurrency}") for load in loads))
    return _judged_within(spec)


def _searching(spec: BenchmarkSpec, options: LoadOptions, pattern: Load, span: tuple[float, float]) -> BenchmarkSpec:
    kind: Literal["sweep", "find_max"] = "find_max" if options.find_max else "sweep"
    if kind == "find_max" and not spec.objectives:
        raise InputError("--find-max needs objectives to meet: add --objective ttft_p95_ms=500, or some to the profile")
    search = Search(kind, pattern, *span, repeats=options.repeats or 3)
    checked(search.load_at(search.start), "--find-max" if options.find_max else "--rate or --concurrency")
    if kind == "sweep":
        _refuse_outside(spec, search)
    return replace(spec, loads=(), search=search)


def _refuse_outside(spec: BenchmarkSpec, search: Search) -> None:
    """Refuse to judge a sweep where it does not go."""
    is_open = search.load.is_open
    if not is_open and spec.at_requests_per_s is not None:
        raise InputError(f"--at-rate {spec.at_requests_per_s:g}: goes with --rate; name a level with --at-concurrency")
    wanted = spec.at_requests_per_s if is_open else spec.at_concurrency
    if wanted is not None and not search.start <= wanted <= search.most:
        name, option = ("requests/s", "rate") if is_open else ("in flight", "concurrency")
        raise InputError(
            f"objectives must hold at {wanted:g} {name}, which is not in {search.start:g}..{search.most:g}; "
            f"widen --{option} or name another with --at-{option}"
        )


def _judged_within(spec: BenchmarkSpec) -> BenchmarkSpec:
    """Refuse to judge at a level that is not measured. A profile's `at_concurrency` says nothing of an open loop."""
    loads = spec.fixed_loads
    closed = [load.concurrency for load in loads if not load.is_open]
    rates = [load.requests_per_s for load in loads if load.is_open]
    if spec.at_requests_per_s is not None and spec.at_requests_per_s not in rates:
        raise InputError(
            f"objectives must hold at {spec.at_requests_per_s:g} requests/s, which is none of the levels; "
            "name one of --rate with --at-rate"
        )
    if closed and not rates and spec.at_concurrency is not None and spec.at_concurrency not in closed:
        levels = ", ".join(map(str, closed))
        raise InputError(
            f"objectives must hold at {spec.at_concurrency} in flight, which is none of the levels {levels}; "
            "add it to --concurrency or name a level with --at-concurrency"
        )
    return spec


def _phase(text: str, spec: BenchmarkSpec) -> Load:
    """`process=poisson,requests_per_s=2,duration_s=30` as a load."""
    place = f"--phase {text!r}"
    values: dict[str, Any] = {}
    kinds = {field.name: str(field.type) for field in fields(Load)}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in kinds:
            raise InputError(f"{place}: unknown `{name}`; use {', '.join(kinds)}")
        if name in values:
            raise InputError(f"{place}: `{name}` is given twice; give it once")
        try:
            values[name] = (
                value
                if "str" in kinds[name] or name == "process"
                else (int(value) if "int" in kinds[name] else float(value))
            )
        except ValueError:
            raise InputError(f"{place}: {name}: expected a number, found {value!r}") from None
    if values.get("process", "closed") not in PROCESSES:
        raise InputError(f"{place}: unknown process {values['process']!r}; use {', '.join(PROCESSES)}")
    load = Load(**values)
    if load.process != "trace" and load.requests is None and load.duration_s is None:
        load = replace(load, requests=spec.requests_per_level)
    return checked(load, place)


def parse_concurrency(text: str) -> tuple[int, ...]:
    """`1,2,4` as levels. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= MOST_CONCURRENCY for part in parts):
        raise InputError(f"--concurrency {text!r}: expected numbers from 1 to {MOST_CONCURRENCY} like 1,2,4, or 1..64")
    levels = tuple(int(part) for part in parts)
    if len(set(levels)) != len(levels):
        raise InputError(f"--concurrency {text!r}: a level is named twice; name each once")
    return levels


def _numbers(name: str, text: str, most: float) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 < value <= most for value in values) or len(set(values)) != len(values):
        raise InputError(
            f"{name} {text!r}: expected numbers above 0, at most {most:,.0f}, each once, like 1,2.5 or 1..64"
        )
    return values


def _adjusted(load: Load, options: LoadOptions) -> Load:
    """A profile's own level with what the options say of its length."""
    if options.duration_s is not None:
        load = replace(load, duration_s=options.duration_s, requests=None)
    if options.requests_per_level is not None:
        load = replace(load, requests=options.requests_per_level)
    return load if options.ramp_s is None else replace(load, ramp_s=options.ramp_s)


def _span(name: str, text: str | None, most: float, find_max: bool) -> tuple[float, float] | None:
    """`1..64`: from 1 up to 64; None for anything that is no span, where none is needed."""
    if text is None and find_max:
        return DEFAULT_SPAN
    if text is None or (".." not in text and not find_max):
        return None
    match = _RANGE.fullmatch(text.strip())
    try:
        start, end = (float(match["start"]), float(match["most"])) if match else (0.0, 0.0)
    except ValueError:
        start = end = 0.0
    whole = name == "--concurrency"
    if not 0 < start < end <= most or (whole and not (start.is_integer() and end.is_integer())):
        kind = "whole numbers " if whole else ""
        raise InputError(f"{name} {text!r}: expected {kind}LOWEST..HIGHEST like 1..64, at most {most:,.0f}")
    return start, end


def _refuse_mixtures(options: LoadOptions) -> None:
    """Options that contradict each other, all in one message."""
    found = []
    kinds = ("--concurrency", options.concurrency), ("--rate", options.rate), ("--trace", options.trace)
    given = [name for name, value in (*kinds, ("--phase", options.phase or None)) if value is not None]
    if len(given) > 1:
        found.append(f"{' and '.join(given)}: give one of them; phases of several kinds go into --phase")
    for name, value in (("--arrivals", options.arrivals), ("--burstiness", options.burstiness)):
        if value is not None and options.rate is None and not options.find_max:
            found.append(f"{name} {value}: goes with --rate")
    if options.ramp_from is not None and options.rate is None:
        found.append("--ramp-from: goes with --rate")
    if options.ramp_s is not None and (options.rate is not None or options.trace is not None):
        found.append("--ramp-s: goes with --concurrency; a rate ramps with --ramp-from and --duration-s")
    if options.speed is not None and options.trace is None:
        found.append("--speed: goes with --trace")
    if options.repeats is not None and not options.find_max:
        found.append("--repeats: goes with --find-max")
    if options.find_max and (options.trace is not None or options.phase):
        found.append("--find-max: searches a rate or a concurrency, no trace or phases")
    if found:
        raise InputError("\n".join(found))
