"""`loadproof review BASE [HEAD]`: what a change replaces, costs and breaks, before it is merged."""

from __future__ import annotations

import math
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from loadproof.cli.options import grouped
from loadproof.cli.review.evidence import runs_for, taken_away
from loadproof.cli.review.write import Target, targets_of, write
from loadproof.errors import ExitCode, InputError
from loadproof.review.assemble import review as assembled
from loadproof.review.bounds import MOST_BYTES
from loadproof.review.document import DOCS_PAGE, document
from loadproof.review.formats import Format
from loadproof.review.model import SEVERITIES, MeasuredRun, Review, Severity
from loadproof.review.reading import read_document
from loadproof.sides.affected import Place
from loadproof.sides.cache import Cache, cache_folder
from loadproof.sides.deadline import OF_A_STRANGER_S, REVIEWED, Deadline
from loadproof.sides.pairs import Choice, Trust, find_sides
from loadproof.sides.refs import find_trees, named_base
from loadproof.untrusted import with_escapes

_HTTPS: Final = re.compile(r"https://[\w./?=&%:~+-]+")


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """Everything but BASE and HEAD."""

    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context",
            "-c",
            metavar="KEY=VALUE",
            help="as for cdk: env=NAME,... and profile=NAME,... choose; repeatable",
        ),
    ] = None
    format: Annotated[
        Format | None,
        typer.Option(
            help="what is written; default: by the file's ending, else text; html on a terminal is review.html"
        ),
    ] = None
    output: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="file to write instead (.md .json .sarif .txt .html .png .pdf), repeatable; appended where "
            "it is $GITHUB_STEP_SUMMARY",
        ),
    ] = None
    fail_on: Annotated[Severity, typer.Option(help="exit 1 with a finding of this severity or above")] = "break"
    evidence: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE", help="folder of runs, repeatable; default: evidence/ and runs/ on HEAD's side"),
    ] = None
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="keep templates in $LOADPROOF_CACHE, else ~/.cache/loadproof")
    ] = True
    direct: Annotated[
        bool, typer.Option("--direct", help="compare with BASE as it is, not with where HEAD left it")
    ] = False
    trust: Annotated[
        Trust,
        typer.Option(
            help="whose code may run: HEAD's behind walls, BASE's alone as for a stranger's change, or HEAD's as you"
        ),
    ] = "head"
    within: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=5,
            help="the most that it takes; a profile that it does not come to breaks; default with --trust base: "
            f"{OF_A_STRANGER_S:g}",
        ),
    ] = None
    docs: Annotated[
        str | None, typer.Option(metavar="URL", help="where docs/review-findings.md is read, for findings to link to")
    ] = None
    again: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="show a review again from its .json, as a stranger's: no BASE"),
    ] = None


@grouped
def review(
    *,
    base: Annotated[
        str | None, typer.Argument(help="git ref or folder that the change starts from, e.g. origin/main")
    ] = None,
    head: Annotated[
        str | None, typer.Argument(help="git ref or folder with the change; default: the working tree, uncommitted too")
    ] = None,
    options: ReviewOptions,
) -> int:
    """Say what a change does to what is deployed.

    Resources, costs, objectives, findings. Offline, no credentials.

    Profiles that the change touches are synthesized on both sides, each by the code of its own side, exactly as
    `cdk synth` would run it, but without network, home, credentials and other processes. With --trust base no line of
    HEAD runs: its profiles are synthesized by BASE's code. With --trust unwalled it runs as you.

    Exit 0; 1 with findings at --fail-on or above; 2 bad input; 3 could not run.
    """
    if options.docs is not None and not _HTTPS.fullmatch(options.docs):
        raise InputError(
            f"--docs {options.docs}: expected an https:// address without `#`; it is the page of all findings"
        )
    targets, docs = targets_of(options.format, options.output or []), options.docs or DOCS_PAGE
    if options.again is not None:
        return _shown_again(options.again, (base, head), targets, docs, options.fail_on)
    if base is None:
        raise InputError("review: expected BASE, a git ref or folder that the change starts from, or --from FILE")
    made = _made(base, head, options)
    found = document(made, docs=docs)
    write(found, targets)
    verdict = found["verdict"]
    if targets[0][0] is not None:  # a log should still say how it went
        print(with_escapes(f"{verdict['word']} {verdict['text']}"))
    return _exit_code(verdict["worst"], options.fail_on)


def _exit_code(worst: Severity | None, fail_on: Severity) -> ExitCode:
    failed = worst is not None and SEVERITIES.index(worst) >= SEVERITIES.index(fail_on)
    return ExitCode.MISSED if failed else ExitCode.OK


def _shown_again(
    file: Path, trees: tuple[str | None, str | None], targets: Sequence[Target], docs: str, fail_on: Severity
) -> ExitCode:
    if any(trees):
        raise InputError("--from: a review that was made already; leave BASE and HEAD out")
    try:
        with file.open("rb") as opened:
            found = read_document(opened.read(MOST_BYTES + 1), docs=docs)
    except OSError as error:
        raise InputError(f"--from {file}: cannot be read ({error.strerror}); give a review's .json") from None
    write(found, targets)
    return _exit_code(found["verdict"]["worst"], fail_on)


def _made(base: str, head: str | None, options: ReviewOptions) -> Review:
    choice, evidence = _choice(options.context or []), options.evidence or []
    deadline = Deadline(options.within or (OF_A_STRANGER_S if options.trust == "base" else math.inf))
    started_s = time.monotonic()

    def say(what: str) -> None:
        print(f"loadproof: {with_escapes(what)}", file=sys.stderr, flush=True)

    before, after, notes = find_trees(base, head, direct=options.direct)
    for note in (f"{before.label} → {after.label}", *notes):
        say(note)
    with _ended_by_termination(), tempfile.TemporaryDirectory(prefix="loadproof-review-") as folder:
        work = Path(folder).resolve()
        gone = taken_away(before, after, work, say)
        choice = replace(choice, touched=_profiles_of(gone))
        cache = Cache(cache_folder() if options.cache else None)
        sides = find_sides(before, after, choice, cache, work, say, options.trust, deadline)
        wanted = sides.pairs or evidence
        runs = runs_for(named_base(base, before), after, sides.pairs, evidence, work, say) if wanted else ()
    made = assembled(
        before.label,
        after.label,
        sides.pairs,
        (*runs, *gone),
        sides.unaffected,
        sides.not_run,
        lambda: deadline.refusal if deadline.is_over(REVIEWED) else "",
        deadline.bounded,
    )
    say(f"reviewed in {time.monotonic() - started_s:.1f} s")
    return made


def _profiles_of(runs: Sequence[MeasuredRun]) -> dict[Place, set[str]]:
    """Hashes of the profiles that were measured."""
    found: dict[Place, set[str]] = {}
    for run in runs:
        found.setdefault(Place(run.environment_name or "", run.profile_name), set()).add(run.profile_sha256)
    return found


@contextmanager
def _ended_by_termination() -> Iterator[None]:
    """A cancelled job must not leave its syntheses running: SIGTERM goes the way that Ctrl-C goes."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _choice(given: list[str]) -> Choice:
    """`-c` as the CDK CLI takes it. Raises InputError for what is no KEY=VALUE, and for what makes no sense here."""
    context: dict[str, str] = {}
    problems = []
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            problems.append(f"-c {text}: expected KEY=VALUE; write for example -c env=prod")
        elif key == "pause_scaling":
            problems.append(f"-c {text}: a review is about what stays deployed; leave it out")
        else:
            context[key] = value
    names = {key: _names(context.pop(key)) for key in ("env", "profile") if key in context}
    problems += [f"-c {key}=: names nothing; leave it out for all" for key, found in names.items() if not found]
    if problems:
        raise InputError("\n".join(problems))
    return Choice(names.get("env"), names.get("profile"), context)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
