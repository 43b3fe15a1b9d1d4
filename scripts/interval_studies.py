"""How good the benchmark's intervals and verdicts are, on samples whose truth is known; seeded, to be made again.

`python scripts/interval_studies.py STUDY [COUNT]` prints a table:

- `coverage`: how often 95% intervals of a percentile hold the truth: order statistics beside the percentile bootstrap.
  Exponential latencies, whose p-quantile is −ln(1 − p). Of docs/decisions/0010.
- `pairs`: how often two runs of one endpoint are called a regression, how often intervals hold the truth, what is seen.
  Lognormal latencies with a spread of 20%; neighbours hang together, and in bursts: of 200 independent
  requests, eight neighbours take three times as long. Streams have 32 gaps each, which share half of their variance. Of
  docs/evidence.md.
- `runs`: the same of whole runs, by all that decides at once. Requests of lognormal lengths go to the twin of a profile
  in a closed loop, so that they share batches and hang together as an engine's do; each run has its own lengths. Both
  are compared as `loadproof evidence compare` does: TTFT p95, TPOT p95, E2E p95, tokens/s and failures decide. Slower:
  the same requests, each of their times a quarter longer. Of docs/evidence.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from loadproof.bench.compare.regression import TOLERANCE, Run, compare_runs, outcome_of  # noqa: E402
from loadproof.bench.measure.bootstrap import percentile_resampled, ratio_resampled  # noqa: E402
from loadproof.bench.measure.intervals import quantile_interval  # noqa: E402
from loadproof.bench.measure.latencies import Pool  # noqa: E402
from loadproof.bench.measure.levels import measured_levels  # noqa: E402
from loadproof.bench.measure.records import RequestRecord, bare_record  # noqa: E402
from loadproof.bench.plan import RunPlan, planned_in_full  # noqa: E402
from loadproof.bench.spec import BenchmarkSpec, Target, TokenCounts, WorkloadSpec  # noqa: E402
from loadproof.capacity import PlannedDeployment, deployment_of  # noqa: E402
from loadproof.profiles import components_of, load_profile  # noqa: E402
from loadproof.simulation.closed_loop import simulate_requests  # noqa: E402

Draw = Callable[[int, np.random.Generator], np.ndarray]
SPREAD, GAPS, SLOWER = 0.2, 32, 1.25
PROFILE = REPOSITORY / "deploy_profiles" / "prod" / "llama-3-1-8b.yaml"
INPUT, OUTPUT = TokenCounts("lognormal", 512, 256, 16, 2048), TokenCounts("lognormal", 128, 96, 2, 512)


def coverage(runs: int) -> None:
    print("| requests | percentile | order statistics hold it | of them without an upper end | bootstrap holds it |")
    print("|---:|---:|---:|---:|---:|")
    for size in (24, 32, 80, 200, 400, 1000):
        for percent in (50.0, 95.0, 99.0):
            truth, held, open_ended, resampled = -log(1 - percent / 100), 0, 0, 0
            random = np.random.default_rng(size)
            for _ in range(runs):
                samples = random.exponential(size=size)
                found = quantile_interval(samples.copy(), np.arange(1, size + 1), percent)
                assert found is not None
                held += (found.low or 0) <= truth and (found.high is None or truth <= found.high)
                open_ended += found.high is None
                low, high = bootstrap(samples, percent, random)
                resampled += low <= truth <= high
            print(f"| {size} | p{percent:g} | {held / runs:.1%} | {open_ended / runs:.0%} | {resampled / runs:.1%} |")


def bootstrap(samples: np.ndarray, percent: float, random: np.random.Generator) -> tuple[float, float]:
    """Efron's percentile interval."""
    drawn = samples[random.integers(0, samples.size, (400, samples.size))]
    low, high = np.percentile(np.percentile(drawn, percent, axis=1), (2.5, 97.5))
    return float(low), float(high)


def independent(size: int, random: np.random.Generator) -> np.ndarray:
    return random.standard_normal(size)


def autoregressive(share: float, size: int, random: np.random.Generator) -> np.ndarray:
    """Each is `share` of the one before and the rest chance; variance 1."""
    values = random.standard_normal(size)
    for index in range(1, size):
        values[index] = share * values[index - 1] + (1 - share**2) ** 0.5 * values[index]
    return values


def in_rounds(of: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Rounds of that many neighbours that share 70% of their variance."""
    shared = np.repeat(random.standard_normal(-(-size // of)), of)[:size]
    return 0.7**0.5 * shared + 0.3**0.5 * random.standard_normal(size)


def in_bursts(size: int, random: np.random.Generator) -> np.ndarray:
    values = random.standard_normal(size)
    for start in np.flatnonzero(random.random(size) < 1 / 200):
        values[start : start + 8] += np.log(3) / SPREAD
    return values


KINDS: dict[str, Draw] = {
    "independent": independent,
    "autoregressive, 0.5": lambda size, random: autoregressive(0.5, size, random),
    "autoregressive, 0.9": lambda size, random: autoregressive(0.9, size, random),
    "rounds of 4": lambda size, random: in_rounds(4, size, random),
    "rounds of 16": lambda size, random: in_rounds(16, size, random),
}


def pairs(count: int) -> None:
    kinds = {**KINDS, "bursts of 8": in_bursts}
    print("| requests | percentile | hang together | interval holds 1 | called worse | no lower end | ×1.25 found |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for size, rank in ((40, 50), (80, 50), (80, 95), (200, 50), (200, 95), (400, 99), (1000, 95), (5000, 95)):
        for name, draw in kinds.items():
            print(f"| {size:,} | p{rank:g} | {name} | {row(draw, alone, size, rank, count)} |", flush=True)
    for size in (40, 80, 400):
        for name in ("independent", "rounds of 4"):
            said = row(kinds[name], of_streams, size, 95.0, count)
            print(f"| {size:,} | p95 of gaps | {name} | {said} |", flush=True)


def row(draw: Draw, make: Callable[[Draw, int, np.random.Generator], Pool], size: int, rank: float, count: int) -> str:
    random = np.random.default_rng(size)
    held = wrong = open_ends = found = 0
    for pair in range(count):
        before, after = (
            percentile_resampled(make(draw, size, random), rank, np.arange(size), (pair, side)) for side in (0, 1)
        )
        _, low, high = ratio_resampled(before, after)
        held += (low is None or low <= 1) and (high is None or high >= 1)
        open_ends += low is None
        wrong += outcome_of(low, high, TOLERANCE) == "REGRESSION"
        found += low is not None and low * SLOWER > 1 + TOLERANCE
    shares = " | ".join(f"{number / count:.1%}" for number in (held, wrong))
    return f"{shares} | {open_ends / count:.0%} | {found / count:.0%}"


def alone(draw: Draw, size: int, random: np.random.Generator) -> Pool:
    return Pool(100 * np.exp(SPREAD * draw(size, random)), np.arange(1, size + 1))


def of_streams(draw: Draw, size: int, random: np.random.Generator) -> Pool:
    shared = np.repeat(draw(size, random), GAPS)
    gaps = 0.5**0.5 * shared + 0.5**0.5 * random.standard_normal(size * GAPS)
    return Pool((20e6 * np.exp(SPREAD * gaps)).astype(np.uint32), GAPS * np.arange(1, size + 1), 1e6)


def runs(count: int) -> None:
    print("| in flight | requests | called a regression | improved | no change | inconclusive | ×1.25 found |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for in_flight, requests in ((16, 80), (16, 400), (64, 400)):
        outcomes: Counter[str] = Counter()
        found = 0
        for pair in range(count):
            before, after = (run_of(name, in_flight, requests, 2 * pair + side) for side, name in enumerate("ab"))
            outcomes[compare_runs(before, after).outcome] += 1
            slow = run_of("slow", in_flight, requests, 2 * pair + 1, SLOWER)
            found += compare_runs(before, slow).outcome == "REGRESSION"
        said = [outcomes[name] for name in ("REGRESSION", "IMPROVED", "NO CHANGE", "INCONCLUSIVE")]
        cells = " | ".join(f"{number / count:.0%}" for number in (*said, found))
        print(f"| {in_flight} | {requests} | {cells} |", flush=True)


def run_of(name: str, in_flight: int, requests: int, seed: int, slower: float = 1.0) -> Run:
    """A run of the twin, its gaps all as long as the request's TPOT."""
    random = np.random.default_rng(seed)
    sizes = list(zip(lengths(INPUT, requests, random), lengths(OUTPUT, requests, random), strict=True))
    spec = BenchmarkSpec(
        Target("sagemaker", "twin", "tgi"), WorkloadSpec(INPUT, OUTPUT), (in_flight,), requests, exact_requests=True
    )
    records: list[RequestRecord] = []
    for index, one in enumerate(sorted(simulate_requests(one_copy(), sizes, in_flight))):
        sent, first, end = (round(slower * ms * 1e6) for ms in (one.sent_ms, one.first_token_ms, one.end_ms))
        times = np.linspace(first, end, one.output_tokens).astype(np.int64).tolist()
        records.append(
            replace(
                bare_record(index, sent, end, "ok"),
                concurrency=in_flight,
                sent_ns=sent,
                first_token_ns=first,
                last_token_ns=end,
                token_times_ns=times,
                tokens_at=[1] * len(times),
                planned_input_tokens=one.input_tokens,
                planned_output_tokens=one.output_tokens,
                input_tokens=one.input_tokens,
                output_tokens=one.output_tokens,
                token_source="server",
            )
        )
    plan = planned_in_full(RunPlan(name, "", 0, spec, {}, ("",)))
    return Run(Path(name), plan, measured_levels(plan, records))


def lengths(counts: TokenCounts, size: int, random: np.random.Generator) -> list[int]:
    variance = np.log(1 + (counts.stddev / counts.mean) ** 2)
    drawn = random.lognormal(np.log(counts.mean) - variance / 2, variance**0.5, size)
    return [int(count) for count in np.clip(drawn, counts.minimum, counts.maximum)]


@cache
def one_copy() -> PlannedDeployment:
    profile = load_profile(PROFILE)
    return replace(deployment_of(profile, components_of(profile)[0]), copies=1)


STUDIES = {"coverage": (coverage, 400), "pairs": (pairs, 200), "runs": (runs, 100)}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in STUDIES:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(STUDIES)} [COUNT]")
    study, usual = STUDIES[sys.argv[1]]
    study(int(sys.argv[2]) if len(sys.argv) > 2 else usual)
