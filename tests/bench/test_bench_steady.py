"""Where start-up ends, when a level never settled, and what unfinished requests say."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from bench_records import record
from test_bench_regression import run_of

from loadproof.bench.imports import read_measured
from loadproof.bench.judging import judge_run
from loadproof.bench.measure.records import UNFINISHED
from loadproof.bench.measure.steady import drain, steady_state, truncation


def noise(count: int, mean: float = 100.0, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(mean, 3) for _ in range(count)]


def test_a_start_up_is_cut_off() -> None:
    """30 requests that take 400 ms before 170 that take 100: the first six batches of five are start-up."""
    assert truncation(np.asarray(noise(30, 400) + noise(170))) == (30, True, False)


def test_what_is_steady_from_the_beginning_loses_little() -> None:
    """Of 40 steady samples of 200 requests most keep nine tenths, and all count as settled."""
    cuts = [truncation(np.asarray(noise(200, seed=seed))) for seed in range(40)]
    assert all(settled for _, settled, _ in cuts)
    assert sum(start <= 20 for start, _, _ in cuts) >= 30


def test_a_queue_that_grows_never_settles() -> None:
    """Latency that rises 5 ms a request: no start-up to cut off, not settled, growing; falling is not growing."""
    rising = np.asarray([100 + 5 * index + extra for index, extra in enumerate(noise(100, 0))])
    assert truncation(rising) == (0, False, True)
    assert truncation(rising[::-1]) == (0, False, False)


def test_too_few_requests_do_not_tell() -> None:
    """Below ten batches of five."""
    assert truncation(np.asarray(noise(49))) == (0, None, False)


def test_equal_latencies_are_steady() -> None:
    """No spread at all: nothing to cut, no division by nought."""
    assert truncation(np.full(100, 7.0)) == (0, True, False)


def test_the_steady_part_has_figures_of_its_own() -> None:
    """50 slow requests, then 100 of 100 ms, one every 10 ms: 100 are kept, E2E 100 ms, from 0.5 s on."""
    records = [
        record(
            index, intended_ms=10 * index, token_ms=(10 * index + 50,), end_ms=10 * index + (900 if index < 50 else 100)
        )
        for index in range(150)
    ]
    steady = steady_state(records)
    assert (steady.reached, steady.excluded_requests, steady.requests, steady.from_s) == (True, 50, 100, 0.5)
    assert steady.e2e_ms.p50 == 100 and steady.ttft_ms.p99 == 50
    assert steady.requests_per_s == pytest.approx(100 / 1.09)


def test_unfinished_requests_count_with_what_they_took_so_far() -> None:
    """Nine answers of 100 ms and one cut off after 5,000: the maximum is at least 5 s, and it had no first token."""
    records = [record(index, token_ms=(20,), end_ms=100) for index in range(9)]
    cut = record(9, end_ms=5000, outcome=UNFINISHED)
    found = drain([*records, cut])
    assert found is not None and found.unfinished == 1
    assert found.e2e_ms_at_least.max == found.ttft_ms_at_least.max == 5000
    assert found.ttft_ms_at_least.p50 == 20
    assert not cut.finished and drain(records) is None


def test_a_short_run_is_calibrated_by_its_later_rounds(tmp_path: Path) -> None:
    """Four slots whose first requests take 210 ms and all later ones 110 ms, too few to find a steady state: in full
    swing 4 slots give 2 tokens every 110 ms, for the run itself and for whoever reads it to calibrate by."""
    folder = run_of(tmp_path / "run", [200.0] * 4 + [100.0] * 20)
    (level,) = judge_run(folder).summary.levels
    assert level.steady_state.reached is None
    assert level.steady_state.output_tokens_per_s == pytest.approx(4 * 2 / 0.110)
    (read,) = read_measured(folder)
    assert read.output_tokens_per_s == pytest.approx(4 * 2 / 0.110)
    assert read.requests_per_s == pytest.approx(4 / 0.110)
