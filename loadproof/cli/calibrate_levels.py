"""From measured files to what the fit is made of: each level with the deployment it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.imports import MeasuredLevel, read_measured
from benchmarks.imports.detect import measured_file
from loadproof.capacity import Deployment, deployment_of
from loadproof.capacity.calibration import Figures, Observation
from loadproof.cli.predict_rows import row_deployment
from loadproof.errors import InputError
from loadproof.profiles import load_profile

_NAMING = ("model", "instance_type", "tp_degree", "server")


@dataclass(frozen=True, slots=True)
class ObservedLevel:
    """One level, the file that holds it, and the day it was measured."""

    observation: Observation
    file: Path
    date: str | None


def observed(files: Sequence[Path], profile: Path | None, concurrency: str | None) -> list[ObservedLevel]:
    """Every level that can be fitted to. Raises InputError where none is left or one's deployment is not known."""
    planned = None
    if profile is not None:
        loaded = load_profile(profile)
        planned = deployment_of(loaded.model_copy(update={"calibration": None}))
    wanted = None if concurrency is None else _loads(concurrency)
    found = [
        ObservedLevel(_observation(level, planned), measured_file(path), level.date)
        for path in dict.fromkeys(files)
        for level in read_measured(path)
        if _usable(level) and (wanted is None or level.concurrency in wanted)
    ]
    if not found:
        levels = "" if wanted is None else f" at {concurrency}"
        raise InputError(
            f"{', '.join(map(str, files))}: no level{levels} with a concurrency, token counts and a throughput or "
            "latency; measure a closed loop of known size"
        )
    return found


def _loads(text: str) -> frozenset[int]:
    """`1,2,4` as numbers in flight. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part[:9]) for part in parts):
        raise InputError(f"--concurrency {text!r}: expected numbers in flight like 1,2,4")
    return frozenset(map(int, parts))


def _usable(level: MeasuredLevel) -> bool:
    return bool(level.concurrency and level.input_tokens and level.output_tokens) and _figures(level) != Figures()


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


def _observation(level: MeasuredLevel, planned: Deployment | None) -> Observation:
    assert level.input_tokens and level.output_tokens and level.concurrency  # _usable said so
    inputs, outputs = max(1, round(level.input_tokens)), max(1, round(level.output_tokens))
    return Observation(
        label=f"{level.source}, {level.concurrency} in flight",
        deployment=planned or _named_deployment(level, inputs + outputs),
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=level.concurrency,
        measured=_figures(level),
        cached_tokens=round(level.cached_input_tokens or 0),
    )


def _named_deployment(level: MeasuredLevel, request_tokens: int) -> Deployment:
    row = {name: str(getattr(level, name) or "") for name in _NAMING}
    if missing := [name for name, value in row.items() if not value]:
        raise InputError(
            f"{level.source}: does not say {', '.join(missing)}; give --profile with the deployment that was measured"
        )
    try:
        return row_deployment({**row, "instance_count": str(level.instance_count or 1)}, request_tokens)
    except InputError as error:
        raise InputError(f"{level.source}: {error}") from None
