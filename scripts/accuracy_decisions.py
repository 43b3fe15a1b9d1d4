"""The section of docs/accuracy.md on what a person decides from the figures: limits, ranks, degrees."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, groupby
from math import log, log2

from accuracy_cells import Cell
from fit_step_model import Case

from loadproof.capacity import predict_run

NEAR = 0.05  # of two throughputs, the difference below which the tables' noise may have decided


def section(cases: Sequence[Case], shipped: Sequence[Cell]) -> list[str]:
    """What a person decides from the figures: the largest level before the timeout, which of two is faster."""
    found = {group: curves(cases, group) for group in ("T1", "T3", "T4", "T5")}
    limits = {group: [_limit(curve) for curve in of_group] for group, of_group in found.items()}
    asked = limits["T1"] + limits["T3"] + limits["T4"]
    return [
        "## Decisions",
        "",
        f"- Largest concurrency before the 60 s timeout, over the {len(asked)} curves and best rows of T1, T3 and T4:"
        f" exact on {_exact(asked)}, within one doubling on {_near(asked)} (goal: 28 of 33, and all). By table: "
        + ", ".join(f"{group} {_exact(of_group)} of {len(of_group)}" for group, of_group in limits.items())
        + " (T5, horizontal scaling, is not among the 33).",
        *_rankings(shipped),
        *best_degrees(shipped),
        "",
        "| curve whose limit is wrong | measured | predicted |",
        "|---|---|---|",
        *(
            f"| {curve[0][0].table} {row.model} on {row.instance_count} {row.instance_type}, TP {row.tp_degree}, "
            f"{row.input_tokens} in | {measured} | {predicted} |"
            for group in found
            for curve, (measured, predicted) in zip(found[group], limits[group], strict=True)
            for row in [curve[0][0]]
            if measured != predicted
        ),
        "",
    ]


def curves(cases: Sequence[Case], prefix: str) -> list[list[Case]]:
    """Curves of a table, or its single rows of the best throughput: each ends at the last doubling before 60 s."""
    shown = [case for case in cases if case[0].table.startswith(prefix)]
    return [list(group) for _, group in groupby(sorted(shown, key=_curve_key), _curve_key)]


def last_before_timeout(case: Case) -> int:
    """The largest doubling of 1 at which 19 of 20 requests stay below 60 s and none is refused; 0 for none."""
    row, deployment = case
    concurrency, last = 1, 0
    while concurrency <= 4096:
        run = predict_run(deployment, row.input_tokens, row.output_tokens, concurrency)
        if run is None or run.timeout or run.refused:
            break
        last, concurrency = concurrency, 2 * concurrency
    return last


def best_degrees(cells: Sequence[Cell]) -> list[str]:
    """TP degree with copies that fill the node: throughput of a copy times copies, its best level."""
    lines = []
    for model in ("Llama 2 7B", "Llama 2 13B"):
        of_model = [
            cell
            for cell in cells
            if cell.what == "throughput" and cell.case[0].table.startswith("T4") and cell.case[0].model == model
        ]
        chosen = []
        for name in ("measured", "predicted"):
            best: dict[int, float] = {}
            for cell in of_model:
                degree = cell.case[0].tp_degree
                best[degree] = max(best.get(degree, 0.0), 8 / degree * getattr(cell, name))
            degree = max(best, key=lambda key: best[key])
            chosen.append(f"{8 // degree} copies of TP {degree} ({best[degree]:,.0f} tokens/s)")
        lines.append(
            f"- {model}, copies that fill an ml.p4d.24xlarge: measured best {chosen[0]}; predicted {chosen[1]}."
        )
    return lines


def _rankings(cells: Sequence[Cell]) -> list[str]:
    instances = _pairs(cells, "T3", lambda case: case[0].instance_type)
    degrees = _pairs(cells, "T4", lambda case: case[0].tp_degree)
    both = instances + degrees
    right = sum(_right(*pair) for pair in both)
    close = sum(abs(log(one.measured / other.measured)) <= NEAR for one, other in both)
    wrong = [_told(*pair) for pair in both if not _right(*pair)]
    return [
        f"- Of two configurations for one model, which has the higher best throughput: right for {right} of {len(both)}"
        f" pairs (goal: 25 of 26): {len(instances)} of instance types (T3), {len(degrees)} of TP degrees (T4);"
        f" {close} less than {NEAR:.0%} apart are counted too.",
        *(f"  - wrong: {text}" for text in wrong),
    ]


def _pairs(cells: Sequence[Cell], prefix: str, key: Callable[[Case], Hashable]) -> list[tuple[Cell, Cell]]:
    """All pairs of a model's configurations, each by the cell of its highest measured throughput."""
    best: dict[tuple[str, Hashable], Cell] = {}
    for cell in cells:
        if cell.what == "throughput" and cell.case[0].table.startswith(prefix):
            name = cell.case[0].model, key(cell.case)
            if name not in best or cell.measured > best[name].measured:
                best[name] = cell
    return [
        (one, other)
        for (one_name, one), (other_name, other) in combinations(best.items(), 2)
        if one_name[0] == other_name[0]
    ]


def _right(one: Cell, other: Cell) -> bool:
    return (one.measured > other.measured) == (one.predicted > other.predicted)


def _told(one: Cell, other: Cell) -> str:
    def side(cell: Cell) -> str:
        row = cell.case[0]
        figures = f"measured {cell.measured:,.0f}, predicted {cell.predicted:,.0f}"
        return f"{row.instance_type} TP {row.tp_degree} ({figures})"

    return f"{one.case[0].model}, {side(one)} against {side(other)}"


def _limit(curve: list[Case]) -> tuple[int, int]:
    """(measured, predicted) largest concurrency."""
    return max(case[0].concurrency for case in curve), last_before_timeout(curve[0])


def _exact(limits: Sequence[tuple[int, int]]) -> int:
    return sum(measured == predicted for measured, predicted in limits)


def _near(limits: Sequence[tuple[int, int]]) -> int:
    return sum(predicted > 0 and abs(log2(predicted / measured)) <= 1 for measured, predicted in limits)


def _curve_key(case: Case) -> tuple[str, str, int, int, int]:
    row = case[0]
    return row.table, row.model + row.instance_type, row.instance_count, row.tp_degree, row.input_tokens
