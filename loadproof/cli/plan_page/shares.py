"""Where a request's time goes at each level: queue, prefill and decode, stacked to the whole."""

from __future__ import annotations

from markupsafe import Markup

from benchmarks.report.svg import LINE_PX, Drawing, Scale, width_of
from benchmarks.report.wording import number
from loadproof.capacity import Plan, PredictedLevel
from loadproof.cli.plan_page.curves import SIZES_PX

PARTS = ("queue", "prefill", "decode")
_WIDEST_BAR_PX = 64.0


def parts_ms(level: PredictedLevel) -> tuple[float, float, float]:
    """Queue, prefill and decode in ms; they sum to `e2e_ms`."""
    return level.queue_ms, level.ttft_ms - level.queue_ms, level.e2e_ms - level.ttft_ms


def percents(level: PredictedLevel) -> tuple[float, float, float]:
    """Queue, prefill and decode in percent of E2E."""
    queue, prefill, decode = (100 * part / level.e2e_ms for part in parts_ms(level))
    return queue, prefill, decode


def shares(plan: Plan) -> Markup:
    """Both sizes of the picture; empty where no level can be served."""
    return Markup("\n").join(_picture(plan, size) for size in SIZES_PX) if plan.levels else Markup("")


def _picture(plan: Plan, size: str) -> Markup:
    width, height = SIZES_PX[size]
    drawing = Drawing(width, height)
    left = width_of("100%") + 8
    y = Scale(100, height - 2.6 * LINE_PX, 2.5 * LINE_PX)
    for tick in (0, 25, 50, 75, 100):
        drawing.line([(left, y.at(tick)), (width - 14, y.at(tick))], "axis" if tick == 0 else "grid")
        drawing.write(f"{tick}%", (left - 6, y.at(tick) + 4, "end"))
    drawing.write("share of E2E; above each bar E2E in ms", (0, 0.8 * LINE_PX, "start"))
    drawing.write("requests in flight", ((left + width - 14) / 2, height - 4, "middle"))

    step = (width - 14 - left) / len(plan.levels)
    for index, level in enumerate(plan.levels):
        _bar(drawing, level, y, left + (index + 0.5) * step, min(_WIDEST_BAR_PX, 0.7 * step))
    return drawing.markup(f"panel {size}")


def _bar(drawing: Drawing, level: PredictedLevel, y: Scale, middle: float, width: float) -> None:
    below = 0.0
    for name, percent, part in zip(PARTS, percents(level), parts_ms(level), strict=True):
        top = y.at(below + percent)
        tip = f"{level.concurrency} in flight: {name} {number(part)} ms, {number(percent)}% of E2E, predicted"
        drawing.bar(middle - width / 2, top, width, y.at(below) - top, f"part {name}", tip=tip)
        text = f"{percent:.0f}%"
        if y.at(below) - top >= 1.2 * LINE_PX and width >= width_of(text):
            drawing.write(text, (middle, (y.at(below) + top) / 2 + 4, "middle"), f"on {name}")
        below += percent
    drawing.place(number(level.e2e_ms), [(middle, y.at(100) - 6, "middle")])
    drawing.place(str(level.concurrency), [(middle, y.at(0) + 1.1 * LINE_PX, "middle")])
