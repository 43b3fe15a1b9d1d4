"""Options of `loadproof bench` that let other machines, or another engine, send the load."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import boto3
import typer
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from loadproof.bench.imports.run import ImportRequest, import_run
from loadproof.bench.job import new_folder, run_name
from loadproof.bench.judge.run import RunResult
from loadproof.bench.live.lines import OnLine
from loadproof.bench.plan import run_id_of
from loadproof.bench.remote.aiperf import managed_levels, run_managed
from loadproof.bench.remote.job import Launcher, drive, upload
from loadproof.bench.remote.launchers import JobSettings, LocalHosts, ProcessingJob, host_names, processing_job_request
from loadproof.bench.remote.settings import LOCAL_TERMS, Terms
from loadproof.bench.remote.store import S3Store, parse_uri, s3_client
from loadproof.bench.spec import BenchmarkSpec
from loadproof.cli.printing import print_json
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.untrusted import with_escapes

PANEL = "Several hosts, another engine"


Engine = Literal["loadproof", "aiperf"]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options as given."""

    remote: Annotated[
        bool,
        typer.Option(
            "--remote", help="send from a SageMaker Processing job of --hosts instances", rich_help_panel=PANEL
        ),
    ] = False
    hosts: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="instances of the job; without --remote hosts on this machine: a rehearsal"),
    ] = None
    results: Annotated[str | None, typer.Option(help="s3://BUCKET[/PREFIX] where hosts meet and results stay")] = None
    job_role: Annotated[str | None, typer.Option(help="ARN of the job's role: S3 and the endpoint")] = None
    job_image: Annotated[str | None, typer.Option(help="container image of the job (docs/benchmark-remote.md)")] = None
    job_instance_type: Annotated[str, typer.Option(help="instance type of the job's hosts")] = "ml.c7i.2xlarge"
    job_subnet: Annotated[list[str] | None, typer.Option(help="subnet of the job's hosts, repeatable")] = None
    job_security_group: Annotated[
        list[str] | None, typer.Option(help="security group of the job's hosts, repeatable")
    ] = None
    engine: Annotated[
        Engine,
        typer.Option(help="who sends: Loadproof, or AWS's managed benchmark job (AIPerf) where the account has it"),
    ] = "loadproof"
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the requests to AWS as JSON; ask and send nothing")
    ] = False

    @property
    def wanted(self) -> bool:
        """Does somebody else than this process send the load?"""
        return self.remote or self.hosts is not None or self.engine == "aiperf"

    def check(self, resume: Path | None) -> None:
        """Refuse what is missing or does not go together, all of it at once. Raises InputError."""
        if not self.wanted:
            if self.dry_run or self.results or self.job_role or self.job_image:
                raise InputError("--dry-run, --results, --job-role and --job-image go with --remote or --engine aiperf")
            return
        if resume is not None:
            raise InputError("--resume sends from this machine; leave out --remote, --hosts and --engine")
        needed = {"--results s3://BUCKET/PREFIX": self.results}
        if self.remote or self.engine == "aiperf":
            needed["--job-role ARN"] = self.job_role
        if self.remote and self.engine == "loadproof":
            needed["--job-image URI"] = self.job_image
        if missing := [name for name, value in needed.items() if value is None]:
            raise InputError(
                f"needs {', '.join(missing)}: where hosts meet, and what the job runs as (docs/benchmark-remote.md)"
            )
        if self.results is not None:
            parse_uri(self.results)
        if self.engine == "aiperf" and self.hosts is not None:
            raise InputError("--engine aiperf is a job of AWS's own: leave out --hosts")

    def run(self, spec: BenchmarkSpec, on_line: OnLine, out: Path | None) -> RunResult:
        """Run it there, judge it here. Raises as `loadproof.bench.job.run_benchmark` does."""
        if self.engine == "aiperf":
            return self._run_managed(spec, out)
        hosts, region = host_names(self.hosts or 1), spec.target.region
        client = s3_client(region=region)
        terms = Terms() if self.remote else LOCAL_TERMS
        run = upload(spec, lambda run_id: S3Store(self._place(run_id), client), out, terms, run_name(spec))
        launcher: Launcher = LocalHosts(hosts)
        if self.remote:
            launcher = ProcessingJob(self._settings(run.plan.run_id), hosts, _sagemaker(region), region)
        result = drive(run, launcher, self._place(run.plan.run_id), terms, on_line)
        for host, words in (result.summary.conditions.hosts or {}).items():
            print(with_escapes(f"{host}: {words}"), file=sys.stderr)
        return result

    def print_requests(self, spec: BenchmarkSpec) -> int:
        """What would be asked of AWS, as one JSON document."""
        if self.engine == "aiperf":
            assert self.results is not None
            assert self.job_role is not None
            levels = managed_levels(spec, name=run_name(spec), results=self.results, role_arn=self.job_role)
            document: object = [
                {
                    "level": one.load.words,
                    "CreateAIWorkloadConfig": one.workload_config,
                    "CreateAIBenchmarkJob": one.benchmark_job,
                }
                for one in levels
            ]
        elif self.remote:
            run_id = _run_id(spec)
            request = processing_job_request(
                self._settings(run_id), self.hosts or 1, self._place(run_id), spec.target.region
            )
            document = {"CreateProcessingJob": request}
        else:
            raise InputError("--dry-run: hosts on this machine ask nothing of AWS; add --remote")
        print_json(document)
        return int(ExitCode.OK)

    def _place(self, run_id: str) -> str:
        assert self.results is not None
        return f"{self.results.rstrip('/')}/runs/{run_id}"

    def _settings(self, run_id: str) -> JobSettings:
        assert self.job_role is not None
        assert self.job_image is not None
        name = f"loadproof-{run_id}".replace("_", "-")[:63].rstrip("-")
        return JobSettings(
            name,
            self.job_role,
            self.job_image,
            self.job_instance_type,
            tuple(self.job_subnet or ()),
            tuple(self.job_security_group or ()),
        )

    def _run_managed(self, spec: BenchmarkSpec, out: Path | None) -> RunResult:
        assert self.results is not None
        assert self.job_role is not None
        run_id, region = _run_id(spec), spec.target.region
        levels = managed_levels(spec, name=run_id, results=self.results, role_arn=self.job_role)
        folder = new_folder(Path("runs"), run_id) if out is None else out
        folders = run_managed(
            levels,
            folder / "aiperf",
            _sagemaker(region),
            s3_client(region=region),
            lambda said: print(with_escapes(said, keep="\n"), file=sys.stderr),
        )
        return import_run(ImportRequest(tuple(folders), folder, run_id, time.time_ns(), spec=spec))


def _run_id(spec: BenchmarkSpec) -> str:
    return run_id_of(time.time_ns(), run_name(spec))


def _sagemaker(region: str | None) -> object:
    try:
        return boto3.client("sagemaker", region_name=region, config=Config(retries={"total_max_attempts": 1}))
    except BotoCoreError as error:
        raise CouldNotRunError(f"SageMaker cannot be spoken to: {error}") from error
