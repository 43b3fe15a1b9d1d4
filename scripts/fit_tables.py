"""The tables in loadproof/capacity/data that fits write, and `fitted.csv`: what prompts were fitted, by server.

It has a row a server and generation of accelerators: lengths of the prompts that were computed, not found in a cache,
so that a prediction can say how far it lies from them. Requests in flight and sizes of models are not kept: see
docs/decisions/0042-one-hierarchy.md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts"), str(REPOSITORY / "tests" / "capacity")]

from fit_step_model import Case  # noqa: E402

from loadproof.capacity import PlannedDeployment  # noqa: E402
from loadproof.capacity.servers import DATA, GENERATION, FittedRow  # noqa: E402

FILE = DATA / "fitted.csv"


@dataclass(frozen=True, slots=True)
class Load:
    """One measured load that was fitted; `prompt_tokens` None where prompts were found in a cache."""

    deployment: PlannedDeployment
    prompt_tokens: int | None


def rows_of(loads: Sequence[Load], source: str = "") -> list[FittedRow]:
    """A row for each server and generation of these loads."""
    kinds = sorted({_kind(load) for load in loads})
    return [_row([load for load in loads if _kind(load) == kind], *kind, source) for kind in kinds]


def _kind(load: Load) -> tuple[str, str]:
    return load.deployment.server.family, GENERATION[load.deployment.accelerator.name]


def _row(loads: Sequence[Load], server: str, generation: str, source: str) -> FittedRow:
    return FittedRow(
        server,
        generation,
        tuple(sorted({load.prompt_tokens for load in loads if load.prompt_tokens is not None})),
        source,
    )


def loads_of(cases: Sequence[Case]) -> list[Load]:
    """Of the founding tables."""
    return [Load(deployment, row.input_tokens) for row, deployment in cases]


def write(groups: Sequence[tuple[str, Sequence[Load]]]) -> None:
    """`groups` are (source, its loads)."""
    rows = [row for source, loads in groups for row in rows_of(loads, source) if row.prompt_tokens]
    names = [field.name for field in fields(FittedRow)]
    with FILE.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            cells = [getattr(row, name) for name in names]
            writer.writerow([";".join(map(str, cell)) if isinstance(cell, tuple) else cell for cell in cells])


def rewrite(name: str, values: Mapping[str, float], **where: str) -> None:
    path = DATA / name
    with path.open(encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        columns, rows = list(reader.fieldnames or ()), list(reader)
    for row in rows:
        if all(row[column] == wanted for column, wanted in where.items()):
            row.update({column: f"{value:.4g}" for column, value in values.items()})
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
