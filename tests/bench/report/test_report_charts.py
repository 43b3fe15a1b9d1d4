"""The figures: what is drawn, how it is told apart, and that no foreign text gets in."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_summaries import a_summary
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_run import write_sample

from loadproof.bench.document import read_summary
from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.measure.histogram import histogram_of
from loadproof.bench.report import charts
from loadproof.pages.figures import Series, draw, levels_ticks
from loadproof.pages.looks import MIDDLE, PREDICTED


def level(concurrency: int, tokens_per_s: float | None, p50: float | None, p95: float | None) -> dict[str, Any]:
    return {"concurrency": concurrency, "output_tokens_per_s": tokens_per_s, "ttft_ms": {"p50": p50, "p95": p95}}


def objective(name: str, bound: float) -> dict[str, Any]:
    return {"name": name, "bound": bound, "verdict": "PASS"}


LEVELS = [level(1, 100.0, 50.0, 60.0), level(2, 180.0, 55.0, 70.0), level(4, 240.0, 90.0, 200.0)]


def points(series: Series) -> list[tuple[float, float | None]]:
    return [(mark.x, mark.y) for mark in series.marks]


def test_the_curve_has_throughput_across_and_latency_up() -> None:
    """p50 and p95 of three levels stand at their tokens/s, each mark of p95 named by its concurrency."""
    figure = charts.curve(a_summary(levels=LEVELS), "ttft", "measured")
    assert figure is not None
    p95, p50 = figure.drawn
    assert points(p50) == [(100.0, 50.0), (180.0, 55.0), (240.0, 90.0)]
    assert [mark.y for mark in p95.marks] == [60.0, 70.0, 200.0]
    assert [mark.words for mark in p95.marks] == ["1", "2", "4"]
    assert p95.marks[2].tip == "p95 measured: 200 ms at 4 in flight"


def test_predicted_is_dashed_and_named_so() -> None:
    """The planner's series is called predicted, has a look of its own, and its range is drawn about it."""
    row = {"concurrency": 2, "ttft_ms": 52.0, "output_tokens_per_s": 190.0, "ttft_range_ms": [40.0, 70.0]}
    figure = charts.curve(a_summary(levels=LEVELS, predicted={"levels": [row]}), "ttft", "measured")
    assert figure is not None
    predicted = [one for one in figure.drawn if one.look is PREDICTED]
    assert [(one.name, points(one)) for one in predicted] == [("predicted mean", [(190.0, 52.0)])]
    assert figure.band == ((190.0, 40.0, 70.0),)
    assert "range of the prediction" in draw(figure)


def test_the_judged_statistic_is_the_one_drawn() -> None:
    """With an objective on p99 the curve's tail is p99."""
    levels = [{"concurrency": 1, "output_tokens_per_s": 10.0, "ttft_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0}}]
    figure = charts.curve(a_summary(levels=levels, objectives=[objective("ttft_p99_ms", 4.0)]), "ttft", "measured")
    assert figure is not None
    assert [(one.name, points(one)) for one in figure.drawn] == [
        ("p99 measured", [(10.0, 3.0)]),
        ("p50 measured", [(10.0, 1.0)]),
    ]


def test_a_bound_is_a_dotted_line_with_its_words() -> None:
    """p95 ≤ 250 ms over data up to 200 ms: a line across, named."""
    figure = charts.percentiles(a_summary(levels=LEVELS, objectives=[objective("ttft_p95_ms", 250.0)]), "ttft", "m")
    assert figure is not None and figure.bounds == (("objective p95 ≤ 250 ms", 250.0),)
    drawing = draw(figure)
    assert drawing.count('class="bound"') == 2 and "objective p95 ≤ 250 ms</text>" in drawing


def test_a_bound_far_above_the_data_does_not_flatten_the_curve() -> None:
    """p95 ≤ 5 s over data up to 200 ms is named at the edge; the axis stays with the data."""
    figure = charts.percentiles(a_summary(levels=LEVELS, objectives=[objective("ttft_p95_ms", 5000.0)]), "ttft", "m")
    assert figure is not None
    drawing = draw(figure)
    assert "↑ objective p95 ≤ 5,000 ms (off this chart)" in drawing
    assert 'class="bound"' not in drawing and ">200</text>" in drawing and ">5,000</text>" not in drawing


def test_the_knee_is_ringed_and_named() -> None:
    """The ring stands on its level's p95, and its number moves into the note."""
    figure = charts.curve(a_summary(levels=LEVELS, knee={"concurrency": 2}), "ttft", "measured")
    assert figure is not None and figure.rings == (("knee: 2 in flight", 180.0, 70.0),)
    assert [mark.words for mark in figure.drawn[0].marks] == ["1", "", "4"]
    assert "knee: 2 in flight</text>" in draw(figure)


def test_a_knee_beyond_the_levels_tried_is_not_drawn() -> None:
    """Throughput still grew at the highest level: every mark keeps its number and none is ringed."""
    figure = charts.curve(a_summary(levels=LEVELS, knee={"concurrency": 4, "reached": False}), "ttft", "measured")
    assert figure is not None and figure.rings == ()
    assert [mark.words for mark in figure.drawn[0].marks] == ["1", "2", "4"]


def test_no_data_draws_nothing() -> None:
    """A series without data is left out, a figure without series is None, a line breaks at a gap."""
    assert charts.curve(a_summary(), "ttft", "measured") is None
    assert charts.percentiles(a_summary(levels=[level(1, 5.0, None, None)]), "ttft", "measured") is None
    gap = charts.percentiles(a_summary(levels=[LEVELS[0], level(2, None, None, None), LEVELS[2]]), "ttft", "measured")
    assert gap is not None
    assert [mark.y for mark in gap.drawn[-1].marks] == [50.0, None, 90.0]
    assert 'class="series middle"' not in draw(gap).split("</ul>")[1]


def test_levels_are_ticks_each_doubling_as_wide() -> None:
    """1, 2 and 4 in flight at equal distances; levels whose words would touch share a tick."""
    figure = charts.percentiles(a_summary(levels=LEVELS), "ttft", "measured")
    assert figure is not None and figure.x_ticks == ((1, "1"), (2, "2"), (4, "4"))
    assert [words for _, words in levels_ticks([8, 9, 10, 16, 17])] == ["8", "17"]


def test_a_percentile_needs_a_sample_beyond_it() -> None:
    """Of 50 values p95 is drawn (2.5 lie beyond) and p99 is not (half a one does)."""
    counts = histogram_of(np.arange(1.0, 51.0))
    figure = charts.distribution([("8 in flight", MIDDLE, counts)], "ttft")
    assert figure is not None
    assert [words for _, words in figure.x_ticks] == ["50", "75", "90", "95"]
    assert figure.drawn[0].marks[-1].y == pytest.approx(48, rel=0.003)
    assert charts.distribution([("none", MIDDLE, histogram_of(np.empty(0)))], "ttft") is None


def test_series_differ_without_colour(tmp_path: Path) -> None:
    """Within each percentile figure no two series share a mark, but for predicted, whose line is dashed."""
    summary = read_summary(write_sample(tmp_path))
    css = (files("loadproof.bench.report") / "charts.css").read_text()
    assert re.search(r"\.predicted-line \{ stroke-dasharray", css)
    for latency in ("ttft", "itl", "tpot", "e2e"):
        figure = charts.percentiles(summary, latency, "measured")
        assert figure is not None and len(figure.drawn) == 4
        assert len({one.look.shape for one in figure.drawn if one.look is not PREDICTED}) == 3


def test_no_foreign_text_reaches_a_figure(tmp_path: Path) -> None:
    """Names, reasons and kinds stay out of the figures."""
    evil = "<a href='javascript:alert(1)'>evil</a>"
    summary = read_summary(
        write_sample(
            tmp_path,
            profile={"name": evil},
            knee={"concurrency": 4, "rule": evil, "reason": evil},
            objectives=[objective(evil, 1.0), objective("ttft_p95_ms", 300.0)],
        )
    )
    figures = [charts.curve(summary, "ttft", "measured"), charts.percentiles(summary, "ttft", "measured")]
    assert all("evil" not in draw(figure) for figure in figures if figure is not None) and all(figures)


@pytest.mark.parametrize(
    ("observed", "low", "high", "expected"),
    [
        (50.0, 40.0, 60.0, {"bound": 86.96, "observed": 43.48, "low": 34.78, "high": 52.17, "without_client": 39.13}),
        (200.0, None, None, {"bound": 43.48, "observed": 86.96, "low": 86.96, "high": 86.96, "without_client": 84.78}),
        (None, None, None, None),
    ],
)
def test_the_objective_bar_is_to_scale(
    observed: float | None, low: float | None, high: float | None, expected: dict[str, float] | None
) -> None:
    """Bound 100: the farthest mark stands at 1/1.15 of the bar, all else in proportion (100 · v / 115), 5 ms less
    without the client's share."""
    one = Judgement("ttft_p95_ms", "<=", 100.0, observed, low, high, None, "PASS", client_share=5.0)
    assert charts.position(one) == expected


figures_of_anything = st.one_of(st.none(), st.floats(0, 1e9), st.integers(0, 10**6))
spreads = st.fixed_dictionaries({}, optional={"p50": figures_of_anything, "p95": figures_of_anything})


@settings(max_examples=60, deadline=None)
@given(
    levels=st.lists(
        st.fixed_dictionaries(
            {"concurrency": st.integers(1, 1024)},
            optional={
                "ttft_ms": spreads,
                "e2e_ms": spreads,
                "output_tokens_per_s": figures_of_anything,
                "requests_per_s": figures_of_anything,
            },
        ),
        max_size=4,
        unique_by=lambda one: one["concurrency"],
    ),
    bound=st.floats(0.001, 1e9),
    knee=st.integers(1, 4),
)
def test_whatever_a_run_holds_its_figures_can_be_drawn(levels: list[Any], bound: float, knee: int) -> None:
    """Any mixture of figures, zeros and gaps gives figures of finite numbers, or none."""
    objectives = [objective("ttft_p95_ms", bound), objective("output_tokens_per_s_min", bound)]
    summary = a_summary(
        levels=levels,
        objectives=objectives,
        knee={"concurrency": knee},
        predicted={"levels": [dict.fromkeys(("ttft_ms", "e2e_ms"), 1.0) | {"concurrency": 2}]},
    )
    look = (("output_tokens_per_s", "measured", MIDDLE),)
    drawn = [
        charts.curve(summary, "ttft", "measured"),
        charts.percentiles(summary, "e2e", "measured"),
        charts.throughput(summary, look, "output tokens per second"),
    ]
    for figure in drawn:
        drawing = "" if figure is None else draw(figure)
        assert "nan" not in drawing and "inf" not in drawing
