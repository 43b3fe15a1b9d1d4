"""How often a change between runs is called, where runs of one endpoint differ from each other.

    python scripts/repeat_studies.py [PAIRS]

Each cell is so many pairs (default 400) of runs of 400 requests, their latencies lognormal with a spread of 20%, every
run slower or quicker as a whole by a normal factor (*spread between runs*). So many kept runs repeat the earlier one.
Shown: called a regression though nothing changed / found where the later run is a quarter slower. Prints Markdown.
"""

from __future__ import annotations

import sys
from math import exp, log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadproof.bench.compare.between_runs import History, KeptRun, LogFigure, LogInterval, Side, allowing_for_runs
from loadproof.bench.compare.regression import TOLERANCE, outcome_of
from loadproof.bench.measure.bootstrap import Resampled, percentile_resampled, ratio_resampled
from loadproof.bench.measure.intervals import quantile_interval
from loadproof.bench.measure.latencies import Pool

NAME, REQUESTS, SLOWER = "e2e_p95_ms", 400, 1.25
SPREADS, KEPT = (0.0, 0.03, 0.05, 0.10, 0.15), (0, 1, 2, 4, 11)
_Z95 = 1.959964


def latencies_ms(spread: float, random: np.random.Generator) -> np.ndarray:
    return 100 * np.exp(spread * random.standard_normal() + 0.2 * random.standard_normal(REQUESTS))


def kept_run(number: int, spread: float, random: np.random.Generator) -> KeptRun:
    values = latencies_ms(spread, random)
    observed = float(np.quantile(values, 0.95, method="inverted_cdf"))
    found = quantile_interval(values, np.arange(1, REQUESTS + 1), 95.0)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return KeptRun(f"kept {number}", "one", {NAME: LogFigure(log(observed), log(found.high / found.low) / (2 * _Z95))})


def resampled(spread: float, pair: int, side: int, random: np.random.Generator) -> Resampled:
    pool = Pool(latencies_ms(spread, random), np.arange(1, REQUESTS + 1))
    return percentile_resampled(pool, 95.0, np.arange(REQUESTS), (pair, side))


def figure_of(found: Resampled) -> LogFigure:
    return LogFigure(log(found.observed or 1), found.log_error)


def main(pairs: int) -> None:
    print("| spread between runs | " + " | ".join(f"{kept} kept" for kept in KEPT) + " |")
    print("|---:|" + "---:|" * len(KEPT))
    for spread in SPREADS:
        cells = []
        for kept in KEPT:
            random = np.random.default_rng([round(1000 * spread), kept])
            alarms = found = 0
            for pair in range(pairs):
                before, after = (resampled(spread, pair, side, random) for side in (0, 1))
                own = KeptRun("before", "one", {NAME: figure_of(before)})
                others = tuple(kept_run(number, spread, random) for number in range(kept))
                history = History("before", "after", (own, KeptRun("after", "one", {}), *others))
                change, low, high = ratio_resampled(before, after)
                assert change is not None
                assert low is not None
                assert high is not None
                repeats = history.repeats(NAME)
                interval = allowing_for_runs(
                    LogInterval(log(change), log(low), log(high)),
                    (Side(figure_of(before), repeats[0]), Side(figure_of(after), repeats[1])),
                    history.between_runs(NAME),
                )
                assert interval.low is not None
                assert interval.high is not None
                alarms += outcome_of(exp(interval.low), exp(interval.high), TOLERANCE) == "REGRESSION"
                found += exp(interval.low) * SLOWER > 1 + TOLERANCE
            cells.append(f"{alarms / pairs:.1%} / {found / pairs:.0%}")
        print(f"| {spread:.0%} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
