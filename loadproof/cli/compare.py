"""`loadproof compare`: two or more runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.text import Text

from loadproof.bench.compare.between_runs import KeptRun
from loadproof.bench.compare.regression import Comparison, compare_runs, read_run
from loadproof.bench.evidence.repeats import kept_with
from loadproof.bench.report.charts import marked
from loadproof.bench.report.choice import brief_of_runs
from loadproof.bench.report.comparison import Shown, comparison_page, facts, read_runs, tables
from loadproof.cli.options import TextOrJson
from loadproof.cli.outputs import Tolerance
from loadproof.cli.pictures import browser_for, write_page
from loadproof.cli.printing import print_json, say, say_folded, tables_on
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.pages.wording import number
from loadproof.terminal import Columns, labelled


def compare(
    run: Annotated[list[Path], typer.Argument(help="folders of runs; the others are held to the first")],
    output: Annotated[Path | None, typer.Option(help="write a page; .png its head, .pdf all of it")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="name of a run, repeatable, in their order (default: its profile's, or the run id)"),
    ] = None,
    tolerance: Tolerance = 0.05,
    format: TextOrJson = "text",
) -> int:
    """Hold runs against each other.

    Containers, batching strategies, instance types, versions.

    Exit code 0 whatever the outcome; `loadproof report RUN --against RUN` is the gate.
    """
    browser_for(output)
    runs = read_runs(run, tuple(label or ()))
    kept = kept_with(run)
    comparisons = [_compared(run[0], other, tolerance, kept) for other in run[1:]]
    if output is not None:
        write_page(comparison_page(runs, [one for one in comparisons if not isinstance(one, str)]), output)
    if format == "json":
        _print_json(runs, comparisons)
    else:
        _print_text(runs, comparisons, output)
    return ExitCode.OK


def _compared(before: Path, after: Path, tolerance: float, kept: Sequence[KeptRun]) -> Comparison | str:
    """The comparison of what both recorded; why there is none, where one lacks its requests or was sent other ones."""
    try:
        return compare_runs(read_run(before), read_run(after), tolerance, kept=kept)
    except (InputError, CouldNotRunError) as error:
        return str(error)


def _print_json(runs: list[Shown], comparisons: list[Comparison | str]) -> None:
    loads = [
        {
            "load": table.load,
            "valid": list(table.valid),
            "figures": [
                {"name": row.title, "unit": row.unit, "values": [value for value, _ in row.cells]} for row in table.rows
            ],
        }
        for table in tables(runs)
    ]
    document = {
        "schema_version": 1,
        "runs": [
            {
                "name": run.name,
                "run_id": run.summary.run_id,
                "verdict": run.summary.verdict.outcome,
                "usd_per_hour": run.summary.conditions.usd_per_hour,
                "price": run.summary.conditions.price,
            }
            for run in runs
        ],
        "loads": loads,
        "comparisons": [{"problem": one} if isinstance(one, str) else asdict(one) for one in comparisons],
    }
    print_json(document)


def _print_text(runs: list[Shown], comparisons: list[Comparison | str], output: Path | None) -> None:
    console = tables_on(150)
    changes = [one for one in comparisons if not isinstance(one, str)]
    console.print(labelled(brief_of_runs([run.candidate for run in runs], changes).rows))
    for table in tables(runs):
        head = ["", *(marked(run.name, valid) for run, valid in zip(runs, table.valid, strict=True))]
        lines = [[f"{row.title} ({row.unit})", *map(_cell, range(len(runs)), row.cells)] for row in table.rows]
        cells = [[Text(cell) for cell in line] for line in lines]
        right = range(1, len(head))
        console.print(Columns(list(map(Text, head)), cells, box=box.SIMPLE_HEAD, title=f"At {table.load}", right=right))
    said = [f"differs: {name}: {' | '.join(values)}" for name, values, differs in facts(runs) if differs]
    for run, one in zip(runs[1:], comparisons, strict=True):
        outcome = f"not judged: {one}" if isinstance(one, str) else f"{one.outcome} {one.reason}"
        said.append(f"{run.name} against {runs[0].name}: {outcome}")
        if not isinstance(one, str):
            said.append(f"  {one.method}")
    say_folded(*said, console=console)
    if output is not None:
        say(f"Page: {output}", console=console)


def _cell(at: int, cell: tuple[float | None, float | None]) -> str:
    """A figure, with its ratio to the first run's from the second run on."""
    value, ratio = cell
    return number(value) + (f"  ×{ratio:.2f}" if at and ratio is not None else "")
