"""Latency over throughput, one panel a latency: mean with the grade's band, the tail, objectives and knees."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from loadproof.advice.page.levels import knees_by_level, rows_of
from loadproof.capacity import Plan, PredictedLevel
from loadproof.pages.figures import Figure, FigurePoint, FigureSize, Series, panels
from loadproof.pages.looks import Look
from loadproof.pages.wording import SHORT, latency_of, number, objective_title

FRAME: Final = FigureSize(tight=(360.0, 290.0), far_bound=2.0, room=1.1, far_room=1.2)
_MEAN, _TAIL = Look("mean", "circle", 8), Look("tail", "square", 8)


def curve(plan: Plan, latency: str) -> Markup:
    """Both sizes of the panel of `ttft`, `tpot` or `e2e`; empty where no level has any (answers that come whole have no
    TPOT)."""
    if not any(mean_ms(level, latency) > 0 for level in plan.levels):
        return Markup("")
    levels, knees, series = [row.level for row in rows_of(plan)], knees_by_level(plan), series_of(plan, latency)
    means = [(level, mean_ms(level, latency)) for level in levels]
    near = [(level, plan.confidence.range_of(f"{latency}_ms", mean, level)) for level, mean in means]
    figure = Figure(
        ("output tokens per second", f"{SHORT[latency]} (ms)"),
        tuple(series),
        tuple(bounds_of(plan, latency)),
        rings=tuple(
            (f"knee: {', '.join(knees[level.concurrency])}", level.output_tokens_per_s, mean)
            for level, mean in means
            if level.concurrency in knees
        ),
        band=tuple((level.output_tokens_per_s, low, high) for level, (low, high) in near),
        band_name=f"range of grade {plan.grade}",
        whole_band=True,
        frame=FRAME,
    )
    return panels(figure)


def series_of(plan: Plan, latency: str) -> list[Series]:
    """The mean, and for TTFT its p95, where it differs."""
    levels = [row.level for row in rows_of(plan)]
    means = [mean_ms(level, latency) for level in levels]
    last = [level.ttft_last_ms for level in levels]
    if latency != "ttft":
        return [_series("mean", _MEAN, latency, levels, means, named=True)]
    if last == means:
        return [_series("mean and p95", _MEAN, latency, levels, means, named=True)]
    tail = _series("p95", _TAIL, latency, levels, last, named=True)
    return [tail, _series("mean", _MEAN, latency, levels, means, named=False)]


def _series(
    name: str, look: Look, latency: str, levels: list[PredictedLevel], values_ms: list[float], *, named: bool
) -> Series:
    """One line of a panel. `named`: each of its marks by how many are in flight."""
    marks = []
    for level, value in zip(levels, values_ms, strict=True):
        at = f"at {number(level.output_tokens_per_s)} tokens/s, predicted"
        tip = f"{level.concurrency:,} in flight: {SHORT[latency]} {name} {number(value)} ms {at}"
        marks.append(FigurePoint(level.output_tokens_per_s, value, tip, f"{level.concurrency:,}" if named else ""))
    return Series(name, look, tuple(marks))


def mean_ms(level: PredictedLevel, latency: str) -> float:
    value: float = getattr(level, f"{latency}_ms")
    return value


def bounds_of(plan: Plan, latency: str) -> list[tuple[str, float]]:
    """(words, ms) of the objectives on this latency; those on gaps between tokens (ITL) are drawn with TPOT.

    A class's own are not: curves are of all requests.
    """
    drawn_here = {"ttft": ("ttft",), "tpot": ("tpot", "itl"), "e2e": ("e2e",)}[latency]
    named = [(latency_of(row.name), row) for row in plan.outlook if not row.part]
    return [
        (f"{objective_title(row.name)} ≤ {number(row.bound)} ms", row.bound)
        for name, row in named
        if name and name[0] in drawn_here
    ]
