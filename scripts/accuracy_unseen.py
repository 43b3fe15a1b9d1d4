"""The section of docs/accuracy.md on published rows found after every fit and choice, and how such a table is added.

Nothing was fitted on these rows. `scripts/accuracy.py --add TABLE.csv` puts further ones to them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from accuracy_cells import rows_of

from loadproof.capacity.rows import GIVEN
from loadproof.simulation.rows import CACHED, INTERVAL, predict_row

ROWS = Path(__file__).resolve().parent.parent / "tests" / "capacity" / "unseen_benchmarks.csv"
# What is said of a figure: (its column in a table, the predicted one).
FIGURES = {
    "mean latency": ("latency_mean_ms_per_token", "predicted_latency_mean_ms_per_token"),
    "p90 latency": ("latency_p90_ms_per_token", "predicted_latency_p90_ms_per_token"),
    "TTFT": ("ttft_ms", "predicted_ttft_ms"),
    "throughput": ("throughput_tok_s", "predicted_throughput_tok_s"),
}
_MEASURED = [column for column, _ in FIGURES.values()]
COLUMNS = ["source", "table", *GIVEN, CACHED, "quantization", INTERVAL, *_MEASURED]
_ALSO_CALLED = {"latency_mean_ms_per_token": "latency_ms_per_token"}


@dataclass(frozen=True, slots=True)
class Unseen:
    """One figure of a row: predicted over measured, less 1; whether the range held it; the row's grade."""

    table: str
    server: str
    figure: str
    error: float
    inside: bool
    grade: str


def unseen_rows(rows: Sequence[dict[str, str]] | None = None) -> list[Unseen]:
    return [cell for row in (rows if rows is not None else [*rows_of(ROWS)]) for cell in _cells(row)]


def section() -> list[str]:
    cells = unseen_rows()
    return [
        "## Rows never fitted",
        "",
        f"{sum(1 for _ in rows_of(ROWS))} rows that were looked up after every fit"
        " (`tests/capacity/unseen_benchmarks.csv`, with their sources): mean latency an output token, as FMBench and"
        " AWS's SageMaker inference benchmark suite measured it."
        " Answers were of uneven length and FMBench waits for all of a level's requests before it sends the next,"
        " which the prediction does not know. One choice was made on a row of them: the prior of vLLM's expert layers"
        " is from two published single streams, Qwen3 235B's among them. Left out: gpt-oss on ml.g5.12xlarge and"
        " ml.g6e.12xlarge, where the reports contradict each other about the degree and 40% of the requests failed."
        " `scripts/accuracy.py --add TABLE.csv --source … --date … --licence …` adds a table to them, and says what it"
        " would change.",
        "",
        *lines_of(cells),
        "",
    ]


def lines_of(cells: Sequence[Unseen]) -> list[str]:
    """A line a table and figure, and one for all of TGI 1.1."""
    lines = [
        "| table | server | figure | median error | p90 | bias | cells | grade | inside the range |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table, figure in dict.fromkeys((cell.table, cell.figure) for cell in cells):
        lines.append(_line(table, [cell for cell in cells if (cell.table, cell.figure) == (table, figure)]))
    tgi = [cell for cell in cells if cell.server.startswith("TGI")]
    return [*lines, _line("all of TGI 1.1", tgi)] if tgi else lines


def add(path: Path, source: str, date: str, licence: str) -> list[dict[str, str]]:
    """Put a table's rows to those never fitted; the rows. Raises SystemExit where it lacks columns or a prediction."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        found = list(csv.DictReader(handle))
    if missing := [name for name in GIVEN if not found or name not in found[0]]:
        raise SystemExit(f"{path}:1: no column {', '.join(missing)}; expected at least {', '.join(GIVEN)}")
    rows = [_kept(row, f"{source} ({date}; figures: {licence})", path.stem) for row in found]
    if not any(row[name] for row in rows for name in _MEASURED):
        raise SystemExit(f"{path}:1: no measured figure; expected one of {', '.join(_MEASURED)}")
    for number, row in enumerate(rows, 2):
        if reason := predict_row(row)["reason"]:
            raise SystemExit(f"{path}:{number}: cannot be predicted: {reason}")
    before = [{**dict.fromkeys(COLUMNS, ""), **row} for row in rows_of(ROWS)]
    if known := {(row["source"], row["table"]) for row in rows} & {(row["source"], row["table"]) for row in before}:
        tables = ", ".join(table for _, table in sorted(known))
        raise SystemExit(f"{path}: {tables} is there already; take its rows out first")
    with ROWS.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*before, *rows])
    return rows


def _kept(row: dict[str, str], source: str, table: str) -> dict[str, str]:
    """The columns that are kept, under their names here."""
    kept = {name: (row.get(name) or row.get(_ALSO_CALLED.get(name, "")) or "").strip() for name in COLUMNS}
    return {**kept, "source": source, "table": kept["table"] or table}


def _cells(row: dict[str, str]) -> list[Unseen]:
    answer, cells = predict_row(row), []
    for figure, (measured, name) in FIGURES.items():
        if row.get(measured) and answer[name]:
            low, predicted, high = (float(answer[f"{name}{end}"]) for end in ("_low", "", "_high"))
            value = float(row[measured])
            held = low <= value <= high
            cells.append(Unseen(row["table"], row["server"], figure, predicted / value - 1, held, answer["grade"]))
    return cells


def _line(label: str, cells: Sequence[Unseen]) -> str:
    errors = np.array([cell.error for cell in cells])
    grades = ", ".join(sorted({cell.grade for cell in cells}))
    inside = float(np.mean([cell.inside for cell in cells]))
    return (
        f"| {label} | {cells[0].server} | {cells[0].figure} | {np.median(np.abs(errors)):.1%}"
        f" | {np.quantile(np.abs(errors), 0.9):.1%} | {np.median(errors):+.1%} | {len(cells)} | {grades}"
        f" | {inside:.0%} |"
    )
