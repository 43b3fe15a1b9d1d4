"""Words go where they cover least."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.report.looks import GREY
from benchmarks.report.notes import draw_bounds
from benchmarks.report.placement import Box, Plane, clearest


def figure(points: list[tuple[float, float]], kind: str = "linear", top: float = 100.0) -> dict[str, Any]:
    xs, ys = zip(*points, strict=True)
    axes = {"xaxis": {"type": kind}, "yaxis": {"range": [0, top]}, "shapes": [], "annotations": []}
    return {"data": [{"x": list(xs), "y": list(ys), "line": {"color": GREY}}], "layout": axes}


def test_the_box_with_least_ink_wins_and_the_first_of_equals() -> None:
    """Three equal boxes; ink lies in the first: the second is chosen, not the equally clear third."""
    boxes = [Box(0.0, 0.0, 0.2, 0.2), Box(0.4, 0.4, 0.2, 0.2), Box(0.7, 0.7, 0.2, 0.2)]
    assert clearest(boxes, [(0.1, 0.1)]) == 1


def test_a_box_that_leaves_the_plot_comes_last() -> None:
    """Words that would stand outside lose even to words over a line."""
    assert clearest([Box(0.9, 0.5, 0.2, 0.1), Box(0.0, 0.0, 0.2, 0.2)], [(0.1, 0.1)]) == 1


def test_a_linear_plane_starts_at_zero_and_a_logarithmic_one_at_its_first_mark() -> None:
    """6% is left beside the outermost marks: x 0..106 for a mark at 100; log10 1..100 is -0.12..2.12."""
    assert Plane(figure([(50.0, 10.0), (100.0, 20.0)])).at(100.0, 50.0) == pytest.approx((100 / 106, 0.5))
    assert Plane(figure([(1, 10.0), (100, 20.0)], "log")).at(10, 25.0) == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize(
    ("points", "side"),
    [
        ([(1.0, 55.0), (50.0, 58.0), (60.0, 10.0), (100.0, 10.0)], "right"),
        ([(1.0, 10.0), (50.0, 10.0), (60.0, 55.0), (100.0, 58.0)], "left"),
    ],
)
def test_an_objective_is_named_where_the_curve_is_not(points: list[tuple[float, float]], side: str) -> None:
    """A curve that runs just above the bound on one side leaves the name to the other side."""
    chart = figure(points)
    draw_bounds(chart, [("p95 ≤ 50 ms", 50.0)])
    assert chart["layout"]["annotations"][0]["xanchor"] == side
