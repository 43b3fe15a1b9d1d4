"""Fitting a few positive parameters to measured figures: robust, with priors for what the figures do not speak of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float64]

Parameters = dict[str, float]
Evaluate = Callable[[Parameters], Sequence[float]]
Bounds = Mapping[str, tuple[float, float]]

# What a parameter may become, whatever the figures say; any other stays within a factor of FURTHEST of its prior.
BOUNDS: Bounds = {
    "bandwidth_efficiency": (0.7, 0.92),
    "compute_efficiency": (0.3, 0.95),
    "reserve_gib": (0.2, 3.0),
}
FURTHEST = 20.0
PRIOR_WEIGHT = 0.05  # of a parameter's squared log distance from its prior, beside |log error| of each figure
BEYOND_REPAIR = 0.5  # |log error| past which a figure is neither punished further nor chased
_STEP = 0.02  # of the slopes, in log parameter
_SMALLEST = 0.02  # |log error| below which a figure's weight grows no further
_LONGEST = 1.0  # step of `approach` in any log parameter: slopes say nothing of what lies further away


def search(
    evaluate: Evaluate,
    priors: Mapping[str, float],
    rounds: int,
    *,
    bounds: Bounds = BOUNDS,
    prior_weight: float = PRIOR_WEIGHT,
    start: Mapping[str, float] | None = None,
) -> Parameters:
    """The parameters with the least sum of absolute log errors found in `rounds` reweighted Gauss-Newton steps.

    `evaluate` gives log(predicted / measured) of every figure, always as many. Minimised over log parameters:
    `sum min(|error|, BEYOND_REPAIR) + prior_weight · sum log(parameter / prior)²`; least absolute errors are robust
    against outliers, and the second term holds what the errors do not speak of. Priors far from the truth need a
    `start` from `approach`. Source of the method: iteratively reweighted least squares.
    """
    space = _Space(evaluate, priors, bounds)

    def cost(errors: Vector, point: Vector) -> float:
        spread = np.square(point - space.prior).sum()
        return float(np.minimum(np.abs(errors), BEYOND_REPAIR).sum() + prior_weight * spread)

    point = space.prior if start is None else space.point_of(start)
    errors = space.errors_at(point)
    best = cost(errors, point)
    for _ in range(rounds):
        slopes = space.slopes_at(point, errors)
        weight = 1 / np.maximum(np.abs(errors), _SMALLEST)
        weight[np.abs(errors) > BEYOND_REPAIR] = 0.0
        normal = slopes.T @ (weight[:, None] * slopes) + 2 * prior_weight * np.eye(len(point))
        uphill = slopes.T @ (weight * errors) + 2 * prior_weight * (point - space.prior)
        down = space.downhill(point, normal, uphill)
        for length in (1.0, 0.5, 0.25, 0.1):
            candidate = space.inside(point - length * down)
            found = space.errors_at(candidate)
            if (value := cost(found, candidate)) < best:
                point, errors, best = candidate, found, value
                break
        else:
            break
    return space.parameters_at(point)


def approach(
    evaluate: Evaluate,
    priors: Mapping[str, float],
    rounds: int,
    *,
    bounds: Bounds = BOUNDS,
    prior_weight: float = PRIOR_WEIGHT,
) -> Parameters:
    """A start for `search` where priors are off by factors: least squares, whose smooth cost is found from afar.

    Minimised: `sum error² + prior_weight · sum log(parameter / prior)²`, by Levenberg-Marquardt.
    """
    space = _Space(evaluate, priors, bounds)

    def cost(errors: Vector, point: Vector) -> float:
        return float(np.square(errors).sum() + prior_weight * np.square(point - space.prior).sum())

    point = space.prior
    errors = space.errors_at(point)
    best, damping = cost(errors, point), 1e-2
    for _ in range(rounds):
        slopes = space.slopes_at(point, errors)
        curvature = slopes.T @ slopes + prior_weight * np.eye(len(point))
        uphill = slopes.T @ errors + prior_weight * (point - space.prior)
        down = space.downhill(point, curvature + damping * np.diag(np.diag(curvature)), uphill)
        candidate = space.inside(point - np.clip(down, -_LONGEST, _LONGEST))
        found = space.errors_at(candidate)
        if (value := cost(found, candidate)) < best:
            settled = best - value < 1e-9 * best
            point, errors, best, damping = candidate, found, value, damping / 4
            if settled:
                break
        elif damping > 1e6:
            break
        else:
            damping *= 4
    return space.parameters_at(point)


class _Space:
    """The logarithms of the parameters, between their bounds, and the errors there."""

    def __init__(self, evaluate: Evaluate, priors: Mapping[str, float], bounds: Bounds) -> None:
        self._evaluate, self._names = evaluate, list(priors)
        self.prior = self.point_of(priors)
        low, high = (
            np.log([bounds.get(name, (value / FURTHEST, value * FURTHEST))[side] for name, value in priors.items()])
            for side in (0, 1)
        )
        self._low: Vector = low
        self._high: Vector = high

    def point_of(self, parameters: Mapping[str, float]) -> Vector:
        point: Vector = np.log([parameters[name] for name in self._names])
        return point

    def parameters_at(self, point: Vector) -> Parameters:
        return dict(zip(self._names, np.exp(point).tolist(), strict=True))

    def errors_at(self, point: Vector) -> Vector:
        return np.asarray(self._evaluate(self.parameters_at(point)), dtype=np.float64)

    def slopes_at(self, point: Vector, errors: Vector) -> Vector:
        """(figures, parameters): change of each error with each log parameter."""
        moved = [(self.errors_at(point + step) - errors) / _STEP for step in _STEP * np.eye(len(point))]
        return np.stack(moved, axis=1)

    def inside(self, point: Vector) -> Vector:
        return np.clip(point, self._low, self._high)

    def downhill(self, point: Vector, normal: Vector, uphill: Vector) -> Vector:
        """The step to subtract. What stands at its bound and would leave it is held there, so that its share of the
        way does not mislead the others."""
        free = ~(((point >= self._high) & (uphill < 0)) | ((point <= self._low) & (uphill > 0)))
        down = np.zeros(len(point))
        down[free] = np.linalg.solve(normal[np.ix_(free, free)], uphill[free])
        return down
