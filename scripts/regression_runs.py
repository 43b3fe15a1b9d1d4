"""How often whole runs of one endpoint are called a regression, by all that decides at once.

`python scripts/regression_runs.py [PAIRS]` prints a table of docs/evidence.md. Requests of lognormal lengths go to the
twin of a profile in a closed loop, so that they share batches and hang together as an engine's do; each run has its own
lengths. Both runs are compared as `loadproof evidence compare` does: TTFT p95, TPOT p95, E2E p95, tokens/s and failures
decide. Slower: the same requests, each of their times a quarter longer.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loadproof.bench.judge.regression import Run, compare_runs
from loadproof.bench.measure.levels import measured_levels
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.plan import RunPlan, planned_in_full
from loadproof.bench.spec import BenchmarkSpec, Target, TokenCounts, WorkloadSpec
from loadproof.capacity import Deployment, deployment_of
from loadproof.profiles import components_of, load_profile
from loadproof.simulation.closed_loop import simulate_requests

PROFILE = Path(__file__).resolve().parents[1] / "deploy_profiles" / "prod" / "llama-3-1-8b.yaml"
INPUT, OUTPUT = TokenCounts("lognormal", 512, 256, 16, 2048), TokenCounts("lognormal", 128, 96, 2, 512)
CASES = ((16, 80), (16, 400), (64, 400))


def lengths(counts: TokenCounts, size: int, random: np.random.Generator) -> list[int]:
    variance = np.log(1 + (counts.stddev / counts.mean) ** 2)
    drawn = random.lognormal(np.log(counts.mean) - variance / 2, variance**0.5, size)
    return [int(count) for count in np.clip(drawn, counts.minimum, counts.maximum)]


@cache
def one_copy() -> Deployment:
    profile = load_profile(PROFILE)
    return replace(deployment_of(profile, components_of(profile)[0]), copies=1)


def run_of(name: str, in_flight: int, requests: int, seed: int, slower: float = 1.0) -> Run:
    """A run of the twin, its gaps all as long as the request's TPOT."""
    random = np.random.default_rng(seed)
    sizes = list(zip(lengths(INPUT, requests, random), lengths(OUTPUT, requests, random), strict=True))
    spec = BenchmarkSpec(
        Target("sagemaker", "twin", "tgi"), WorkloadSpec(INPUT, OUTPUT), (in_flight,), requests, exact_requests=True
    )
    records = []
    for index, one in enumerate(sorted(simulate_requests(one_copy(), sizes, in_flight))):
        sent, first, end = (round(slower * ms * 1e6) for ms in (one.sent_ms, one.first_token_ms, one.end_ms))
        times = np.linspace(first, end, one.output_tokens).astype(np.int64).tolist()
        records.append(
            RequestRecord(
                "measured", 0, 0, in_flight, index, sent, sent, sent, first, end, end, times, [1] * len(times),
                one.input_tokens, one.output_tokens, one.input_tokens, one.output_tokens, "server", (), "ok",
            )
        )  # fmt: skip
    plan = planned_in_full(RunPlan(name, "", 0, spec, {}, ("",)))
    return Run(Path(name), plan, measured_levels(plan, records))


def main(pairs: int) -> None:
    print("| in flight | requests | called a regression | improved | no change | inconclusive | ×1.25 found |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for in_flight, requests in CASES:
        outcomes: Counter[str] = Counter()
        found = 0
        for pair in range(pairs):
            before, after = (run_of(name, in_flight, requests, 2 * pair + side) for side, name in enumerate("ab"))
            outcomes[compare_runs(before, after).outcome] += 1
            slow = run_of("slow", in_flight, requests, 2 * pair + 1, 1.25)
            found += compare_runs(before, slow).outcome == "REGRESSION"
        said = [outcomes[name] for name in ("REGRESSION", "IMPROVED", "NO CHANGE", "INCONCLUSIVE")]
        cells = " | ".join(f"{count / pairs:.0%}" for count in (*said, found))
        print(f"| {in_flight} | {requests} | {cells} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
