"""Bounds of a class of the traffic, wherever a benchmark leans on objectives: goodput and a search's probes."""

from __future__ import annotations

from dataclasses import replace

from bench_records import record

from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.parts import held_against
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.steady import steady_state
from loadproof.bench.objectives import Objective
from loadproof.bench.search.probes import probe_of
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.sessions import SessionClass, chain
from loadproof.token_counts import TokenCounts

EIGHT = TokenCounts("fixed", 8.0)


def spec(bound_ms: float) -> BenchmarkSpec:
    """TTFT p95 of all within 50 ms, and of the agents, half of the sessions, within so many."""
    agent = SessionClass(chain(EIGHT, EIGHT, 1), "agent", 0.5, bounds=(("ttft_p95_ms", bound_ms),))
    workload = WorkloadSpec(fixed_tokens(8), fixed_tokens(2), classes=(SessionClass(chain(EIGHT, EIGHT, 1)), agent))
    target = Target("openai", "http://x/", "openai")
    return BenchmarkSpec(target, workload, (1,), 10, objectives=(Objective("ttft_p95_ms", 50),))


def records(parts: tuple[str, ...] = ("", "agent")) -> list[RequestRecord]:
    """A hundred requests in turn, a second each: agents' first tokens after 20 ms, others' after 40."""
    found = []
    for at in range(100):
        part = parts[at % len(parts)]
        first_ms = 1000 * at + (20 if part else 40)
        one = record(at, intended_ms=1000 * at, token_ms=(first_ms, first_ms + 5), end_ms=first_ms + 5)
        found.append(replace(one, part=part))
    return found


def test_each_objective_is_held_against_its_own_requests() -> None:
    """All hundred, and the fifty agents."""
    level = measure_level(1, records())
    held = list(held_against(spec(10), records(), level))
    assert [(one.part, one.objective.bound, len(one.records)) for one in held] == [("", 50, 100), ("agent", 10, 50)]


def test_goodput_is_within_a_class_s_own_bounds() -> None:
    """All are within 50 ms; of the agents none is within 10, so half as many are good."""
    asked = spec(10)
    every, good = (
        measure_level(1, records(), asked.objectives, of_classes=own).goodput_per_s
        for own in ({}, asked.class_objectives)
    )
    assert every is not None and good == every / 2


def test_a_load_that_misses_a_class_s_bound_is_no_load_that_met() -> None:
    """A search for the highest load goes below it, and says which bound it was."""
    for bound_ms, met in ((10, False), (30, True)):
        rows = records()
        probe = probe_of(1.0, measure_level(1, rows), rows, steady_state(rows), spec(bound_ms))
        assert probe.met == met
        assert [miss.objective for miss in probe.misses] == ([] if met else ["ttft_p95_ms of agent"])


def test_a_level_without_a_request_of_the_class_says_nothing_of_it() -> None:
    """It neither misses nor passes, and tallies stay in step with other levels'."""
    rows = records(("",))
    probe = probe_of(1.0, measure_level(1, rows), rows, steady_state(rows), spec(10))
    assert (probe.met, probe.passed) == (True, False)
    assert [tally.samples for tally in probe.tallies][1:] == [0]
