"""`loadproof evidence list|show|compare|add|sign|check`: runs that are kept, and what they prove."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from loadproof.bench.compare.regression import compare_runs, read_run
from loadproof.bench.evidence.filing import at_hand, file_run
from loadproof.bench.evidence.keys import SigningKey, signing_key
from loadproof.bench.evidence.moved import held_against, read_traffic
from loadproof.bench.evidence.places import place_of, places_of
from loadproof.bench.evidence.repeats import kept_with
from loadproof.bench.evidence.standing import sign_run, standing_of, statement_to_sign
from loadproof.bench.evidence.status import proof_of, status_of
from loadproof.bench.evidence.store import read_stored
from loadproof.cli.attempts import Complaints
from loadproof.cli.evidence.compare import Progress, print_comparison
from loadproof.cli.evidence.find import find_run, profiles_of, profiles_to_prove
from loadproof.cli.evidence.text import (
    Row,
    age_limit,
    print_proofs,
    print_run,
    print_runs,
    proof_document,
    run_document,
    shown_document,
    size_of,
)
from loadproof.cli.options import OneDocument
from loadproof.cli.outputs import Tolerance
from loadproof.cli.printing import print_json, say
from loadproof.cli.profile_names import complete_place
from loadproof.cli.signers import SignersFile, signers_here
from loadproof.errors import ExitCode, InputError

app = typer.Typer(
    help="Runs that are kept: what they prove, how they differ.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Profiles = Annotated[
    list[Path] | None,
    typer.Option("--profile", help="profile to hold runs against, repeatable (default: all of deploy_profiles)"),
]
Places = Annotated[
    list[str] | None,
    typer.Option("--place", help="folder or s3://BUCKET/PREFIX of runs, repeatable (default: evidence and runs)"),
]
_RUN = "folder of a run, s3://BUCKET/PREFIX/RUN, a run id, or a profile as ENV/NAME or file: its newest run"


CompareFormat = Literal["text", "json", "markdown"]


FailOn = Literal["regression", "inconclusive", "never"]


@app.command("list")
def list_runs(
    place: Annotated[
        list[str] | None, typer.Argument(help="folder or s3://BUCKET/PREFIX of runs; default: evidence and runs")
    ] = None,
    profile: Profiles = None,
    signers: SignersFile = None,
    format: OneDocument = "text",
) -> int:
    """List the runs kept, the newest first.

    Verdict, age, and whether their profile has changed since. Only a run's small files are read; loadproof verify
    checks all of it.
    """
    runs = read_stored(places_of(place or ()))
    profiles = profiles_of(profile, runs)
    listed, now = signers_here(signers), _now()
    rows = [Row(run, status_of(run, profiles), standing_of(run, listed)) for run in runs]
    if format == "json":
        print_json({"schema_version": 1, "runs": [run_document(row, now) for row in rows]})
    else:
        print_runs(rows, now)
    return ExitCode.OK


@app.command()
def show(
    run: Annotated[str, typer.Argument(help=_RUN)],
    place: Places = None,
    profile: Profiles = None,
    signers: SignersFile = None,
    format: OneDocument = "text",
) -> int:
    """Show what a run's verdict rests on.

    Objectives, figures and intervals, conditions, versions, hashes, where.
    """
    found = find_run(run, place or ())
    standing, now = standing_of(found, signers_here(signers)), _now()
    row = Row(found, status_of(found, profiles_of(profile, [found])), standing)
    if format == "json":
        print_json(shown_document(row, now))
    else:
        print_run(row, now)
    return ExitCode.OK


@app.command()
def compare(
    before: Annotated[str, typer.Argument(help=_RUN)],
    after: Annotated[str, typer.Argument(help="the run to hold to it, named likewise")],
    tolerance: Tolerance = 0.05,
    fail_on: Annotated[FailOn, typer.Option(help="exit 1 from this outcome on")] = "regression",
    place: Places = None,
    format: Annotated[
        CompareFormat, typer.Option(help="text for people, json for programs, markdown for a pull request")
    ] = "text",
) -> int:
    """Hold a run to an earlier one.

    Each figure's ratio has its 95% interval, by a bootstrap over requests. The outcome is REGRESSION, NO CHANGE,
    IMPROVED or INCONCLUSIVE. Exit code: 0 · 1 a regression (--fail-on) · 2 runs that cannot be held against each
    other · 3 a client that did not offer the load asked for, a place that cannot be read.
    """
    runs = [find_run(one, place or ()) for one in (before, after)]
    if runs[0].where == runs[1].where:
        raise InputError(f"both are {runs[0].where}; name another run to hold it to")
    for run in runs:
        if not run.has_requests:
            raise InputError(f"{run.where}: kept without its requests, so it can only be shown; compare another run")
    told = Progress()
    with at_hand(runs[0]) as one, at_hand(runs[1]) as other:
        told.say("reading the requests of both runs")
        earlier, later = read_run(one), read_run(other)
        told.say("drawing requests again, level by level")
        comparison = compare_runs(earlier, later, tolerance, told.level, kept_with((one, other), place or ()))
    print_comparison(comparison, [run.where for run in runs], format)
    if not comparison.measured:
        return ExitCode.COULD_NOT_RUN
    failing = {"regression": {"REGRESSION"}, "inconclusive": {"REGRESSION", "INCONCLUSIVE"}}
    return ExitCode.MISSED if comparison.outcome in failing.get(fail_on, set()) else ExitCode.OK


@app.command()
def add(
    run: Annotated[list[Path], typer.Argument(help="folders of judged runs of a profile")],
    to: Annotated[str, typer.Option(help="folder or s3://BUCKET/PREFIX to keep them in")] = "evidence",
    without_requests: Annotated[
        bool, typer.Option("--without-requests", help="keep the figures alone: no other run can be held to it")
    ] = False,
    with_report: Annotated[bool, typer.Option("--with-report", help="keep report.html, too")] = False,
) -> int:
    """Keep runs as evidence.

    In <to>/<environment>/<profile>/<run-id>/, requests packed, nothing written over. A run whose files do not fit
    together is refused. Exit code: 0 kept, or kept before · 2 refused · 3 could not.
    """
    place, attempts = place_of(to), Complaints()
    for folder in run:
        keep = partial(file_run, folder, place, requests=not without_requests, report=with_report)
        if (filed := attempts.attempt(keep, None)) is not None:
            say(f"{filed.where}: {f'kept, {size_of(filed.written)}' if filed.written else 'kept before'}")
    attempts.finish()
    return ExitCode.OK


@app.command()
def sign(
    run: Annotated[list[Path], typer.Argument(help="folders of judged runs")],
    key: Annotated[str, typer.Option(help="file of a private key, or awskms:///ARN of a key in AWS KMS")],
) -> int:
    """Sign runs with a key.

    Who holds it says that these requests, this verdict and this endpoint are what was measured.

    evidence.dsse.json is written; a run that somebody signed gets one more signature. Exit code: 0 signed · 2 a run
    that does not fit together, no such key · 3 KMS refuses.
    """
    signing, attempts = signing_key(key), Complaints()
    for folder in run:
        if attempts.attempt(partial(_sign, folder, signing), None):
            say(f"{folder}: signed by {signing.keyid}")
    attempts.finish()
    return ExitCode.OK


@app.command()
def statement(run: Annotated[Path, typer.Argument(help="folder of a judged run")]) -> int:
    """Print what is signed of a run.

    For another program to sign: a Sigstore bundle around exactly these bytes, kept as evidence.dsse.json beside
    the run's files, is read like our own signatures. Each call has another nonce. Exit code: 0 · 2 a run that does
    not fit together.
    """
    sys.stdout.write(statement_to_sign(run).decode())
    return ExitCode.OK


def _sign(folder: Path, key: SigningKey) -> bool:
    sign_run(folder, key)
    return True


@app.command()
def check(
    profile: Annotated[
        list[Path] | None,
        typer.Argument(
            help="profiles or folders of them; default: all of deploy_profiles", autocompletion=complete_place
        ),
    ] = None,
    place: Places = None,
    signers: SignersFile = None,
    max_age: Annotated[str, typer.Option(help="how old a run may be: 12h, 30d, or any")] = "30d",
    local_cloud: Annotated[
        bool, typer.Option("--local-cloud", help="count runs against a local cloud, which measured nothing at AWS")
    ] = False,
    traffic: Annotated[
        list[Path] | None,
        typer.Option(
            help="what `learn --against PROFILE --format json` printed, repeatable: moved traffic is not proven"
        ),
    ] = None,
    format: OneDocument = "text",
) -> int:
    """Check that every profile has a PASS of its own.

    Of the profile as it is now, judged as it says, not too old. The newest run of the profile as it is decides.
    Where deploy_profiles/signers.yaml lists who may sign, runs that are only claimed do not count. Exit code: 0 all
    proven · 1 not · 2 bad usage.
    """
    most = age_limit(max_age)
    profiles = profiles_to_prove(profile)
    runs, now = read_stored(places_of(place or (), must_exist=False)), _now()  # before the first run nothing is kept
    listed = signers_here(signers)
    proofs = [proof_of(one, runs, now, most, local_cloud=local_cloud, signers=listed) for one in profiles]
    proofs = held_against(proofs, [read_traffic(file) for file in traffic or ()])
    all_hold = all(proof.holds for proof in proofs)
    if format == "json":
        documents = [proof_document(proof, now) for proof in proofs]
        print_json({"schema_version": 1, "ok": all_hold, "profiles": documents})
    else:
        print_proofs(proofs, listed, now)
    return ExitCode.OK if all_hold else ExitCode.MISSED


def _now() -> datetime:
    return datetime.now(UTC)
