"""A tree of one profile, and runs of it that are evidence: made-up latencies, real files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from bench_records import record

from loadproof.bench.from_profile import objectives_of, workload_of
from loadproof.bench.judging import judge_run
from loadproof.bench.measure.records import RecordWriter
from loadproof.bench.plan import RunPlan, planned_in_full, write_plan
from loadproof.bench.spec import BenchmarkSpec, ProfileRef, Target
from loadproof.profiles import load_profile, profile_document, profile_hash

CHAT = """
name: chat
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  source: {type: s3, s3_uri: s3://example-models/llama/, accept_eula: true}
container: {family: tgi}
endpoint: {instance_type: ml.g6e.2xlarge, min_instances: 1, max_instances: 2}
copies: {min: 2, max: 2}
objectives: {at_concurrency: 4, ttft_p95_ms: 500, error_rate_max: 0.01}
workload: {input_tokens: 10, output_tokens: 2}
benchmark: {concurrency: [4], requests_per_level: 80, warmup_requests: 1, seed: 5}
"""
TARGET = Target("sagemaker", "loadproof-dev-chat", "tgi", component="loadproof-dev-chat-main", region="eu-central-1")


def profile_tree(root: Path) -> Path:
    """deploy_profiles/dev/chat.yaml below `root`."""
    folder = root / "deploy_profiles" / "dev"
    folder.mkdir(parents=True)
    (folder / "environment.yaml").write_text('account: "123456789012"\nregion: eu-central-1\n')
    (folder / "chat.yaml").write_text(CHAT)
    return folder / "chat.yaml"


def run_of_profile(
    folder: Path,
    file: Path,
    *,
    seed: int = 1,
    slower: float = 1.0,
    requests: int = 120,
    created: datetime | None = None,
    lag_ms: float = 0,
    judged: bool = True,
    **changes: object,
) -> Path:
    """A run of the profile as it is now, four requests side by side, TTFT about 100 ms times `slower`."""
    folder.mkdir(parents=True)
    profile = load_profile(file)
    spec = BenchmarkSpec(
        target=TARGET,
        workload=workload_of(profile, file.parent),
        concurrency=tuple(profile.benchmark.concurrency),
        requests_per_level=requests,
        objectives=objectives_of(profile),
        at_concurrency=profile.objectives.at_concurrency,
        profile=ProfileRef("chat", str(file), profile_hash(profile), "dev", profile_document(profile)),
    )
    spec = replace(spec, **changes)  # type: ignore[arg-type]
    utc = (created or datetime.now(UTC)).isoformat(timespec="seconds").replace("+00:00", "Z")
    write_plan(folder, planned_in_full(RunPlan(folder.name, utc, 0, spec, {"loadproof": "0.1.0"}, (utc,))))
    with RecordWriter(folder / "requests.jsonl") as writer:
        for index, ttft in enumerate(slower * np.random.default_rng(seed).gamma(25, 4, requests)):
            start = 300.0 * slower * (index // 4)
            tokens = (start + ttft, start + ttft + 10)
            writer.append(
                record(index, intended_ms=start, token_ms=tokens, end_ms=tokens[-1], concurrency=4, lag_ms=lag_ms)
            )
    if judged:
        judge_run(folder)
    return folder
