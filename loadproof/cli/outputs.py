"""What verbs about runs have in common: an earlier run to compare with, and files for other programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import orjson
import typer

from loadproof.bench.document import FILE_NAME, Summary
from loadproof.bench.judging import RunResult
from loadproof.bench.output.console import print_result
from loadproof.bench.plan import read_plan
from loadproof.cli.options import Format
from loadproof.cli.pictures import ENDINGS, browser_for, write_page
from loadproof.cli.printing import cannot_write, no_place, print_json, say, say_folded
from loadproof.errors import ExitCode, InputError
from loadproof.terminal import Terminal

if TYPE_CHECKING:
    from loadproof.bench.compare.regression import Comparison

Tolerance = Annotated[float, typer.Option(min=0, max=10, help="change that counts as none (0.05 is 5%)")]


@dataclass(frozen=True, slots=True)
class Outputs:
    """The options as given."""

    HEADING: ClassVar = "Results"

    against: Annotated[
        Path | None, typer.Option(help="folder of an earlier run: exit 1 if this one is a regression")
    ] = None
    tolerance: Tolerance = 0.05
    junit: Annotated[
        Path | None, typer.Option(help="write JUnit XML: a test for the verdict and for each objective")
    ] = None
    csv: Annotated[Path | None, typer.Option(help="write CSV: a row for each level")] = None
    markdown: Annotated[
        Path | None, typer.Option(help="write markdown for a pull request; appended where it is $GITHUB_STEP_SUMMARY")
    ] = None
    picture: Annotated[
        Path | None, typer.Option(help="write the page for a chat: .png its head, .pdf all of it, by a browser here")
    ] = None

    def check(self) -> None:
        """Refuse before any load is sent what could not be done after it. Raises InputError."""
        if self.against is not None:
            read_plan(self.against)
        if self.picture is not None and self.picture.suffix not in ENDINGS:
            raise InputError(f"--picture {self.picture}: no format by this ending; use one of: {', '.join(ENDINGS)}")
        browser_for(self.picture)
        for name in ("junit", "csv", "markdown", "picture"):
            path: Path | None = getattr(self, name)
            if path is not None:
                if problem := no_place(path, f"--{name}"):
                    raise InputError(problem)
                _try(path, f"--{name}")

    def compared(self, folder: Path) -> Comparison | None:
        """The run in `folder` against the earlier one; None where none was named. Raises InputError."""
        if self.against is None:
            return None
        from loadproof.cli.further import compared_runs  # noqa: PLC0415  brings pydantic along

        return compared_runs(self.against, folder, self.tolerance)

    def write(self, folder: Path, summary: Summary, comparison: Comparison | None) -> None:
        """Write the files that were asked for. Raises InputError for a place that cannot be written."""
        if self.junit is None and self.csv is None and self.markdown is None:
            return
        from loadproof.cli.further import write_files  # noqa: PLC0415  as above

        write_files(folder, summary, comparison, junit=self.junit, csv=self.csv, markdown=self.markdown)


def show(result: RunResult, outputs: Outputs, format: Format, *, tables: bool = True) -> ExitCode:
    """What was asked for of a run at its end: comparison, files, tables or JSON on stdout; and the exit code."""
    comparison = outputs.compared(result.folder)
    outputs.write(result.folder, result.summary, comparison)
    if outputs.picture is not None and result.report is not None:
        write_page(result.report.read_text(encoding="utf-8"), outputs.picture, "--picture")
    if format == "json":
        print_json(_document(result.folder, comparison))
    elif tables:
        console = Terminal(highlight=False)
        print_result(result, console)
        if comparison is not None:
            _print_comparison(comparison, console)
        if outputs.picture is not None and result.report is not None:
            say(f"Picture: {outputs.picture}", console=console)
    return _exit_code(result.exit_code, comparison)


def _document(folder: Path, comparison: Comparison | None) -> dict[str, object]:
    """What `--format json` prints: summary.json as it stands, with `regression` where an earlier run was named."""
    summary: dict[str, object] = orjson.loads((folder / FILE_NAME).read_bytes())
    return summary if comparison is None else {**summary, "regression": asdict(comparison)}


def _print_comparison(comparison: Comparison, console: Terminal) -> None:
    """The outcome against an earlier run, and what else differs."""
    say(f"Against {comparison.before}: {comparison.outcome}", console=console, style="bold")
    say_folded(f"  {comparison.reason}", console=console)
    say_folded(
        *(f"  differs: {name}: {before} → {after}" for name, before, after in comparison.differences), console=console
    )


def _exit_code(code: ExitCode, comparison: Comparison | None) -> ExitCode:
    """A regression is a miss where nothing worse happened; who compares has judged something."""
    if comparison is None or code not in (ExitCode.OK, ExitCode.NOT_JUDGED):
        return code
    return ExitCode.MISSED if comparison.outcome == "REGRESSION" else ExitCode.OK


def _try(path: Path, option: str) -> None:
    """Open it as it will be, and leave it as it was."""
    was_there = path.exists()
    try:
        path.open("a").close()
    except OSError as error:
        raise cannot_write(path, option, error) from None
    if not was_there:
        path.unlink()
