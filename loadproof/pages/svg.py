"""Small SVG charts as text: scales, lines, bands, bars, marks, and words that never lie on one another.

Sizes are pixels of the drawing. Colours are classes that the page's style sheet knows, so that one drawing serves
light, dark and paper. A drawing needs no script: `tip` becomes the `<title>` that browsers show on hover.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, hypot, log, log10

from markupsafe import Markup, escape

# Of one character at 12 px in a wide system font, plain and bold, and of a line of text.
CHARACTER_PX, BOLD_PX, LINE_PX = 7.2, 8.4, 15.0
GAP_PX = 4.0  # between words on one line
_TICK_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_INK_EVERY_PX, _CELL_PX = 6.0, 16.0
Point = tuple[float, float]
Spot = tuple[float, float, str]  # x, baseline y, text-anchor


@dataclass(frozen=True, slots=True)
class Scale:
    """Data to pixels from zero on: 0 lands on `start_px` and `high` on `end_px`."""

    high: float
    start_px: float
    end_px: float

    def at(self, value: float) -> float:
        return self.start_px + value / self.high * (self.end_px - self.start_px)


@dataclass(frozen=True, slots=True)
class LogScale:
    """Data to pixels, each doubling as wide: `low` (above 0) lands on `start_px` and `high` on `end_px`."""

    low: float
    high: float
    start_px: float
    end_px: float

    def at(self, value: float) -> float:
        if self.high <= self.low:
            return (self.start_px + self.end_px) / 2
        return self.start_px + log(value / self.low) / log(self.high / self.low) * (self.end_px - self.start_px)


def ticks(high: float, most: int) -> list[float]:
    """Round numbers from 0 up to `high`, at most `most` + 1: steps of 1, 2, 2.5 or 5 times a power of ten."""
    if high <= 0:
        return [0.0]
    power = 10.0 ** floor(log10(high / most))
    step = next(factor * power for factor in _TICK_STEPS if factor * power * most >= high * (1 - 1e-9))
    return [index * step for index in range(int(high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Box:
    """What words cover."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def holds(self, point: Point) -> bool:
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


def width_of(text: str, *, bold: bool = False) -> float:
    """About how wide a line of text is, in px; on the generous side."""
    return len(text) * (BOLD_PX if bold else CHARACTER_PX)


def box_of(text: str, spot: Spot, *, bold: bool = False) -> Box:
    x, baseline, anchor = spot
    width = width_of(text, bold=bold)
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return Box(left, baseline - 0.8 * LINE_PX, left + width, baseline + 0.2 * LINE_PX)


class Ink:
    """Points that are drawn on, in square cells: a label looks at those near it, not at all of a drawing's."""

    def __init__(self) -> None:
        self._cells: defaultdict[tuple[int, int], list[Point]] = defaultdict(list)

    def add(self, points: Iterable[Point]) -> None:
        for point in points:
            self._cells[floor(point[0] / _CELL_PX), floor(point[1] / _CELL_PX)].append(point)

    def below(self, box: Box) -> int:
        """How many points the box holds, its edges with it."""
        columns = range(floor(box.left / _CELL_PX), floor(box.right / _CELL_PX) + 1)
        rows = range(floor(box.top / _CELL_PX), floor(box.bottom / _CELL_PX) + 1)
        return sum(box.holds(point) for x in columns for y in rows for point in self._cells.get((x, y), ()))


class Drawing:
    """An SVG of a fixed size. Shapes are drawn in the order given; words lie above all of them."""

    def __init__(self, width_px: float, height_px: float) -> None:
        self.width_px, self.height_px = width_px, height_px
        self._shapes: list[str] = []
        self._texts: list[str] = []
        self._words: list[Box] = []
        self._ink = Ink()

    def line(self, points: Sequence[Point], css: str, *, tip: str = "", behind_words: bool = False) -> None:
        """An open line through the points; `behind_words` says that words may well lie on it, as on a grid."""
        self._shapes.append(_element("polyline", css, tip, points=_points(points), fill="none"))
        for one, other in pairwise(() if behind_words else points):
            self._ink.add(_along(one, other))

    def area(self, points: Sequence[Point], css: str, *, tip: str = "") -> None:
        """A filled polygon; words may lie on it."""
        self._shapes.append(_element("polygon", css, tip, points=_points(points)))

    def bar(self, left: float, top: float, width: float, height: float, css: str, *, tip: str = "") -> None:
        """A filled rectangle; words may lie on it."""
        box = {"x": _px(left), "y": _px(top), "width": _px(width), "height": _px(height)}
        self._shapes.append(_element("rect", css, tip, **box))

    def mark(self, at: Point, shape: str, size_px: float, css: str, *, tip: str = "") -> None:
        """A `circle`, `square`, `diamond`, `triangle` or `cross` centred on a point."""
        self._shapes.append(_element("path", css, tip, d=_mark_path(at, shape, size_px / 2)))
        reach = size_px / 2 + 1
        self._ink.add((at[0] + x * reach, at[1] + y * reach) for x in (-1, 0, 1) for y in (-1, 0, 1))

    def marks(self, points: Iterable[Point], shape: str, size_px: float, css: str) -> None:
        """Any number of marks as one shape; words may lie on them."""
        path = "".join(_mark_path(at, shape, size_px / 2) for at in points)
        self._shapes.append(_element("path", css, "", d=path))

    def write(self, text: str, spot: Spot, css: str = "", *, bold: bool = False) -> None:
        """Words at this very place."""
        x, baseline, anchor = spot
        place = {"x": _px(x), "y": _px(baseline), "text-anchor": anchor}
        self._texts.append(_element("text", f"{css} bold".strip() if bold else css, "", inner=text, **place))
        self._words.append(box_of(text, spot, bold=bold))

    def place(self, text: str, spots: Iterable[Spot], css: str = "", *, bold: bool = False) -> bool:
        """Words at that of the spots which covers least ink, the first of equals; nothing is drawn, and False is
        returned, where every spot lies on other words or leaves the drawing."""
        boxes = [(spot, box_of(text, spot, bold=bold)) for spot in spots]
        free = [(spot, box) for spot, box in boxes if self._is_free(box)]
        if not free:
            return False
        spot, _ = min(free, key=lambda one: self._ink.below(one[1]))
        self.write(text, spot, css, bold=bold)
        return True

    def _is_free(self, box: Box) -> bool:
        inside = box.left >= 0 and box.top >= 0 and box.right <= self.width_px and box.bottom <= self.height_px
        wider = Box(box.left - GAP_PX, box.top, box.right + GAP_PX, box.bottom)
        return inside and not any(wider.meets(words) for words in self._words)

    def markup(self, css: str) -> Markup:
        """The `<svg>` element, hidden from screen readers: the figure around it says what it shows."""
        size = f"{self.width_px:g} {self.height_px:g}"
        body = "\n".join([*self._shapes, *self._texts])
        return Markup(f'<svg class="{css}" viewBox="0 0 {size}" aria-hidden="true" focusable="false">\n{body}\n</svg>')


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with axes: its scales say where data lands."""

    drawing: Drawing
    x: Scale | LogScale
    y: Scale

    def at(self, x: float, y: float) -> Point:
        return self.x.at(x), self.y.at(y)


def plot(
    size_px: tuple[float, float],
    highs: tuple[float, float],
    titles: tuple[str, str],
    x_ticks: Sequence[tuple[float, str]] = (),
    margin_px: float = 0.0,
) -> Plot:
    """Axes from zero to `highs` (x, y), with a grid, round ticks and titles: y's above its axis, x's below its own.

    `x_ticks`, (value above 0, its words) in rising order, make x logarithmic, from the first to the last of them.
    `margin_px` is the least room left of the y axis: plots that stand below each other share the widest.
    """
    drawing = Drawing(*size_px)
    y_ticks, right = ticks(highs[1], 5), size_px[0] - 14
    left = max(margin_px, margin_of(highs[1]))
    y = Scale(highs[1], size_px[1] - 2.6 * LINE_PX, 1.7 * LINE_PX)
    x: Scale | LogScale = Scale(highs[0], left, right)
    if x_ticks:
        x = LogScale(x_ticks[0][0], x_ticks[-1][0], left + 12, right - 10)
    for tick in y_ticks:
        _rule(drawing, [(left, y.at(tick)), (right, y.at(tick))], is_axis=tick == 0)
        drawing.write(tick_text(tick), (left - 6, y.at(tick) + 4, "end"))
    for tick, words in x_ticks or _round_ticks(highs[0], size_px[0]):
        _rule(drawing, [(x.at(tick), y.start_px), (x.at(tick), y.end_px)], is_axis=tick == 0)
        inside = min(x.at(tick), size_px[0] - width_of(words) / 2)  # the last one may reach past the edge
        drawing.write(words, (inside, y.start_px + 1.1 * LINE_PX, "middle"))
    drawing.write(titles[0], ((left + right) / 2, y.start_px + 2.3 * LINE_PX, "middle"))
    drawing.write(titles[1], (2, 0.8 * LINE_PX, "start"))
    return Plot(drawing, x, y)


def margin_of(high: float) -> float:
    """The room that the y axis needs for its words, in px."""
    return max(width_of(tick_text(tick)) for tick in ticks(high, 5)) + 8


def _round_ticks(high: float, width_px: float) -> list[tuple[float, str]]:
    """As many as have room for their words."""
    room_px = max(90.0, width_of(f"{high:,.2f}") + 20)
    return [(tick, tick_text(tick)) for tick in ticks(high, max(2, int(width_px // room_px)))]


def _rule(drawing: Drawing, ends: Sequence[Point], *, is_axis: bool) -> None:
    drawing.line(ends, "axis" if is_axis else "grid", behind_words=not is_axis)


def tick_text(tick: float) -> str:
    """`1,500`, `0.25`: a tick without needless zeros."""
    return f"{tick:,.4f}".rstrip("0").rstrip(".")


def _element(name: str, css: str, tip: str, *, inner: str = "", **attributes: str) -> str:
    said = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<{name} class="{css}"{said}>{title}{escape(inner)}</{name}>'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_px(x)},{_px(y)}" for x, y in points)


def _along(one: Point, other: Point) -> list[Point]:
    steps = max(1, int(hypot(other[0] - one[0], other[1] - one[1]) / _INK_EVERY_PX))
    return [
        (one[0] + step / steps * (other[0] - one[0]), one[1] + step / steps * (other[1] - one[1]))
        for step in range(steps + 1)
    ]


def _mark_path(at: Point, shape: str, r: float) -> str:
    x, y = at
    if shape == "circle":
        return f"M{_px(x - r)} {_px(y)}a{_px(r)} {_px(r)} 0 1 0 {_px(2 * r)} 0a{_px(r)} {_px(r)} 0 1 0 {_px(-2 * r)} 0z"
    if shape == "cross":
        return (
            f"M{_px(x - r)} {_px(y - r)}L{_px(x + r)} {_px(y + r)}M{_px(x - r)} {_px(y + r)}L{_px(x + r)} {_px(y - r)}"
        )
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
        "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    }[shape]
    return "M" + "L".join(f"{_px(x + right * r)} {_px(y + down * r)}" for right, down in corners) + "z"
