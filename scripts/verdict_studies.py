"""How often a verdict is wrong, and how often it is any help, on latencies that come as servers' do; seeded.

`python scripts/verdict_studies.py STUDY [COUNT]` prints a table, of docs/decisions/0027:

- `wrong`: a p95 whose bound is the true one, so that PASS and FAIL are both wrong;
- `right`: what is said where half as many lie beyond the bound as may, and where twice as many do;
- `ranks`: `wrong` of a p50 and a p99, for some of the processes;
- `far`: what passes where the bound lies far beyond every request;
- `several`: six objectives, at their bounds and 5% within, and runs that are sized for their number;
- `speed`: CPU seconds to judge one objective.

Requests are in the order sent, in units of the spread, a share of them (5%, 2.5%, 10%) beyond the bound.
Constants were chosen on the processes that `CHOSEN_ON` names, by seed 1; the others have a star.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from math import ceil, erfc, sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from loadproof.bench.measure.intervals import fail_tail, quantile_interval  # noqa: E402
from loadproof.sizing import MARGIN, SPREAD, requests_for  # noqa: E402

Array = np.ndarray
Process = Callable[[tuple[int, int], float, np.random.Generator], tuple[Array, float | Array]]
SEED = 3119
SIZES = (72, 200, 1000, 4000)
SLOW, BETWEEN = 9.0, 4.5  # of processes with a slow state: its level, and the bound
DAY = 2000  # requests
NORMAL_AT = np.linspace(-12, 12, 24_001)
NORMAL_BEYOND = np.asarray([erfc(at / sqrt(2)) / 2 for at in NORMAL_AT])
CHOSEN_ON = (
    *("independent", "AR 0.5", "AR 0.9", "AR 0.97", "AR 0.99", "spells of 40", "spells of 100", "stalls", "drift"),
    *("load-correlated", "spells of any length"),
)


def independent(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    return random.standard_normal(shape), beyond(share)


def autoregressive(phi: float) -> Process:
    def draw(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
        return series(phi, shape, random), beyond(share)

    return draw


def load_correlated(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """What is in flight beside a request, an autoregression of 0.97, makes up 64% of the variance."""
    return 0.8 * series(0.97, shape, random) + 0.6 * random.standard_normal(shape), beyond(share)


def bimodal(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """Each request by itself fast or slow, as where a cache helps."""
    return random.standard_normal(shape) + SLOW * (random.random(shape) < share), BETWEEN


def spells(length: int) -> Process:
    """The server is slow for that many requests on end; the time between is exponential."""

    def draw(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
        values = random.standard_normal(shape)
        for row in values:
            for start in begun(length, share, row.size, random):
                row[max(0, start) : max(0, start + length)] += SLOW
        return values, BETWEEN

    return draw


def spells_of_any_length(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """A Markov chain of two states: spells are exponential as well, 30 requests in the mean."""
    values = random.standard_normal(shape)
    slow = random.random(shape[0]) < share
    for column in values.T:
        column[slow] += SLOW
        ends = random.random(shape[0]) < np.where(slow, 1 / 30, share / (30 * (1 - share)))
        slow = slow ^ ends
    return values, BETWEEN


def in_rounds(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """Rounds of 16 neighbours that share 70% of their variance."""
    shared = np.repeat(random.standard_normal((shape[0], -(-shape[1] // 16))), 16, axis=1)[:, : shape[1]]
    return 0.7**0.5 * shared + 0.3**0.5 * random.standard_normal(shape), beyond(share)


def restarts(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """A cold server: slow for 60 requests, and ever less so for 40 more."""
    values = random.standard_normal(shape)
    warming = np.concatenate([np.full(60, SLOW), np.linspace(1.5, 0, 40)])
    for row in values:
        for start in begun(60, share, row.size, random):
            part = warming[max(0, -start) : row.size - start]
            row[max(0, start) : max(0, start) + part.size] += part
    return values, BETWEEN


def drift(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """Grows by two spreads from the first request to the last; the share is that of the later half."""
    line = 2 * np.linspace(-0.5, 0.5, shape[1])
    return random.standard_normal(shape) + line, bound_of(np.linspace(0, 1, 200), share)


def day(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, float]:
    """2,000 requests, a spread slower at its busiest than on average; runs of any hour are held to all day."""
    return random.standard_normal(shape) + hours(shape, random), bound_of(np.sin(np.linspace(0, 2 * np.pi, 400)), share)


def day_itself(shape: tuple[int, int], share: float, random: np.random.Generator) -> tuple[Array, Array]:
    """The same, and a run is held to the hours that it saw."""
    seen = hours(shape, random)
    return random.standard_normal(shape) + seen, np.asarray([bound_of(row[:: shape[1] // 36], share) for row in seen])


def hours(shape: tuple[int, int], random: np.random.Generator) -> Array:
    return np.sin(2 * np.pi * (random.random((shape[0], 1)) + np.arange(shape[1]) / DAY))


PROCESSES: dict[str, Process] = {
    "independent": independent,
    "AR 0.5": autoregressive(0.5),
    "AR 0.7": autoregressive(0.7),
    "AR 0.9": autoregressive(0.9),
    "AR 0.97": autoregressive(0.97),
    "AR 0.99": autoregressive(0.99),
    "spells of 20": spells(20),
    "spells of 40": spells(40),
    "spells of 100": spells(100),
    "spells of any length": spells_of_any_length,
    "rounds of 16": in_rounds,
    "drift": drift,
    "daily ramp": day_itself,
    "daily ramp, of all day": day,
    "bimodal": bimodal,
    "load-correlated": load_correlated,
    "stalls": spells(8),
    "restarts": restarts,
}


def beyond(share: float) -> float:
    return NormalDist().inv_cdf(1 - share)


def bound_of(levels: Array, share: float) -> float:
    """The bound that such a share of normal requests about these levels lies beyond, by bisection."""
    low, high = -10.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        found = float(np.interp(middle - levels, NORMAL_AT, NORMAL_BEYOND).mean())
        low, high = (middle, high) if found > share else (low, middle)
    return low


def series(phi: float, shape: tuple[int, int], random: np.random.Generator) -> Array:
    """Each is `phi` of the one before and the rest chance; variance 1."""
    values = random.standard_normal(shape)
    for index in range(1, shape[1]):
        values[:, index] = phi * values[:, index - 1] + (1 - phi**2) ** 0.5 * values[:, index]
    return values


def begun(length: int, share: float, size: int, random: np.random.Generator) -> list[int]:
    """Where spells begin, some before the first request, in the long run `share` of all."""
    between = length * (1 - share) / share
    inside = random.random() < share
    at = -random.integers(length) if inside else ceil(random.exponential(between))
    starts = []
    while at < size:
        starts.append(int(at))
        at += length + round(random.exponential(between))
    return starts


def verdicts(name: str, size: int, share: float, runs: int, rank: float = 95.0) -> tuple[float, float, float]:
    """Shares of runs: PASS, PASS although some request lay beyond the bound, FAIL."""
    random = np.random.default_rng([SEED, size, *name.encode()])
    values, bounds = PROCESSES[name]((runs, size), share, random)
    ends = np.arange(1, size + 1)
    passed = seen = failed = 0
    for row, bound in zip(values, np.broadcast_to(bounds, runs), strict=True):
        worst = row.max()
        found = quantile_interval(row, ends, rank, float(bound))
        assert found is not None
        if found.high is not None and found.high <= bound:
            passed += 1
            seen += worst > bound
        failed += found.low is not None and found.low > bound
    return passed / runs, seen / runs, failed / runs


def wrong(runs: int) -> None:
    header("wrong PASS, avoidable (all) / wrong FAIL", SIZES)
    for name in PROCESSES:
        cells = [verdicts(name, size, 0.05, runs) for size in SIZES]
        row(name, [f"{seen:.1%} ({passed:.1%}) / {failed:.1%}" for passed, seen, failed in cells])


def right(runs: int) -> None:
    header("2.5% beyond: PASS / FAIL; 10% beyond: PASS, avoidable (all) / FAIL", SIZES[1:])
    for name in PROCESSES:
        cells = []
        for size in SIZES[1:]:
            holds, misses = verdicts(name, size, 0.025, runs), verdicts(name, size, 0.1, runs)
            cells.append(f"{holds[0]:.0%} / {holds[2]:.1%}; {misses[1]:.1%} ({misses[0]:.1%}) / {misses[2]:.0%}")
        row(name, cells)


def ranks(runs: int) -> None:
    sizes = SIZES[1:]
    for rank in (50.0, 99.0):
        header(f"p{rank:g}: wrong PASS, avoidable (all) / wrong FAIL", sizes)
        for name in ("independent", "AR 0.9", "AR 0.99", "spells of 40", "load-correlated", "stalls"):
            cells = [verdicts(name, size, 1 - rank / 100, runs, rank) for size in sizes]
            row(name, [f"{seen:.1%} ({passed:.1%}) / {failed:.1%}" for passed, seen, failed in cells])


def far(runs: int) -> None:
    header("PASS of latencies of median 400 ms and a spread of 20% under 2,000 ms", SIZES[:3])
    for name in ("independent", "AR 0.5", "AR 0.9", "AR 0.99", "rounds of 16"):
        cells = []
        for size in SIZES[:3]:
            values, _ = PROCESSES[name]((runs, size), 0.05, np.random.default_rng([SEED, size, *name.encode()]))
            found = [quantile_interval(row, np.arange(1, size + 1), 95.0, 2000.0) for row in 400 * np.exp(0.2 * values)]
            cells.append(f"{sum(one is not None and one.high is not None for one in found) / runs:.0%}")
        row(name, cells)


def several(runs: int) -> None:
    print("| objectives on a p95 | requests | bounds | PASS | FAIL | INCONCLUSIVE |\n|---:|---:|---|---:|---:|---:|")
    for objectives in (1, 3, 6):
        sized = requests_for([95.0], objectives)
        assert sized is not None
        for size in (400, sized):
            for within in (0.0, MARGIN):
                random = np.random.default_rng([SEED, objectives, size])
                bound = beyond(0.05) + np.log1p(within) / SPREAD
                outcomes = [0, 0, 0]
                for _ in range(runs):
                    found = [
                        quantile_interval(one, np.arange(1, size + 1), 95.0, bound, fail_tail(objectives))
                        for one in random.standard_normal((objectives, size))
                    ]
                    passed = all(one and one.high is not None and one.high <= bound for one in found)
                    failed = any(one and one.low is not None and one.low > bound for one in found)
                    outcomes[0 if passed else 1 if failed else 2] += 1
                shares = " | ".join(f"{count / runs:.1%}" for count in outcomes)
                words = f"all hold by {within:.0%}" if within else "all at the true p95"
                print(f"| {objectives} | {size:,} | {words} | {shares} |", flush=True)


def speed(runs: int) -> None:
    print("| requests | process | CPU s |\n|---:|---|---:|")
    for size in (1000, 10_000, 100_000):
        for name in ("independent", "AR 0.99", "drift"):
            values, bound = PROCESSES[name]((1, size), 0.05, np.random.default_rng(SEED))
            assert isinstance(bound, float)
            began = time.process_time()
            quantile_interval(values[0], np.arange(1, size + 1), 95.0, bound)
            print(f"| {size:,} | {name} | {time.process_time() - began:.3f} |")


def header(what: str, sizes: tuple[int, ...]) -> None:
    print(f"\n{what}\n\n| process | " + " | ".join(f"{size:,} requests" for size in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))


def row(name: str, cells: list[str]) -> None:
    print(f"| {name}{'' if name in CHOSEN_ON else ' *'} | " + " | ".join(cells) + " |", flush=True)


STUDIES = {
    "wrong": (wrong, 1000),
    "right": (right, 300),
    "ranks": (ranks, 500),
    "far": (far, 500),
    "several": (several, 1000),
    "speed": (speed, 1),
}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in STUDIES:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(STUDIES)} [COUNT]")
    study, usual = STUDIES[sys.argv[1]]
    study(int(sys.argv[2]) if len(sys.argv) > 2 else usual)
