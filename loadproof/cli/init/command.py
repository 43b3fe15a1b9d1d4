"""`loadproof init DIR`: a team's own repository, with a first profile that the planner chose; `--upgrade` it later."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from loadproof.cli.init.first_profile import Answers, first_profile, reasons
from loadproof.cli.init.interview import Given, asked
from loadproof.cli.printing import say_folded
from loadproof.errors import ExitCode, InputError, Problem, ProfileError
from loadproof.profiles import check_file, load_profile
from loadproof.scaffold.kept import apply, changes, read_manifest, settle, write_new
from loadproof.scaffold.repository import WHEELS, CiKit, Place, files_of, readme
from loadproof.sides.git import hosted_at
from loadproof.simulation.replay import make_plan
from loadproof.terminal import Terminal


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
    region: Annotated[str | None, typer.Option(help="where it is deployed")] = None,
    account: Annotated[str, typer.Option(help="AWS account of the environment")] = "123456789012",
    accept_eula: Annotated[bool, typer.Option("--accept-eula", help="you have read the model's licence")] = False,
    ci: Annotated[CiKit, typer.Option(help="pipelines for pull requests and deployments")] = "github",
    defaults: Annotated[bool, typer.Option("--defaults", help="ask nothing: what is not given has a default")] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="show what this version would change in DIR, as a diff")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="with --upgrade: do it, where nobody has to choose")] = False,
    settled: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="with --upgrade: you have looked at it, and it is as you want it"),
    ] = None,
) -> int:
    """Write a repository of your own.

    App, stacks, pipelines, tests, a first profile.

    The planner chooses machine, copies and settings for the model and what it shall hold, and says why. With
    --upgrade, what you changed is merged with what is newer; where both touch the same lines, or where you removed
    it, it is shown and left alone (exit 1) until you name it with --settled.
    """
    place = Place(version("loadproof"), ci, environment)
    if (write or settled) and not upgrade:
        raise InputError(f"{'--write' if write else '--settled'} goes with --upgrade; add it, or leave it out")
    if upgrade:
        return _upgrade(folder, place, settled or [], write=write)
    wanted = asked(Given(model, p95, traffic, budget, region), defaults=defaults)
    runbook = hosted_at(folder, "docs/runbook.md") if folder.is_dir() else None
    return _init(folder, place, Answers(wanted, *_tokens(lengths), environment, account, runbook, accept_eula))


def _tokens(lengths: str) -> tuple[int, int]:
    parts = lengths.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"--lengths: expected two numbers of tokens (512,256), found `{lengths}`")
    return int(parts[0]), int(parts[1])


def _init(folder: Path, place: Place, answers: Answers) -> int:
    home = Path("deploy_profiles", answers.environment)
    profile = home / f"{answers.name}.yaml"
    if "deploy_profiles" in folder.absolute().parts:
        raise InputError(f"DIR: found {folder}, which lies among a repository's profiles; name a folder of its own")
    with TemporaryDirectory() as there, Terminal(stderr=True).status("comparing machines, degrees and copies"):
        staged = Path(there) / home
        staged.mkdir(parents=True)
        try:
            file, chosen = first_profile(answers, staged)
            said = [*reasons(chosen, answers.wanted), *_checked(staged), *_outlook(file)]
        except ProfileError as error:
            raise ProfileError(_placed(problem, there) for problem in error.problems) from None
        once = {(home / one.name).as_posix(): one.read_bytes() for one in staged.iterdir()}
    once["README.md"] = readme(answers.environment, profile.as_posix()).encode()
    files = files_of(place)
    kept = write_new(folder, place, files, once)
    print(f"{len(files) + len(once) - len(kept)} files in {folder}; {profile} is {answers.wanted.model}:")
    if kept:
        said.append(f"left as they are: {', '.join(kept)}")
    if not any(name.startswith(f"{WHEELS}/") for name in files):
        said.append(
            f"requirements.txt asks an index for loadproof=={place.version}; where yours has none, a checkout makes "
            f"one: there uv build --wheel --out-dir {WHEELS} CHECKOUT, then loadproof init --upgrade --write ."
        )
    if answers.runbook_url is None:
        said.append(
            f"alarms name docs/runbook.md: write its address into {home / 'environment.yaml'}, so that they link it"
        )
    say_folded(*(f"  {line}" for line in said))
    print("\nNext, there:")
    for command in ("make setup && source .venv/bin/activate", f"npx cdk synth --quiet -c env={answers.environment}"):
        print(f"  {command}")
    print(f"  loadproof plan {profile}")
    return ExitCode.OK if chosen.as_wanted else ExitCode.MISSED


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


def _upgrade(folder: Path, place: Place, settled: list[str], *, write: bool) -> int:
    """Diffs on standard output, words on standard error."""
    manifest = read_manifest(folder)
    place = replace(manifest.place, version=place.version)
    files = files_of(place, folder)
    found = changes(folder, manifest, files)
    if settled:
        manifest = settle(folder, manifest, files, found, settled)
        found = [change for change in found if change.path not in settled]
    for change in found:
        print(change.diff, end="")
    left = [change for change in found if not change.may_be_written]
    if write:
        apply(folder, manifest, place, files, found)
    done = "written" if write else "to be written (--write)"
    merged = sum(change.state == "merged" for change in found)
    said = f"{folder}: {manifest.place.version} to {place.version}: {len(found) - len(left)} files {done}"
    print(f"{said}, {merged} of them merged with yours" if merged else said, file=sys.stderr)
    for change in left:
        print(
            f"{folder}{os.sep}{change.path}: {change.state}, left alone: take over by hand what you want of the diff, "
            f"then --upgrade --settled {change.path}",
            file=sys.stderr,
        )
    return ExitCode.MISSED if left or (found and not write) else ExitCode.OK
