"""Agents and mixtures over real sockets: who waits for whom, what each prompt begins with, whose bounds are judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving

from loadproof.bench.connect import parse_target
from loadproof.bench.job import run_benchmark
from loadproof.bench.judging import RunResult
from loadproof.bench.measure.records import RequestRecord, read_records
from loadproof.bench.plan import read_plan
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.drawn_sessions import DrawnSessions
from loadproof.loads import Load
from loadproof.sessions import SessionClass, Step

pytestmark = pytest.mark.usefixtures("patient")
ONE = Step(fixed_tokens(10), fixed_tokens(4))
AGENT = (
    ONE,
    *(Step(fixed_tokens(6), fixed_tokens(4), (0,), 0.05, name="search") for _ in range(3)),
    Step(fixed_tokens(8), fixed_tokens(4), (1, 2, 3), name="answer"),
)


def run(
    folder: Path, *classes: SessionClass, requests: int = 10
) -> tuple[RunResult, list[RequestRecord], FakeEndpoint]:
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        spec = BenchmarkSpec(
            target=parse_target(endpoint.url, "openai", streaming=True),
            workload=WorkloadSpec(fixed_tokens(10), fixed_tokens(4), classes=classes),
            concurrency=(1,),
            requests_per_level=requests,
            warmup_requests=0,
            loads=(Load(concurrency=1, requests=requests),),
        )
        result = run_benchmark(spec, lambda progress: None, folder)
    records = [one for one in read_records(folder / "requests.jsonl").records if one.phase == "measured"]
    return result, sorted(records, key=lambda record: record.index), endpoint


def test_an_agents_steps_wait_for_the_answers_they_come_after(tmp_path: Path) -> None:
    """Three searches are due 50 ms after the plan's answer, the answer when the last of them ended, to the ns."""
    _, records, _ = run(tmp_path, SessionClass(AGENT), requests=5)
    plan, *searches, answer = records
    assert [record.intended_ns for record in searches] == [plan.end_ns + 50_000_000] * 3
    assert answer.intended_ns == max(record.end_ns for record in searches)
    assert all(record.ok for record in records)


def test_a_step_carries_all_of_the_first_that_it_comes_after(tmp_path: Path) -> None:
    """10 words; 10 + 4 + 6 for each search; the first search's 20 and 4 and 8 for the answer."""
    _, records, endpoint = run(tmp_path, SessionClass(AGENT), requests=5)
    assert Counter(len(served.prompt.split()) for served in endpoint.served) == {10: 1, 20: 3, 32: 1}
    assert [record.planned_input_tokens for record in records] == [10, 20, 20, 20, 32]


def test_a_mixture_sends_whole_sessions_of_each_class_until_there_are_enough(tmp_path: Path) -> None:
    """Five steps of an agent and single requests: at least 40 requests, and never half an agent."""
    classes = (SessionClass((ONE,), "chat", 0.7), SessionClass(AGENT, "agent", 0.3))
    _, records, _ = run(tmp_path, *classes, requests=40)
    found = Counter(record.part for record in records)
    assert 40 <= len(records) < 45
    assert found["chat"]
    assert found["agent"]
    assert found["agent"] % 5 == 0


def test_a_class_has_bounds_of_its_own(tmp_path: Path) -> None:
    """A bound that no request can meet fails the run for the agent alone, and is judged on its requests."""
    classes = (
        SessionClass((ONE,), "chat", 0.5, bounds=(("e2e_p50_ms", 60_000.0),)),
        SessionClass(AGENT, "agent", 0.5, bounds=(("e2e_p50_ms", 0.001),)),
    )
    result, records, _ = run(tmp_path, *classes, requests=60)
    found = {row.part: row for row in result.summary.objectives}
    assert (found["chat"].verdict, found["agent"].verdict) == ("PASS", "FAIL")
    assert found["agent"].requests == sum(record.part == "agent" for record in records)
    assert result.summary.verdict.outcome == "FAIL"
    assert any("e2e_p50_ms of agent" in reason for reason in result.summary.verdict.reasons)


def test_a_plan_file_holds_the_classes(tmp_path: Path) -> None:
    """What `--resume` and a judge read back is what was meant."""
    classes = (SessionClass((ONE,), "chat", 0.5, bounds=(("ttft_p95_ms", 9.0),)), SessionClass(AGENT, "agent", 0.5))
    run(tmp_path, *classes, requests=2)
    assert read_plan(tmp_path).spec.workload.classes == classes


def test_every_process_draws_the_same_sessions() -> None:
    """By seed, level and number alone; another level draws others."""
    classes = (SessionClass((ONE,), "chat", 0.5), SessionClass(AGENT, "agent", 0.5, continues=1.0))
    workload = WorkloadSpec(ONE.input_tokens, ONE.output_tokens, classes=classes)
    drawn = [[DrawnSessions(workload).part(level, number) for number in range(50)] for level in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
