"""Pictures over time: rate, requests in flight, TTFT, errors and copies of the run, and a sample of single requests."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from loadproof.bench.measure.scaling import CopyCount
from loadproof.bench.report.timeline import Timeline
from loadproof.pages.svg import LINE_PX, Drawing, Plot, Point, Scale, margin_of, plot, tick_text, ticks, width_of

SIZES_PX = {"broad": 1120.0, "tight": 360.0}
SECONDS = "seconds since the first request"
_HEIGHT_PX, _LOW_PX, _ROW_PX = 210.0, 130.0, 9.0
# Height and the words at the y axis of each picture.
_PANELS = {
    "rate": (_LOW_PX, "answers per second"),
    "in-flight": (_LOW_PX, "requests in flight; crosses: failed"),
    "ttft": (_HEIGHT_PX, "TTFT (ms)"),
    "errors": (_LOW_PX, "failed requests per second"),
    "copies": (_LOW_PX, "copies: in service; dotted: wanted"),
}


def timeline(run: Timeline, copies: Sequence[CopyCount] = ()) -> dict[str, Markup]:
    """Each picture by its name, in both sizes, all over the same seconds; `copies` in seconds since the run's zero."""
    if not run.in_flight:
        return {}
    last_s = max(run.in_flight[-1][0], 0.001)
    highs = {
        "rate": 1.15 * max((rate for _, rate in run.rates), default=0.0),
        "in-flight": 1.15 * max(count for _, count in run.in_flight),
        "ttft": 1.08 * max((value for _, value in run.ttft), default=0.0),
        "errors": 1.15 * max((rate for _, rate in run.errors), default=0.0),
        "copies": 1.2 * max((max(count.current, count.desired) for count in copies), default=0),
    }
    shown = {
        "rate": bool(run.rates),
        "in-flight": True,
        "ttft": bool(run.ttft),
        "errors": bool(run.failures),
        "copies": bool(copies),
    }
    highs = {name: high or 1 for name, high in highs.items() if shown[name]}
    margin_px = max(map(margin_of, highs.values()))
    drawn = {}
    for name, high in highs.items():
        height, words = _PANELS[name]
        plots = [
            plot((width, height), (last_s, high), (SECONDS, words), margin_px=margin_px) for width in SIZES_PX.values()
        ]
        for axes in plots:
            _draw(name, axes, run, copies, last_s)
        drawn[name] = _both([axes.drawing for axes in plots])
    return drawn


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


def _draw(name: str, axes: Plot, run: Timeline, copies: Sequence[CopyCount], last_s: float) -> None:
    """Copies in service are an area, those wanted a dotted line."""
    if name == "rate":
        axes.drawing.line([axes.at(*point) for point in run.rates], "series middle")
    elif name == "errors":
        axes.drawing.line([axes.at(*point) for point in run.errors], "series middle")
    elif name == "ttft":
        axes.drawing.marks([axes.at(*point) for point in run.ttft], "circle", 4, "dots")
    elif name == "in-flight":
        _step(axes, run.in_flight, last_s)
        axes.drawing.marks([axes.at(*point) for point in run.failures], "cross", 8, "crosses")
    else:
        inside = [(min(max(0.0, count.at_s), last_s), count) for count in copies]
        _step(axes, [(at_s, count.current) for at_s, count in inside], last_s)
        axes.drawing.line(_steps(axes, [(at_s, count.desired) for at_s, count in inside], last_s), "bound")


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
