"""`loadproof bench`: load on what is deployed, measured and judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadproof.bench.job import resume_benchmark, run_benchmark
from loadproof.bench.live.lines import End, OnLine
from loadproof.bench.live.view import View
from loadproof.bench.plan import read_plan
from loadproof.bench.spec import BenchmarkSpec
from loadproof.cli.bench.load import refuse_crowd, with_crew
from loadproof.cli.bench.remote import JobOptions
from loadproof.cli.bench.spec import Options, spec_from_profile, spec_from_target
from loadproof.cli.bench.watching import Watching, end_of
from loadproof.cli.options import Format, grouped
from loadproof.cli.outputs import Outputs, show
from loadproof.cli.profile_names import argument
from loadproof.errors import CouldNotRunError, InputError, LoadproofError

if TYPE_CHECKING:
    from loadproof.bench.evidence.keys import SigningKey
    from loadproof.bench.judging import RunResult


@dataclass(frozen=True, slots=True)
class SignedOutputs(Outputs):
    """With who says that it was measured."""

    sign: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="sign the run: file of a private key, or awskms:///ARN of a key in AWS KMS (docs/evidence.md)",
        ),
    ] = None

    def check(self) -> None:
        Outputs.check(self)
        if self.sign is not None:
            _key(self.sign)

    def sign_run(self, folder: Path) -> None:
        """Raises CouldNotRunError, the run being judged all the same."""
        if self.sign is None:
            return
        from loadproof.bench.evidence.standing import sign_run  # noqa: PLC0415  brings pydantic along

        try:
            sign_run(folder, _key(self.sign))
        except CouldNotRunError as error:
            again = f"loadproof evidence sign {folder} --key {self.sign}"
            raise CouldNotRunError(f"{folder} is judged and not signed: {error}; sign it later: {again}") from None


def _key(text: str) -> SigningKey:
    from loadproof.bench.evidence.keys import signing_key  # noqa: PLC0415  brings boto3 along

    return signing_key(text)


@grouped
def bench(
    *,
    profile: Annotated[Path | None, argument("profile whose deployed endpoint to load")] = None,
    options: Options,
    out: Annotated[Path | None, typer.Option(help="new or empty folder for the results; default runs/<run-id>")] = None,
    resume: Annotated[Path | None, typer.Option(help="continue the run in this folder")] = None,
    job: JobOptions,
    outputs: SignedOutputs,
    watching: Watching,
    format: Annotated[Format, typer.Option(help="text for people; json prints summary.json and nothing else")] = "text",
) -> int:
    """Load a deployed endpoint, then judge it, with evidence.

    Level by level: PASS, FAIL, INCONCLUSIVE or INVALID.

    Exit code: 0 PASS · 1 FAIL, INCONCLUSIVE or a regression, also by any failed request unless an objective or
    --max-error-rate allows it · 2 bad usage · 3 could not run, or INVALID: the client's own share decides, or it did
    not offer the load asked for · 4 NOT JUDGED: no objectives · 130 interrupted.
    """
    job.check(resume)
    watching.check(format)
    if not job.wanted:
        refuse_crowd(options.load.workers)
    spec = _spec(profile, options, resume, ask=not job.dry_run)
    if job.wanted and spec is not None and spec.target != spec.target.told:
        raise InputError(
            f"--target {spec.target.told.endpoint}: hosts read it from the run's plan, which leaves out what may be "
            "secret; send from this machine alone, or name a server without a query and a key in its path"
        )
    if spec is not None and not job.wanted:
        spec = with_crew(spec, options.load.workers)
    if job.dry_run:
        assert spec is not None
        from loadproof.cli.bench.elsewhere import print_requests  # noqa: PLC0415  brings boto3 along

        return print_requests(job, spec)
    return _run(spec, out, resume, format, outputs, job, watching)


def _spec(profile: Path | None, options: Options, resume: Path | None, *, ask: bool) -> BenchmarkSpec | None:
    """What is to be run; None where --resume alone says it. Raises InputError, CouldNotRunError."""
    if profile is not None and options.target is not None:
        raise InputError("give either a PROFILE or --target, not both")
    if profile is not None:
        return spec_from_profile(profile, options, ask=ask)
    if options.target is not None:
        return spec_from_target(options.target, options)
    if resume is None:
        raise InputError("give a PROFILE or a --target, for example: loadproof bench deploy_profiles/dev/chat.yaml")
    if options != Options():
        raise InputError(
            "--resume alone continues the run as planned; to check other options against its plan, "
            "repeat the PROFILE or --target too"
        )
    return None


def _run(
    spec: BenchmarkSpec | None,
    out: Path | None,
    resume: Path | None,
    format: Format,
    outputs: SignedOutputs,
    job: JobOptions,
    watching: Watching,
) -> int:
    """Run or resume told on the way, then print the summary or the tables on stdout."""
    if resume is not None and out is not None and out.resolve() != resume.resolve():
        raise InputError(f"--out {out} and --resume {resume} differ; a resumed run stays in its folder")
    outputs.check()
    with watching.view() as view:
        try:
            result = _result(spec, out, resume, job, view)
            outputs.sign_run(result.folder)
            code = show(result, outputs, format, tables=not watching.takes_stdout)
        except LoadproofError as error:
            view.tell(End(None, (str(error),), int(error.exit_code), None))
            raise
        view.tell(end_of(result, code))
    return code


def _result(
    spec: BenchmarkSpec | None, out: Path | None, resume: Path | None, job: JobOptions, view: View
) -> RunResult:
    if resume is not None:
        if hosts := read_plan(resume).conditions.get("hosts"):
            view.note(f"{len(hosts)} hosts sent this run; what is missing of it goes out from this machine alone")
        return resume_benchmark(resume, view.tell, spec, observe=True)
    assert spec is not None
    if spec.enlarged:
        view.note(spec.enlarged)
    for load in spec.fixed_loads:
        if load.never_full:
            view.note(load.never_full)
    return _sent(spec, view.tell, out, job)


def _sent(spec: BenchmarkSpec, on_line: OnLine, out: Path | None, job: JobOptions) -> RunResult:
    """Run it from this machine, or from where it was asked to."""
    if not job.wanted:
        return run_benchmark(spec, on_line, out, observe=True)
    from loadproof.cli.bench.elsewhere import run_elsewhere  # noqa: PLC0415  brings boto3 along

    return run_elsewhere(job, spec, on_line, out)
