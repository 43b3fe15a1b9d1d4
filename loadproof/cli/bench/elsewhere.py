"""The load sent by other machines, or by another engine: what `loadproof bench` imports only where that is asked."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from loadproof.bench.imports.run import ImportRequest, import_run
from loadproof.bench.job import new_folder, run_name
from loadproof.bench.judging import RunResult
from loadproof.bench.live.lines import OnLine
from loadproof.bench.plan import run_id_of
from loadproof.bench.remote.aiperf import managed_levels, run_managed
from loadproof.bench.remote.job import Launcher, drive, upload
from loadproof.bench.remote.launchers import JobSettings, LocalHosts, ProcessingJob, host_names, processing_job_request
from loadproof.bench.remote.settings import LOCAL_TERMS, Terms
from loadproof.bench.s3_store import S3Store, s3_client
from loadproof.bench.spec import BenchmarkSpec
from loadproof.cli.bench.remote import JobOptions
from loadproof.cli.printing import print_json
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.invocation.aws_errors import BotoCoreError
from loadproof.invocation.aws_sdk import guarded, sdk
from loadproof.untrusted import with_escapes


def run_elsewhere(options: JobOptions, spec: BenchmarkSpec, on_line: OnLine, out: Path | None) -> RunResult:
    """Run it there, judge it here. Raises as `loadproof.bench.job.run_benchmark` does."""
    if options.engine == "aiperf":
        return _run_managed(options, spec, out)
    hosts, region = host_names(options.hosts or 1), spec.target.region
    client = s3_client(region=region)
    terms = Terms() if options.remote else LOCAL_TERMS
    run = upload(spec, lambda run_id: S3Store(_place(options, run_id), client), out, terms, run_name(spec))
    launcher: Launcher = LocalHosts(hosts)
    if options.remote:
        launcher = ProcessingJob(_settings(options, run.plan.run_id), hosts, _sagemaker(region), region)
    result = drive(run, launcher, _place(options, run.plan.run_id), terms, on_line)
    for host, words in (result.summary.conditions.hosts or {}).items():
        print(with_escapes(f"{host}: {words}"), file=sys.stderr)
    return result


def print_requests(options: JobOptions, spec: BenchmarkSpec) -> int:
    """What would be asked of AWS, as one JSON document."""
    if options.engine == "aiperf":
        assert options.results is not None
        assert options.job_role is not None
        levels = managed_levels(spec, name=run_name(spec), results=options.results, role_arn=options.job_role)
        document: object = [
            {
                "level": one.load.words,
                "CreateAIWorkloadConfig": one.workload_config,
                "CreateAIBenchmarkJob": one.benchmark_job,
            }
            for one in levels
        ]
    elif options.remote:
        run_id = _run_id(spec)
        request = processing_job_request(
            _settings(options, run_id), options.hosts or 1, _place(options, run_id), spec.target.region
        )
        document = {"CreateProcessingJob": request}
    else:
        raise InputError("--dry-run: hosts on this machine ask nothing of AWS; add --remote")
    print_json(document)
    return int(ExitCode.OK)


def _place(options: JobOptions, run_id: str) -> str:
    assert options.results is not None
    return f"{options.results.rstrip('/')}/runs/{run_id}"


def _settings(options: JobOptions, run_id: str) -> JobSettings:
    assert options.job_role is not None
    assert options.job_image is not None
    name = f"loadproof-{run_id}".replace("_", "-")[:63].rstrip("-")
    return JobSettings(
        name,
        options.job_role,
        options.job_image,
        options.job_instance_type,
        tuple(options.job_subnet or ()),
        tuple(options.job_security_group or ()),
    )


def _run_managed(options: JobOptions, spec: BenchmarkSpec, out: Path | None) -> RunResult:
    assert options.results is not None
    assert options.job_role is not None
    run_id, region = _run_id(spec), spec.target.region
    levels = managed_levels(spec, name=run_id, results=options.results, role_arn=options.job_role)
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
        config = sdk("botocore.config").Config(retries={"total_max_attempts": 1})
        return guarded(sdk("boto3").client("sagemaker", region_name=region, config=config))
    except BotoCoreError as error:
        raise CouldNotRunError(f"SageMaker cannot be spoken to: {error}") from error
