"""What few runs ask for beside their verdict, and takes long to load: a comparison, files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from loadproof.bench.compare.regression import Comparison, compare_runs, read_run
from loadproof.bench.evidence.repeats import kept_with
from loadproof.bench.output.exports import to_csv, to_junit
from loadproof.bench.output.markdown import to_markdown
from loadproof.cli.printing import write_file

if TYPE_CHECKING:
    from loadproof.bench.document import Summary


def compared_runs(before: Path, after: Path, tolerance: float) -> Comparison:
    """One run against an earlier one. Raises InputError."""
    return compare_runs(read_run(before), read_run(after), tolerance, kept=kept_with((before, after)))


def write_files(
    folder: Path,
    summary: Summary,
    comparison: Comparison | None,
    *,
    junit: Path | None,
    csv: Path | None,
    markdown: Path | None,
) -> None:
    """The files that were asked for. Raises InputError for a place that cannot be written."""
    if junit is not None:
        write_file(junit, to_junit(summary, comparison), "--junit")
    if csv is not None:
        write_file(csv, to_csv(summary), "--csv")
    if markdown is not None:
        write_file(markdown, to_markdown(summary, comparison, folder), "--markdown")
