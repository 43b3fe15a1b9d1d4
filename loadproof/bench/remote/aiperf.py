"""AWS's managed benchmark job (AIPerf run by SageMaker) as another engine: its requests, and its results brought home.

A level is one workload configuration and one job, since a configuration has one concurrency or rate. The service's own
shapes are `CreateAIWorkloadConfig` and `CreateAIBenchmarkJob`; the configuration's inline text is AIPerf's:
`{"benchmark": {"type": "aiperf"}, "parameters": {...}, "tooling": {"api_standard": "openai"}}`.
https://docs.aws.amazon.com/sagemaker/latest/dg/generative-ai-inference-recommendations-workload-config.html
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadproof.bench.s3_store import S3Store, ask
from loadproof.bench.spec import BenchmarkSpec
from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.endpoints import Answer, Client
from loadproof.loads import Load
from loadproof.token_counts import TokenCounts

INTERVAL_S = 30.0
_SERVICE = "SageMaker's benchmark jobs"
_OVER = ("Completed", "Failed", "Stopped")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class ManagedLevel:
    """One level as the service is asked for it: the two requests, in order."""

    load: Load
    workload_config: Answer
    benchmark_job: Answer


def managed_levels(spec: BenchmarkSpec, *, name: str, results: str, role_arn: str) -> list[ManagedLevel]:
    """The requests for every level of a spec. Raises InputError naming what the service has no parameter for."""
    _refuse(spec)
    return [
        _level(spec, load, f"{name}-{number}", results, role_arn) for number, load in enumerate(spec.fixed_loads, 1)
    ]


def _level(spec: BenchmarkSpec, load: Load, name: str, results: str, role_arn: str) -> ManagedLevel:
    inline = orjson.dumps(_workload(spec, load), option=orjson.OPT_SORT_KEYS).decode()
    # A configuration cannot be changed, only made anew: what it says is in its name.
    config_name = _name(name, hashlib.sha256(inline.encode()).hexdigest()[:8])
    endpoint: dict[str, object] = {"Identifier": spec.target.endpoint}
    if spec.target.component is not None:
        endpoint["InferenceComponents"] = [{"Identifier": spec.target.component}]
    return ManagedLevel(
        load,
        {"AIWorkloadConfigName": config_name, "AIWorkloadConfigs": {"WorkloadSpec": {"Inline": inline}}},
        {
            "AIBenchmarkJobName": _name(name, "job"),
            "AIWorkloadConfigIdentifier": config_name,
            "BenchmarkTarget": {"Endpoint": endpoint},
            "OutputConfig": {"S3OutputLocation": f"{results.rstrip('/')}/{name}/"},
            "RoleArn": role_arn,
        },
    )


def _workload(spec: BenchmarkSpec, load: Load) -> dict[str, object]:
    parameters: dict[str, object] = {
        **_lengths("prompt_input_tokens", spec.workload.input_tokens),
        **_lengths("output_tokens", spec.workload.output_tokens),
        "streaming": spec.target.streaming,
        "random_seed": spec.workload.seed,
        "extra_inputs": "ignore_eos:true temperature:0",
    }
    if load.is_open:
        parameters |= {"request_rate": load.requests_per_s, "arrival_pattern": load.process}
    else:
        parameters["concurrency"] = load.concurrency
    if load.requests is not None:
        parameters["request_count"] = load.requests
    if load.duration_s is not None:
        parameters["benchmark_duration"] = load.duration_s
    if spec.warmup_requests:
        parameters["warmup_request_count"] = spec.warmup_requests
    return {"benchmark": {"type": "aiperf"}, "parameters": parameters, "tooling": {"api_standard": "openai"}}


def _lengths(name: str, counts: TokenCounts) -> dict[str, float]:
    return {f"{name}_mean": counts.mean} | ({f"{name}_stddev": counts.stddev} if counts.stddev else {})


def _refuse(spec: BenchmarkSpec) -> None:
    workload, target = spec.workload, spec.target
    cannot = {
        f"a target of kind {target.kind} (only SageMaker's endpoints)": target.kind != "sagemaker",
        f"protocol {target.protocol} (only openai chat completions)": target.protocol not in ("openai", "openai-chat"),
        "a search (give its levels)": spec.search is not None,
        "a trace": any(load.trace for load in spec.fixed_loads),
        "a rate that grows": any(load.from_requests_per_s is not None for load in spec.fixed_loads),
        "a slow start (ramp)": any(load.ramp_s for load in spec.fixed_loads),
        "bursts (gamma arrivals)": any(load.process == "gamma" for load in spec.fixed_loads),
        "a dataset of this machine": workload.dataset is not None,
        "conversations": workload.turns > 1,
        "pictures": workload.images is not None,
        "a shared prefix": workload.shared_prefix_tokens > 0,
    }
    cannot |= {
        f"{side} lengths other than fixed or normal": counts.distribution not in ("fixed", "normal")
        for side, counts in (("input", workload.input_tokens), ("output", workload.output_tokens))
    }
    found = [what for what, wanted in cannot.items() if wanted]
    if found:
        raise InputError(f"--engine aiperf cannot send {', '.join(found)}; leave it out, or use Loadproof's own engine")


def _name(base: str, end: str) -> str:
    """Within the service's 63 characters, of its letters."""
    safe = re.sub(r"[^A-Za-z0-9]+", "-", base).strip("-")[: _LONGEST_NAME - len(end) - 1].rstrip("-")
    return f"{safe}-{end}"


def run_managed(
    levels: Sequence[ManagedLevel],
    folder: Path,
    sagemaker: Client,
    s3: Client,
    on_status: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Path]:
    """Run every level's job, one after another, and fetch its files into `folder`/<job>/; those folders.

    `sagemaker` and `s3` are boto3's clients. Raises CouldNotRunError with the service's reason when a job does not
    complete or the service is not to be had here.
    """
    found = []
    for level in levels:
        job = level.benchmark_job["AIBenchmarkJobName"]
        ask(_SERVICE, sagemaker, "create_ai_workload_config", **level.workload_config)
        ask(_SERVICE, sagemaker, "create_ai_benchmark_job", **level.benchmark_job)
        status = ""
        while status not in _OVER:
            answer = ask(_SERVICE, sagemaker, "describe_ai_benchmark_job", AIBenchmarkJobName=job)
            status = answer["AIBenchmarkJobStatus"]
            on_status(f"{job} ({level.load.words}): {status}")
            if status not in _OVER:
                sleep(INTERVAL_S)
        if status != "Completed":
            raise CouldNotRunError(
                f"the benchmark job {job} is {status}: {answer.get('FailureReason', 'no reason given')}"
            )
        found.append(_fetch(S3Store(answer["OutputConfig"]["S3OutputLocation"], s3), folder / job))
    return found


def _fetch(store: S3Store, folder: Path) -> Path:
    """Whatever the job left, by its own names but flat: AIPerf's exports are told by their content."""
    folder.mkdir(parents=True, exist_ok=True)
    last, keys = "", store.keys("")
    while keys:
        for key in keys:
            (folder / key.replace("/", "--")).write_bytes(store.get(key) or b"")
            last = key
        keys = store.keys("", last)
    return folder
