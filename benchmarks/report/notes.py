"""Words and lines on a figure that are no series: objectives and the knee, put where they cover least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.report.looks import GREY, TEAL, Figure
from benchmarks.report.placement import Plane, box_of, centred_box, clearest

KNEE_NOTE_OFFSETS_PX = ((50, -50), (-70, -50), (-70, 40), (-90, 0), (50, -85), (-70, -85), (-40, 75), (0, -110))
FAR_BOUND = 2.5  # a bound this many times past all data is named at the edge instead of squeezing the curve flat


def draw_bounds(figure: Figure, bounds: Sequence[tuple[str, float]]) -> None:
    """Dotted lines with their words; a bound far above the data is named at the upper edge instead."""
    layout = figure["layout"]
    highest = max(y for trace in figure["data"] for y in trace["y"] if y is not None)
    near = [(label, bound) for label, bound in bounds if bound <= FAR_BOUND * highest]
    far = [label for label, bound in bounds if bound > FAR_BOUND * highest]
    # Head room for the words, in data units: Plotly's own range ignores shapes and annotations.
    top = max([highest, *(bound for _, bound in near)]) * (1.22 if far else 1.14) or 1
    layout["yaxis"]["range"] = [0, top]
    plane = Plane(figure)
    ink = plane.ink(figure)
    for label, bound in near:
        line = {"color": TEAL, "width": 2, "dash": "dot"}
        span = {"xref": "paper", "x0": 0, "x1": 1, "y0": bound, "y1": bound}
        layout["shapes"].append({"type": "line", "line": line} | span)
        note = _note(f"objective {label}")
        layout["annotations"].append(note | _beside_line(note["text"], bound, plane, ink))
    if far:
        place = {"xref": "paper", "yref": "paper", "x": 0.01, "y": 1, "yanchor": "top", "xanchor": "left"}
        layout["annotations"].append(_note(f"↑ objective {', '.join(far)} (off this chart)") | place)


def _beside_line(text: str, bound: float, plane: Plane, ink: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Above or below a bound's line, left or right: where the words cover least."""
    height = plane.at(1, bound)[1]
    right = 0.99 - box_of(text, 0, 0).width
    below = height - box_of(text, 0, 0).height
    corners = [(0.01, height), (right, height), (right, below), (0.01, below)]
    x, y = corners[clearest([box_of(text, *corner) for corner in corners], ink)]
    return {
        "xref": "paper",
        "x": 0.01 if x == 0.01 else 0.99,
        "xanchor": "left" if x == 0.01 else "right",
        "y": bound,
        "yanchor": "bottom" if y == height else "top",
    }


def draw_knee(figure: Figure, concurrency: int, x: float, y: float) -> None:
    """A ring around the knee's mark and its name, put where it covers least."""
    note = _note(f"knee: {concurrency} in flight")
    plane, layout = Plane(figure), figure["layout"]
    ink = plane.ink(figure) + plane.level_ink(shape["y0"] for shape in layout["shapes"])
    boxes = [centred_box(note["text"], plane.at(x, y), offset) for offset in KNEE_NOTE_OFFSETS_PX]
    right, up = KNEE_NOTE_OFFSETS_PX[clearest(boxes, ink)]
    arrow = {"x": x, "y": y, "showarrow": True, "arrowcolor": GREY, "standoff": 10, "ax": right, "ay": -up}
    layout["annotations"].append(note | arrow)
    ring = {"color": "rgba(0,0,0,0)", "size": 18, "line": {"color": GREY, "width": 2}}
    figure["data"].append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "knee",
            "x": [x],
            "y": [y],
            "marker": ring,
            "hoverinfo": "skip",
        }
    )


def _note(text: str) -> dict[str, Any]:
    return {
        "text": text,
        "showarrow": False,
        "font": {"size": 12},
        "bgcolor": GREY,
    }  # page.css gives it the page's ground
