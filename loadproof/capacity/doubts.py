"""How much doubt the levels of a calibration leave in what the planner then predicts.

Logarithms of figures are taken as linear in the logarithms of the parameters, y = J·θ + ε, and all doubts as normal.
The fit's estimate θ' = A⁻¹ (Σ JᵀWy + P·θ₀), with A = Σ JᵀWJ + P over the levels, misses the truth with covariance

    C = A⁻¹ (Σ JᵀW R WJ + P S P) A⁻¹

where W are the fit's weights, P its pull to the prior, R what a level's figures are off by together, and S the doubt in
the parameters before. With W = R⁻¹ and P = S⁻¹ it is the posterior (Jᵀ R⁻¹ J + S⁻¹)⁻¹; but the fit pulls less than
S says, and this is the doubt of *its* estimate. A figure's doubt is then j C jᵀ and what a calibrated planner is off by
at any level. Source: Chaloner and Verdinelli, "Bayesian experimental design: a review", Statistical Science 10 (1995)
273-304, section 2; the estimate's own covariance as White, Econometrica 50 (1982) 1-25.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import erf, expm1, inf, log, log1p, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadproof.capacity.calibration_problem import OUTSIDE, PRIOR_WEIGHT, WEIGHTS
from loadproof.capacity.fitting import BOUNDS, Parameters
from loadproof.capacity.observations import FIGURES, FigureName, Figures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float64]

EIGHT_IN_TEN = NormalDist().inv_cdf(0.9)  # half-width that holds 80%, in standard deviations
NARROWEST_BAND, NARROWEST_TTFT_BAND = 0.05, 0.10  # what a calibrated planner is off by, whatever its parameters
_OUTSIDE_MS = 150.0 / EIGHT_IN_TEN  # what lies before a server added 28 to 141 ms to measured TTFTs
_STEP, _STEP_MS = 0.02, 1.0
_ALONE = 0.01  # what figures of one level are off by each for itself; the rest they share, as Little's law has it
_WIDEST = 5.0


@dataclass(frozen=True, slots=True)
class Slopes:
    """Change of the log of each figure of one level with the log of each parameter: (figures, parameters).

    What lies outside the step has its column per standard deviation of the doubt in it, in ms: it only ever adds.
    """

    figures: tuple[FigureName, ...]
    matrix: Vector

    def only(self, names: Iterable[FigureName]) -> Slopes:
        wanted = set(names)
        kept = [at for at, name in enumerate(self.figures) if name in wanted]
        return Slopes(tuple(self.figures[at] for at in kept), self.matrix[kept])


@dataclass(frozen=True, slots=True)
class Left:
    """Half-widths, in logs, of what levels are off by whatever the parameters: timed figures together, and TTFT."""

    timed: float = log1p(NARROWEST_BAND)
    ttft: float = log1p(NARROWEST_TTFT_BAND)

    def of(self, figure: FigureName) -> float:
        return self.ttft if figure == "ttft_ms" else self.timed


@dataclass(frozen=True, slots=True)
class Information:
    """What one measured level adds to A and to the doubt in JᵀWy."""

    gained: Vector
    doubt: Vector


def slopes_of(figures_of: Callable[[Parameters], Figures], parameters: Parameters) -> Slopes:
    """By differences around `parameters`; a figure that is not known there or beside it is left out."""
    here = figures_of(parameters)
    columns: list[dict[FigureName, float]] = []
    for name, value in parameters.items():
        outside = name == OUTSIDE
        moved = figures_of({**parameters, name: value + _STEP_MS if outside else value * float(np.exp(_STEP))})
        per = _OUTSIDE_MS / _STEP_MS if outside else 1 / _STEP
        columns.append({figure: log(there / now) * per for figure, now, there in here.pairs(moved) if now and there})
    known = tuple(name for name in FIGURES if all(name in column for column in columns))
    rows = [[column[name] for column in columns] for name in known]
    return Slopes(known, np.asarray(rows, dtype=np.float64).reshape(len(known), len(columns)))


def information_of(slopes: Slopes, left: Left, sampling: float = 0.0, ttft_sampling: float = 0.0) -> Information:
    """Of a level whose sample means are off by `sampling` (a share, one standard deviation) beside what is `left`."""
    timed_sd = sqrt((left.timed / EIGHT_IN_TEN) ** 2 + sampling**2)
    ttft_sd = sqrt((left.ttft / EIGHT_IN_TEN) ** 2 + ttft_sampling**2)
    ttft = np.asarray([name == "ttft_ms" for name in slopes.figures])
    # A throughput too high is a latency too low.
    shared = np.asarray([-1.0 if name == "output_tokens_per_s" else 1.0 for name in slopes.figures]) * timed_sd
    shared[ttft] = 0.0
    noise = np.outer(shared, shared) + np.diag(np.where(ttft, ttft_sd**2, _ALONE**2))
    # The fit's: least absolute errors weigh a figure by what it is usually off by, here what is left.
    weights = np.asarray([WEIGHTS.get(name, 1.0) ** 2 for name in slopes.figures]) * EIGHT_IN_TEN / left.timed
    weighed = slopes.matrix.T * weights
    return Information(weighed @ slopes.matrix, weighed @ noise @ weighed.T)


def covariance(levels: Sequence[Information], spread: Vector) -> Vector:
    """C above: of the log parameters, after a fit to these levels; S where there are none."""
    pull = 2 * PRIOR_WEIGHT
    gained, doubt = pull * np.eye(len(spread)), pull**2 * np.diag(spread**2)
    for level in levels:
        gained, doubt = gained + level.gained, doubt + level.doubt
    back = np.linalg.inv(gained)
    found: Vector = back @ doubt @ back
    return found


def doubts(targets: Sequence[Slopes], covariance: Vector, left: Left) -> list[tuple[FigureName, float]]:
    """(figure, standard deviation of its log) of each target's figures."""
    found = []
    for slopes in targets:
        for name, row in zip(slopes.figures, slopes.matrix, strict=True):
            found.append((name, sqrt(float(row @ covariance @ row) + (left.of(name) / EIGHT_IN_TEN) ** 2)))
    return found


def bands(found: Sequence[tuple[FigureName, float]]) -> tuple[float | None, float | None]:
    """(band, TTFT's band) that hold eight in ten of these figures; None where there are none."""
    timed = [doubt for name, doubt in found if name != "ttft_ms"]
    ttft = [doubt for name, doubt in found if name == "ttft_ms"]
    band, ttft_band = (expm1(_half_width(sample)) if sample else None for sample in (timed, ttft))
    return band, ttft_band


def _half_width(deviations: Sequence[float]) -> float:
    """h with the mean of P(|normal(0, sd)| <= h) = 0.8."""

    def held(half_width: float) -> float:
        return sum(erf(half_width / (sd * sqrt(2))) for sd in deviations) / len(deviations)

    return _solved(held, 0.8, EIGHT_IN_TEN * max(deviations))


def prior_spread(names: Sequence[str], targets: Sequence[Slopes], band: float, ttft_band: float) -> Vector:
    """Doubt in the parameters (standard deviations of their logs) before anything of one's own is measured.

    All alike, as the fit's priors are, but no more than bounds allow; so large that timed figures are in doubt by the
    planner's own `band`. The doubt in TTFT beyond that is one in prefills' compute, as far as its bounds allow, and in
    what lies outside the step.
    """
    widest = np.asarray(
        [log(BOUNDS[name][1] / BOUNDS[name][0]) / sqrt(12) if name in BOUNDS else inf for name in names]
    )
    free = np.asarray([name != OUTSIDE for name in names])
    compute = np.asarray([name == "compute_efficiency" for name in names])

    def spread_of(scale: float, of_compute: float = 0.0) -> Vector:
        wanted = np.where(compute, max(scale, of_compute), scale)
        return np.where(free, np.minimum(wanted, widest), 1.0)

    def held(ttft: bool, spread: Vector) -> float:
        figures = [row for slopes in targets for name, row in _rows(slopes) if (name == "ttft_ms") == ttft]
        return float(np.mean([np.square(row * spread)[free].sum() for row in figures])) if figures else inf

    left = Left()
    goal = (log1p(band) ** 2 - left.timed**2) / EIGHT_IN_TEN**2
    scale = _solved(lambda value: held(False, spread_of(value)), goal, _WIDEST)
    ttft_goal = (log1p(ttft_band) ** 2 - left.ttft**2) / EIGHT_IN_TEN**2
    of_compute = _solved(lambda value: held(True, spread_of(scale, value)), ttft_goal, _WIDEST)
    scale = _solved(lambda value: held(False, spread_of(value, of_compute)), goal, _WIDEST)
    return spread_of(scale, of_compute)


def _rows(slopes: Slopes) -> Iterable[tuple[FigureName, Vector]]:
    return zip(slopes.figures, slopes.matrix, strict=True)


def _solved(grows: Callable[[float], float], goal: float, most: float) -> float:
    """The argument in 0..most at which a function that grows reaches the goal, by halving."""
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if grows(middle) < goal else (low, middle)
    return (low + high) / 2
