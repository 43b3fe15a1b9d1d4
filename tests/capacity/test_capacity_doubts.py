"""What a calibration leaves in doubt is what the algebra of linear models says, worked by hand."""

from __future__ import annotations

from math import erf, exp, log, sqrt

import numpy as np
import pytest

from loadproof.capacity.calibration_problem import PRIOR_WEIGHT
from loadproof.capacity.doubts import (
    Information,
    Left,
    Slopes,
    bands,
    covariance,
    doubts,
    information_of,
    prior_spread,
    slopes_of,
)
from loadproof.capacity.observations import Figures

Z = 1.2815515655446004  # 90th percentile of the standard normal: half of it is 80% to both sides


def slopes(*rows: tuple[float, ...], figures: tuple[str, ...] = ("e2e_ms",)) -> Slopes:
    return Slopes(figures, np.asarray(rows, dtype=np.float64))  # type: ignore[arg-type]


def test_without_a_level_the_doubt_is_the_one_before() -> None:
    assert covariance([], np.asarray([0.3, 0.1])) == pytest.approx(np.diag([0.09, 0.01]))


def test_one_parameter_one_figure_by_hand() -> None:
    """A = 2 x 0.005 + 50, B = 0.01² x 0.3² + 4: C = B / A² = 4.000009 / 50.01²."""
    found = covariance([Information(np.asarray([[50.0]]), np.asarray([[4.0]]))], np.asarray([0.3]))
    assert 2 * PRIOR_WEIGHT == 0.01
    assert found[0, 0] == pytest.approx(4.000009 / 50.01**2)


def test_a_well_measured_parameter_is_as_sure_as_its_level() -> None:
    """Two levels off by s each give s / sqrt(2), one gives s: the prior hardly pulls."""
    level, sd = information_of(slopes((1.0,)), Left()), log(1.05) / Z
    one, two = (sqrt(covariance([level] * count, np.asarray([0.5]))[0, 0]) for count in (1, 2))
    assert one == pytest.approx(sqrt(sd**2 + 0.01**2), rel=0.01)
    assert two == pytest.approx(one / sqrt(2), rel=0.01)


def test_throughput_and_latency_of_one_level_are_one_measurement() -> None:
    """By Little's law they err together, in opposite directions: a second one adds hardly anything."""
    alone = information_of(slopes((1.0,)), Left())
    both = information_of(slopes((1.0,), (-1.0,), figures=("e2e_ms", "output_tokens_per_s")), Left())
    sds = [sqrt(covariance([level], np.asarray([0.5]))[0, 0]) for level in (alone, both)]
    assert sds[1] == pytest.approx(sds[0], rel=0.05)


def test_a_band_of_equal_doubts_is_1_28_of_them() -> None:
    """80% of a normal lie within 1.2816 standard deviations; TTFT has its own; no figure, no band."""
    assert bands([("e2e_ms", 0.1), ("tpot_ms", 0.1), ("ttft_ms", 0.2)]) == pytest.approx(
        (exp(0.1 * Z) - 1, exp(0.2 * Z) - 1)
    )
    assert bands([]) == (None, None)


def test_a_band_of_unequal_doubts_holds_eight_in_ten_of_all() -> None:
    """Half of the figures at 0.05 and half at 0.2: the mean share inside is 0.8."""
    band, _ = bands([("e2e_ms", 0.05), ("tpot_ms", 0.2)])
    assert band is not None
    held = [erf(log(1 + band) / (sd * sqrt(2))) for sd in (0.05, 0.2)]
    assert sum(held) / 2 == pytest.approx(0.8, abs=1e-6)


def test_the_doubt_before_is_the_planners_own_band() -> None:
    """Parameters as uncertain as 25% of the timed figures: doubt of these and 5% of the form make 25% again."""
    targets = [slopes((0.3, 0.1), (0.2, 0.4), figures=("e2e_ms", "tpot_ms"))]
    spread = prior_spread(["step_ms", "step_ms_per_sequence"], targets, 0.25, 0.5)
    found = doubts(targets, np.diag(spread**2), Left())
    assert sqrt(sum(sd**2 for _, sd in found) / 2) == pytest.approx(log(1.25) / Z, rel=1e-6)


def test_bounds_hold_the_doubt_in_an_efficiency() -> None:
    """Between 0.70 and 0.92 a uniform law has a standard deviation of ln(0.92 / 0.70) / sqrt(12) in logs."""
    spread = prior_spread(["bandwidth_efficiency"], [slopes((0.1,))], 3.0, 3.0)
    assert spread[0] == pytest.approx(log(0.92 / 0.70) / sqrt(12))


def test_slopes_of_a_power_law_are_its_exponents() -> None:
    """E2E = a² / b: slopes 2 and -1; a figure that is missing on one side has none."""

    def figures(parameters: dict[str, float]) -> Figures:
        a, b = parameters["a"], parameters["b"]
        return Figures(e2e_ms=a * a / b, ttft_ms=1.0 if a == 3.0 else None)

    found = slopes_of(figures, {"a": 3.0, "b": 5.0})
    assert found.figures == ("e2e_ms",)
    assert found.matrix == pytest.approx(np.asarray([[2.0, -1.0]]))
