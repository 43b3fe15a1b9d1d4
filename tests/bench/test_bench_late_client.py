"""A client that is late says so: whole runs whose own process stands still now and then."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import test_bench_open_loop as by_rate
import test_bench_run as by_slots
from bench_fakes import FakeEndpoint, serving

from loadproof.bench.job import run_benchmark
from loadproof.bench.objectives import Objective
from loadproof.errors import ExitCode
from loadproof.loads import Load

CLEARLY_MET, CLEARLY_MISSED = Objective("ttft_p50_ms", 5000), Objective("ttft_p50_ms", 1)


def test_a_client_that_offers_less_load_passes_nothing(tmp_path: Path) -> None:
    """Four slots of requests of 30 ms or so, and 100 ms of sleep whenever progress is shown: INVALID, exit 3."""
    with serving(FakeEndpoint()) as endpoint:
        spec = by_slots.spec_for(endpoint, concurrency=(4,), requests_per_level=24)
        spec = replace(spec, objectives=(CLEARLY_MET,))
        result = run_benchmark(spec, lambda progress: time.sleep(0.1), tmp_path)
    assert result.summary.verdict.outcome == "INVALID" and result.exit_code is ExitCode.COULD_NOT_RUN
    row = by_slots.level(result, 4)
    assert not row.valid and "the load asked for was not offered" in row.invalid_reasons[0]
    assert row.offered is not None and row.offered < 0.95 and row.loop_lag_ms.p99 > 5


def test_what_misses_by_far_fails_however_late_the_client(tmp_path: Path) -> None:
    """A first token after 500 ms misses 1 ms, with 100 ms of sleep now and then and without it."""
    with serving(FakeEndpoint(ttft_s=0.5)) as endpoint:
        spec = by_slots.spec_for(endpoint, concurrency=(4,), requests_per_level=12)
        spec = replace(spec, objectives=(CLEARLY_MISSED,))
        result = run_benchmark(spec, lambda progress: time.sleep(0.1), tmp_path)
    assert result.summary.verdict.outcome == "FAIL" and result.exit_code is ExitCode.MISSED


def test_a_late_client_is_an_error_bar_in_an_open_loop_too(tmp_path: Path) -> None:
    """Requests left up to 100 ms late: 5 s hold for all of that, and it is the client's share."""
    with serving(FakeEndpoint()) as endpoint:
        spec = by_rate.spec_for(endpoint, Load("constant", requests_per_s=30, requests=60))
        spec = replace(spec, objectives=(CLEARLY_MET,))
        result = run_benchmark(spec, lambda progress: time.sleep(0.1), tmp_path)
    [level] = result.summary.levels
    assert level.lag_ms.max > 50 and level.client_share.ttft_ms.max > 50
    assert result.summary.objectives[0].verdict == "PASS"
