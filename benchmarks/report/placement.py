"""Where words fit on a chart: of several places, the one that covers the least of the series.

Works on a nominal plot, since the page's real size is known only to the browser; the words keep a ground of their own
for the rest. Coordinates run from 0 to 1, left to right and bottom to top.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

PLOT_PX = (430.0, 200.0)
CHARACTER_PX, LINE_PX = 6.6, 16.0
STEPS = 24  # samples along one segment of a line
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that words would take."""

    left: float
    bottom: float
    width: float
    height: float

    def holds(self, point: Point) -> bool:
        return self.left <= point[0] <= self.left + self.width and self.bottom <= point[1] <= self.bottom + self.height

    def is_outside(self) -> bool:
        return self.left < 0 or self.bottom < 0 or self.left + self.width > 1 or self.bottom + self.height > 1


def box_of(text: str, left: float, bottom: float) -> Box:
    """The box of one line of text, a little margin included."""
    return Box(left, bottom, (len(text) * CHARACTER_PX + 4) / PLOT_PX[0], LINE_PX / PLOT_PX[1])


def centred_box(text: str, at: Point, offset_px: tuple[float, float]) -> Box:
    """The box of text centred `offset_px` (right, up) from a point, as Plotly places a note with an arrow."""
    box = box_of(text, 0.0, 0.0)
    x, y = at[0] + offset_px[0] / PLOT_PX[0], at[1] + offset_px[1] / PLOT_PX[1]
    return Box(x - box.width / 2, y - box.height / 2, box.width, box.height)


def clearest(boxes: Sequence[Box], ink: Sequence[Point]) -> int:
    """The index of the box that covers least ink, the first of equals; one that leaves the plot comes last."""
    return min(range(len(boxes)), key=lambda at: (boxes[at].is_outside(), sum(map(boxes[at].holds, ink))))


class Plane:
    """Data to plot coordinates, for a figure whose y range is set."""

    def __init__(self, figure: dict[str, Any]) -> None:
        layout = figure["layout"]
        self._log = layout["xaxis"].get("type") == "log"
        known = [x for trace in figure["data"] for x in trace["x"]]
        first = self._x(min(known)) if self._log else 0.0
        # Plotly leaves about 6% beside the outermost marks.
        room = 0.06 * ((self._x(max(known)) - first) or 1.0)
        self._left = first - room if self._log else 0.0
        self._right = self._x(max(known)) + room
        self._top = layout["yaxis"]["range"][1]

    def _x(self, x: float) -> float:
        return math.log10(x) if self._log else x

    def at(self, x: float, y: float) -> Point:
        return (self._x(x) - self._left) / (self._right - self._left), y / self._top

    def ink(self, figure: dict[str, Any]) -> list[Point]:
        """Samples along every line, its marks, and the numbers beside marks."""
        found: list[Point] = []
        for trace in figure["data"]:
            marks = [self.at(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if y is not None]
            found += marks
            for one, other in pairwise(marks):
                found += _along(one, other)
            if "text" in trace:
                found += [(x - 8 / PLOT_PX[0], y + 12 / PLOT_PX[1]) for x, y in marks for _ in range(STEPS)]
        return found

    def level_ink(self, levels: Iterable[float]) -> list[Point]:
        """Samples along horizontal lines."""
        return [(step / 100, level / self._top) for level in levels for step in range(101)]


def _along(one: Point, other: Point) -> list[Point]:
    shares = (step / STEPS for step in range(1, STEPS))
    return [(one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])) for share in shares]
