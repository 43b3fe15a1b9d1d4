"""`loadproof check [PATH...]`: every problem of every profile, in one pass, before anything is deployed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from loadproof.cli.check import formats as check_formats
from loadproof.cli.profile_names import complete_place, place_of
from loadproof.errors import ExitCode, Problem
from loadproof.profiles import Checked, check_file, named_files, place_in
from loadproof.profiles.folders import default_folder, files_of

Format = Literal["text", "json", "sarif"]


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="files, folders or names; default: deploy_profiles, found upward",
            autocompletion=complete_place,
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="text for people, json for programs, sarif for code review")] = (
        "text"
    ),
) -> int:
    """Check deploy profiles and environments.

    Exit 0 (warnings allowed) or 2.
    """
    files = list(dict.fromkeys(file for path in paths or [default_folder()] for file in files_of(place_of(path))))
    outcome = check_formats.CheckedFiles.of([_with_traces(_with_gate(check_file(file))) for file in files])
    # File names may hold anything, and a terminal may know little: show escapes, never a traceback.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    if format == "text":
        print(check_formats.as_text(outcome, coloured=check_formats.wants_colour(sys.stdout)))
    else:
        print(check_formats.as_json(outcome) if format == "json" else check_formats.as_sarif(outcome))
    return ExitCode.BAD_INPUT if outcome.errors else ExitCode.OK


def _with_gate(checked: Checked) -> Checked:
    """What the planner has to say: rules know the profile, not how long its benchmark takes."""
    if checked.profile is None or checked.profile.benchmark.gate != "rollback":
        return checked
    from loadproof.capacity.duration import gate_problem  # noqa: PLC0415  most profiles need no planner

    found = gate_problem(checked.profile)
    if found is None:
        return checked
    mark = place_in(checked.file, ("benchmark", "gate"))
    problem = Problem(mark.file, mark.line, mark.column, "LP269", "benchmark.gate", *found)
    return checked.refused_for([problem])


def _with_traces(checked: Checked) -> Checked:
    """What lies in the files of recorded traffic that it names."""
    if checked.profile is None or not any(path[-1] == "trace" for path, _ in named_files(checked.profile)):
        return checked
    from loadproof.cli.check.traces import with_traces  # noqa: PLC0415  most profiles name none

    return with_traces(checked)
