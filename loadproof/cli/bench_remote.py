"""Options of `loadproof bench` that let other machines, or another engine, send the load."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadproof.errors import ExitCode, InputError
from loadproof.foreign import spelled

if TYPE_CHECKING:
    from benchmarks.job import RunResult
    from benchmarks.remote.launchers import JobSettings
    from benchmarks.spec import BenchmarkSpec
    from benchmarks.sweep import OnProgress

PANEL = "Several hosts, another engine"
DEFAULT_INSTANCE_TYPE = "ml.c7i.2xlarge"


class Engine(StrEnum):
    """Who sends the load."""

    LOADPROOF = "loadproof"
    AIPERF = "aiperf"


Remote = Annotated[
    bool,
    typer.Option("--remote", help="send from a SageMaker Processing job of --hosts instances", rich_help_panel=PANEL),
]
HostCount = Annotated[
    int | None,
    typer.Option(min=1, max=100, help="instances of the job; without --remote hosts on this machine: a rehearsal"),
]
Results = Annotated[str | None, typer.Option(help="s3://BUCKET[/PREFIX] where hosts meet and results stay")]
JobRole = Annotated[str | None, typer.Option(help="ARN of the job's role: S3 and the endpoint")]
JobImage = Annotated[str | None, typer.Option(help="container image of the job (docs/benchmark-remote.md)")]
JobInstanceType = Annotated[str, typer.Option(help="instance type of the job's hosts")]
JobSubnet = Annotated[list[str] | None, typer.Option(help="subnet of the job's hosts, repeatable")]
JobSecurityGroup = Annotated[list[str] | None, typer.Option(help="security group of the job's hosts, repeatable")]
EngineChoice = Annotated[
    Engine, typer.Option(help="who sends: Loadproof, or AWS's managed benchmark job (AIPerf) where the account has it")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print the requests to AWS as JSON; ask and send nothing")]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options as given."""

    remote: bool = False
    hosts: int | None = None
    results: str | None = None
    role: str | None = None
    image: str | None = None
    instance_type: str = DEFAULT_INSTANCE_TYPE
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    engine: Engine = Engine.LOADPROOF
    dry_run: bool = False

    @property
    def wanted(self) -> bool:
        """Does somebody else than this process send the load?"""
        return self.remote or self.hosts is not None or self.engine is Engine.AIPERF

    def check(self, resume: Path | None) -> None:
        """Refuse what is missing or does not go together, all of it at once. Raises InputError."""
        if not self.wanted:
            if self.dry_run or self.results or self.role or self.image:
                raise InputError("--dry-run, --results, --job-role and --job-image go with --remote or --engine aiperf")
            return
        if resume is not None:
            raise InputError("--resume sends from this machine; leave out --remote, --hosts and --engine")
        needed = {"--results s3://BUCKET/PREFIX": self.results}
        if self.remote or self.engine is Engine.AIPERF:
            needed["--job-role ARN"] = self.role
        if self.remote and self.engine is Engine.LOADPROOF:
            needed["--job-image URI"] = self.image
        if missing := [name for name, value in needed.items() if value is None]:
            raise InputError(
                f"needs {', '.join(missing)}: where hosts meet, and what the job runs as (docs/benchmark-remote.md)"
            )
        if self.results is not None:
            from benchmarks.remote.store import parse_uri

            parse_uri(self.results)
        if self.engine is Engine.AIPERF and self.hosts is not None:
            raise InputError("--engine aiperf is a job of AWS's own: leave out --hosts")

    def run(self, spec: BenchmarkSpec, on_progress: OnProgress, out: Path | None) -> RunResult:
        """Run it there, judge it here. Raises as `benchmarks.job.run_benchmark` does."""
        if self.engine is Engine.AIPERF:
            return self._run_managed(spec, out)
        from benchmarks.job import run_name
        from benchmarks.remote.job import Launcher, drive, upload
        from benchmarks.remote.launchers import LocalHosts, ProcessingJob, host_names
        from benchmarks.remote.settings import LOCAL_TERMS, Terms
        from benchmarks.remote.store import S3Store, s3_client

        hosts, region = host_names(self.hosts or 1), spec.target.region
        client = s3_client(region=region)
        terms = Terms() if self.remote else LOCAL_TERMS
        run = upload(spec, lambda run_id: S3Store(self._place(run_id), client), out, terms, run_name(spec))
        launcher: Launcher = LocalHosts(hosts)
        if self.remote:
            launcher = ProcessingJob(self._settings(run.plan.run_id), hosts, _sagemaker(region), region)
        result = drive(run, launcher, self._place(run.plan.run_id), terms, on_progress)
        for host, words in result.summary["conditions"]["hosts"].items():
            print(spelled(f"{host}: {words}"), file=sys.stderr)
        return result

    def print_requests(self, spec: BenchmarkSpec) -> int:
        """What would be asked of AWS, as one JSON document."""
        import orjson

        from benchmarks.job import run_name
        from benchmarks.remote.aiperf import managed_levels
        from benchmarks.remote.launchers import processing_job_request

        if self.engine is Engine.AIPERF:
            assert self.results is not None
            assert self.role is not None
            levels = managed_levels(spec, name=run_name(spec), results=self.results, role_arn=self.role)
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
        sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")
        return int(ExitCode.OK)

    def _place(self, run_id: str) -> str:
        assert self.results is not None
        return f"{self.results.rstrip('/')}/runs/{run_id}"

    def _settings(self, run_id: str) -> JobSettings:
        from benchmarks.remote.launchers import JobSettings

        assert self.role is not None
        assert self.image is not None
        name = f"loadproof-{run_id}".replace("_", "-")[:63].rstrip("-")
        return JobSettings(name, self.role, self.image, self.instance_type, self.subnets, self.security_groups)

    def _run_managed(self, spec: BenchmarkSpec, out: Path | None) -> RunResult:
        import time

        from benchmarks.imports.run import ImportRequest, import_run
        from benchmarks.job import new_folder
        from benchmarks.remote.aiperf import managed_levels, run_managed
        from benchmarks.remote.store import s3_client

        assert self.results is not None
        assert self.role is not None
        run_id, region = _run_id(spec), spec.target.region
        levels = managed_levels(spec, name=run_id, results=self.results, role_arn=self.role)
        folder = new_folder(Path("runs"), run_id) if out is None else out
        folders = run_managed(
            levels,
            folder / "aiperf",
            _sagemaker(region),
            s3_client(region=region),
            lambda said: print(spelled(said, keep="\n"), file=sys.stderr),
        )
        return import_run(ImportRequest(tuple(folders), folder, run_id, time.time_ns(), spec=spec))


def _run_id(spec: BenchmarkSpec) -> str:
    import time

    from benchmarks.job import run_name
    from benchmarks.plan import run_id_of

    return run_id_of(time.time_ns(), run_name(spec))


def _sagemaker(region: str | None) -> object:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    from loadproof.errors import CouldNotRunError

    try:
        return boto3.client("sagemaker", region_name=region, config=Config(retries={"total_max_attempts": 1}))
    except BotoCoreError as error:
        raise CouldNotRunError(f"SageMaker cannot be spoken to: {error}") from error
