"""The robust search: what figures determine it finds, what they do not stays, and an outlier does not move it."""

from __future__ import annotations

from math import isclose, log

from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.capacity.fitting import BOUNDS, approach, search

LOADS = (1, 2, 4, 8, 16)


def line_errors(base_ms: float, per_sequence_ms: float, spoiled: dict[int, float] | None = None):
    """Errors of `base + per · load` against a line measured at LOADS, some of its points spoiled by a factor."""

    def errors(parameters: dict[str, float]) -> list[float]:
        return [
            log((parameters["base_ms"] + parameters["per_ms"] * load) / (base_ms + per_sequence_ms * load))
            - log((spoiled or {}).get(load, 1.0))
            for load in LOADS
        ]

    return errors


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 10.0), st.floats(0.1, 1.0))
def test_exact_figures_give_their_parameters_back(base_ms: float, per_ms: float) -> None:
    """Five points of a line determine its two parameters, wherever in a factor of ten the priors stand."""
    found = approach(line_errors(base_ms, per_ms), {"base_ms": 3.0, "per_ms": 0.3}, 60, prior_weight=1e-6)
    assert isclose(found["base_ms"], base_ms, rel_tol=0.001)
    assert isclose(found["per_ms"], per_ms, rel_tol=0.001)


def test_an_outlier_does_not_move_the_fit() -> None:
    """One of five points measured at three times its true value leaves the other four fitted."""
    found = search(line_errors(4.0, 0.5, {8: 3.0}), {"base_ms": 3.0, "per_ms": 0.3}, 60, prior_weight=1e-6)
    assert isclose(found["base_ms"], 4.0, rel_tol=0.05)
    assert isclose(found["per_ms"], 0.5, rel_tol=0.05)


def test_what_no_figure_speaks_of_keeps_its_prior() -> None:
    """A parameter without effect stays exactly where it started."""
    found = search(line_errors(4.0, 0.5), {"base_ms": 3.0, "per_ms": 0.3, "silent_ms": 7.0}, 60)
    assert isclose(found["silent_ms"], 7.0, rel_tol=1e-9)


def test_bounds_hold_whatever_the_figures_say() -> None:
    """Figures that ask for an efficiency of 1.2 get the upper bound, and unbounded ones a factor of 20."""
    found = search(lambda p: [log(p["bandwidth_efficiency"] / 1.2)] * 9, {"bandwidth_efficiency": 0.84}, 60)
    assert isclose(found["bandwidth_efficiency"], BOUNDS["bandwidth_efficiency"][1])
    wide = search(lambda p: [0.4 * log(p["x"] / 1e6) / log(1e6)] * 99, {"x": 1.0}, 60, prior_weight=0.0)
    assert isclose(wide["x"], 20.0)
