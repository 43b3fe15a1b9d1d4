"""How often two runs of one endpoint are called a regression, how often intervals hold the truth, what is found.

`python scripts/regression_coverage.py [PAIRS]` prints the tables of docs/evidence.md. Seeded, so that they can be made
again. Latencies are lognormal with a spread of 20%; neighbours hang together as `scripts/false_passes.py` has it, and
in bursts: of 200 independent requests, eight neighbours take three times as long. Streams have 32 gaps each, which
share half of their variance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from false_passes import KINDS, independent

from loadproof.bench.judge.regression import TOLERANCE, outcome_of
from loadproof.bench.measure.bootstrap import percentile_resampled, ratio_resampled
from loadproof.bench.measure.metrics import Pool

SPREAD, GAPS, SLOWER = 0.2, 32, 1.25
CASES = ((40, 50.0), (80, 50.0), (80, 95.0), (200, 50.0), (200, 95.0), (400, 99.0), (1000, 95.0), (5000, 95.0))
Draw = Callable[[int, np.random.Generator], np.ndarray]


def in_bursts(size: int, random: np.random.Generator) -> np.ndarray:
    values = random.standard_normal(size)
    for start in np.flatnonzero(random.random(size) < 1 / 200):
        values[start : start + 8] += np.log(3) / SPREAD
    return values


def alone(draw: Draw, size: int, random: np.random.Generator) -> Pool:
    return Pool(100 * np.exp(SPREAD * draw(size, random)), np.arange(1, size + 1))


def of_streams(draw: Draw, size: int, random: np.random.Generator) -> Pool:
    shared = np.repeat(draw(size, random), GAPS)
    gaps = 0.5**0.5 * shared + 0.5**0.5 * random.standard_normal(size * GAPS)
    return Pool((20e6 * np.exp(SPREAD * gaps)).astype(np.uint32), GAPS * np.arange(1, size + 1), 1e6)


def row(draw: Draw, make: Callable[[Draw, int, np.random.Generator], Pool], size: int, rank: float, pairs: int) -> str:
    random = np.random.default_rng(size)
    held = wrong = open_ends = found = 0
    for pair in range(pairs):
        before, after = (
            percentile_resampled(make(draw, size, random), rank, np.arange(size), (pair, side)) for side in (0, 1)
        )
        _, low, high = ratio_resampled(before, after)
        held += (low is None or low <= 1) and (high is None or high >= 1)
        open_ends += low is None
        wrong += outcome_of(low, high, TOLERANCE) == "REGRESSION"
        found += low is not None and low * SLOWER > 1 + TOLERANCE
    shares = " | ".join(f"{count / pairs:.1%}" for count in (held, wrong))
    return f"{shares} | {open_ends / pairs:.0%} | {found / pairs:.0%}"


def main(pairs: int) -> None:
    kinds: dict[str, Draw] = {**KINDS, "bursts of 8": in_bursts}
    kinds["independent"] = independent
    print("| requests | percentile | hang together | interval holds 1 | called worse | no lower end | ×1.25 found |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for size, rank in CASES:
        for name, draw in kinds.items():
            print(f"| {size:,} | p{rank:g} | {name} | {row(draw, alone, size, rank, pairs)} |", flush=True)
    for size in (40, 80, 400):
        for name in ("independent", "rounds of 4"):
            said = row(kinds[name], of_streams, size, 95.0, pairs)
            print(f"| {size:,} | p95 of gaps | {name} | {said} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
