"""Drawing: scales and ticks worked by hand, and words that keep clear of one another."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.pages.svg import Box, Drawing, Ink, Scale, box_of, plot, tick_text, ticks


@pytest.mark.parametrize(
    ("high", "most", "expected"),
    [
        (100, 5, [0, 20, 40, 60, 80, 100]),
        (713, 5, [0, 200, 400, 600]),
        (1.2, 5, [0, 0.25, 0.5, 0.75, 1.0]),
        (9_999, 4, [0, 2500, 5000, 7500]),
        (0, 5, [0]),
    ],
)
def test_ticks_are_round(high: float, most: int, expected: list[float]) -> None:
    """Steps of 1, 2, 2.5 or 5 times a power of ten."""
    assert ticks(high, most) == pytest.approx(expected)


@given(st.floats(1e-6, 1e9), st.integers(2, 10))
def test_ticks_stay_within_the_axis_and_are_few(high: float, most: int) -> None:
    """From 0, none past the end, at most one more than asked for, and never 0 alone."""
    found = ticks(high, most)
    assert found[0] == 0
    assert found[-1] <= high * (1 + 1e-6)
    assert 2 <= len(found) <= most + 1


def test_a_scale_maps_zero_and_high_to_its_ends() -> None:
    """An axis of 0..50 from 300 px down to 20 px: 25 stands half way, at 160."""
    scale = Scale(50, 300, 20)
    assert (scale.at(0), scale.at(25), scale.at(50)) == (300, 160, 20)


@pytest.mark.parametrize(("tick", "said"), [(0.0, "0"), (2500.0, "2,500"), (0.25, "0.25"), (30.0, "30")])
def test_ticks_are_said_without_needless_zeros(tick: float, said: str) -> None:
    """`30`, not `30.0000` and not `3`."""
    assert tick_text(tick) == said


places = st.tuples(st.floats(-20, 420), st.floats(-20, 320), st.sampled_from(["start", "middle", "end"]))


@given(st.lists(st.tuples(st.text("abc123 ", min_size=1, max_size=12), st.lists(places, max_size=5)), max_size=15))
def test_placed_words_never_overlap_nor_leave_the_drawing(
    wanted: list[tuple[str, list[tuple[float, float, str]]]],
) -> None:
    """Whatever is asked for, what was placed is pairwise clear and inside; what was not placed says so."""
    drawing = Drawing(400, 300)
    placed = [text for text, spots in wanted if drawing.place(text, spots)]
    boxes = drawing._words
    assert len(boxes) == len(placed)
    assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    assert all(box.left >= 0 and box.top >= 0 and box.right <= 400 and box.bottom <= 300 for box in boxes)


def test_words_go_where_they_cover_least() -> None:
    """A line runs through the first spot; the second is clear and taken."""
    drawing = Drawing(400, 300)
    drawing.line([(0, 100), (400, 100)], "series")
    assert drawing.place("here", [(50, 104, "start"), (50, 150, "start")])
    assert 'y="150"' in drawing.markup("x")


points = st.tuples(st.integers(-40, 80) | st.floats(-40, 80), st.integers(-40, 80) | st.floats(-40, 80))


@given(st.lists(points, max_size=60), points, points)
def test_ink_below_a_box_is_every_point_from_edge_to_edge(
    drawn: list[tuple[float, float]], one: tuple[float, float], other: tuple[float, float]
) -> None:
    """However points and edges lie to the cells that they are kept in."""
    (left, right), (top, bottom) = sorted((one[0], other[0])), sorted((one[1], other[1]))
    ink = Ink()
    ink.add(drawn)
    inside = [point for point in drawn if left <= point[0] <= right and top <= point[1] <= bottom]
    assert ink.below(Box(left, top, right, bottom)) == len(inside)


def test_tips_and_words_are_escaped() -> None:
    """Markup in a text is shown, not obeyed."""
    drawing = Drawing(400, 300)
    drawing.mark((10, 10), "square", 8, "mark", tip="<b>&")
    drawing.write("<i>", (20, 20, "start"))
    assert "<title>&lt;b&gt;&amp;</title>" in drawing.markup("x")
    assert ">&lt;i&gt;</text>" in drawing.markup("x")


@given(st.floats(0.5, 1e6), st.floats(0.5, 1e6), st.sampled_from([(560.0, 310.0), (360.0, 290.0)]))
def test_axes_never_write_over_themselves(x_high: float, y_high: float, size: tuple[float, float]) -> None:
    """Tick labels and titles of any range keep clear of one another, in both sizes."""
    axes = plot(size, (x_high, y_high), ("output tokens per second", "TTFT (ms)"))
    boxes = axes.drawing._words
    assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    right, bottom = max(box.right for box in boxes), max(box.bottom for box in boxes)
    assert min(min(box.left, box.top) for box in boxes) >= 0
    assert right <= size[0] + 1e-6 and bottom <= size[1]
    assert axes.at(0, 0) == pytest.approx((axes.x.start_px, axes.y.start_px))


@pytest.mark.parametrize("shape", ["circle", "square", "diamond", "triangle", "cross"])
def test_marks_are_centred(shape: str) -> None:
    """Every shape's first point lies within its size of the centre."""
    drawing = Drawing(100, 100)
    drawing.mark((50, 50), shape, 10, "mark")
    x, y = map(float, re.findall(r'd="M([\d.]+) ([\d.]+)|d="M([\d.]+),([\d.]+)', drawing.markup("x"))[0][:2])
    assert abs(x - 50) <= 7 and abs(y - 50) <= 7


def test_a_box_lies_on_its_baseline() -> None:
    """Ten characters end-anchored at x 100: 72 px wide, from 28 to 100, 12 px above the baseline and 3 below."""
    box = box_of("0123456789", (100, 50, "end"))
    assert (box.left, box.top, box.right, box.bottom) == pytest.approx((28, 38, 100, 53))
