"""How often requests that hang together pass a bound that their true p95 only just is, and one far beyond them all.

`python scripts/false_passes.py [RUNS]` prints the table of docs/decisions/0010. Lognormal latencies of median 400 ms;
seeded, so that the table can be made again.
"""

from __future__ import annotations

import sys
from math import exp
from pathlib import Path
from statistics import NormalDist

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loadproof.bench.measure.intervals import quantile_interval

SIZES, SPREADS = (72, 200, 1000), (0.03, 0.1, 0.2)
MEDIAN_MS, FAR_MS = 400.0, 2000.0


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


KINDS = {
    "independent": independent,
    "autoregressive, 0.5": lambda size, random: autoregressive(0.5, size, random),
    "autoregressive, 0.9": lambda size, random: autoregressive(0.9, size, random),
    "rounds of 4": lambda size, random: in_rounds(4, size, random),
    "rounds of 16": lambda size, random: in_rounds(16, size, random),
}


def passes(latencies_ms: np.ndarray, bound_ms: float) -> bool:
    """Does the p95's interval end within the bound?"""
    found = quantile_interval(latencies_ms.copy(), np.arange(1, latencies_ms.size + 1), 95.0, bound_ms)
    assert found is not None
    return found.high is not None and found.high <= bound_ms


def main(runs: int) -> None:
    spreads = " | ".join(f"{spread:.0%}" for spread in SPREADS)
    print(f"| requests | hang together | bound at the true p95: {spreads} | bound of 2,000 ms, {SPREADS[-1]:.0%} |")
    print("|---:|---|" + "---:|" * (len(SPREADS) + 1))
    for size in SIZES:
        for name, draw in KINDS.items():
            shares = []
            for spread in SPREADS:
                random = np.random.default_rng(size)
                truth = MEDIAN_MS * exp(spread * NormalDist().inv_cdf(0.95))
                drawn = [MEDIAN_MS * np.exp(spread * draw(size, random)) for _ in range(runs)]
                shares.append(sum(passes(one, truth) for one in drawn) / runs)
            far = sum(passes(one, FAR_MS) for one in drawn) / runs
            print(f"| {size} | {name} | " + " | ".join(f"{share:.1%}" for share in shares) + f" | {far:.0%} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
