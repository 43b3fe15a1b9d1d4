"""`loadproof report`: a run shown again, exported, compared; `loadproof verify`: whether to believe it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from loadproof.bench.evidence.document import FILE_NAME, mismatches, uncovered
from loadproof.bench.evidence.measured import measured_by
from loadproof.bench.evidence.standing import standing_of, stored_run
from loadproof.bench.evidence.store import StoredRun
from loadproof.bench.judging import shown_again
from loadproof.cli.options import Format, grouped
from loadproof.cli.outputs import Outputs, show
from loadproof.cli.printing import say
from loadproof.cli.profile_names import option
from loadproof.cli.signers import SignersFile, signers_here
from loadproof.errors import ExitCode
from loadproof.profiles import load_profile
from loadproof.untrusted import with_escapes

MOST_NAMED: Final = 10
Wanted = Literal["gate", "person", "anybody"]


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
    signers: SignersFile = None,
    signed_by: Annotated[
        Wanted, typer.Option(help="exit 1 unless a listed key signed it: the gate's, or any's (person)")
    ] = "anybody",
) -> int:
    """Check that a run is what was judged.

    Its files are those that were judged, its verdict follows from them, what it is for, and who signed it: the gate,
    a person, or nobody whose key is listed. Such a run is only claimed: whoever made its files up made them fit. Files
    beside them that none of this is about, such as report.html, are named.

    Exit code: 0 all fits · 1 something does not · 2 not a judged run.
    """
    code, listed = ExitCode.OK, signers_here(signers)
    for folder in run:
        found = mismatches(folder, profile)
        stored = stored_run(folder)
        found += _elsewhere(stored, profile)
        standing = standing_of(stored, listed)
        claimed = standing.by == "claimed"
        if standing.broken or (claimed and signed_by == "person") or (signed_by == "gate" and standing.by != "gate"):
            found.append(standing.words)
        fits = "its files fit together, which proves nothing of who measured" if claimed else "the evidence fits"
        said = found or [f"{fits}; {standing.words}"]
        said += _beside(folder, "the hashes" if claimed else "the signature")
        say(*(f"{folder}: {one}" for one in said))
        code = ExitCode.MISSED if found else code
    return code


def _beside(folder: Path, by: str) -> list[str]:
    """Files that nothing said here is about: anybody may have written them."""
    if not (folder / FILE_NAME).exists() or not (names := uncovered(folder)):
        return []
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return [f"not covered by {by}: {', '.join(with_escapes(one) for one in names[:MOST_NAMED])}{more}"]


def _elsewhere(run: StoredRun, profile: Path | None) -> tuple[str, ...]:
    """How what was measured is not what its profile deploys, where that can be found."""
    file = profile or Path(str(run.profile.get("file") or ""))
    if not run.profile or not file.is_file():
        return ()
    return tuple(f"{file}: {one}" for one in measured_by(run, load_profile(file), file).differs)
