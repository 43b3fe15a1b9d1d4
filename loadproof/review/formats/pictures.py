"""Latency over throughput, before and after: one panel a latency, everything predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from loadproof.pages.svg import LINE_PX, Plot, Point, Spot, plot
from loadproof.pages.wording import SHORT, latency_of, number
from loadproof.review import wording
from loadproof.review.shapes import ProfileDocument

LATENCIES: Final = ("ttft", "tpot", "e2e")
# A roomy drawing for a wide page and a tight one for a phone or paper: text keeps its size in both.
SIZES_PX: Final = {"roomy": (370.0, 270.0), "tight": (340.0, 270.0)}
FAR_BOUND: Final = 2.0  # an objective this many times past everything drawn is named at the edge, not drawn to scale
_NEAR: Final = ((0, -9, "middle"), (9, 4, "start"), (-9, 4, "end"), (0, 19, "middle"))
_Levels = Sequence[dict[str, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """One side's curve: its name in the legend, class, mark and size of mark."""

    name: str
    css: str
    shape: str
    size_px: float
    levels: _Levels


def series_of(profile: ProfileDocument) -> list[Series]:
    """Both sides, or one series where they are alike; empty where nothing is predicted."""
    before, after = profile["curves"]["before"], profile["curves"]["after"]
    if before == after:
        return [Series("before and after, alike", "after", "circle", 8, after)] if after else []
    sides = (Series("before", "before", "square", 9, before), Series("after", "after", "circle", 8, after))
    return [side for side in sides if side.levels]


def pictures(profile: ProfileDocument) -> dict[str, Markup]:
    """Both sizes of each latency's panel, by latency; one without figures is not among them."""
    series = series_of(profile)
    return {
        latency: Markup("\n").join(_panel(profile, series, latency, size) for size in SIZES_PX)
        for latency in LATENCIES
        if any(level[f"{latency}_ms"] > 0 for one in series for level in one.levels)
    }


def _panel(profile: ProfileDocument, series: Sequence[Series], latency: str, size: str) -> Markup:
    levels = [level for one in series for level in one.levels]
    highest = max(level[f"{latency}_ms"] for level in levels)
    bounds = sorted(_bounds(profile, latency))
    near = [bound for bound in bounds if bound[0] <= FAR_BOUND * highest]
    far = [words for bound, words in bounds if bound > FAR_BOUND * highest]
    top = max([highest, *(bound for bound, _ in near)]) * (1.2 if far else 1.12)
    right = max(level["output_tokens_per_s"] for level in levels) * 1.06
    axes = plot(SIZES_PX[size], (right, top), ("output tokens per second", f"{SHORT[latency]} (ms)"))
    for one in series:
        _draw_series(axes, one, latency)
    _draw_bounds(axes, near, far)
    for one in reversed(series):  # the head's numbers first: they find the better places
        for level in one.levels:
            at = axes.at(level["output_tokens_per_s"], level[f"{latency}_ms"])
            axes.drawing.place(f"{level['concurrency']:,}", _spots(at), one.css, bold=one.css == "after")
    return axes.drawing.markup(f"panel {size}")


def _bounds(profile: ProfileDocument, latency: str) -> Iterator[tuple[float, str]]:
    """The head's objectives on this latency; those on gaps between tokens (ITL) are drawn with TPOT."""
    drawn_here = {"ttft": ("ttft",), "tpot": ("tpot", "itl"), "e2e": ("e2e",)}[latency]
    for row in profile["objectives"]:
        named, after = latency_of(row["name"]), row["after"]
        if named and named[0] in drawn_here and after and after["bound"]:
            yield after["bound"], f"{wording.title(row)} {wording.bound(row, after)}"


def _draw_series(axes: Plot, series: Series, latency: str) -> None:
    points = [axes.at(level["output_tokens_per_s"], level[f"{latency}_ms"]) for level in series.levels]
    axes.drawing.line(points, f"series {series.css}")
    for level, at in zip(series.levels, points, strict=True):
        tip = (
            f"{series.name}: {level['concurrency']:,} in flight: {SHORT[latency]} {number(level[f'{latency}_ms'])} ms "
            f"at {number(level['output_tokens_per_s'])} tokens/s, predicted"
        )
        axes.drawing.mark(at, series.shape, series.size_px, f"mark {series.css}", tip=tip)


def _draw_bounds(axes: Plot, near: Sequence[tuple[float, str]], far: Sequence[str]) -> None:
    """Dotted lines with their words; a bound far off is named at the upper edge instead of squeezing the curve flat."""
    left, right = axes.x.start_px, axes.x.end_px
    if far:
        said = f"↑ {'; '.join(far)} (off this chart)"
        axes.drawing.place(said, [(right, axes.y.end_px + LINE_PX, "end")], "bound-name")
    for bound, words in near:
        y = axes.y.at(bound)
        axes.drawing.line([(left, y), (right, y)], "bound", tip=f"objective: {words}")
        spots = [(x, y + down, anchor) for down in (-5, 15) for x, anchor in ((left + 5, "start"), (right, "end"))]
        axes.drawing.place(words, spots, "bound-name")


def _spots(at: Point) -> list[Spot]:
    return [(at[0] + right, at[1] + down, anchor) for right, down, anchor in _NEAR]
