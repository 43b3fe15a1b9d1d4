"""Write what was fitted, so that a prediction can say how far it lies from it: loadproof/capacity/data/fitted.csv.

    .venv/bin/python scripts/fit_reach.py PUBLISHED.csv PUBLISHED_2026.csv

A row a server and generation of accelerators: lengths of the prompts that were computed, not found in a cache. From the
founding tables (TGI) and the published ones (vLLM, SGLang). Requests in flight and sizes of models are not kept: see
docs/decisions/0042-one-hierarchy.md.
"""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
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


def main() -> None:
    import fit_servers

    parser = ArgumentParser(description=__doc__)
    parser.add_argument("published", type=Path)
    parser.add_argument("published_2026", type=Path)
    arguments = parser.parse_args()
    published, _ = fit_servers.accuracy_published.read(arguments.published)
    fit_servers.write_reach(published, fit_servers.read(arguments.published_2026))


if __name__ == "__main__":
    main()
