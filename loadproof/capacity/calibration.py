"""Refitting the planner's parameters to one's own runs, with the shipped rows as priors, and using the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, expm1, log
from statistics import median
from typing import Any, Literal, TypeVar

from loadproof.capacity.calibrated import own_hardware
from loadproof.capacity.deployment import Deployment
from loadproof.capacity.fitting import BOUNDS, Parameters, approach, search
from loadproof.capacity.memory import weight_bytes
from loadproof.capacity.runs import predict_run
from loadproof.errors import InputError
from loadproof.profiles.schema import (
    CalibratedServer,
    Calibration,
    CalibrationError,
    CalibrationSource,
    FabricParameters,
    OwnHardware,
    ServerParameters,
)

FigureName = Literal["output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms", "e2e_p90_ms"]
FIGURES: tuple[FigureName, ...] = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms", "e2e_p90_ms")
# TTFT holds the network and the client's place in a prefill, which no parameter knows.
WEIGHTS: Mapping[FigureName, float] = {"ttft_ms": 0.5}
# Being off its prior by a factor e costs a parameter as much as 1% on one figure: what the levels do not speak of
# stays, what they say at all they may say. A server's time per step differs tenfold between versions and hosts.
PRIOR_WEIGHT = 0.01
_STEP_BOUNDS = {"step_ms": (0.05, 1000.0), "step_ms_per_sequence": (1e-4, 100.0)}
ROUNDS = 25
_FEWEST_LEVELS = 3  # below it none can be left out
FOLDS = 6  # of leaving levels out: a few dozen levels replayed by TGI's rules would take minutes level by level
NARROWEST_BAND, NARROWEST_TTFT_BAND = 0.05, 0.10
_WITHOUT_FOLDS = 0.25  # the band where too few levels were measured to leave one out: grade B's
_TTFT_UNMEASURED = 0.5
OUTLIER_FACTOR, OUTLIER_LEAST = 4.0, 0.15
FARTHEST_OFF = 2.0  # past it in the middle, the levels are of something else than the deployment
# Server and own hardware: what a few levels of one model on one machine can speak of. `step_ms_per_layer` and
# `step_ms_per_doubling` need several models or degrees, and stay as shipped.
_SERVER = ("step_ms", "step_ms_per_sequence", "bandwidth_efficiency", "compute_efficiency")
_FABRIC = ("effective_gb_per_s", "latency_us")
_HARDWARE = ("bandwidth_gb_per_s", "bf16_tflops")
_Row = TypeVar("_Row")
_SMALLEST_PRIOR = 1e-3  # of a parameter whose shipped value is 0: its logarithm must exist


@dataclass(frozen=True, slots=True)
class Figures:
    """What one level measured, or is predicted to: means in ms over requests, `e2e_p90_ms` apart. None: not known."""

    output_tokens_per_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    e2e_p90_ms: float | None = None

    def pairs(self, other: Figures) -> Iterable[tuple[FigureName, float, float]]:
        """(name, own, other's) of the figures that both have."""
        for name in FIGURES:
            own, others = getattr(self, name), getattr(other, name)
            if own is not None and others is not None:
                yield name, own, others


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured level and the deployment it was measured on. `label` says where it comes from."""

    label: str
    deployment: Deployment
    input_tokens: int
    output_tokens: int
    concurrency: int
    measured: Figures
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class LevelFit:
    """One level before and after. `outliers` are figures the fit does not reach, though it reaches the others."""

    observation: Observation
    before: Figures
    after: Figures
    outliers: tuple[FigureName, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """The calibrated deployment of the observations, and how it was come by.

    `band` and `ttft_band`: a value v lies in v / (1 + band) .. v · (1 + band). They are the 90th percentile of the
    errors of levels that were left out of the fit in turn, or of those in it where that is more.
    """

    deployment: Deployment
    parameters: Parameters
    priors: Parameters
    levels: tuple[LevelFit, ...]
    band: float
    ttft_band: float
    left_out: bool
    hardware: str | None

    @property
    def outliers(self) -> int:
        return sum(len(level.outliers) for level in self.levels)


def predicted_figures(observation: Observation, deployment: Deployment | None = None) -> Figures:
    """The same figures from the planner; all None where it says that the level cannot be served."""
    cell = observation
    run = predict_run(
        deployment or cell.deployment,
        cell.input_tokens,
        cell.output_tokens,
        cell.concurrency,
        cached_tokens=cell.cached_tokens,
    )
    if run is None:
        return Figures()
    rest = cell.output_tokens - 1
    return Figures(
        output_tokens_per_s=run.output_tokens_per_s,
        ttft_ms=run.ttft_mean_ms,
        tpot_ms=(run.latency_mean_ms - run.ttft_mean_ms) / rest if rest else None,
        e2e_ms=run.latency_mean_ms,
        e2e_p90_ms=run.latency_p90_ms,
    )


def fit(observations: Sequence[Observation], *, hardware: str | None = None) -> Fit:
    """Refit server and fabric to the observations, all of one server and accelerator; the shipped rows are the priors.

    `hardware` names what served instead of the instance type's accelerator (a CPU, say): its effective bandwidth and
    compute are fitted too, from starting points read off the lowest level. Raises InputError without a figure to fit
    to, and for observations of several servers or accelerators.
    """
    _refuse_mixtures(observations)
    _refuse_impossible(observations)
    apply, priors, bounds = _problem(observations, hardware)

    def parameters_of(chosen: Sequence[Observation]) -> Parameters:
        def errors(parameters: Parameters) -> list[float]:
            return [error for cell in chosen for error in _weighted(cell, apply(cell.deployment, parameters))]

        # The way there is the figures' alone, but for what they do not speak of; the priors' say comes after.
        start = approach(errors, priors, 2 * ROUNDS, bounds=bounds, prior_weight=PRIOR_WEIGHT / 1000)
        return search(errors, priors, ROUNDS, bounds=bounds, prior_weight=PRIOR_WEIGHT, start=start)

    found = parameters_of(observations)
    levels = _levels(observations, lambda deployment: apply(deployment, found))
    _refuse_far_off(levels)
    enough = len({cell.concurrency for cell in observations}) >= _FEWEST_LEVELS
    held_out = _held_out_errors(observations, apply, parameters_of) if enough else []
    return Fit(
        deployment=apply(observations[0].deployment, found),
        parameters=found,
        priors=dict(priors),
        levels=levels,
        band=_band([*_errors(levels), *held_out], ttft=False, enough=bool(held_out)),
        ttft_band=_band([*_errors(levels), *held_out], ttft=True, enough=bool(held_out)),
        left_out=bool(held_out),
        hardware=hardware,
    )


def fit_document(
    found: Fit, sources: Sequence[CalibrationSource], date: str | None, *, simulated: bool = False
) -> Calibration:
    """The fit as a calibration file holds it. `date`: the day of the measurements, `2026-11-21`; `simulated`: some are
    of a local cloud's twin."""
    deployment = found.deployment
    fabric, chip = deployment.fabric, deployment.accelerator
    return Calibration(
        schema_version=1,
        server=CalibratedServer(family=deployment.family, version=deployment.version),
        accelerator=found.levels[0].observation.deployment.accelerator.name,
        accelerators=deployment.accelerators,
        models=tuple(sorted({level.observation.deployment.model_id for level in found.levels})),
        hardware=OwnHardware(name=chip.name, **_rounded(chip, _HARDWARE)) if found.hardware else None,
        parameters=ServerParameters(**_rounded(deployment.server, ServerParameters.model_fields)),
        fabric=FabricParameters(accelerators=fabric.accelerators, **_rounded(fabric, _FABRIC))
        if deployment.accelerators > 1
        else None,
        simulated=simulated,
        date=date,
        levels=len(found.levels),
        outliers=found.outliers,
        prior_weight=PRIOR_WEIGHT,
        band=_digits(found.band),
        ttft_band=_digits(found.ttft_band),
        errors=tuple(error for name in FIGURES if (error := _median_error(name, found.levels)) is not None),
        sources=tuple(sources),
    )


def _median_error(name: FigureName, levels: Sequence[LevelFit]) -> CalibrationError | None:
    """Median |predicted / measured - 1| of one figure, before and after; None where nobody measured it."""
    sides: list[list[float]] = [[], []]
    for level in levels:
        for side, figures in zip(sides, (level.before, level.after), strict=True):
            pairs = level.observation.measured.pairs(figures)
            side += [abs(predicted / measured - 1) for figure, measured, predicted in pairs if figure == name]
    before, after = sides
    if not after:
        return None
    return CalibrationError(
        figure=name, levels=len(after), before=_digits(median(before or after)), after=_digits(median(after))
    )


def _refuse_mixtures(observations: Sequence[Observation]) -> None:
    if not any(cell.measured != Figures() for cell in observations):
        raise InputError("nothing to calibrate on: no level has a throughput or a latency")
    kinds: tuple[tuple[str, Callable[[Deployment], object]], ...] = (
        ("servers", lambda deployment: f"{deployment.family} {deployment.version}".strip()),
        ("accelerators", lambda deployment: deployment.accelerator.name),
        ("numbers of accelerators a copy", lambda deployment: deployment.accelerators),
    )
    for what, key in kinds:
        found = sorted({str(key(cell.deployment)) for cell in observations})
        if len(found) > 1:
            raise InputError(f"levels of several {what}: {', '.join(found)}; calibrate each by itself")


def _refuse_impossible(observations: Sequence[Observation]) -> None:
    """Memory and limits are not fitted: what the planner says cannot be served was measured on something else."""
    for cell in observations:
        if predicted_figures(cell) == Figures():
            tokens, where = f"{cell.input_tokens} + {cell.output_tokens} tokens", cell.deployment
            raise InputError(
                f"{cell.label}: {tokens} do not fit on {where.model_id} with {where.accelerators} "
                f"{where.accelerator.name}, the planner says; look at its tokens, or give --profile with "
                "the deployment that was measured"
            )


def _refuse_far_off(levels: Sequence[LevelFit]) -> None:
    """No parameters within their bounds explain most of the figures: a calibration would only mislead."""
    misses = [(miss, name, level.observation.label) for level in levels for name, miss in _level_misses(level)]
    usual, (worst, name, label) = median(miss for miss, *_ in misses), max(misses)
    if usual > log(FARTHEST_OFF):
        raise InputError(
            f"half of the figures stay off by a factor of {exp(usual):.3g} or more, {name} of {label} by "
            f"{exp(worst):.3g}; look at units, model and instance type of what was measured, or name with --hardware "
            "what served instead of the instance type's accelerator"
        )


_Apply = Callable[[Deployment, Mapping[str, float]], Deployment]


def _with(row: _Row, values: Mapping[str, float]) -> _Row:
    """`replace` for float fields named at run time."""
    changes: dict[str, Any] = dict(values)
    return replace(row, **changes)  # type: ignore[type-var]


def _problem(
    observations: Sequence[Observation], hardware: str | None
) -> tuple[_Apply, Parameters, Mapping[str, tuple[float, float]]]:
    """(candidate to deployment, priors, bounds)."""
    first = observations[0].deployment
    names = list(_SERVER)
    priors = {name: max(getattr(first.server, name), _SMALLEST_PRIOR) for name in _SERVER}
    if hardware is not None:
        names = [name for name in _SERVER if not name.endswith("_efficiency")] + list(_HARDWARE)
        priors = _hardware_start(observations)
    if first.accelerators > 1:
        names += _FABRIC
        priors |= {name: max(getattr(first.fabric, name), _SMALLEST_PRIOR) for name in _FABRIC}

    def apply(deployment: Deployment, parameters: Mapping[str, float]) -> Deployment:
        server = _with(deployment.server, {name: parameters[name] for name in _SERVER if name in parameters})
        chip, fabric = deployment.accelerator, deployment.fabric
        if hardware is not None:
            server, chip = own_hardware(server, chip, hardware, **{name: parameters[name] for name in _HARDWARE})
        if deployment.accelerators > 1:
            fabric = _with(fabric, {name: parameters[name] for name in _FABRIC})
        return replace(deployment, server=server, accelerator=chip, fabric=fabric)

    return apply, {name: priors[name] for name in names}, {**BOUNDS, **_STEP_BOUNDS}


def _hardware_start(observations: Sequence[Observation]) -> Parameters:
    """Orders of magnitude for hardware nobody has a datasheet of, from the level with the fewest in flight.

    Its TTFT is one prefill: 2 · parameters · prompt / TTFT FLOP/s. Half its TPOT is taken for reading the weights,
    half for the server. The search moves all of them by a factor of up to 20.
    """
    cell = min(observations, key=lambda candidate: candidate.concurrency)
    measured, shape = cell.measured, cell.deployment.architecture
    e2e_ms = measured.e2e_ms
    if e2e_ms is None and measured.output_tokens_per_s is not None:
        e2e_ms = cell.concurrency * cell.output_tokens / measured.output_tokens_per_s * 1e3
    if measured.tpot_ms is None and e2e_ms is None:
        raise InputError(f"{cell.label}: own hardware needs TPOT, latency or throughput at the lowest level")
    tpot_ms = measured.tpot_ms or (e2e_ms or 0.0) / cell.output_tokens
    ttft_ms = measured.ttft_ms or tpot_ms
    flops = 2 * shape.active_parameters_b * 1e9 * cell.input_tokens / (ttft_ms * 1e-3) / cell.deployment.accelerators
    bytes_per_ms = weight_bytes(cell.deployment) / cell.deployment.accelerators / (tpot_ms / 2)
    return {
        "step_ms": tpot_ms / 2,
        "step_ms_per_sequence": tpot_ms / 50,
        "bandwidth_gb_per_s": bytes_per_ms / 1e6,
        "bf16_tflops": flops / 1e12,
    }


def _weighted(cell: Observation, deployment: Deployment) -> list[float]:
    """Weighted log(predicted / measured) of each measured figure; 1 where the level is said to be impossible."""
    predicted = predicted_figures(cell, deployment)
    errors = []
    for name in FIGURES:
        measured, value = getattr(cell.measured, name), getattr(predicted, name)
        if measured is not None:
            errors.append(WEIGHTS.get(name, 1.0) * log(value / measured) if value else 1.0)
    return errors


def _levels(
    observations: Sequence[Observation], calibrated: Callable[[Deployment], Deployment]
) -> tuple[LevelFit, ...]:
    """Each level before and after. An outlier misses by OUTLIER_FACTOR times what figures miss by in the middle."""
    after = [predicted_figures(cell, calibrated(cell.deployment)) for cell in observations]
    misses = [
        {name: abs(log(value / measured)) for name, measured, value in cell.measured.pairs(figures)}
        for cell, figures in zip(observations, after, strict=True)
    ]
    usual = median([miss for level in misses for miss in level.values()] or [0.0])
    limit = max(OUTLIER_FACTOR * usual, log(1 + OUTLIER_LEAST))
    return tuple(
        LevelFit(cell, predicted_figures(cell), figures, tuple(name for name, miss in level.items() if miss > limit))
        for cell, figures, level in zip(observations, after, misses, strict=True)
    )


def _held_out_errors(
    observations: Sequence[Observation], apply: _Apply, fitted: Callable[[Sequence[Observation]], Parameters]
) -> list[tuple[FigureName, float]]:
    """(figure, |log error|) of levels left out in turn, all of one concurrency together, in at most FOLDS groups."""
    errors: list[tuple[FigureName, float]] = []
    loads = sorted({cell.concurrency for cell in observations})
    folds = min(FOLDS, len(loads))
    for fold in range(folds):
        left_out = set(loads[fold::folds])
        parameters = fitted([cell for cell in observations if cell.concurrency not in left_out])
        for cell in (cell for cell in observations if cell.concurrency in left_out):
            predicted = predicted_figures(cell, apply(cell.deployment, parameters))
            errors += [(name, abs(log(value / seen))) for name, seen, value in cell.measured.pairs(predicted)]
    return errors


def _errors(levels: Sequence[LevelFit]) -> list[tuple[FigureName, float]]:
    return [pair for level in levels for pair in _level_misses(level)]


def _level_misses(level: LevelFit) -> list[tuple[FigureName, float]]:
    pairs = level.observation.measured.pairs(level.after)
    return [(name, abs(log(value / seen))) for name, seen, value in pairs]


def _band(errors: Sequence[tuple[FigureName, float]], *, ttft: bool, enough: bool) -> float:
    """The 90th percentile (nearest rank) of the errors as a share, within documented limits."""
    ordered = sorted(expm1(error) for name, error in errors if (name == "ttft_ms") == ttft)
    least = NARROWEST_TTFT_BAND if ttft else NARROWEST_BAND
    if not enough or not ordered:
        least = _TTFT_UNMEASURED if ttft else _WITHOUT_FOLDS
    return max(least, ordered[ceil(0.9 * len(ordered)) - 1]) if ordered else least


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def _rounded(row: object, names: Iterable[str]) -> dict[str, float]:
    return {name: _digits(getattr(row, name)) for name in names}
