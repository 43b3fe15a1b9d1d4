"""The section of docs/accuracy.md on published rows found after every fit and choice: nothing was fitted on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from accuracy_cells import rows_of

from loadproof.capacity.rows import predict_row

ROWS = Path(__file__).resolve().parent.parent / "tests" / "capacity" / "unseen_benchmarks.csv"
_FIGURE = "predicted_latency_mean_ms_per_token"


@dataclass(frozen=True, slots=True)
class Unseen:
    """One row: predicted over measured mean latency a token, less 1; whether the range held it; its grade."""

    table: str
    server: str
    error: float
    inside: bool
    grade: str


def unseen_rows() -> list[Unseen]:
    return [_unseen(row) for row in rows_of(ROWS)]


def section() -> list[str]:
    rows = unseen_rows()
    lines = [
        "## Rows never fitted",
        "",
        f"{len(rows)} rows that were looked up after every fit (`tests/capacity/unseen_benchmarks.csv`, with their"
        " sources): mean latency an output token, as FMBench and AWS's SageMaker inference benchmark suite measured it."
        " Answers were of uneven length and FMBench waits for all of a level's requests before it sends the next,"
        " which the prediction does not know. One choice was made on a row of them: the prior of vLLM's expert layers"
        " is from two published single streams, Qwen3 235B's among them. Left out: gpt-oss on ml.g5.12xlarge and"
        " ml.g6e.12xlarge, where the reports contradict each other about the degree and 40% of the requests failed.",
        "",
        "| table | server | median error | p90 | bias | cells | grade | inside the range |",
        "|---|---|---|---|---|---|---|---|",
    ]
    tgi = [row for row in rows if row.server.startswith("TGI")]
    tables = [[row for row in rows if row.table == table] for table in dict.fromkeys(row.table for row in rows)]
    return [*lines, *(_line(found[0].table, found) for found in tables), _line("all of TGI 1.1", tgi), ""]


def _unseen(row: dict[str, str]) -> Unseen:
    answer = predict_row(row)
    low, predicted, high = (float(answer[f"{_FIGURE}{end}"]) for end in ("_low", "", "_high"))
    measured = float(row["latency_mean_ms_per_token"])
    return Unseen(row["table"], row["server"], predicted / measured - 1, low <= measured <= high, answer["grade"])


def _line(label: str, rows: Sequence[Unseen]) -> str:
    errors = np.array([row.error for row in rows])
    grades = ", ".join(sorted({row.grade for row in rows}))
    inside = float(np.mean([row.inside for row in rows]))
    return (
        f"| {label} | {rows[0].server} | {np.median(np.abs(errors)):.1%} | {np.quantile(np.abs(errors), 0.9):.1%}"
        f" | {np.median(errors):+.1%} | {len(rows)} | {grades} | {inside:.0%} |"
    )
