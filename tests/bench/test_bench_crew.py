"""How many processes send a load where nobody said it: one, and from 1,024 in flight on as many as there are cores."""

from __future__ import annotations

import pytest

from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.cli.bench import load
from loadproof.loads import Load


def spec_of(*loads: Load) -> BenchmarkSpec:
    workload = WorkloadSpec(fixed_tokens(10), fixed_tokens(2))
    return BenchmarkSpec(Target("openai", "http://localhost:1", "openai"), workload, (1,), 1, loads=loads)


@pytest.mark.parametrize(("concurrency", "workers"), [(64, 1), (1023, 1), (1024, 3), (4096, 3)])
def test_a_crowd_is_shared_among_the_cores(monkeypatch: pytest.MonkeyPatch, concurrency: int, workers: int) -> None:
    """The highest of the levels decides, here on three cores."""
    monkeypatch.setattr(load, "_cores", lambda: 3)
    spec = spec_of(Load(concurrency=1, requests=2), Load(concurrency=concurrency, requests=8192))
    assert load.with_crew(spec, None).workers == workers


def test_what_was_said_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """--workers 1 at 1,024 in flight."""
    monkeypatch.setattr(load, "_cores", lambda: 3)
    spec = spec_of(Load(concurrency=1024, requests=2048))
    assert load.with_crew(spec, 1).workers == 1


def test_an_open_loop_has_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows how many will be in flight."""
    monkeypatch.setattr(load, "_cores", lambda: 3)
    assert load.with_crew(spec_of(Load("poisson", requests_per_s=500.0, duration_s=5.0)), None).workers == 1
