"""Options of `loadproof bench` about what is seen of a run while it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from loadproof.bench.live.lines import End
from loadproof.bench.live.stream import STDOUT, Stream
from loadproof.bench.live.view import View
from loadproof.cli.options import Format
from loadproof.errors import InputError
from loadproof.terminal import Terminal

if TYPE_CHECKING:
    from loadproof.bench.judging import RunResult


@dataclass(frozen=True, slots=True)
class Watching:
    """The options as given."""

    HEADING: ClassVar = "While it runs"

    live: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="write what happens as JSON lines while it happens (docs/benchmark.md): "
            "a file, a FIFO, or - for stdout in place of the tables",
        ),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="show nothing on stderr while the run goes")] = False

    def check(self, format: Format) -> None:
        """Raises InputError."""
        if self.takes_stdout and format == "json":
            raise InputError("--live -: stdout has one use; leave out --format json, or name a file")

    @property
    def takes_stdout(self) -> bool:
        return self.live == STDOUT

    def view(self) -> View:
        """Raises InputError for a place that cannot be written."""
        console = None if self.quiet else Terminal(stderr=True, highlight=False)
        return View(console, None if self.live is None else Stream(self.live))


def end_of(result: RunResult, exit_code: int) -> End:
    verdict = result.summary.verdict
    return End(verdict.outcome, verdict.reasons, exit_code, str(result.folder))
