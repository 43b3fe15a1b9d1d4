"""`loadproof init DIR`: a team's own repository, with a first profile that the planner chose; `--upgrade` it later."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from loadproof.capacity import make_plan
from loadproof.cli.init.first_profile import (
    Answers,
    first_profile,
    in_flight_of,
    known_model,
    reasons,
)
from loadproof.errors import ExitCode, InputError, Problem, ProfileError
from loadproof.profiles import check_file, load_profile
from loadproof.scaffold.kept import apply, changes, read_manifest, write_new
from loadproof.scaffold.repository import CiKit, Place, files_of, readme
from loadproof.terminal import Terminal

_MODEL, _P95_MS, _TRAFFIC = "Qwen/Qwen3-8B", 10_000, "4"  # what is taken where nobody says


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="an empty folder, or one to be made")],
    model: Annotated[str | None, typer.Option(help="Hugging Face id, for example Qwen/Qwen3-8B")] = None,
    p95: Annotated[
        int | None, typer.Option(metavar="MS", min=1, help="95 in 100 answers shall be whole by then")
    ] = None,
    traffic: Annotated[
        str | None, typer.Option(metavar="N|N/s", help="requests in flight (8) or a second (2/s)")
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", min=0, help="an hour at most, for one copy")] = None,
    lengths: Annotated[str, typer.Option(metavar="IN,OUT", help="tokens of a prompt and of an answer")] = "512,256",
    environment: Annotated[str, typer.Option(help="the first environment")] = "dev",
    region: Annotated[str, typer.Option(help="where it is deployed")] = "us-east-1",
    account: Annotated[str, typer.Option(help="AWS account of the environment")] = "123456789012",
    accept_eula: Annotated[bool, typer.Option("--accept-eula", help="you have read the model's licence")] = False,
    ci: Annotated[CiKit, typer.Option(help="pipelines for pull requests and deployments")] = "github",
    defaults: Annotated[bool, typer.Option("--defaults", help="ask nothing: what is not given has a default")] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="show what this version would change in DIR, as a diff")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="with --upgrade: do it, where the team changed nothing")
    ] = False,
) -> int:
    """Write a repository of your own.

    App, stacks, pipelines, tests, a first profile.

    The planner chooses machine, copies and settings for the model and what it shall hold, and says why. With
    --upgrade, files that you changed are shown and left alone (exit 1); all others follow with --write.
    """
    place = Place(version("loadproof"), ci, environment)
    if write and not upgrade:
        raise InputError("--write goes with --upgrade; add it, or leave --write out")
    if upgrade:
        return _upgrade(folder, place, write=write)
    asked = _asked(model, p95, traffic, defaults=defaults)
    return _init(folder, place, Answers(*asked, *_tokens(lengths), budget, environment, region, account, accept_eula))


def _asked(model: str | None, p95: int | None, traffic: str | None, *, defaults: bool) -> tuple[str, int, int]:
    """(model, E2E p95 in ms, in flight): as given; the rest as a terminal answers, or by default."""
    if not defaults and None in (model, p95, traffic):
        if not sys.stdin.isatty():
            options = {"--model": model, "--p95": p95, "--traffic": traffic}
            missing = ", ".join(name for name, given in options.items() if given is None)
            raise InputError(f"nobody to ask here: give {missing}, or --defaults")
        model = model or _prompted("Model (Hugging Face id)", _MODEL, known_model)
        p95 = p95 or int(_prompted("95 in 100 answers whole within (ms)", str(_P95_MS), _milliseconds))
        within_ms = p95
        traffic = traffic or _prompted(
            "Traffic: requests in flight (4) or a second (2/s)", _TRAFFIC, lambda found: in_flight_of(found, within_ms)
        )
    p95 = p95 or _P95_MS
    return model or _MODEL, p95, in_flight_of(traffic or _TRAFFIC, p95)


def _prompted(question: str, default: str, check: Callable[[str], object]) -> str:
    """Asked again until `check` takes it: one slip shall not cost the other answers."""

    def checked(text: str) -> str:
        try:
            check(text)
        except InputError as error:
            raise typer.BadParameter(str(error)) from None
        return text

    answer: str = typer.prompt(question, default=default, value_proc=checked)
    return answer


def _milliseconds(text: str) -> None:
    if not text.strip().isdigit() or int(text) < 1:
        raise InputError(f"expected whole milliseconds, at least 1, found `{text}`")


def _tokens(lengths: str) -> tuple[int, int]:
    parts = lengths.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"--lengths: expected two numbers of tokens (512,256), found `{lengths}`")
    return int(parts[0]), int(parts[1])


def _init(folder: Path, place: Place, answers: Answers) -> int:
    home = Path("deploy_profiles", answers.environment)
    profile = home / f"{answers.name}.yaml"
    with TemporaryDirectory() as there, Terminal(stderr=True).status("comparing machines, degrees and copies"):
        staged = Path(there) / home
        staged.mkdir(parents=True)
        try:
            file, settled = first_profile(answers, staged)
            said = [*reasons(settled, answers), *_checked(staged), *_outlook(file)]
        except ProfileError as error:
            raise ProfileError(_placed(problem, there) for problem in error.problems) from None
        once = {(home / one.name).as_posix(): one.read_bytes() for one in staged.iterdir()}
    once["README.md"] = readme(answers.environment, profile.as_posix()).encode()
    files = files_of(place)
    kept = write_new(folder, place, files, once)
    print(f"{len(files) + len(once) - len(kept)} files in {folder}; {profile} is {answers.model}:")
    if kept:
        said.append(f"left as they are: {', '.join(kept)}")
    for line in said:
        print(f"  {line}")
    print("\nNext, there:")
    for command in ("make setup && source .venv/bin/activate", f"npx cdk synth --quiet -c env={answers.environment}"):
        print(f"  {command}")
    print(f"  loadproof plan {profile}")
    return ExitCode.OK if settled.recommendation.alternative is not None else ExitCode.MISSED


def _placed(problem: Problem, there: str) -> Problem:
    """Named by its place in the repository to be."""
    return replace(problem, file=Path(problem.file).relative_to(there).as_posix())


def _checked(folder: Path) -> list[str]:
    problems = [problem for file in sorted(folder.glob("*.yaml")) for problem in check_file(file).problems]
    return [str(_placed(problem, str(folder.parents[1]))) for problem in problems] or ["check: all well"]


def _outlook(file: Path) -> Iterator[str]:
    for row in make_plan(load_profile(file)).outlook:
        if row.predicted is not None and row.low is not None and row.high is not None:
            between = f"{row.predicted:,.0f} ({row.low:,.0f} to {row.high:,.0f})"
            yield f"plan: {row.name} {row.comparison} {row.bound:,g}: predicted {between}, {row.expected}"


def _upgrade(folder: Path, place: Place, *, write: bool) -> int:
    """Diffs on standard output, words on standard error."""
    manifest = read_manifest(folder)
    place = replace(manifest.place, version=place.version)
    files = files_of(place)
    found = changes(folder, manifest, files)
    for change in found:
        print(change.diff, end="")
    left = [change for change in found if not change.may_be_written]
    if write:
        apply(folder, manifest, place, files, found)
    done = "written" if write else "to be written (--write)"
    said = f"{folder}: {manifest.place.version} to {place.version}: {len(found) - len(left)} files {done}"
    print(said, file=sys.stderr)
    for change in left:
        print(
            f"{folder}{os.sep}{change.path}: {change.state}, left alone: take over by hand what you want",
            file=sys.stderr,
        )
    return ExitCode.MISSED if left or (found and not write) else ExitCode.OK
