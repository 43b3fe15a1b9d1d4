"""Refitting the planner's parameters to one's own runs, with the shipped rows as priors, and using the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, expm1, log, sqrt
from statistics import median
from typing import TypeAlias

from loadproof.capacity.calibration_problem import ACCEPTANCE, FABRIC, HARDWARE, PRIOR_WEIGHT, Problem, problem_of
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.doubts import (
    EIGHT_IN_TEN,
    NARROWEST_BAND,
    NARROWEST_TTFT_BAND,
    Left,
    Slopes,
    bands,
    covariance,
    doubts,
    information_of,
    prior_spread,
    slopes_of,
)
from loadproof.capacity.fitting import Parameters
from loadproof.capacity.observations import (
    FIGURES,
    FigureName,
    Figures,
    Observation,
    predicted_figures,
    refuse_impossible,
    refuse_mixtures,
)
from loadproof.capacity.speculation import accepted_by_position
from loadproof.capacity.workload import PlannedWorkload
from loadproof.errors import InputError
from loadproof.profiles.schema import (
    CalibratedServer,
    CalibratedSpeculation,
    Calibration,
    CalibrationError,
    CalibrationSource,
    FabricParameters,
    OwnHardware,
    ServerParameters,
)

TtftFactor: TypeAlias = Callable[[PlannedWorkload, PlannedDeployment, int], float]

_FEWEST_LEVELS = 3  # below it none can be left out
FOLDS = 6  # of leaving levels out: a few dozen levels replayed by TGI's rules would take minutes level by level
_WITHOUT_FOLDS = 0.25  # the band of own hardware where too few levels were measured to leave one out
_TTFT_UNMEASURED = 0.5
_PLAYED = 2  # times that the first fits are played
OUTLIER_FACTOR, OUTLIER_LEAST = 4.0, 0.15
FARTHEST_OFF = 2.0  # past it in the middle, the levels are of something else than the deployment


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

    `band` and `ttft_band`: a value v lies in v / (1 + band) .. v · (1 + band). They are the most of: the 90th
    percentile of the errors of levels left out of the fit in turn; that of those in it; the doubt that the levels
    leave over the loads the bands are for (`doubts`), with what they are off by in it.
    """

    deployment: PlannedDeployment
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


def fit(
    observations: Sequence[Observation],
    *,
    hardware: str | None = None,
    loads: Sequence[int] = (),
    played: TtftFactor | None = None,
) -> Fit:
    """Refit server and fabric to the observations, all of one server and accelerator; the shipped rows are the priors.

    `hardware` names what served instead of the instance type's accelerator (a CPU, say): its effective bandwidth and
    compute are fitted too, from starting points read off the lowest level. `loads`, in flight, are what the bands shall
    hold over; default: doublings from 1 to the most measured. `played` says what TTFT is of the formula's as requests
    of a workload meet; it hardly depends on the parameters, so each fit is played once and fitted again. Raises
    InputError without a figure to fit to, and for observations of several servers or accelerators.
    """
    refuse_mixtures(observations)
    refuse_impossible(observations)
    problem = problem_of(observations, hardware)
    found = problem.solved(observations)
    for _ in range(_PLAYED if played else 0):
        observations = [_met(cell, played, problem.applied(cell.deployment, found)) for cell in observations]
        found = problem.solved(observations)
    levels = _levels(observations, problem, found)
    _refuse_far_off(levels)
    enough = len({cell.concurrency for cell in observations}) >= _FEWEST_LEVELS
    held_out = _held_out_errors(observations, problem) if enough else []
    errors = [*_errors(levels), *held_out]
    doubt = (None, None) if hardware else _doubt(problem, found, levels, loads)
    return Fit(
        deployment=problem.applied(observations[0].deployment, found),
        parameters=found,
        priors=problem.priors,
        levels=levels,
        band=_band(errors, doubt[0], ttft=False, enough=bool(held_out)),
        ttft_band=_band(errors, doubt[1], ttft=True, enough=bool(held_out)),
        left_out=bool(held_out),
        hardware=hardware,
    )


def _met(cell: Observation, played: TtftFactor | None, fitted: PlannedDeployment) -> Observation:
    if played is None or cell.workload is None:
        return cell
    return replace(cell, ttft_factor=played(cell.workload, fitted, cell.concurrency))


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
        hardware=OwnHardware(name=chip.name, **_rounded(chip, HARDWARE)) if found.hardware else None,
        parameters=ServerParameters(**_rounded(deployment.server, ServerParameters.model_fields)),
        fabric=FabricParameters(accelerators=fabric.accelerators, **_rounded(fabric, FABRIC))
        if deployment.accelerators > 1
        else None,
        speculation=_speculation(found),
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


def _speculation(found: Fit) -> CalibratedSpeculation | None:
    drafts = [level.observation.deployment.speculation for level in found.levels]
    longest = max((draft for draft in drafts if draft is not None), key=lambda draft: draft.tokens, default=None)
    if longest is None:
        return None
    accepted = accepted_by_position(found.parameters[ACCEPTANCE], longest.tokens)
    return CalibratedSpeculation(method=longest.method, accepted=tuple(map(_digits, accepted)))


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


def _levels(observations: Sequence[Observation], problem: Problem, found: Parameters) -> tuple[LevelFit, ...]:
    """Each level before and after. An outlier misses by OUTLIER_FACTOR times what figures miss by in the middle."""
    after = [predicted_figures(cell, problem.applied(cell.deployment, found)) for cell in observations]
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


def _held_out_errors(observations: Sequence[Observation], problem: Problem) -> list[tuple[FigureName, float]]:
    """(figure, |log error|) of levels left out in turn, all of one concurrency together, in at most FOLDS groups."""
    errors: list[tuple[FigureName, float]] = []
    loads = sorted({cell.concurrency for cell in observations})
    folds = min(FOLDS, len(loads))
    for fold in range(folds):
        left_out = set(loads[fold::folds])
        parameters = problem.solved([cell for cell in observations if cell.concurrency not in left_out])
        for cell in (cell for cell in observations if cell.concurrency in left_out):
            predicted = predicted_figures(cell, problem.applied(cell.deployment, parameters))
            errors += [(name, abs(log(value / seen))) for name, seen, value in cell.measured.pairs(predicted)]
    return errors


def _errors(levels: Sequence[LevelFit]) -> list[tuple[FigureName, float]]:
    return [pair for level in levels for pair in _level_misses(level)]


def _level_misses(level: LevelFit) -> list[tuple[FigureName, float]]:
    return _misses_of(level, level.after)


def _misses_of(level: LevelFit, predicted: Figures) -> list[tuple[FigureName, float]]:
    pairs = level.observation.measured.pairs(predicted)
    return [(name, abs(log(value / seen))) for name, seen, value in pairs]


def _doubt(
    problem: Problem, found: Parameters, levels: Sequence[LevelFit], loads: Sequence[int]
) -> tuple[float | None, float | None]:
    """(band, TTFT's band) of what the levels leave in doubt at the loads; where the planner was off by more than its
    ranges, they were too narrow, and the doubt before the fit is taken as large as that."""
    cells = [level.observation for level in levels]
    most = max(cell.concurrency for cell in cells)
    over = sorted(set(loads)) or [1 << power for power in range(most.bit_length())]
    seen = [_slopes(cell, problem, found) for cell in cells]
    targets = [
        _slopes(replace(min(cells, key=lambda cell: abs(cell.concurrency - load)), concurrency=load), problem, found)
        for load in over
    ]
    before = [pair for level in levels for pair in _misses_of(level, level.before)]
    shipped = confidence_of(cells[0].deployment, prompt_tokens=cells[0].input_tokens)
    wide, ttft_wide = (
        max(band, expm1(EIGHT_IN_TEN * sqrt(sum(miss * miss for miss in misses) / max(1, len(misses)))))
        for band, misses in ((shipped.band, _part(before, ttft=False)), (shipped.ttft_band, _part(before, ttft=True)))
    )
    spread = prior_spread(list(found), targets, wide, ttft_wide)
    errors = _errors(levels)
    left = Left(
        *(
            max([least, *_ninth(_part(errors, ttft=ttft))])
            for least, ttft in ((Left().timed, False), (Left().ttft, True))
        )
    )
    measured = [
        information_of(slopes.only(name for name, *_ in cell.measured.pairs(cell.measured)), left)
        for cell, slopes in zip(cells, seen, strict=True)
    ]
    return bands(doubts(targets, covariance(measured, spread), left))


def _slopes(cell: Observation, problem: Problem, parameters: Parameters) -> Slopes:
    return slopes_of(lambda moved: predicted_figures(cell, problem.applied(cell.deployment, moved)), parameters)


def _band(errors: Sequence[tuple[FigureName, float]], doubt: float | None, *, ttft: bool, enough: bool) -> float:
    """The 90th percentile of the errors as a share, or the doubt where that is more, within documented limits."""
    shown = _part(errors, ttft=ttft)
    least = NARROWEST_TTFT_BAND if ttft else NARROWEST_BAND
    unmeasured = _TTFT_UNMEASURED if ttft else _WITHOUT_FOLDS
    if not shown:
        return unmeasured
    if doubt is None and not enough:
        least = unmeasured
    return max([least, doubt or 0.0, *map(expm1, _ninth(shown))])


def _part(errors: Sequence[tuple[FigureName, float]], *, ttft: bool) -> list[float]:
    return sorted(error for name, error in errors if (name == "ttft_ms") == ttft)


def _ninth(ordered: Sequence[float]) -> list[float]:
    """The 90th percentile by nearest rank; empty where there is nothing."""
    return [ordered[ceil(0.9 * len(ordered)) - 1]] if ordered else []


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def _rounded(row: object, names: Iterable[str]) -> dict[str, float]:
    return {name: _digits(getattr(row, name)) for name in names}
