"""Latency over throughput, before and after: one panel a latency, everything predicted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from markupsafe import Markup

from loadproof.pages.figures import Figure, FigurePoint, FigureSize, Series, panels
from loadproof.pages.looks import Look
from loadproof.pages.wording import SHORT, latency_of, number
from loadproof.review import wording
from loadproof.review.shapes import CurvePointDocument, ProfileDocument

LATENCIES: Final = ("ttft", "tpot", "e2e")
_FRAME: Final = FigureSize(roomy=(370.0, 270.0), tight=(340.0, 270.0), far_bound=2.0, far_room=1.2)
_COLUMNS: Final[dict[str, Literal["ttft_ms", "tpot_ms", "e2e_ms"]]] = {
    "ttft": "ttft_ms",
    "tpot": "tpot_ms",
    "e2e": "e2e_ms",
}
_LOOKS: Final[dict[Literal["before", "after"], Look]] = {
    "before": Look("before", "square", 9),
    "after": Look("after", "circle", 8),
}


def series_of(profile: ProfileDocument, latency: str = "e2e") -> tuple[Series, ...]:
    """Both sides' curves, or one series where they are alike; empty where nothing is predicted."""
    curves = profile["curves"]
    names: dict[Literal["before", "after"], str] = {"before": "before", "after": "after"}
    if curves["before"] == curves["after"]:
        names = {"after": "before and after, alike"}
    return tuple(
        Series(name, _LOOKS[side], tuple(_marks(name, curves[side], latency)), words_css=side, bold=side == "after")
        for side, name in names.items()
        if curves[side]
    )


def _marks(name: str, levels: list[CurvePointDocument], latency: str) -> Iterator[FigurePoint]:
    for level in levels:
        x, y, words = level["output_tokens_per_s"], level[_COLUMNS[latency]], f"{level['concurrency']:,}"
        figures = f"{SHORT[latency]} {number(y)} ms at {number(x)} tokens/s"
        yield FigurePoint(x, y, f"{name}: {words} in flight: {figures}, predicted", words)


def pictures(profile: ProfileDocument) -> dict[str, Markup]:
    """Both sizes of each latency's panel, by latency; one without figures is not among them."""
    figures = {
        latency: Figure(
            ("output tokens per second", f"{SHORT[latency]} (ms)"),
            series_of(profile, latency),
            tuple(sorted(_bounds(profile, latency), key=lambda bound: bound[1])),
            frame=_FRAME,
        )
        for latency in LATENCIES
    }
    return {latency: panels(figure) for latency, figure in figures.items() if figure.highest > 0}


def _bounds(profile: ProfileDocument, latency: str) -> Iterator[tuple[str, float]]:
    """The head's objectives on this latency; those on gaps between tokens (ITL) are drawn with TPOT.

    A class's own are not: curves are of all requests.
    """
    drawn_here = {"ttft": ("ttft",), "tpot": ("tpot", "itl"), "e2e": ("e2e",)}[latency]
    for row in profile["objectives"]:
        named, after = latency_of(row["name"]), row["after"]
        if named and named[0] in drawn_here and not row.get("part") and after and after["bound"]:
            yield f"{wording.title(row)} {wording.bound(row, after)}", after["bound"]
