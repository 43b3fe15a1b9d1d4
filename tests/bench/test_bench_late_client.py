"""A client that is late says so: whole runs whose own process stands still now and then."""

from __future__ import annotations

import time
from pathlib import Path

import test_bench_open_loop as by_rate
import test_bench_run as by_slots
from bench_fakes import FakeEndpoint, serving

from loadproof.bench.job import run_benchmark
from loadproof.errors import ExitCode
from loadproof.loads import Load


def test_a_slowed_client_is_invalid_not_slow(tmp_path: Path) -> None:
    """A client that sleeps 100 ms whenever it shows progress reads and sends late: INVALID and exit 3."""
    with serving(FakeEndpoint()) as endpoint:
        spec = by_slots.spec_for(endpoint, concurrency=(4,), requests_per_level=24)
        result = run_benchmark(spec, lambda progress: time.sleep(0.1), tmp_path)
    assert result.summary.verdict.outcome == "INVALID" and result.exit_code is ExitCode.COULD_NOT_RUN
    row = by_slots.level(result, 4)
    assert not row.valid and "the client was too slow" in row.invalid_reasons[0]
    assert row.loop_lag_ms.p99 > 5


def test_a_late_client_is_invalid_in_an_open_loop_too(tmp_path: Path) -> None:
    """A client that sleeps 100 ms whenever it shows progress lets requests leave late: INVALID, exit 3."""
    with serving(FakeEndpoint()) as endpoint:
        spec = by_rate.spec_for(endpoint, Load("constant", requests_per_s=100, requests=60))
        result = run_benchmark(spec, lambda progress: time.sleep(0.1), tmp_path)
    assert result.summary.verdict.outcome == "INVALID" and result.exit_code is ExitCode.COULD_NOT_RUN
    assert result.summary.levels[0].lag_ms.max > 50
