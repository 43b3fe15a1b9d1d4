"""The page's pictures as plain Plotly figures (`{"data": [...], "layout": {...}}`), ready for JSON.

Rules: measured is solid with filled marks, predicted dashed with open marks, a bound dotted. `noun` says what the solid
series are: "measured", or "on the twin" where the twin answered. A series without data is left out and a figure without
series is None. No foreign text goes in here (Plotly reads labels as markup): every label is made of our own words and
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.report.looks import BLUE, FAR_TAIL, MIDDLE, PINK, PREDICTED, TAIL, TEAL, Figure, Look
from benchmarks.report.notes import draw_bounds, draw_knee
from benchmarks.report.reading import Level, Objective, Percentiles, PredictedLevel, Summary
from benchmarks.report.timeline import Timeline
from benchmarks.report.wording import SHORT, latency_of, number

IN_FLIGHT = "requests in flight"


def curve(summary: Summary, latency: str, noun: str) -> Figure | None:
    """Latency over output tokens/s, one mark per level: measured p50 and the judged tail, predicted, knee, bounds."""
    bounds = _bounds(summary, latency)
    tail = max((statistic for statistic, _ in bounds if statistic != "p50"), default="p95")
    traces = []
    for statistic, look in ((tail, TAIL), ("p50", MIDDLE)):
        points = [
            (level.output_tokens_per_s, at(level, latency, statistic), level.concurrency) for level in summary.levels
        ]
        traces.append(_series(points, f"{statistic} {noun}", look))
    traces[0] = _labelled(traces[0], summary)
    expected = [
        (level.output_tokens_per_s, predicted_at(level, latency), level.concurrency)
        for level in _predicted_levels(summary)
    ]
    traces.append(_predicted(expected, "predicted mean"))
    figure = _figure(traces, x_title="output tokens per second", y_title=f"{SHORT[latency]} (ms)")
    if figure:
        draw_bounds(figure, [(f"{name} ≤ {number(bound)} ms", bound) for name, bound in bounds])
        for level in summary.levels:
            x, y = level.output_tokens_per_s, at(level, latency, tail)
            if level.concurrency == summary.knee_concurrency and x is not None and y is not None:
                draw_knee(figure, level.concurrency, x, y)
        figure["layout"]["xaxis"]["rangemode"] = "tozero"
    return figure


def percentiles(summary: Summary, latency: str, noun: str) -> Figure | None:
    """One latency over concurrency: p50, p95, p99 measured, the predicted one, and the objectives on it."""
    traces = [
        _series(
            [(level.concurrency, at(level, latency, statistic), level.concurrency) for level in summary.levels],
            f"{statistic} {noun}",
            look,
        )
        for statistic, look in (("p99", FAR_TAIL), ("p95", TAIL), ("p50", MIDDLE))
    ]
    expected = [
        (level.concurrency, predicted_at(level, latency), level.concurrency) for level in _predicted_levels(summary)
    ]
    traces.append(_predicted(expected, "predicted mean"))
    figure = _figure(traces, x_title=IN_FLIGHT, y_title=f"{SHORT[latency]} (ms)")
    if figure:
        _concurrency_axis(figure, summary)
        bounds = _bounds(summary, latency)
        draw_bounds(figure, [(f"{name} ≤ {number(bound)} ms", bound) for name, bound in bounds])
    return figure


def throughput(summary: Summary, rates: Sequence[tuple[str, str, Look]], y_title: str) -> Figure | None:
    """Rates over concurrency. `rates`: (field of Level, label, look); the first also has its prediction."""
    traces = [
        _series(
            [(level.concurrency, getattr(level, field), level.concurrency) for level in summary.levels],
            label,
            look,
        )
        for field, label, look in rates
    ]
    first = rates[0][0]
    expected = [
        (level.concurrency, getattr(level, first, None), level.concurrency) for level in _predicted_levels(summary)
    ]
    traces.append(_predicted(expected, "predicted"))
    figure = _figure(traces, x_title=IN_FLIGHT, y_title=y_title)
    if figure:
        _concurrency_axis(figure, summary)
        fields = {f"{field}_min" for field, *_ in rates}
        bounds = [(f"≥ {number(one.bound)}", one.bound) for one in summary.objectives if one.name in fields]
        draw_bounds(figure, bounds)
    return figure


def timeline(run: Timeline) -> Figure | None:
    """Over the run's time: TTFT of each request above, requests in flight below, failures marked on the latter."""
    if not run.in_flight:
        return None
    data: list[dict[str, Any]] = []
    if run.ttft:
        seconds, ttft_ms = zip(*run.ttft, strict=True)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": seconds,
                "y": ttft_ms,
                "name": "TTFT of a request",
                "marker": {"color": BLUE, "symbol": "circle", "size": 5, "opacity": 0.7},
                "hovertemplate": "%{y:.1f} ms at %{x:.1f} s<extra></extra>",
            }
        )
    seconds, counts = zip(*run.in_flight, strict=True)
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": seconds,
            "y": counts,
            "name": IN_FLIGHT,
            "yaxis": "y2",
            "line": {"color": TEAL, "shape": "hv", "width": 1.5},
            "fill": "tozeroy",
            "fillcolor": "rgba(18,138,116,0.18)",
            "hovertemplate": "%{y} in flight at %{x:.1f} s<extra></extra>",
        }
    )
    if run.failures:
        seconds, counts = zip(*run.failures, strict=True)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": seconds,
                "y": counts,
                "name": "request failed",
                "yaxis": "y2",
                "marker": {"color": PINK, "symbol": "x", "size": 8},
                "hovertemplate": "failed at %{x:.1f} s<extra></extra>",
            }
        )
    layout = _layout("seconds since the first request", "TTFT (ms)")
    layout["yaxis"] |= {"domain": [0.42, 1.0]}
    layout["yaxis2"] = {
        "title": {"text": "in flight", "font": {"size": 12}},
        "domain": [0.0, 0.32],
        "rangemode": "tozero",
        "zeroline": False,
        "automargin": True,
        "nticks": 4,
    }
    layout["xaxis"]["anchor"] = "y2"
    layout["height"] = 400
    return {"data": data, "layout": layout}


def at(level: Level, latency: str, statistic: str) -> float | None:
    """One latency's statistic of a measured level, in milliseconds."""
    values: Percentiles = getattr(level, f"{latency}_ms")
    value: float | None = getattr(values, statistic)
    return value


def predicted_at(level: PredictedLevel, latency: str) -> float | None:
    """The predicted latency of a level, in milliseconds; the planner's steady gap between tokens is TPOT and ITL."""
    value: float | None = getattr(level, "tpot_ms" if latency == "itl" else f"{latency}_ms")
    return value


def _predicted_levels(summary: Summary) -> list[PredictedLevel]:
    return sorted(summary.predicted.levels, key=lambda level: level.concurrency) if summary.predicted else []


def _bounds(summary: Summary, latency: str) -> list[tuple[str, float]]:
    found = []
    for objective in summary.objectives:
        named = latency_of(objective.name)
        if named and named[0] == latency:
            found.append((named[1], objective.bound))
    return found


Point = tuple[float | None, float | None, int]


def _labelled(trace: dict[str, Any], summary: Summary) -> dict[str, Any]:
    """The trace with each mark's concurrency beside it; the knee's is in its own note."""
    knee = summary.knee_concurrency
    text = ["" if concurrency == knee else str(concurrency) for concurrency in trace["customdata"]]
    return trace | {"mode": "lines+markers+text", "textposition": "top left", "cliponaxis": False, "text": text}


def _predicted(points: Iterable[Point], name: str) -> dict[str, Any]:
    trace = _series(points, name, PREDICTED)
    trace["line"]["dash"] = "dash"
    return trace


def _series(points: Iterable[Point], name: str, look: Look) -> dict[str, Any]:
    known = [point for point in points if point[0] is not None]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [x for x, _, _ in known],
        "y": [y for _, y, _ in known],
        "customdata": [concurrency for _, _, concurrency in known],
        "line": {"color": look.colour, "width": 2},
        "marker": {"color": look.colour, "symbol": look.symbol, "size": look.size_px},
        "hovertemplate": f"{name}: %{{y:,.4~g}} with %{{customdata}} in flight<extra></extra>",
    }


def _figure(traces: Iterable[dict[str, Any]], *, x_title: str, y_title: str) -> Figure | None:
    drawn = [trace for trace in traces if any(y is not None for y in trace["y"])]
    return {"data": drawn, "layout": _layout(x_title, y_title)} if drawn else None


def _layout(x_title: str, y_title: str) -> dict[str, Any]:
    axis = {"zeroline": False, "automargin": True, "showline": True}
    return {
        "height": 320,
        "margin": {"l": 8, "r": 14, "t": 8, "b": 8},
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12},
        },
        "hovermode": "closest",
        "xaxis": axis | {"title": {"text": x_title, "font": {"size": 12}}},
        "yaxis": axis | {"title": {"text": y_title, "font": {"size": 12}}, "rangemode": "tozero"},
        "shapes": [],
        "annotations": [],
    }


def _concurrency_axis(figure: Figure, summary: Summary) -> None:
    """A logarithmic axis (sweeps double) whose ticks are the levels, thinned where they would touch."""
    levels = {level.concurrency for level in summary.levels} | {
        level.concurrency for level in _predicted_levels(summary)
    }
    ticks: list[int] = []
    for concurrency in sorted(levels):
        if not ticks or concurrency >= 1.35 * ticks[-1]:
            ticks.append(concurrency)
    figure["layout"]["xaxis"] |= {
        "type": "log",
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [str(tick) for tick in ticks],
    }


def position(objective: Objective) -> dict[str, float] | None:
    """Where bound, observation and interval stand on a bar of 0..100, for the objectives table; None without data."""
    if objective.observed is None:
        return None
    low = objective.observed if objective.low is None else objective.low
    high = objective.observed if objective.high is None else objective.high
    longest = 1.15 * max(objective.bound, objective.observed, high)
    if longest <= 0:
        return None
    marks = {"bound": objective.bound, "observed": objective.observed, "low": low, "high": high}
    return {name: round(100 * max(0.0, value) / longest, 2) for name, value in marks.items()}
