"""The cost ladder: one rung an alternative, from the cheapest up, each marked with how it meets the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from benchmarks.report.svg import LINE_PX, Drawing, Scale, width_of
from benchmarks.report.wording import number
from loadproof.capacity.alternatives import Alternatives
from loadproof.cli.plan_page.curves import SIZES_PX
from loadproof.cli.plan_page.wording import serving

MOST_RUNGS = 10  # further alternatives are in the table alone
_RUNG_PX, _BAR_PX = 46.0, 15.0
# A shape for each outlook: drawn, they are told apart without colour.
_SHAPES = {"meets": "circle", "near": "diamond", "misses": "cross", "unknown": "square"}


@dataclass(frozen=True, slots=True)
class Rung:
    """One alternative: `cost_usd` None where no price is known, `expected` as in an objective's outlook."""

    name: str
    cost_usd: float | None
    expected: str
    is_own: bool


def rungs_of(alternatives: Alternatives, field: str) -> list[Rung]:
    """The best-ranked alternatives, the profile's own among them, by `usd_per_hour` or `usd_per_million_tokens`."""
    best = alternatives.ranked[:MOST_RUNGS]
    own = [row for row in alternatives.ranked[MOST_RUNGS:] if row.is_own]
    rungs = []
    for row in [*best, *own]:
        per_million = row.usd_per_million_tokens
        usd = row.usd_per_hour if field == "usd_per_hour" else per_million and per_million.value
        rungs.append(Rung(serving(row), usd, row.objectives, row.is_own))
    return rungs


def ladder(rungs: Sequence[Rung], unit: str) -> Markup:
    """Both sizes of the picture, cheapest first, unknown prices last; empty without rungs."""
    ordered = sorted(rungs, key=lambda rung: (rung.cost_usd is None, rung.cost_usd or 0.0))
    return Markup("\n").join(_picture(ordered, unit, size) for size in SIZES_PX) if ordered else Markup("")


def _picture(rungs: Sequence[Rung], unit: str, size: str) -> Markup:
    width = SIZES_PX[size][0]
    drawing = Drawing(width, len(rungs) * _RUNG_PX + 8)
    dearest = max((rung.cost_usd or 0.0 for rung in rungs), default=0.0) or 1.0
    # Room to the right of the longest bar for its own figure.
    room = max(width_of(_cost(rung, unit)) for rung in rungs) + 10
    scale = Scale(dearest, 0, width - room)
    for index, rung in enumerate(rungs):
        _draw(drawing, rung, unit, scale, index * _RUNG_PX)
    return drawing.markup(f"panel ladder {size}")


def _draw(drawing: Drawing, rung: Rung, unit: str, scale: Scale, top: float) -> None:
    baseline = top + LINE_PX
    tip = f"{rung.name}: {_cost(rung, unit)}, {rung.expected}, predicted"
    drawing.mark((7, baseline - 4), _SHAPES[rung.expected], 9, f"sign {rung.expected}", tip=tip)
    drawing.write(rung.expected, (18, baseline, "start"), f"word {rung.expected}")
    name = f"▸ {rung.name}" if rung.is_own else rung.name
    x = 18 + width_of("unknown") + 8
    most = int((drawing.width_px - x) / width_of(" "))
    drawing.write(
        name if len(name) <= most else f"{name[: most - 1]}…", (x, baseline, "start"), "own" if rung.is_own else ""
    )
    if rung.cost_usd is not None:
        bar = max(2.0, scale.at(rung.cost_usd))
        drawing.bar(0, baseline + 6, bar, _BAR_PX, f"rung {rung.expected}", tip=tip)
        drawing.write(_cost(rung, unit), (bar + 6, baseline + 6 + 12, "start"))
    else:
        drawing.write(_cost(rung, unit), (0, baseline + 6 + 12, "start"))


def _cost(rung: Rung, unit: str) -> str:
    return "no known price" if rung.cost_usd is None else f"{number(rung.cost_usd)} {unit}"
