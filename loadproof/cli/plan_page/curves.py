"""Latency over throughput, one panel a latency: mean with the grade's band, the tail, objectives and knees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from benchmarks.report.svg import LINE_PX, Plot, Spot, plot
from benchmarks.report.wording import SHORT, latency_of, number, objective_title
from loadproof.capacity import Plan, PredictedLevel

# A roomy drawing for a column of a wide page and a tight one for a phone or paper: text keeps its size in both.
SIZES_PX = {"roomy": (560.0, 310.0), "tight": (360.0, 290.0)}
FAR_BOUND = 2.0  # an objective this many times past everything drawn is named at the edge, not drawn to scale
_NEAR_MARK = ((0, -9, "middle"), (8, -6, "start"), (-8, -6, "end"), (9, 4, "start"), (0, 19, "middle"), (-9, 4, "end"))
_KNEE_NOTE = ((12, 24, "start"), (-12, -22, "end"), (12, -22, "start"), (-12, 34, "end"), (0, 42, "middle"))


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel: its mark, class, name in the legend, and the latency of each level in ms."""

    name: str
    css: str
    shape: str
    values_ms: tuple[float, ...]


def curve(plan: Plan, latency: str) -> Markup:
    """Both sizes of the panel of `ttft`, `tpot` or `e2e`; empty where no level can be served."""
    return Markup("\n").join(_panel(plan, latency, size) for size in SIZES_PX) if plan.levels else Markup("")


def series_of(plan: Plan, latency: str) -> list[Series]:
    """The mean, and for TTFT the last of a batch, which its percentile objectives are judged by, where it differs."""
    means = tuple(mean_ms(level, latency) for level in plan.levels)
    last = tuple(level.ttft_last_ms for level in plan.levels)
    if latency != "ttft":
        return [Series("mean", "mean", "circle", means)]
    if last == means:
        return [Series("mean and last of a batch", "mean", "circle", means)]
    return [Series("last of a batch", "tail", "square", last), Series("mean", "mean", "circle", means)]


def mean_ms(level: PredictedLevel, latency: str) -> float:
    value: float = getattr(level, f"{latency}_ms")
    return value


def bounds_of(plan: Plan, latency: str) -> list[tuple[str, float]]:
    """(`p95`, bound in ms) of each objective on this latency; a gap between tokens (ITL) is drawn with TPOT."""
    found = []
    for row in plan.outlook:
        named = latency_of(row.name)
        if named and named[0] in (latency, "itl" if latency == "tpot" else latency):
            found.append((objective_title(row.name), row.bound))
    return found


def _panel(plan: Plan, latency: str, size: str) -> Markup:
    series = series_of(plan, latency)
    band = [plan.confidence.interval(value, ttft=latency == "ttft") for value in series[-1].values_ms]
    drawn = max(high for _, high in band)
    drawn = max(drawn, *(value for one in series for value in one.values_ms))
    bounds = bounds_of(plan, latency)
    near = [(name, bound) for name, bound in bounds if bound <= FAR_BOUND * drawn]
    far = [(name, bound) for name, bound in bounds if bound > FAR_BOUND * drawn]
    top = max([drawn, *(bound for _, bound in near)]) * (1.2 if far else 1.1)
    right = max(level.output_tokens_per_s for level in plan.levels) * 1.06
    axes = plot(SIZES_PX[size], (right, top), ("output tokens per second", f"{SHORT[latency]} (ms)"))

    _draw_band(axes, plan, band)
    for one in series:
        _draw_series(axes, plan, one, SHORT[latency])
    _draw_bounds(axes, near, far)
    _draw_knees(axes, plan, series[-1])
    for level, value in zip(plan.levels, series[0].values_ms, strict=True):
        at = axes.at(level.output_tokens_per_s, value)
        axes.drawing.place(str(level.concurrency), _spots(at, _NEAR_MARK), "level")
    return axes.drawing.markup(f"panel {size}")


def _draw_band(axes: Plot, plan: Plan, band: Sequence[tuple[float, float]]) -> None:
    rates = [level.output_tokens_per_s for level in plan.levels]
    lower = [axes.at(rate, low) for rate, (low, _) in zip(rates, band, strict=True)]
    upper = [axes.at(rate, high) for rate, (_, high) in zip(rates, band, strict=True)]
    axes.drawing.area([*upper, *reversed(lower)], "band", tip=f"range of grade {plan.grade}")


def _draw_series(axes: Plot, plan: Plan, series: Series, latency: str) -> None:
    points = [
        axes.at(level.output_tokens_per_s, value) for level, value in zip(plan.levels, series.values_ms, strict=True)
    ]
    axes.drawing.line(points, f"series {series.css}")
    for level, value, at in zip(plan.levels, series.values_ms, points, strict=True):
        tip = (
            f"{level.concurrency} in flight: {latency} {series.name} {number(value)} ms "
            f"at {number(level.output_tokens_per_s)} tokens/s, predicted"
        )
        axes.drawing.mark(at, series.shape, 8, f"mark {series.css}", tip=tip)


def _draw_bounds(axes: Plot, near: Sequence[tuple[str, float]], far: Sequence[tuple[str, float]]) -> None:
    """Dotted lines with their words; a bound far off is named at the upper edge instead of squeezing the curve flat."""
    left, right = axes.x.start_px, axes.x.end_px
    if far:
        said = "; ".join(f"{name} ≤ {number(bound)} ms" for name, bound in far)
        axes.drawing.place(f"↑ {said} (off this chart)", [(right, axes.y.end_px + LINE_PX, "end")], "bound-name")
    for name, bound in near:
        y = axes.y.at(bound)
        axes.drawing.line([(left, y), (right, y)], "bound", tip=f"objective: {name} ≤ {number(bound)} ms")
        spots = [(x, y + down, anchor) for down in (-5, 15) for x, anchor in ((left + 5, "start"), (right, "end"))]
        axes.drawing.place(f"{name} ≤ {number(bound)} ms", spots, "bound-name")


def _draw_knees(axes: Plot, plan: Plan, series: Series) -> None:
    """A ring around each knee's mark, with the rules that chose it; a knee beyond the levels has no place here."""
    for concurrency, rules in knees_by_level(plan).items():
        for level, value in zip(plan.levels, series.values_ms, strict=True):
            if level.concurrency == concurrency:
                at = axes.at(level.output_tokens_per_s, value)
                axes.drawing.mark(at, "circle", 18, "knee")
                axes.drawing.place(f"knee: {', '.join(rules)}", _spots(at, _KNEE_NOTE), "knee-name")


def knees_by_level(plan: Plan) -> dict[int, list[str]]:
    """The rules that chose a level, by its concurrency."""
    found: dict[int, list[str]] = {}
    for knee in [plan.knee] if plan.knee else []:
        if knee.reached:
            found.setdefault(knee.concurrency, []).append(knee.rule)
    return found


def _spots(at: tuple[float, float], offsets: Sequence[tuple[float, float, str]]) -> list[Spot]:
    return [(at[0] + right, at[1] + down, anchor) for right, down, anchor in offsets]
