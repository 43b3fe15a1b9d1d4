"""How series look. Colours hold 3:1 contrast on both the light and the dark page; marks and dashes differ too."""

from __future__ import annotations

from dataclasses import dataclass

BLUE, ORANGE, TEAL, PINK, GREY = "#3b82d6", "#c8691c", "#128a74", "#c2478f", "#7d8590"


@dataclass(frozen=True, slots=True)
class Look:
    """The class that the style sheet gives colour and dash, the mark's shape, and its size in px."""

    css: str
    shape: str
    size_px: float


# Marks of different sizes: series that coincide are still told apart when drawn large before small.
MIDDLE = Look("middle", "circle", 7)
TAIL = Look("tail", "square", 9)
FAR_TAIL = Look("far", "diamond", 11)
PREDICTED = Look("predicted-line", "circle", 8)
# Runs beside each other, in the order given; past the sixth they begin again.
RUNS = (
    Look("run-1", "circle", 8),
    Look("run-2", "square", 8),
    Look("run-3", "diamond", 9),
    Look("run-4", "triangle", 9),
    Look("run-5", "cross", 9),
    Look("run-6", "circle", 11),
)
