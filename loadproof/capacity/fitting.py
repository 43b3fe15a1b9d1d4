"""Fitting a few positive parameters to measured figures: robust, with priors for what the figures do not speak of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Parameters = dict[str, float]

# What a parameter may become, whatever the figures say; any other stays within a factor of FURTHEST of its prior.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "bandwidth_efficiency": (0.7, 0.92),
    "compute_efficiency": (0.3, 0.95),
    "reserve_gib": (0.2, 3.0),
}
FURTHEST = 20.0
PRIOR_WEIGHT = 0.05  # of a parameter's squared log distance from its prior, beside |log error| of each figure
BEYOND_REPAIR = 0.5  # |log error| past which a figure is neither punished further nor chased
_STEP = 0.02  # of the slopes, in log parameter
_SMALLEST = 0.02  # |log error| below which a figure's weight grows no further


def search(
    evaluate: Callable[[Parameters], Sequence[float]],
    priors: Mapping[str, float],
    rounds: int,
    *,
    bounds: Mapping[str, tuple[float, float]] = BOUNDS,
    prior_weight: float = PRIOR_WEIGHT,
    beyond_repair: float = BEYOND_REPAIR,
    start: Mapping[str, float] | None = None,
) -> Parameters:
    """The parameters with the least sum of absolute log errors found in `rounds` reweighted Gauss-Newton steps.

    `evaluate` gives log(predicted / measured) of every figure, always as many. Minimised over log parameters:
    `sum min(|error|, beyond_repair) + prior_weight · sum log(parameter / prior)²`; least absolute errors are robust
    against outliers, and the second term holds what the errors do not speak of. Priors far from the truth need a first
    search with `beyond_repair` at infinity, whose result is the second one's `start`. Source of the method: iteratively
    reweighted least squares.
    """
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]  # noqa: N806 (a type)
    names = list(priors)
    prior: Vector = np.log([priors[name] for name in names])
    low, high = (
        np.log([bounds.get(name, (value / FURTHEST, value * FURTHEST))[side] for name, value in priors.items()])
        for side in (0, 1)
    )

    def errors_at(point: Vector) -> Vector:
        return np.asarray(evaluate(dict(zip(names, np.exp(point).tolist(), strict=True))), dtype=np.float64)

    def cost(errors: Vector, point: Vector) -> float:
        spread = np.square(point - prior).sum()
        return float(np.minimum(np.abs(errors), beyond_repair).sum() + prior_weight * spread)

    point = prior if start is None else np.log([start[name] for name in names])
    errors = errors_at(point)
    best = cost(errors, point)
    for _ in range(rounds):
        moved = [(errors_at(point + step) - errors) / _STEP for step in _STEP * np.eye(len(names))]
        slopes = np.stack(moved, axis=1)
        weight = 1 / np.maximum(np.abs(errors), _SMALLEST)
        weight[np.abs(errors) > beyond_repair] = 0.0
        normal = slopes.T @ (weight[:, None] * slopes) + 2 * prior_weight * np.eye(len(names))
        down = np.linalg.solve(normal, slopes.T @ (weight * errors) + 2 * prior_weight * (point - prior))
        for length in (1.0, 0.5, 0.25, 0.1):
            candidate = np.clip(point - length * down, low, high)
            found = errors_at(candidate)
            if (value := cost(found, candidate)) < best:
                point, errors, best = candidate, found, value
                break
        else:
            break
    return dict(zip(names, np.exp(point).tolist(), strict=True))
