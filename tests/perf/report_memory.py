"""What judging a long run takes: peak memory and CPU of `judge_run` over made-up records. Nothing is measured by it.

    .venv/bin/python tests/perf/report_memory.py [--requests 100000] [--tokens 64] [--streams 256]

Writes plan.json and requests.jsonl of a closed loop with seeded latencies into a temporary folder, then judges it in a
fresh process: summary.json, evidence.json and report.html. The hash of summary.json shows whether two versions of the
code agree to the byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from loadproof.bench.measure.records import FILE_NAME
from loadproof.bench.objectives import Objective
from loadproof.bench.plan import RunPlan, planned_in_full, write_plan
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens

TTFT_MS, ITL_MS = 50.0, 20.0


def write_run(folder: Path, requests: int, tokens: int, streams: int) -> None:
    """A run of one level: `streams` slots, every answer of `tokens` tokens, one a chunk."""
    spec = BenchmarkSpec(
        target=Target("sagemaker", "made-up", "tgi", True, region="us-east-1"),
        workload=WorkloadSpec(input_tokens=fixed_tokens(256), output_tokens=fixed_tokens(tokens)),
        concurrency=(streams,),
        requests_per_level=requests,
        objectives=(Objective("ttft_p95_ms", 100.0), Objective("itl_p99_ms", 40.0)),
    )
    utc = "2026-01-01T00:00:00.000Z"
    plan = RunPlan("made-up", utc, 0, spec, {"loadproof": "made up"}, (utc,))
    write_plan(folder, planned_in_full(plan))
    random = np.random.default_rng(7)
    free_ns = [0] * streams
    with (folder / FILE_NAME).open("wb") as file:
        for index in range(requests):
            gaps_ns = (ITL_MS * 1e6 * random.lognormal(0, 0.05, tokens)).astype(np.int64)
            gaps_ns[0] = int(TTFT_MS * 1e6 * random.lognormal(0, 0.2))
            slot = index % streams
            times_ns = (free_ns[slot] + np.cumsum(gaps_ns)).tolist()
            file.write(orjson.dumps(_row(index, streams, free_ns[slot], times_ns)) + b"\n")
            free_ns[slot] = times_ns[-1] + 90_000


def _row(index: int, streams: int, intended_ns: int, times_ns: list[int]) -> dict[str, object]:
    return {
        "phase": "measured", "session": 0, "level": 0, "concurrency": streams, "index": index,
        "intended_ns": intended_ns, "dispatched_ns": intended_ns + 40_000, "sent_ns": intended_ns + 140_000,
        "first_token_ns": times_ns[0], "last_token_ns": times_ns[-1], "end_ns": times_ns[-1] + 60_000,
        "token_times_ns": times_ns, "tokens_at": [1] * len(times_ns), "planned_input_tokens": 256,
        "planned_output_tokens": len(times_ns), "input_tokens": 260, "output_tokens": len(times_ns),
        "token_source": "server", "stalls_ns": [2_500_000] if index % 50 == 0 else [], "outcome": "ok",
        "http_status": 200, "error_code": None, "error_message": None, "read_lag_max_ns": 700_000 + index,
        "turn": 0, "counted_by": "words", "schema_version": 1,
    }  # fmt: skip


def judged(folder: Path) -> dict[str, float | str]:
    """In this process: what judging the run in `folder` took."""
    from loadproof.bench.judging import judge_run

    before, before_mb = time.process_time(), _peak_mb()
    result = judge_run(folder)
    levels = result.summary.levels
    return {
        "requests": sum(level.requests for level in levels),
        "verdict": result.summary.verdict.outcome,
        "cpu_s": round(time.process_time() - before, 2),
        "peak_mb_before": round(before_mb, 1),
        "peak_mb": round(_peak_mb(), 1),
        "summary_sha256": hashlib.sha256((folder / "summary.json").read_bytes()).hexdigest()[:16],
        "report": "written" if result.report else str(result.report_problem),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(requests: int, tokens: int, streams: int) -> dict[str, float | str]:
    """Write a run and judge it in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder, requests, tokens, streams)
        size_mb = (folder / FILE_NAME).stat().st_size / 2**20
        done = subprocess.run([sys.executable, __file__, "--judge", name], capture_output=True, text=True, check=True)
        return {**json.loads(done.stdout), "requests_jsonl_mb": round(size_mb, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)  # the judging itself, in a process of its own
    arguments = parser.parse_args()
    if arguments.judge:
        print(json.dumps(judged(arguments.judge)))
        return
    for name, value in measure(arguments.requests, arguments.tokens, arguments.streams).items():
        print(f"{name:>20}  {value}")


if __name__ == "__main__":
    main()
