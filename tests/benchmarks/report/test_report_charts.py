"""The figures: what is drawn, how it is told apart, and that no foreign text gets in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_run import write_sample

from benchmarks.report import charts
from benchmarks.report.looks import MIDDLE
from benchmarks.report.reading import Objective, Summary, read_summary


def summary_of(**fields: Any) -> Summary:
    return Summary.model_validate({"schema_version": 1, "run_id": "r", "verdict": {"outcome": "PASS"}} | fields)


def level(concurrency: int, tokens_per_s: float | None, p50: float | None, p95: float | None) -> dict[str, Any]:
    return {"concurrency": concurrency, "output_tokens_per_s": tokens_per_s, "ttft_ms": {"p50": p50, "p95": p95}}


def objective(name: str, bound: float) -> dict[str, Any]:
    return {"name": name, "bound": bound, "verdict": "PASS"}


LEVELS = [level(1, 100.0, 50.0, 60.0), level(2, 180.0, 55.0, 70.0), level(4, 240.0, 90.0, 200.0)]


def test_the_curve_has_throughput_across_and_latency_up() -> None:
    """p50 and p95 of three levels stand at their tokens/s, each mark of p95 named by its concurrency."""
    figure = charts.curve(summary_of(levels=LEVELS), "ttft", "measured")
    assert figure is not None
    p95, p50 = figure["data"]
    assert (p50["x"], p50["y"]) == ([100.0, 180.0, 240.0], [50.0, 55.0, 90.0])
    assert (p95["y"], p95["text"]) == ([60.0, 70.0, 200.0], ["1", "2", "4"])


def test_predicted_is_dashed_and_named_so() -> None:
    """The planner's series is called predicted and is the only dashed one; marks are open."""
    predicted = {"levels": [{"concurrency": 2, "ttft_ms": 52.0, "output_tokens_per_s": 190.0}]}
    figure = charts.curve(summary_of(levels=LEVELS, predicted=predicted), "ttft", "measured")
    assert figure is not None
    dashed = [trace for trace in figure["data"] if trace["line"].get("dash") == "dash"]
    assert [(trace["name"], trace["x"], trace["y"]) for trace in dashed] == [("predicted mean", [190.0], [52.0])]
    assert dashed[0]["marker"]["symbol"] == "circle-open"


def test_the_judged_statistic_is_the_one_drawn() -> None:
    """With an objective on p99 the curve's tail is p99."""
    levels = [{"concurrency": 1, "output_tokens_per_s": 10.0, "ttft_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0}}]
    figure = charts.curve(summary_of(levels=levels, objectives=[objective("ttft_p99_ms", 4.0)]), "ttft", "measured")
    assert figure is not None
    assert [(trace["name"], trace["y"]) for trace in figure["data"]] == [
        ("p99 measured", [3.0]),
        ("p50 measured", [1.0]),
    ]


def test_a_bound_is_a_line_with_its_words_and_the_axis_reaches_it() -> None:
    """p95 ≤ 250 ms over data up to 200 ms: a dotted line at 250 inside the axis."""
    figure = charts.percentiles(summary_of(levels=LEVELS, objectives=[objective("ttft_p95_ms", 250.0)]), "ttft", "m")
    assert figure is not None
    layout = figure["layout"]
    assert [(shape["y0"], shape["y1"], shape["line"]["dash"]) for shape in layout["shapes"]] == [(250.0, 250.0, "dot")]
    assert [note["text"] for note in layout["annotations"]] == ["objective p95 ≤ 250 ms"]
    assert layout["yaxis"]["range"][1] > 250


def test_a_bound_far_above_the_data_does_not_flatten_the_curve() -> None:
    """p95 ≤ 5 s over data up to 200 ms is named at the edge; the axis stays with the data."""
    figure = charts.percentiles(summary_of(levels=LEVELS, objectives=[objective("ttft_p95_ms", 5000.0)]), "ttft", "m")
    assert figure is not None
    assert figure["layout"]["shapes"] == []
    assert figure["layout"]["annotations"][0]["text"] == "↑ objective p95 ≤ 5,000 ms (off this chart)"
    assert figure["layout"]["yaxis"]["range"][1] < 300


def test_the_knee_is_ringed_and_named() -> None:
    """The knee's mark stands on its level's p95, and its number moves into the note."""
    figure = charts.curve(summary_of(levels=LEVELS, knee={"concurrency": 2}), "ttft", "measured")
    assert figure is not None
    assert (figure["data"][-1]["x"], figure["data"][-1]["y"]) == ([180.0], [70.0])
    assert figure["layout"]["annotations"][-1]["text"] == "knee: 2 in flight"
    assert figure["data"][0]["text"] == ["1", "", "4"]


def test_a_knee_beyond_the_levels_tried_is_not_drawn() -> None:
    """Throughput still grew at the highest level: every mark keeps its number and none is ringed."""
    figure = charts.curve(summary_of(levels=LEVELS, knee={"concurrency": 4, "reached": False}), "ttft", "measured")
    assert figure is not None
    assert figure["data"][0]["text"] == ["1", "2", "4"]
    assert not any("knee" in note["text"] for note in figure["layout"]["annotations"])


def test_no_data_draws_nothing() -> None:
    """A series without data is left out, a figure without series is None, a gap stays a gap."""
    assert charts.curve(summary_of(), "ttft", "measured") is None
    assert charts.percentiles(summary_of(levels=[level(1, 5.0, None, None)]), "ttft", "measured") is None
    gap = charts.percentiles(summary_of(levels=[LEVELS[0], level(2, None, None, None), LEVELS[2]]), "ttft", "measured")
    assert gap is not None
    assert gap["data"][-1]["y"] == [50.0, None, 90.0]


def test_series_differ_without_colour(tmp_path: Path) -> None:
    """Within each percentile figure no two series share mark and dash."""
    summary = read_summary(write_sample(tmp_path))
    for latency in ("ttft", "itl", "tpot", "e2e"):
        figure = charts.percentiles(summary, latency, "measured")
        assert figure is not None
        looks = [(trace["marker"]["symbol"], trace["line"].get("dash")) for trace in figure["data"]]
        assert len(looks) == 4 == len(set(looks))


def test_no_foreign_text_reaches_a_figure(tmp_path: Path) -> None:
    """Plotly reads labels as markup, so names, reasons and kinds stay out of the figures."""
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
    assert all(figures)
    assert "evil" not in json.dumps(figures)


@pytest.mark.parametrize(
    ("observed", "low", "high", "expected"),
    [
        (50.0, 40.0, 60.0, {"bound": 86.96, "observed": 43.48, "low": 34.78, "high": 52.17}),  # 100 · v / (1.15 · 100)
        (200.0, None, None, {"bound": 43.48, "observed": 86.96, "low": 86.96, "high": 86.96}),
        (None, None, None, None),
    ],
)
def test_the_objective_bar_is_to_scale(
    observed: float | None, low: float | None, high: float | None, expected: dict[str, float] | None
) -> None:
    """Bound 100: the farthest mark stands at 1/1.15 of the bar, everything else in proportion."""
    one = Objective(name="ttft_p95_ms", bound=100.0, observed=observed, low=low, high=high, verdict="PASS")
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
    summary = summary_of(
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
        json.dumps(figure, allow_nan=False)
        assert figure is None or all(any(y is not None for y in trace["y"]) for trace in figure["data"])
