"""Where a request's time goes at each level: queue, prefill and decode, stacked to the whole."""

from __future__ import annotations

from markupsafe import Markup

from loadproof.advice.page.curves import FRAME
from loadproof.advice.page.levels import Row, rows_of
from loadproof.capacity import Plan
from loadproof.pages.svg import LINE_PX, Drawing, Scale, width_of
from loadproof.pages.wording import number

PARTS = ("queue", "prefill", "decode")
_WIDEST_BAR_PX = 64.0


def percent(row: Row, part: str) -> float:
    """One part of E2E, in percent."""
    share: float = getattr(row.shares, part)
    return 100 * share


def shares(plan: Plan) -> Markup:
    """Both sizes of the picture; empty where no level can be served."""
    return Markup("\n").join(_picture(rows_of(plan), size) for size in FRAME.sizes_px) if plan.levels else Markup("")


def _picture(rows: tuple[Row, ...], size: str) -> Markup:
    width, height = FRAME.sizes_px[size]
    drawing = Drawing(width, height)
    left, right = width_of("100%") + 12, width - 14
    y = Scale(100, height - 2.6 * LINE_PX, 2.5 * LINE_PX)
    for tick in (0, 25, 50, 75, 100):
        drawing.line([(left, y.at(tick)), (right, y.at(tick))], "axis" if tick == 0 else "grid")
        drawing.write(f"{tick}%", (left - 6, y.at(tick) + 4, "end"))
    drawing.write("share of E2E; above each bar E2E in ms", (2, 0.8 * LINE_PX, "start"))
    drawing.write("requests in flight", ((left + right) / 2, height - 4, "middle"))

    step = (right - left) / len(rows)
    for index, row in enumerate(rows):
        _bar(drawing, row, y, left + (index + 0.5) * step, min(_WIDEST_BAR_PX, 0.7 * step))
    return drawing.markup(f"panel {size}")


def _bar(drawing: Drawing, row: Row, y: Scale, middle: float, width: float) -> None:
    below = 0.0
    for name in PARTS:
        share = percent(row, name)
        top, height = y.at(below + share), y.at(below) - y.at(below + share)
        tip = f"{row.level.concurrency:,} in flight: {name} {number(share)}% of E2E, predicted"
        drawing.bar(middle - width / 2, top, width, height, f"part {name}", tip=tip)
        text = f"{share:.0f}%"
        if height >= 1.2 * LINE_PX and width >= width_of(text, bold=True):
            drawing.write(text, (middle, top + height / 2 + 4, "middle"), "on", bold=True)
        below += share
    drawing.place(number(row.level.e2e_ms), [(middle, y.at(100) - 6, "middle")])
    drawing.place(f"{row.level.concurrency:,}", [(middle, y.at(0) + 1.1 * LINE_PX, "middle")])
