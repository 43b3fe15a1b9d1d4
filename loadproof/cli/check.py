"""`loadproof check [PATH...]`: every problem of every profile, in one pass, before anything is deployed."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadproof.errors import ExitCode, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loadproof.profiles import Checked


class Format(StrEnum):
    """How problems are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="files or folders; default: deploy_profiles, found upward from here"),
    ] = None,
    format: Annotated[Format, typer.Option(help="text for people, json for programs, sarif for code review")] = (
        Format.TEXT
    ),
) -> int:
    """Check deploy profiles and environments. Exit 0 (warnings allowed) or 2."""
    from loadproof.cli import check_formats
    from loadproof.profiles import check_file

    files = list(dict.fromkeys(file for path in paths or [default_folder()] for file in files_of(path)))
    outcome = check_formats.Outcome.of([_with_gate(check_file(file)) for file in files])
    # File names may hold anything, and a terminal may know little: show escapes, never a traceback.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    match format:
        case Format.TEXT:
            print(check_formats.as_text(outcome, coloured=check_formats.wants_colour(sys.stdout)))
        case Format.JSON:
            print(check_formats.as_json(outcome))
        case Format.SARIF:
            print(check_formats.as_sarif(outcome))
    return ExitCode.BAD_INPUT if outcome.errors else ExitCode.OK


def _with_gate(checked: Checked) -> Checked:
    """What the planner has to say: rules know the profile, not how long its benchmark takes."""
    if checked.profile is None or checked.profile.benchmark.gate != "rollback":
        return checked
    from dataclasses import replace

    from loadproof.capacity.duration import gate_problem
    from loadproof.errors import Problem
    from loadproof.profiles import place_in

    found = gate_problem(checked.profile)
    if found is None:
        return checked
    mark = place_in(checked.file, ("benchmark", "gate"))
    problem = Problem(mark.file, mark.line, mark.column, "LP269", "benchmark.gate", *found)
    return replace(checked, problems=tuple(sorted((*checked.problems, problem))), profile=None)


def default_folder() -> Path:
    """`deploy_profiles` here or in a folder above, else that of the repository this package runs from."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "deploy_profiles").is_dir():
            found = folder / "deploy_profiles"
            return found.relative_to(here) if found.is_relative_to(here) else found
    own = Path(__file__).parents[2] / "deploy_profiles"
    if own.is_dir():
        return own
    raise InputError(f"no deploy_profiles folder in {here} or above; name a file or a folder")


def files_of(path: Path) -> Iterator[Path]:
    """The profiles and environments of a folder, sorted; else `path` itself, which the check says all about.

    Raises InputError for a folder that has none. Asks `os.path`, which never raises: names may be too long.
    """
    from loadproof.profiles.calibrating import is_calibration

    if not os.path.isdir(path):  # noqa: PTH112
        yield path
        return
    found = sorted(
        file
        for suffix in ("*.yaml", "*.yml")
        for file in path.rglob(suffix)
        if not is_calibration(file) and not os.path.isdir(file)  # noqa: PTH112
    )
    if not found:
        raise InputError(f"{path}: no .yaml or .yml file in this folder; name another")
    yield from found
