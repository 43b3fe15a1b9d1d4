"""From measured files to what the fit is made of: each level with the deployment it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadproof.bench.imports import MeasuredLevel, read_measured
from loadproof.bench.imports.detect import measured_file
from loadproof.capacity import PlannedDeployment, deployment_of
from loadproof.capacity.observations import FIGURES, Figures, Observation
from loadproof.capacity.row_names import model_of, server_of
from loadproof.capacity.rows import row_deployment
from loadproof.capacity.workload import PlannedWorkload, planned_workload
from loadproof.errors import InputError
from loadproof.profiles import load_profile
from loadproof.sessions import equal_requests

_NAMING = ("model", "instance_type", "tp_degree", "server")
# Past it a level says how failing went: what failed early left room for the others, or held it until a timeout.
_MOST_ERRORS = 0.1


@dataclass(frozen=True, slots=True)
class ObservedLevel:
    """One level, the file that holds it, the day it was measured, and whether on a local cloud's twin."""

    observation: Observation
    file: Path
    date: str | None
    simulated: bool = False


def observed(
    files: Sequence[Path], profile: Path | None, concurrency: str | None
) -> tuple[list[ObservedLevel], list[str]]:
    """Every level that can be fitted to, and for each other one, of those asked for, why it cannot.

    Raises InputError where none is left, and where a level's deployment is not known or is not the profile's.
    """
    planned, loaded = None, None
    if profile is not None:
        loaded = load_profile(profile)
        planned = deployment_of(loaded.model_copy(update={"calibration": None}))
    wanted = None if concurrency is None else _loads(concurrency)
    found: list[ObservedLevel] = []
    left_out: list[str] = []
    held: set[int] = set()
    for path in dict.fromkeys(files):
        for level in read_measured(path):
            held.add(level.concurrency or 0)
            if wanted is not None and level.concurrency not in wanted:
                continue
            if reason := _unusable(level):
                left_out.append(f"{_label(level)}: {reason}")
            else:
                own = loaded is not None and level.profile == loaded.name
                observation = _observation(level, planned, planned_workload(loaded) if loaded and own else None)
                found.append(ObservedLevel(observation, measured_file(path), level.date, level.simulated))
    if not found:
        levels = "" if wanted is None else f" at {concurrency}"
        reasons = (
            "; ".join(left_out[:3]) or f"in flight there: {', '.join(map(str, sorted(held - {0}))) or 'not known'}"
        )
        raise InputError(f"{', '.join(map(str, files))}: no level{levels} to calibrate on; {reasons}")
    return found, left_out


def loads_of(profile: Path | None) -> tuple[int, ...]:
    """What the bands shall hold over: the profile's curve and its objectives' level; none without a profile."""
    if profile is None:
        return ()
    loaded = load_profile(profile)
    return tuple(sorted({*loaded.benchmark.concurrency, loaded.objectives.at_concurrency}))


def _loads(text: str) -> frozenset[int]:
    """`1,2,4` as numbers in flight. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part[:9]) for part in parts):
        raise InputError(f"--concurrency {text!r}: expected numbers in flight like 1,2,4")
    return frozenset(map(int, parts))


def _unusable(level: MeasuredLevel) -> str | None:
    """Why a level cannot be fitted to; None where it can."""
    if level.requests and level.errors and level.errors > _MOST_ERRORS * level.requests:
        return f"{level.errors} of its {level.requests} requests failed"
    if not level.concurrency or level.concurrency < 1:
        return "how many were in flight is not known: no closed loop, or an open one"
    if not level.input_tokens or not level.output_tokens:
        return "its tokens are not known"
    figures = _figures(level)
    measured = [value for name in FIGURES if (value := getattr(figures, name)) is not None]
    if not measured:
        return "no throughput and no latency"
    return "a figure below zero" if min(measured) < 0 else None


def _label(level: MeasuredLevel) -> str:
    return level.source if level.concurrency is None else f"{level.source}, {level.concurrency} in flight"


def _figures(level: MeasuredLevel) -> Figures:
    """Means, as the planner's; where a file has only medians, those."""
    ttft, tpot, e2e = level.ttft_ms, level.tpot_ms, level.e2e_ms
    return Figures(
        output_tokens_per_s=level.output_tokens_per_s or None,
        ttft_ms=ttft.mean or ttft.p50 or None,
        tpot_ms=tpot.mean or tpot.p50 or None,
        e2e_ms=e2e.mean or e2e.p50 or None,
        e2e_p90_ms=e2e.p90 if e2e.mean is None and e2e.p50 is None else None,
    )


def _observation(
    level: MeasuredLevel, planned: PlannedDeployment | None, workload: PlannedWorkload | None
) -> Observation:
    assert level.input_tokens
    assert level.output_tokens
    assert level.concurrency
    inputs, outputs = max(1, round(level.input_tokens)), max(1, round(level.output_tokens))
    if planned is not None:
        _refuse_another(level, planned)
    return Observation(
        label=_label(level),
        deployment=planned or _named_deployment(level, inputs + outputs),
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=level.concurrency,
        measured=_figures(level),
        cached_tokens=round(level.cached_input_tokens or 0),
        workload=_as_measured(workload, level, inputs, outputs),
    )


def _as_measured(
    workload: PlannedWorkload | None, level: MeasuredLevel, inputs: int, outputs: int
) -> PlannedWorkload | None:
    """The profile's workload at the lengths that were sent, and with the cached tokens that the server counted; without
    one, requests that were all alike; None of any others."""
    counted = round(level.cached_input_tokens or 0)
    if level.alike:
        cached = counted or (workload.cached_tokens if workload else 0)
        return PlannedWorkload(inputs, outputs, cached_tokens=cached, mixture=equal_requests(inputs, outputs))
    if workload is None:
        return None
    sent = replace(workload, input_tokens=inputs, output_tokens=outputs)
    return replace(sent, cached_tokens=counted, history="computed") if counted else sent


def _refuse_another(level: MeasuredLevel, planned: PlannedDeployment) -> None:
    """Raises InputError where the file itself says that something else was measured. A model's name counts only where
    the catalog knows it: servers are called by any name."""
    pairs = (
        ("model", level.model, planned.model_id, _shape_differs(level.model or "", planned)),
        ("instance_type", level.instance_type, planned.instance.instance_type, None),
        ("tp_degree", level.tp_degree, planned.accelerators, None),
        ("server", level.server, planned.family, level.server and server_of(level.server).family != planned.family),
    )
    for name, said, deployed, differs in pairs:
        if said is not None and (said != deployed if differs is None else differs):
            raise InputError(
                f"{_label(level)}: {name} {said} was measured, the profile deploys {deployed}; give the profile that "
                "was measured"
            )


def _shape_differs(model: str, planned: PlannedDeployment) -> bool:
    if model.endswith(".json"):
        return False
    try:
        return model_of(model)[0].name != planned.architecture.name
    except InputError:
        return False


def _named_deployment(level: MeasuredLevel, request_tokens: int) -> PlannedDeployment:
    row = {name: str(getattr(level, name) or "") for name in _NAMING}
    if missing := [name for name, value in row.items() if not value]:
        raise InputError(
            f"{level.source}: does not say {', '.join(missing)}; give --profile with the deployment that was measured"
        )
    try:
        return row_deployment({**row, "instance_count": str(level.instance_count or 1)}, request_tokens)
    except InputError as error:
        raise InputError(f"{level.source}: {error}") from None
