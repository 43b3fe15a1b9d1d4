"""The score card that docs/accuracy.md begins with: every goal beside what the sections below it say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import expm1, log
from statistics import mean

from accuracy_cells import Cell, goal, spread
from accuracy_ranges import inside, range_of

RANGE = (0.75, 0.88)
_PER_CENT = re.compile(r"^([+-]?[\d.]+)%")


def section(founding: Mapping[str, Sequence[Cell]], published: Sequence[str], speculative: Sequence[str]) -> list[str]:
    """`founding` cells by split; `published` and `speculative` are the lines of those sections."""
    tables = [[cell.strip() for cell in line.strip("| ").split("|")] for line in (*published, *speculative)]
    return [
        "## Score card",
        "",
        "| what | goal | now | |",
        "|---|---|---|---|",
        *(
            f"| {what} | at most {bar:.1%} | {value:.1%} | {goal(value <= bar)} |"
            for what, bar, value in _errors(founding, tables)
        ),
        *_signs(tables),
        "",
        "How many figures lie inside the stated range; the goal is 75 to 88% of each, since a range that holds more"
        " says too little. Width: how far a range goes above the predicted figure."
        " *Held out* means that the fit, and so the range, knew nothing of the rows in question.",
        "",
        "| rows | split | figure | inside | mean width | cells | |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {rows} | {split} | {figure} | {share:.0%} | {width} | {count} | {_within(share)} |"
            for rows, split, figure, share, width, count in _ranges(founding, tables)
        ),
        "",
    ]


def _errors(founding: Mapping[str, Sequence[Cell]], tables: Sequence[list[str]]) -> Iterator[tuple[str, float, float]]:
    """(what, goal, median error)."""
    goals = {"in sample": (0.03, 0.045), "leave one model out": (0.05, 0.065)}
    for split, bars in goals.items():
        for figure, bar in zip(("throughput", "latency"), bars, strict=True):
            name = "throughput" if figure == "throughput" else "p90 latency"
            yield f"founding tables, {name}, {split}", bar, spread(founding[split], figure)[0]
    for what, figure, split, bar in (
        ("rows of 2026, mean latency", "latency", "in sample", 0.09),
        ("rows of 2026, mean latency", "latency", "leave one model out", 0.12),
        ("rows of 2026, mean latency", "latency", "leave one generation out", 0.12),
        ("rows of 2026, TTFT", "TTFT", "in sample", 0.25),
        ("rows of 2026, TTFT", "TTFT", "leave one model out", 0.25),
        ("rows of 2026, TTFT", "TTFT", "leave one generation out", 0.25),
    ):
        for cells in tables:
            if cells[:2] == [split, figure]:
                yield f"{what}, {split}", bar, _share(cells[2])
    for cells in tables:
        if cells[0] == "leave one out, all":
            yield "vLLM on SageMaker, throughput, leave one model and machine out", 0.09, _share(cells[1])
        if cells[0] == "in sample" and len(cells) > 5 and " of " in cells[4]:
            yield "EAGLE3, mean latency, in sample", 0.12, _share(cells[1])


def _signs(tables: Sequence[list[str]]) -> Iterator[str]:
    for cells in tables:
        if cells[0] == "in sample" and len(cells) > 5 and " of " in cells[4]:
            right, count = map(int, cells[4].split(" of "))
            yield f"| EAGLE3, sign of the gain | at least 90% | {cells[4]} | {goal(right >= 0.9 * count)} |"


def _ranges(
    founding: Mapping[str, Sequence[Cell]], tables: Sequence[list[str]]
) -> Iterator[tuple[str, str, str, float, str, int]]:
    """(rows, split, figure, share inside, mean width, cells)."""
    for split, found in founding.items():
        for what, name in (("throughput", "throughput"), ("latency", "p90 latency")):
            cells = [cell for cell in found if cell.what == what]
            width = mean(log(range_of(cell)[1] / cell.predicted) for cell in cells)
            share = sum(map(inside, cells)) / len(cells)
            yield "founding tables", split, name, share, f"+{expm1(width):.0%}", len(cells)
    held_out = False
    for cells in tables:
        held_out = held_out or cells[0].startswith("Held out: fitted again")
        if held_out and len(cells) == 8 and cells[1] in ("latency", "TTFT", "throughput"):
            name = "mean latency" if cells[1] == "latency" else cells[1]
            yield "2026", cells[0], name, _share(cells[5]), cells[6], int(cells[7])
        if len(cells) == 6 and cells[0] in ("throughput", "mean latency", "p90 latency", "TTFT"):
            yield "vLLM on SageMaker", "in sample", cells[0], _share(cells[3]), cells[4], int(cells[5])


def _share(text: str) -> float:
    found = _PER_CENT.match(text)
    assert found is not None, f"{text} is a share"
    return float(found[1]) / 100


def _within(share: float) -> str:
    low, high = RANGE
    return "met" if low <= share <= high else "**too narrow**" if share < low else "too wide"
