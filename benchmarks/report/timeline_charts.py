"""Pictures over time: TTFT, rate, requests in flight and copies of the whole run, and a sample of single requests."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from benchmarks.report.reading import CopyCount
from benchmarks.report.svg import LINE_PX, Drawing, Plot, Point, Scale, plot, tick_text, ticks, width_of
from benchmarks.report.timeline import Timeline

SIZES_PX = {"broad": 1120.0, "tight": 360.0}
SECONDS = "seconds since the first request"
_HEIGHT_PX, _LOW_PX, _ROW_PX = 210.0, 130.0, 9.0


def timeline(run: Timeline, copies: Sequence[CopyCount] = ()) -> dict[str, Markup]:
    """Each picture by its name, in both sizes; `copies` in seconds since the run's zero."""
    if not run.in_flight:
        return {}
    last_s = max(run.in_flight[-1][0], 0.001)
    drawn = {
        "ttft": [_ttft(run, last_s, width) for width in SIZES_PX.values()] if run.ttft else [],
        "in-flight": [_in_flight(run, last_s, width) for width in SIZES_PX.values()],
        "rate": [_rate(run, last_s, width) for width in SIZES_PX.values()] if run.rates else [],
        "copies": [_copies(copies, last_s, width) for width in SIZES_PX.values()] if copies else [],
    }
    return {name: _both(plots) for name, plots in drawn.items() if plots}


def waterfall(run: Timeline) -> Markup:
    """A bar a request of the sample: hollow until its first token, filled until its end, crossed if it failed."""
    if not run.waterfall:
        return Markup("")
    last_s = max(bar.end_s for bar in run.waterfall) or 0.001
    drawings = []
    for width in SIZES_PX.values():
        drawing = Drawing(width, len(run.waterfall) * _ROW_PX + 2.8 * LINE_PX)
        scale, bottom = Scale(last_s, 4, width - 14), len(run.waterfall) * _ROW_PX + 4
        for tick in ticks(last_s, max(2, int(width // 110))):
            drawing.line([(scale.at(tick), 0), (scale.at(tick), bottom)], "grid", behind_words=True)
            inside = min(scale.at(tick), width - width_of(tick_text(tick)) / 2)
            drawing.write(tick_text(tick), (max(inside, 4), bottom + 1.1 * LINE_PX, "middle"))
        drawing.write(SECONDS, (width / 2, bottom + 2.3 * LINE_PX, "middle"))
        for row, bar in enumerate(run.waterfall):
            top, first_s = row * _ROW_PX + 2, bar.end_s if bar.first_s is None else bar.first_s
            waited_s, whole_s = first_s - bar.start_s, bar.end_s - bar.start_s
            tip = f"request {bar.index}: first token after {waited_s:.3f} s, whole {whole_s:.3f} s"
            left, middle, right = scale.at(bar.start_s), scale.at(first_s), scale.at(bar.end_s)
            drawing.bar(left, top + 1, max(0.5, middle - left), _ROW_PX - 4, "waiting", tip=tip)
            drawing.bar(middle, top, max(0.0, right - middle), _ROW_PX - 2, "streaming", tip=tip)
            if not bar.ok:
                drawing.mark((right, top + 3.5), "cross", 7, "mark failed", tip=f"request {bar.index} failed")
        drawings.append(drawing)
    return _both(drawings)


def _ttft(run: Timeline, last_s: float, width: float) -> Drawing:
    axes = plot((width, _HEIGHT_PX), (last_s, 1.08 * max(value for _, value in run.ttft) or 1), (SECONDS, "TTFT (ms)"))
    axes.drawing.marks([axes.at(*point) for point in run.ttft], "circle", 4, "dots")
    return axes.drawing


def _in_flight(run: Timeline, last_s: float, width: float) -> Drawing:
    most = max(count for _, count in run.in_flight)
    axes = plot((width, _LOW_PX), (last_s, 1.15 * most or 1), (SECONDS, "requests in flight; crosses: failed"))
    _step(axes, run.in_flight, last_s)
    axes.drawing.marks([axes.at(*point) for point in run.failures], "cross", 8, "crosses")
    return axes.drawing


def _rate(run: Timeline, last_s: float, width: float) -> Drawing:
    titles = SECONDS, "answers per second"
    axes = plot((width, _LOW_PX), (last_s, 1.15 * max(rate for _, rate in run.rates) or 1), titles)
    axes.drawing.line([axes.at(*point) for point in run.rates], "series middle")
    return axes.drawing


def _copies(copies: Sequence[CopyCount], last_s: float, width: float) -> Drawing:
    """In service as an area, wanted as a dotted line."""
    most = max(max(count.current, count.desired) for count in copies)
    axes = plot((width, _LOW_PX), (last_s, 1.2 * most or 1), (SECONDS, "copies: in service; dotted: wanted"))
    inside = [(min(max(0.0, count.at_s), last_s), count) for count in copies]
    _step(axes, [(at_s, count.current) for at_s, count in inside], last_s)
    axes.drawing.line(_steps(axes, [(at_s, count.desired) for at_s, count in inside], last_s), "bound")
    return axes.drawing


def _step(axes: Plot, points: Sequence[tuple[float, float]], last_s: float) -> None:
    line = _steps(axes, points, last_s)
    axes.drawing.area([(line[0][0], axes.y.at(0)), *line, (line[-1][0], axes.y.at(0))], "flight")
    axes.drawing.line(line, "flight-line")


def _steps(axes: Plot, points: Sequence[tuple[float, float]], last_s: float) -> list[Point]:
    """Each value holds until the next one."""
    line: list[Point] = []
    for x, y in points:
        if line:
            line.append((axes.x.at(x), line[-1][1]))
        line.append(axes.at(x, y))
    return [*line, (axes.x.at(last_s), line[-1][1])]


def _both(drawings: Sequence[Drawing]) -> Markup:
    return Markup("\n").join(drawing.markup(f"panel {size}") for drawing, size in zip(drawings, SIZES_PX, strict=True))
