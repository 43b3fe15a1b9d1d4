"""Latency over throughput, one panel a latency: mean with the grade's band, the tail, objectives and knees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from loadproof.advice.page.levels import knees_by_level, rows_of
from loadproof.capacity import Plan, PredictedLevel
from loadproof.pages.svg import LINE_PX, Plot, Point, Spot, plot
from loadproof.pages.wording import SHORT, latency_of, number, objective_title

# A roomy drawing for a column of a wide page and a tight one for a phone or paper: text keeps its size in both.
SIZES_PX = {"roomy": (560.0, 310.0), "tight": (360.0, 290.0)}
FAR_BOUND = 2.0  # an objective this many times past everything drawn is named at the edge, not drawn to scale
_NEAR_MARK = ((0, -9, "middle"), (8, -6, "start"), (-8, -6, "end"), (9, 4, "start"), (0, 19, "middle"), (-9, 4, "end"))
_NEAR_RING = (
    (0, -13, "middle"),
    (13, -8, "start"),
    (-13, -8, "end"),
    (14, 5, "start"),
    (0, 25, "middle"),
    (-14, 5, "end"),
)
_KNEE_NOTE = ((-16, -26, "end"), (12, 24, "start"), (12, -22, "start"), (-12, 34, "end"), (-12, -40, "end"))


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel: its name in the legend, class, mark, and the latency of each level in ms."""

    name: str
    css: str
    shape: str
    values_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """An objective's upper bound on a latency, with the name it is shown by."""

    name: str
    bound_ms: float

    def __str__(self) -> str:
        return f"{self.name} ≤ {number(self.bound_ms)} ms"


def curve(plan: Plan, latency: str) -> Markup:
    """Both sizes of the panel of `ttft`, `tpot` or `e2e`; empty where no level has any (answers that come whole have no
    TPOT)."""
    if not any(mean_ms(level, latency) > 0 for level in plan.levels):
        return Markup("")
    return Markup("\n").join(_panel(plan, latency, size) for size in SIZES_PX)


def series_of(plan: Plan, latency: str) -> list[Series]:
    """The mean, and for TTFT the last of a batch, which its percentile objectives are judged by, where it differs."""
    levels = [row.level for row in rows_of(plan)]
    means = tuple(mean_ms(level, latency) for level in levels)
    last = tuple(level.ttft_last_ms for level in levels)
    if latency != "ttft":
        return [Series("mean", "mean", "circle", means)]
    if last == means:
        return [Series("mean and last of a batch", "mean", "circle", means)]
    return [Series("last of a batch", "tail", "square", last), Series("mean", "mean", "circle", means)]


def mean_ms(level: PredictedLevel, latency: str) -> float:
    value: float = getattr(level, f"{latency}_ms")
    return value


def bounds_of(plan: Plan, latency: str) -> list[Bound]:
    """The objectives on this latency; those on gaps between tokens (ITL) are drawn with TPOT."""
    drawn_here = {"ttft": ("ttft",), "tpot": ("tpot", "itl"), "e2e": ("e2e",)}[latency]
    named = [(latency_of(row.name), row) for row in plan.outlook]
    return [Bound(objective_title(row.name), row.bound) for name, row in named if name and name[0] in drawn_here]


def _panel(plan: Plan, latency: str, size: str) -> Markup:
    levels, series = [row.level for row in rows_of(plan)], series_of(plan, latency)
    band = [
        plan.confidence.range_of(f"{latency}_ms", value, near_limit=level.near_limit)
        for level, value in zip(levels, series[-1].values_ms, strict=True)
    ]
    tops = [high for _, high in band]
    highest = max(*tops, *(value for one in series for value in one.values_ms))
    bounds = bounds_of(plan, latency)
    near = [one for one in bounds if one.bound_ms <= FAR_BOUND * highest]
    far = [one for one in bounds if one.bound_ms > FAR_BOUND * highest]
    top = max([highest, *(one.bound_ms for one in near)]) * (1.2 if far else 1.1)
    right = max(level.output_tokens_per_s for level in levels) * 1.06
    axes = plot(SIZES_PX[size], (right, top), ("output tokens per second", f"{SHORT[latency]} (ms)"))

    _draw_band(axes, levels, band, f"range of grade {plan.grade}")
    for one in series:
        _draw_series(axes, levels, one, SHORT[latency])
    _draw_bounds(axes, near, far)
    knees = knees_by_level(plan)
    _draw_knees(axes, levels, series[-1], knees)
    for level, value in zip(levels, series[0].values_ms, strict=True):
        at = axes.at(level.output_tokens_per_s, value)
        offsets = _NEAR_RING if level.concurrency in knees else _NEAR_MARK
        axes.drawing.place(f"{level.concurrency:,}", _spots(at, offsets), bold=True)
    return axes.drawing.markup(f"panel {size}")


def _draw_band(axes: Plot, levels: Sequence[PredictedLevel], band: Sequence[tuple[float, float]], words: str) -> None:
    """The band, and its height at each level: where throughput stands still the band itself has no width."""
    lower, upper = [], []
    for level, (low, high) in zip(levels, band, strict=True):
        lower.append(axes.at(level.output_tokens_per_s, low))
        upper.append(axes.at(level.output_tokens_per_s, high))
    axes.drawing.area([*upper, *reversed(lower)], "band", tip=words)
    for low_point, high_point in zip(lower, upper, strict=True):
        axes.drawing.line([low_point, high_point], "whisker", behind_words=True)


def _draw_series(axes: Plot, levels: Sequence[PredictedLevel], series: Series, latency: str) -> None:
    points = [axes.at(level.output_tokens_per_s, value) for level, value in zip(levels, series.values_ms, strict=True)]
    axes.drawing.line(points, f"series {series.css}")
    for level, value, at in zip(levels, series.values_ms, points, strict=True):
        tip = (
            f"{level.concurrency:,} in flight: {latency} {series.name} {number(value)} ms "
            f"at {number(level.output_tokens_per_s)} tokens/s, predicted"
        )
        axes.drawing.mark(at, series.shape, 8, f"mark {series.css}", tip=tip)


def _draw_bounds(axes: Plot, near: Sequence[Bound], far: Sequence[Bound]) -> None:
    """Dotted lines with their words; a bound far off is named at the upper edge instead of squeezing the curve flat."""
    left, right = axes.x.start_px, axes.x.end_px
    if far:
        said = f"↑ {'; '.join(map(str, far))} (off this chart)"
        axes.drawing.place(said, [(right, axes.y.end_px + LINE_PX, "end")], "bound-name")
    for one in near:
        y = axes.y.at(one.bound_ms)
        axes.drawing.line([(left, y), (right, y)], "bound", tip=f"objective: {one}")
        spots = [(x, y + down, anchor) for down in (-5, 15) for x, anchor in ((left + 5, "start"), (right, "end"))]
        axes.drawing.place(str(one), spots, "bound-name")


def _draw_knees(axes: Plot, levels: Sequence[PredictedLevel], series: Series, knees: dict[int, list[str]]) -> None:
    """A ring around each knee's mark, with the rules that chose it."""
    for level, value in zip(levels, series.values_ms, strict=True):
        if level.concurrency in knees:
            at = axes.at(level.output_tokens_per_s, value)
            axes.drawing.mark(at, "circle", 18, "knee")
            axes.drawing.place(f"knee: {', '.join(knees[level.concurrency])}", _spots(at, _KNEE_NOTE), "knee-name")


def _spots(at: Point, offsets: Sequence[tuple[float, float, str]]) -> list[Spot]:
    return [(at[0] + right, at[1] + down, anchor) for right, down, anchor in offsets]
