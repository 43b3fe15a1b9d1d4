"""The cost ladder: one rung an alternative, from the cheapest up, each marked with how it meets the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from loadproof.advice.alternatives import Alternatives
from loadproof.advice.page.curves import FRAME
from loadproof.advice.page.wording import serving
from loadproof.pages.svg import LINE_PX, Drawing, Scale, width_of
from loadproof.pages.wording import number

MOST_RUNGS = 10  # further alternatives are in the table alone
_RUNG_PX, _BAR_PX = 46.0, 15.0
# A shape and a word for each outcome: they are told apart without colour.
_SIGNS = {
    "meets": ("circle", "meets"),
    "near": ("diamond", "near"),
    "misses": ("cross", "misses"),
    "unknown": ("square", "unknown"),
    "no": ("cross", "does not fit"),
}


@dataclass(frozen=True, slots=True)
class Rung:
    """One alternative: `cost_usd` None where no price is known, `outcome` an objective's outlook, or `no`: no fit."""

    name: str
    cost_usd: float | None
    outcome: str
    is_own: bool


def rungs_of(alternatives: Alternatives, field: str) -> list[Rung]:
    """The best-ranked alternatives, with the profile's own and the cheapest, by `usd_per_hour` or
    `usd_per_million_tokens`."""
    cheapest = next(found.alternative for found in alternatives.recommendations if found.goal == "least cost per hour")
    best, rest = alternatives.ranked[:MOST_RUNGS], alternatives.ranked[MOST_RUNGS:]
    added = [row for row in rest if row.is_own or row is cheapest]
    rungs = []
    for row in [*best, *added]:
        per_million = None if row.usd_per_million_tokens is None else row.usd_per_million_tokens.value
        usd = row.usd_per_hour if field == "usd_per_hour" else per_million
        outcome = "no" if row.fits == "no" else row.objectives
        rungs.append(Rung(serving(row), usd, outcome, row.is_own))
    return rungs


def ladder(rungs: Sequence[Rung], unit: str) -> Markup:
    """Both sizes of the picture, cheapest first, unknown prices last; empty without rungs."""
    ordered = sorted(rungs, key=lambda rung: (rung.cost_usd is None, rung.cost_usd or 0.0))
    return Markup("\n").join(_picture(ordered, unit, size) for size in FRAME.sizes_px) if ordered else Markup("")


def _picture(rungs: Sequence[Rung], unit: str, size: str) -> Markup:
    width = FRAME.sizes_px[size][0]
    drawing = Drawing(width, len(rungs) * _RUNG_PX + 8)
    dearest = max((rung.cost_usd or 0.0 for rung in rungs), default=0.0) or 1.0
    # Room to the right of the longest bar for its own words.
    room = max(width_of(_said(rung, unit), bold=rung.is_own) for rung in rungs) + 10
    scale = Scale(dearest, 0, width - room)
    for index, rung in enumerate(rungs):
        _draw(drawing, rung, unit, scale, index * _RUNG_PX)
    return drawing.markup(f"panel ladder {size}")


def _draw(drawing: Drawing, rung: Rung, unit: str, scale: Scale, top: float) -> None:
    """The name with its sign above; below the bar, and at its end what it costs and how it does."""
    baseline, shape = top + LINE_PX, _SIGNS[rung.outcome][0]
    tip = f"{rung.name}: {_said(rung, unit)}, predicted"
    drawing.mark((7, baseline - 4), shape, 9, f"sign {rung.outcome}", tip=tip)
    name = f"▸ {rung.name}" if rung.is_own else rung.name
    drawing.write(name, (18, baseline, "start"), bold=rung.is_own)
    length = 0.0 if rung.cost_usd is None else max(2.0, scale.at(rung.cost_usd))
    if length:
        drawing.bar(0, baseline + 6, length, _BAR_PX, f"rung {rung.outcome}", tip=tip)
    drawing.write(_said(rung, unit), (length + 6, baseline + 18, "start"), bold=rung.is_own)


def _said(rung: Rung, unit: str) -> str:
    word = _SIGNS[rung.outcome][1]
    if rung.cost_usd is not None:
        return f"{number(rung.cost_usd)} {unit}, {word}"
    return word if rung.outcome == "no" else f"no known price, {word}"
