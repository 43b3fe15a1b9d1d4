"""A level of fewer requests than slots is never as concurrent as it is called: not planned, and told if asked for."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path

from bench_fakes import FakeEndpoint, serving
from test_bench_regression import run_of

from loadproof.bench.judging import judge_run
from loadproof.bench.spec import BenchmarkSpec, Search, Target, WorkloadSpec, fixed_tokens
from loadproof.cli import main
from loadproof.loads import Load

SPEC = BenchmarkSpec(Target("openai", "x", "tgi"), WorkloadSpec(fixed_tokens(8), fixed_tokens(2)), (1, 8, 64), 32)
TOLD = "80 requests are never 100 in flight: set --requests-per-level 200 or more"


def test_each_slot_has_two_requests_unless_told_otherwise() -> None:
    """32 a level are kept at 1 and 8 in flight and become 128 at 64; a number that was given holds everywhere."""
    assert [load.requests for load in SPEC.fixed_loads] == [32, 32, 128]
    assert [load.requests for load in replace(SPEC, exact_requests=True).fixed_loads] == [32, 32, 32]


def test_a_search_does_not_take_idle_slots_for_saturation() -> None:
    """At 64 in flight it sends 128 requests; by time or by rate its levels are as long as they were."""
    assert Search("sweep", Load(requests=32), 1, 64).load_at(64).requests == 128
    assert Search("sweep", Load(duration_s=5), 1, 64).load_at(64) == Load(concurrency=64, duration_s=5)
    assert Search("sweep", Load("poisson", requests=32), 1, 64).load_at(64).requests == 32


def test_what_was_never_in_flight_does_not_pass(tmp_path: Path) -> None:
    """80 requests pass a p95 at 4 in flight; at 100 slots the same records leave it open, and the report says why."""
    passed = judge_run(run_of(tmp_path / "few", [100.0] * 80))
    assert passed.summary.verdict.outcome == "PASS"
    found = judge_run(run_of(tmp_path / "many", [100.0] * 80, concurrency=(100,), exact_requests=True))
    assert found.summary.verdict.outcome == "INCONCLUSIVE"
    assert found.summary.verdict.reasons == (TOLD,) and found.summary.levels[0].never_full == TOLD
    assert found.report and TOLD in found.report.read_text()


def test_what_was_missed_with_fewer_in_flight_still_fails(tmp_path: Path) -> None:
    """More at once would not have been faster."""
    found = judge_run(run_of(tmp_path / "slow", [900.0] * 80, concurrency=(100,), exact_requests=True))
    assert found.summary.verdict.outcome == "FAIL"


def test_it_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    """On stderr first, and again with the figures."""
    out, errors = io.StringIO(), io.StringIO()
    with serving(FakeEndpoint()) as endpoint, contextlib.chdir(tmp_path):
        target = ["--target", endpoint.url, "--protocol", "tgi", "--output-tokens", "2", "--warmup", "0"]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            main.run(["bench", *target, "--concurrency", "1,5", "--requests-per-level", "3"])
    parsed_line = "3 requests are never 5 in flight: set --requests-per-level 10 or more"
    assert errors.getvalue().splitlines()[0] == parsed_line
    assert f"At 5 in flight: {parsed_line}" in out.getvalue()
