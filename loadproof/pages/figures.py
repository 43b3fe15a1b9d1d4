"""Line charts of one kind: series with marks, bounds, a band and a ring, drawn in two sizes that the page chooses from.

Rules: measured is solid with filled marks, predicted dashed with open marks, a bound dotted. No untrusted text goes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from loadproof.pages.looks import Look
from loadproof.pages.svg import LINE_PX, Drawing, Plot, Point, Spot, plot
from loadproof.pages.wording import number

_NEAR_MARK = ((0, -9, "middle"), (8, -6, "start"), (-8, -6, "end"), (9, 4, "start"), (0, 19, "middle"), (-9, 4, "end"))
_PAST_RING = (
    (0, -13, "middle"),
    (13, -8, "start"),
    (-13, -8, "end"),
    (14, 5, "start"),
    (0, 25, "middle"),
    (-14, 5, "end"),
)
_RING_NOTE = ((-16, -26, "end"), (12, 24, "start"), (12, -22, "start"), (-12, 34, "end"), (-12, -40, "end"))


@dataclass(frozen=True, slots=True)
class FigureSize:
    """How large a figure is drawn: roomy for a column of a wide page, tight for a phone or paper, text alike in both.

    `room` is the height over the highest data, `far_room` that with words at the edge: a bound that is `far_bound`
    times past all data is named there instead of squeezing the curve flat.
    """

    roomy: tuple[float, float] = (560.0, 310.0)
    tight: tuple[float, float] = (360.0, 270.0)
    far_bound: float = 2.5
    room: float = 1.12
    far_room: float = 1.22

    @property
    def sizes_px(self) -> dict[str, tuple[float, float]]:
        """By the class that shows or hides a drawing."""
        return {"roomy": self.roomy, "tight": self.tight}


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """One point of a series; `y` None is a gap. `tip` shows on hover, `words` stand beside it; what is not `valid` is
    hollow and dotted."""

    x: float
    y: float | None
    tip: str = ""
    words: str = ""
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a figure. `words_css`: the class of the words beside its marks, which are bold unless it has one."""

    name: str
    look: Look
    marks: tuple[FigurePoint, ...]
    words_css: str = ""
    bold: bool = True

    @property
    def has_data(self) -> bool:
        return any(mark.y is not None for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart before it is drawn. `bounds`: (words, y). `rings`: (words, x, y). `band`: (x, low, high) in rising x.

    `x_ticks`, (value, words), make x logarithmic. A band is cut where it reaches far past the series, unless it is to
    be seen whole.
    """

    titles: tuple[str, str]
    series: tuple[Series, ...]
    bounds: tuple[tuple[str, float], ...] = ()
    x_ticks: tuple[tuple[float, str], ...] = ()
    rings: tuple[tuple[str, float, float], ...] = ()
    band: tuple[tuple[float, float, float], ...] = ()
    band_name: str = "range of the prediction"
    whole_band: bool = False
    frame: FigureSize = FigureSize()

    @property
    def drawn(self) -> tuple[Series, ...]:
        return tuple(one for one in self.series if one.has_data)

    @property
    def highest(self) -> float:
        """The highest value of any series, and of a band that is seen whole."""
        band = [high for _, _, high in self.band if self.whole_band]
        return max([*band, *(mark.y for one in self.drawn for mark in one.marks if mark.y is not None)], default=0.0)


def figure_of(figure: Figure) -> Figure | None:
    """The figure, or None where no series has data."""
    return figure if figure.drawn else None


def draw(figure: Figure) -> Markup:
    """Both sizes of the drawing and its legend."""
    return Markup("\n").join([legend(figure), panels(figure)])


def panels(figure: Figure) -> Markup:
    """Both sizes of the drawing."""
    return Markup("\n").join(_panel(figure, size) for size in figure.frame.sizes_px)


def legend(figure: Figure) -> Markup:
    """The series by name, each with its line and mark."""
    items = [f"<li>{swatch(one.look)}{escape(one.name)}</li>" for one in figure.drawn]
    if figure.band:
        box = '<rect class="band" x="0" y="2" width="26" height="10"/>'
        items.append(f'<li><svg class="swatch" viewBox="0 0 26 14">{box}</svg>{figure.band_name}</li>')
    return Markup(f'<ul class="legend">{"".join(items)}</ul>')


def swatch(look: Look) -> Markup:
    """A piece of line with a mark on it."""
    drawing = Drawing(26, 14)
    drawing.line([(0, 7), (26, 7)], f"series {look.css}")
    drawing.mark((13, 7), look.shape, min(look.size_px, 9), f"mark {look.css}")
    return drawing.markup("swatch")


def _panel(figure: Figure, size: str) -> Markup:
    frame, highest = figure.frame, figure.highest
    near = [(words, y) for words, y in figure.bounds if y <= frame.far_bound * highest]
    far = [words for words, y in figure.bounds if y > frame.far_bound * highest]
    top = max([highest, *(y for _, y in near), *(min(high, 1.3 * highest) for _, _, high in figure.band)])
    right = max(mark.x for one in figure.drawn for mark in one.marks)
    highs = _room(1.06 * right), _room(top * (frame.far_room if far else frame.room))
    axes = plot(frame.sizes_px[size], highs, figure.titles, figure.x_ticks)
    _draw_band(axes, figure, highs[1])
    for one in figure.drawn:
        _draw_series(axes, one)
    _draw_bounds(axes, near, far)
    for words, x, y in figure.rings:
        axes.drawing.mark(axes.at(x, y), "circle", 2 * figure.drawn[0].look.size_px + 2, "knee")
        axes.drawing.place(words, _spots(axes.at(x, y), _RING_NOTE), "knee-name")
    ringed = {x for _, x, _ in figure.rings}
    for one in sorted(figure.drawn, key=lambda series: not series.bold):  # bold words find the better places
        for mark in one.marks:
            if mark.words and mark.y is not None:
                spots = _spots(axes.at(mark.x, mark.y), _PAST_RING if mark.x in ringed else _NEAR_MARK)
                axes.drawing.place(mark.words, spots, one.words_css, bold=one.bold)
    return axes.drawing.markup(f"panel {size}")


def _room(high: float) -> float:
    """An axis needs some length: figures are given to nine decimals, and what is below that is 0."""
    return high if high > 1e-9 else 1.0


def _draw_band(axes: Plot, figure: Figure, highest: float) -> None:
    """The band, cut at the drawing's edge, and its height at each x: where x stands still the band has no width."""
    lower = [axes.at(x, min(low, highest)) for x, low, _ in figure.band]
    upper = [axes.at(x, min(high, highest)) for x, _, high in figure.band]
    if figure.band:
        axes.drawing.area([*upper, *reversed(lower)], "band", tip=figure.band_name)
    for one, other in zip(lower, upper, strict=True):
        axes.drawing.line([one, other], "whisker", behind_words=True)


def _draw_series(axes: Plot, series: Series) -> None:
    """Lines between marks, broken at gaps."""
    stretch: list[Point] = []
    for mark in (*series.marks, None):
        if mark is None or mark.y is None:
            if len(stretch) > 1:
                axes.drawing.line(stretch, f"series {series.look.css}")
            stretch = []
        else:
            stretch.append(axes.at(mark.x, mark.y))
    for mark in series.marks:
        if mark.y is not None:
            css = f"mark {series.look.css}{'' if mark.valid else ' invalid'}"
            axes.drawing.mark(axes.at(mark.x, mark.y), series.look.shape, series.look.size_px, css, tip=mark.tip)


def _draw_bounds(axes: Plot, near: Sequence[tuple[str, float]], far: Sequence[str]) -> None:
    """Dotted lines with their words."""
    left, right = axes.x.start_px, axes.drawing.width_px - 14
    if far:
        said = f"↑ {'; '.join(far)} (off this chart)"
        axes.drawing.place(said, [(right, axes.y.end_px + LINE_PX, "end")], "bound-name")
    for words, bound in near:
        y = axes.y.at(bound)
        axes.drawing.line([(left, y), (right, y)], "bound", tip=f"objective: {words.removeprefix('objective ')}")
        spots = [(x, y + down, anchor) for down in (-5, 15) for x, anchor in ((left + 5, "start"), (right, "end"))]
        axes.drawing.place(words, spots, "bound-name")


def _spots(at: Point, offsets: Sequence[tuple[float, float, str]]) -> list[Spot]:
    return [(at[0] + right, at[1] + down, anchor) for right, down, anchor in offsets]


def levels_ticks(levels: Sequence[int]) -> tuple[tuple[float, str], ...]:
    """A tick for each level, thinned where their words would touch; the last one stays."""
    kept: list[int] = []
    for level in sorted(set(levels)):
        if not kept or level >= 1.35 * kept[-1]:
            kept.append(level)
    if levels and kept[-1] != max(levels):
        kept[-1] = max(levels)
    return tuple((float(level), f"{level:,}") for level in kept)


def tip_of(name: str, value: float | None, unit: str, place: str) -> str:
    """`p95 measured: 412 ms at 8 in flight`."""
    return f"{name}: {number(value)} {unit} at {place}"
