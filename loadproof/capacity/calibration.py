"""Refitting the planner's parameters to one's own runs, with the shipped rows as priors, and using the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, expm1, log
from statistics import median

from loadproof.capacity.calibration_problem import ACCEPTANCE, FABRIC, HARDWARE, PRIOR_WEIGHT, Problem, problem_of
from loadproof.capacity.deployment import PlannedDeployment
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

_FEWEST_LEVELS = 3  # below it none can be left out
FOLDS = 6  # of leaving levels out: a few dozen levels replayed by TGI's rules would take minutes level by level
NARROWEST_BAND, NARROWEST_TTFT_BAND = 0.05, 0.10
_WITHOUT_FOLDS = 0.25  # the band where too few levels were measured to leave one out: grade B's
_TTFT_UNMEASURED = 0.5
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

    `band` and `ttft_band`: a value v lies in v / (1 + band) .. v · (1 + band). They are the 90th percentile of the
    errors of levels that were left out of the fit in turn, or of those in it where that is more.
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


def fit(observations: Sequence[Observation], *, hardware: str | None = None) -> Fit:
    """Refit server and fabric to the observations, all of one server and accelerator; the shipped rows are the priors.

    `hardware` names what served instead of the instance type's accelerator (a CPU, say): its effective bandwidth and
    compute are fitted too, from starting points read off the lowest level. Raises InputError without a figure to fit
    to, and for observations of several servers or accelerators.
    """
    refuse_mixtures(observations)
    refuse_impossible(observations)
    problem = problem_of(observations, hardware)
    found = problem.solved(observations)
    levels = _levels(observations, problem, found)
    _refuse_far_off(levels)
    enough = len({cell.concurrency for cell in observations}) >= _FEWEST_LEVELS
    held_out = _held_out_errors(observations, problem) if enough else []
    return Fit(
        deployment=problem.applied(observations[0].deployment, found),
        parameters=found,
        priors=problem.priors,
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
