"""`loadproof init DIR`: a team's own repository, with a first profile that the planner chose; `--upgrade` it later."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from loadproof.cli.init.first_profile import Answers, begun, chosen_for, reasons
from loadproof.cli.init.interview import Given, asked, wrong
from loadproof.cli.options import grouped
from loadproof.cli.printing import say_folded
from loadproof.errors import ExitCode, InputError, Problem
from loadproof.profiles import check_file, load_profile
from loadproof.profiles.names import ENVIRONMENT_NAME_FORM, is_environment_name
from loadproof.scaffold.kept import apply, changes, read_manifest, settle, write_new
from loadproof.scaffold.repository import WHEELS, CiKit, Place, files_of, readme
from loadproof.sides.git import hosted_at
from loadproof.simulation.plan import make_plan
from loadproof.terminal import Terminal, tell


@dataclass(frozen=True, slots=True)
class InitOptions:
    """Everything but the folder."""

    model: Annotated[str | None, typer.Option(help="Hugging Face id, for example Qwen/Qwen3-8B")] = None
    p95: Annotated[int | None, typer.Option(metavar="MS", min=1, help="95 in 100 answers shall be whole by then")] = (
        None
    )
    traffic: Annotated[str | None, typer.Option(metavar="N|N/s", help="requests in flight (8) or a second (2/s)")] = (
        None
    )
    budget: Annotated[float | None, typer.Option(metavar="USD", min=0, help="an hour at most, for one copy")] = None
    lengths: Annotated[str, typer.Option(metavar="IN,OUT", help="tokens of a prompt and of an answer")] = "512,256"
    environment: Annotated[str, typer.Option(help="the first environment")] = "dev"
    region: Annotated[str | None, typer.Option(help="where it is deployed")] = None
    account: Annotated[str, typer.Option(help="AWS account of the environment")] = "123456789012"
    accept_eula: Annotated[bool, typer.Option("--accept-eula", help="you have read the model's licence")] = False
    ci: Annotated[CiKit, typer.Option(help="pipelines for pull requests and deployments")] = "github"
    defaults: Annotated[bool, typer.Option("--defaults", help="ask nothing: what is not given has a default")] = False
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="show what this version would change in DIR, as a diff")
    ] = False
    write: Annotated[bool, typer.Option("--write", help="with --upgrade: do it, where nobody has to choose")] = False
    settled: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="with --upgrade: you have looked at it, and it is as you want it"),
    ] = None


@grouped
def init(
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="an empty folder, or one to be made")],
    options: InitOptions,
) -> int:
    """Write a repository of your own.

    App, stacks, pipelines, tests, a first profile.

    The planner chooses machine, copies and settings for the model and what it shall hold, and says why. With
    --upgrade, what you changed is merged with what is newer; where both touch the same lines, or where you removed
    it, it is shown and left alone (exit 1) until you name it with --settled.
    """
    place = Place(version("loadproof"), options.ci, options.environment)
    if (options.write or options.settled) and not options.upgrade:
        raise InputError(f"{'--write' if options.write else '--settled'} goes with --upgrade; add it, or leave it out")
    if options.upgrade:
        return _upgrade(folder, place, options.settled or [], write=options.write)
    given = Given(options.model, options.p95, options.traffic, options.budget, options.region)
    tokens, account = _tokens(options.lengths), options.account
    unfit = [*_no_place(folder), *wrong(given, defaults=options.defaults), *_not_so(options, tokens)]
    # What is wrong is stood in for by a default, so that the rest is looked at in the same pass.
    named = {option for option, _ in unfit}
    given = replace(given, **{name: None for name in ("model", "traffic", "region") if f"--{name}" in named})
    wanted = asked(given, defaults=options.defaults or bool(unfit))
    runbook = hosted_at(folder, "docs/runbook.md") if folder.is_dir() else None
    here = "dev" if "--environment" in named else options.environment
    answers = Answers(wanted, *(tokens or (512, 256)), here, account, runbook, options.accept_eula)
    return _init(folder, place, answers, unfit)


def _no_place(folder: Path) -> Iterator[tuple[str, str]]:
    """Why no repository can be written there."""
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        yield "DIR", f"DIR: {there} is a file; name an empty folder, or one to be made"
    else:
        try:
            TemporaryDirectory(dir=there).cleanup()
        except OSError as error:
            yield "DIR", f"DIR: nothing can be written into {there} ({error.strerror}); name another place"
    if "deploy_profiles" in folder.absolute().parts:
        yield "DIR", f"DIR: found {folder}, which lies among a repository's profiles; name a folder of its own"


def _not_so(options: InitOptions, tokens: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    if tokens is None:
        yield "--lengths", f"--lengths: expected two numbers of tokens (512,256), found `{options.lengths}`"
    if not is_environment_name(options.environment):
        yield "--environment", f"--environment: expected {ENVIRONMENT_NAME_FORM}, found `{options.environment}`"


def _tokens(lengths: str) -> tuple[int, int] | None:
    parts = lengths.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _init(folder: Path, place: Place, answers: Answers, found: list[tuple[str, str]]) -> int:
    """`found`: what is known to be wrong with the options, (option, words)."""
    home = Path("deploy_profiles", answers.environment)
    profile = home / f"{answers.name}.yaml"
    with TemporaryDirectory() as there, Terminal(stderr=True).status("comparing machines, degrees and copies"):
        staged = Path(there) / home
        staged.mkdir(parents=True)
        file, problems = begun(answers, staged)
        found += _by_option(problems, {option for option, _ in found})
        if found:
            raise InputError("\n".join(words for _, words in found))
        chosen = chosen_for(file, answers.wanted)
        said = [*reasons(chosen, answers.wanted), *_checked(staged), *_outlook(file)]
        once = {(home / one.name).as_posix(): one.read_bytes() for one in staged.iterdir()}
    once["README.md"] = readme(place, profile.as_posix()).encode()
    files = files_of(place)
    kept = write_new(folder, place, files, once)
    print(f"{len(files) + len(once) - len(kept)} files in {folder}; {profile} is {answers.wanted.model}:")
    said += _notes(place, files, kept, answers, profile)
    say_folded(*(f"  {line}" for line in said))
    print("\nNext:")
    for command in _commands(folder, answers.environment, profile):
        print(f"  {command}")
    return ExitCode.OK if chosen.as_wanted else ExitCode.MISSED


def _commands(folder: Path, environment: str, profile: Path) -> Iterator[str]:
    """What to do next, for a shell, in the order in which it works: a review needs a commit."""
    there = f"./{folder}" if str(folder).startswith("-") else str(folder)
    change = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(there)} && "
    yield f"{change}make setup && source .venv/bin/activate"
    yield f"npx cdk synth --quiet -c env={environment}"
    yield f"loadproof plan {profile}"
    held = any((one / ".git").exists() for one in (folder.resolve(), *folder.resolve().parents))
    begin = "" if held else "git init --quiet --initial-branch main && "
    yield f'{begin}git add . && git commit --quiet -m "As loadproof init wrote it"'
    yield "loadproof review HEAD"


def _notes(place: Place, files: Mapping[str, bytes], kept: list[str], answers: Answers, profile: Path) -> Iterator[str]:
    """What is left to look at."""
    if kept:
        yield f"left as they are: {', '.join(kept)}"
    wheel = next((name for name in files if name.startswith(f"{WHEELS}/")), None)
    yield (
        f"requirements.txt takes loadproof=={place.version} from {wheel}: keep that in version control"
        if wheel
        else f"requirements.txt asks an index for loadproof=={place.version}; where yours has none, run a checkout's "
        "loadproof there: init --upgrade --write . brings a wheel along"
    )
    if answers.runbook_url is None:
        yield (
            f"alarms name docs/runbook.md: write its address into {profile.parent / 'environment.yaml'}, so that they "
            "link it"
        )


_OPTIONS = {  # the beginning of a field's path -> the option that it is written from
    "account": "--account",
    "region": "--region",
    "objectives.e2e_p95_ms": "--p95",
    "objectives": "--traffic",
    "benchmark": "--traffic",
    "workload": "--lengths",
    "container.settings": "--lengths",
    "container": "--region",  # no image there
    "endpoint": "--region",  # no machine there
    "model.source": "--account",  # the bucket is named after it
    "model": "--model",
    "name": "--model",
}


# What is said of a default in a wrong option's place is said of another endpoint.
_STOOD_IN_FOR = {"--model": {"--p95", "--traffic", "--lengths", "--region"}, "--lengths": {"--p95"}}


def _by_option(problems: Iterable[Problem], known: set[str]) -> Iterator[tuple[str, str]]:
    """Problems of files that are not written, by what was typed; of options in `known` enough is said."""
    passed_over = known.union(*(_STOOD_IN_FOR.get(option, ()) for option in known))
    for problem in problems:
        option = next((one for start, one in _OPTIONS.items() if problem.path.startswith(start)), "")
        if option not in passed_over:
            own = option == f"--{problem.path}"
            place = "" if own else f"{problem.path}: "
            elsewhere = option == "--region" and not own  # what its fields take has no option here
            mend = "take another region, or write the profile by hand" if elsewhere else problem.mend
            yield option, f"{option or 'the first profile'}: {place}{problem.message}; {mend} ({problem.code})"
            if own:  # the option's own form: whatever else it leads to follows from that
                passed_over.add(option)


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
            yield f"plan: {row.label} {row.comparison} {row.bound:,g}: predicted {between}, {row.expected}"


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
    tell(f"{said}, {merged} of them merged with yours" if merged else said)
    for change in left:
        tell(
            f"{folder}{os.sep}{change.path}: {change.state}, left alone: take over by hand what you want of the diff, "
            f"then --upgrade --settled {change.path}"
        )
    return ExitCode.MISSED if left or (found and not write) else ExitCode.OK
