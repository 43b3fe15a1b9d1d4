"""`loadproof report`: a run shown again, exported, compared; `loadproof verify`: whether to believe it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loadproof.bench.evidence.document import mismatches
from loadproof.bench.judge.run import shown_again
from loadproof.cli.options import Format, grouped
from loadproof.cli.outputs import Outputs, show
from loadproof.cli.printing import say
from loadproof.cli.profile_names import option
from loadproof.errors import ExitCode


@grouped
def report(
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    outputs: Outputs,
    format: Annotated[Format, typer.Option(help="text for people; json prints summary.json and nothing else")] = (
        "text"
    ),
) -> int:
    """Show a run again; nothing is sent or judged.

    Its table, verdict, page and files for other programs.

    A run that was killed before it was judged is judged by what there is of it, as after Ctrl-C.

    Exit code: that of the run's verdict; 1 for a regression.
    """
    outputs.check()
    return show(shown_again(run), outputs, format)


def verify(
    run: Annotated[list[Path], typer.Argument(help="folders of runs")],
    profile: Annotated[Path | None, option("profile the runs should be evidence for; default: each run's own")] = None,
) -> int:
    """Check that a run is what was judged.

    Its files are those that were judged, its verdict follows from them, and what it is for.

    Hashes tell that a file changed, not who changed it: keep evidence.json where only the pipeline writes.
    Exit code: 0 all fits · 1 something does not · 2 not a judged run.
    """
    code = ExitCode.OK
    for folder in run:
        found = mismatches(folder, profile)
        say(*(f"{folder}: {problem}" for problem in found or ["the evidence fits"]))
        code = ExitCode.MISSED if found else code
    return code
