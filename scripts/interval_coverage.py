"""How often 95% intervals of a percentile hold the truth: order statistics beside the percentile bootstrap.

`python scripts/interval_coverage.py [RUNS]` prints the table of docs/decisions/0010. Exponential latencies, whose
p-quantile is −ln(1 − p); seeded, so that the table can be made again.
"""

from __future__ import annotations

import sys
from math import log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loadproof.bench.measure.intervals import quantile_interval

SIZES, PERCENTS, RESAMPLES = (24, 32, 80, 200, 400, 1000), (50.0, 95.0, 99.0), 400


def bootstrap(samples: np.ndarray, percent: float, random: np.random.Generator) -> tuple[float, float]:
    """Efron's percentile interval."""
    drawn = samples[random.integers(0, samples.size, (RESAMPLES, samples.size))]
    low, high = np.percentile(np.percentile(drawn, percent, axis=1), (2.5, 97.5))
    return float(low), float(high)


def main(runs: int) -> None:
    print("| requests | percentile | order statistics hold it | of them without an upper end | bootstrap holds it |")
    print("|---:|---:|---:|---:|---:|")
    for size in SIZES:
        for percent in PERCENTS:
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


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
