"""How series look. Colours hold 3:1 contrast on both the light and the dark page; shapes differ too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Figure = dict[str, Any]
BLUE, ORANGE, TEAL, PINK, GREY = "#3b82d6", "#c8691c", "#128a74", "#c2478f", "#7d8590"


@dataclass(frozen=True, slots=True)
class Look:
    """Colour, mark (a Plotly symbol) and the mark's size."""

    colour: str
    symbol: str
    size_px: int


# Marks of different sizes: series that coincide are still told apart when drawn large before small.
MIDDLE = Look(BLUE, "circle", 6)
TAIL = Look(ORANGE, "square", 10)
FAR_TAIL = Look(PINK, "diamond", 14)
PREDICTED = Look(GREY, "circle-open", 9)
