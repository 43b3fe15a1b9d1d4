"""The memory of one accelerator as a bar: what fills it, what is free, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from loadproof.advice.page.curves import FRAME
from loadproof.capacity import MemoryFit
from loadproof.pages.svg import LINE_PX, Drawing, Scale, tick_text, ticks, width_of
from loadproof.pages.wording import number

_BAR_PX = 54.0
_SIZES = {"broad": 1120.0} | {size: width for size, (width, _) in FRAME.sizes_px.items()}


@dataclass(frozen=True, slots=True)
class BarPiece:
    """One piece of the bar, in GiB of one accelerator."""

    name: str
    css: str
    gib: float
    meaning: str


def memory_parts(memory: MemoryFit) -> list[BarPiece]:
    """From the left: weights, server, the longest request's KV cache, further KV cache, left alone.

    Where the longest request fits they sum to the accelerator's memory; where it does not, the first three are what
    it would take, and go past the end.
    """
    longest = memory.kv_cache_gib - memory.margin_gib
    parts = [
        BarPiece("weights", "weights", memory.weights_gib, "this accelerator's share of the model"),
        BarPiece("server", "server", memory.reserve_gib + memory.activations_gib, "reserve and peak activations"),
        BarPiece("KV cache, longest request", "longest", longest, f"{memory.longest_request_tokens:,} tokens"),
    ]
    if memory.margin_gib > 0:
        parts += [
            BarPiece("KV cache, free for others", "cache", memory.margin_gib, "what batches grow into"),
            BarPiece("left alone", "unused", memory.memory_gib - memory.usable_gib, "the server does not touch it"),
        ]
    return parts


def memory_bar(memory: MemoryFit) -> Markup:
    """All sizes of the picture."""
    return Markup("\n").join(_picture(memory, size) for size in _SIZES)


def _picture(memory: MemoryFit, size: str) -> Markup:
    width, top = _SIZES[size], 1.6 * LINE_PX
    drawing = Drawing(width, top + _BAR_PX + 3.6 * LINE_PX)
    parts = memory_parts(memory)
    needed = sum(part.gib for part in parts)
    scale = Scale(max(memory.memory_gib, needed) * 1.02, 4, width - 14)
    bottom = top + _BAR_PX

    left = 0.0
    for part in parts:
        start, end = scale.at(left), scale.at(left + part.gib)
        tip = f"{part.name}: {number(part.gib)} GiB ({part.meaning}), predicted"
        drawing.bar(start, top, end - start, _BAR_PX, f"part {part.css}", tip=tip)
        fitting = [
            text
            for text in (f"{part.name} {number(part.gib)}", number(part.gib))
            if width_of(text, bold=True) + 6 < end - start
        ]
        if fitting:
            drawing.write(fitting[0], ((start + end) / 2, (top + bottom) / 2 + 4, "middle"), "on", bold=True)
        left += part.gib
    _draw_end(drawing, scale, memory, (top, bottom))
    for tick in ticks(scale.high, max(3, int(width // 80))):
        x = scale.at(tick)
        drawing.line([(x, bottom), (x, bottom + 5)], "axis")
        drawing.write(tick_text(tick), (x, bottom + 1.4 * LINE_PX, "middle" if tick else "start"))
    drawing.write("GiB of one accelerator", (scale.at(scale.high / 2), bottom + 2.9 * LINE_PX, "middle"))
    return drawing.markup(f"panel {size}")


def _draw_end(drawing: Drawing, scale: Scale, memory: MemoryFit, rows: tuple[float, float]) -> None:
    """The ends of what the server may use and of the accelerator itself."""
    top, bottom = rows
    usable, end = scale.at(memory.usable_gib), scale.at(memory.memory_gib)
    drawing.line([(usable, top - 5), (usable, bottom + 5)], "limit")
    drawing.line([(end, top - 5), (end, bottom + 5)], "limit end")
    said = f"usable {number(memory.usable_gib)} of {number(memory.memory_gib)} GiB"
    drawing.place(
        said, [(usable + 4, top - 10, "end"), (usable - 4, top - 10, "start"), (4, top - 10, "start")], "bound-name"
    )
