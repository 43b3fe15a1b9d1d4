"""The section of docs/accuracy.md on the stated ranges: how many held-out cells they hold, by split and by grade."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from accuracy_cells import Cell, goal

from loadproof.capacity.confidence import Confidence, confidence_of


def section(shipped: Sequence[Cell], outs: dict[str, list[Cell]]) -> list[str]:
    """How many cells lie inside the range they have, or had when held out; then what makes a range wide."""
    lines = [
        "## Ranges",
        "",
        "A stated range shall hold eight in ten held-out cells: fewer is overconfident, more says too little. Its width"
        " adds up, as squares, what is in doubt: a model that was not measured, an accelerator, a number of"
        " accelerators or a whole fabric not measured under this server, another version of it, how often a prompt's"
        " length doubles or halves on the way to the nearest that was fitted, and, for latencies,"
        " a load so close to what the memory holds that a little decides whether requests wait"
        " (`loadproof/capacity/confidence.py`). Those widths were fitted on the held-out cells below and on those of"
        " 2026, by the mean of width + 5 · miss (the interval score of eight in ten), which no range wins by being"
        " wide. What was fitted, by server and generation of accelerators, is in `loadproof/capacity/data/fitted.csv`.",
        "",
        "| cells | grades | throughput inside | p90 latency inside | both | goal |",
        "|---|---|---|---|---|---|",
    ]
    for label, cells in {"in sample": shipped, **outs}.items():
        both = _inside(cells)
        grades = ", ".join(sorted({_confidence(cell).grade for cell in cells}))
        mark = "" if label == "in sample" else f"70 to 90% {goal(0.7 <= both <= 0.9)}"
        shares = [_inside([cell for cell in cells if cell.what == what]) for what in ("throughput", "latency")]
        lines.append(f"| {label} | {grades} | {shares[0]:.0%} | {shares[1]:.0%} | {both:.0%} | {mark} |")
    held = [cell for cells in outs.values() for cell in cells]
    lines += ["", "| what was in doubt, all splits | range | cells | inside |", "|---|---|---|---|"]
    for label, cells in sorted(_by_doubt(held).items()):
        factors = [_confidence(cell).band for cell in cells]
        lines.append(f"| {label} | ±{np.median(factors):.0%} | {len(cells)} | {_inside(cells):.0%} |")
    return [*lines, ""]


def inside(cell: Cell) -> bool:
    """Whether the measured figure lies in the stated range of the predicted one."""
    low, high = range_of(cell)
    return low <= cell.measured <= high


def range_of(cell: Cell) -> tuple[float, float]:
    latency = cell.what == "latency"
    near = latency and cell.near_limit
    return _confidence(cell).interval(cell.predicted, near_limit=near, percentile=latency)


def _confidence(cell: Cell) -> Confidence:
    row, deployment = cell.case
    return confidence_of(deployment, prompt_tokens=row.input_tokens)


def _inside(cells: Sequence[Cell]) -> float:
    return float(np.mean([inside(cell) for cell in cells]))


def _by_doubt(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        deployment = cell.case[1]
        degrees = deployment.fabric.calibrated_degrees
        doubts = []
        if deployment.accelerator.name not in deployment.server.calibrated_on:
            doubts.append("accelerator")
        if not degrees:
            doubts.append("fabric")
        elif deployment.accelerators not in degrees:
            doubts.append("degree")
        if cell.what == "latency" and cell.near_limit:
            doubts.append("near the limit of memory (latency)")
        found.setdefault(" and ".join(doubts) or "only the model", []).append(cell)
    return found
