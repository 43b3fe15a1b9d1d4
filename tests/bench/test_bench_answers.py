"""Answers that are shorter than asked for, and servers that miscount them: neither passes what leans on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_records import record
from test_bench_run import level, run

from loadproof.bench.connect import parse_target
from loadproof.bench.judge.judgement import judge
from loadproof.bench.judging import RunResult
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.records import RequestRecord, read_records
from loadproof.bench.objectives import Objective, parse_objective
from loadproof.bench.spec import AnswerLength, WorkloadSpec, fixed_tokens


def answers(tokens: int, asked: int, **others: object) -> list[RequestRecord]:
    """Eighty requests one after another, each with its first token after 10 ms and its end after 20 ms."""
    return [
        record(
            index,
            intended_ms=20 * index,
            token_ms=(20 * index + 10, 20 * index + 20),
            end_ms=20 * index + 20,
            output_tokens=tokens,
            planned_output_tokens=asked,
            **others,
        )
        for index in range(80)
    ]


def verdict_of(name: str, bound: float, records: list[RequestRecord], answer_length: AnswerLength = "asked") -> str:
    return judge(Objective(name, bound), records, measure_level(1, records), 0, answer_length).verdict


@pytest.mark.parametrize(
    ("name", "bound", "expected"),
    [
        ("e2e_p95_ms", 100, "INCONCLUSIVE"),
        ("requests_per_s_min", 10, "INCONCLUSIVE"),
        ("output_tokens_per_s_min", 10, "INCONCLUSIVE"),
        ("ttft_p95_ms", 100, "PASS"),
        ("itl_p95_ms", 100, "PASS"),
        ("tpot_p95_ms", 100, "PASS"),
    ],
)
def test_short_answers_keep_what_leans_on_length_from_passing(name: str, bound: float, expected: str) -> None:
    """2 of 64 tokens: the end came early, which says nothing about when the first token did, nor about gaps."""
    assert verdict_of(name, bound, answers(2, 64)) == expected
    assert verdict_of(name, bound, answers(2, 2)) == "PASS"


def test_answers_from_nine_tenths_on_are_as_long_as_asked() -> None:
    """90 of 100 tokens count as asked for, 89 do not."""
    assert verdict_of("e2e_p95_ms", 100, answers(90, 100)) == "PASS"
    assert verdict_of("e2e_p95_ms", 100, answers(89, 100)) == "INCONCLUSIVE"


def test_models_that_may_end_sooner_are_not_blamed_for_it() -> None:
    """With `answer_length: at_most` 2 of 64 tokens pass."""
    assert verdict_of("e2e_p95_ms", 100, answers(2, 64), "at_most") == "PASS"


def test_short_answers_that_miss_a_latency_still_fail() -> None:
    """E2E of 20 ms misses 10 ms with 2 tokens, so it would with 64; tokens/s might be met by longer answers."""
    assert verdict_of("e2e_p95_ms", 10, answers(2, 64)) == "FAIL"
    assert verdict_of("output_tokens_per_s_min", 1000, answers(2, 64)) == "INCONCLUSIVE"


def test_the_doubt_says_how_long_answers_were_and_what_to_write() -> None:
    """No number of requests would settle it, so none is named."""
    records = answers(2, 64)
    found = judge(Objective("e2e_p95_ms", 100), records, measure_level(1, records), 0)
    assert found.more_requests is None and found.doubt is not None
    assert "2 of the 64 tokens" in found.doubt and "answer_length: at_most" in found.doubt
    by_pieces = answers(2, 64, token_source="chunks")
    found = judge(Objective("e2e_p95_ms", 100), by_pieces, measure_level(1, by_pieces), 0)
    assert found.doubt is not None and "counted by pieces, which may hold several" in found.doubt


def test_impossible_counts_settle_nothing_that_counts_tokens() -> None:
    """Where a server's count was not believed, TPOT and tokens/s neither pass nor fail; E2E does."""
    records = answers(2, 2, disbelieved_output_tokens=640)
    for name, bound in (("tpot_p95_ms", 1), ("tpot_p95_ms", 100), ("output_tokens_per_s_min", 1)):
        assert verdict_of(name, bound, records) == "INCONCLUSIVE"
    assert verdict_of("e2e_p95_ms", 100, records) == "PASS"


def counted(claims: int, folder: Path) -> RunResult:
    """Four requests for eight tokens each; the server sends eight pieces of text and then says `claims`."""
    with serving(FakeEndpoint(protocol="openai", itl_s=0, claims=claims)) as endpoint:
        target = parse_target(endpoint.url, "openai", streaming=True)
        workload = WorkloadSpec(fixed_tokens(4), fixed_tokens(8))
        return run(endpoint, folder, target=target, workload=workload, concurrency=(1,), requests_per_level=4)


@pytest.mark.parametrize("claims", [0, 7, 10])
def test_a_count_that_cannot_be_true_is_not_believed(tmp_path: Path, claims: int) -> None:
    """Of eight tokens asked for and eight pieces of text, a count of 0, 7 or 10 is wrong: the pieces count, as 8."""
    result = counted(claims, tmp_path / "run")
    records = [one for one in read_records(tmp_path / "run" / "requests.jsonl").records if one.phase == "measured"]
    assert {(one.output_tokens, one.token_source, one.disbelieved_output_tokens) for one in records} == {
        (8, "chunks", claims)
    }
    assert level(result, 1).wrong_counts == 4


def test_one_token_more_than_asked_for_is_the_end_token(tmp_path: Path) -> None:
    """A server that says 9 after eight pieces counted the token that ended the answer."""
    result = counted(9, tmp_path / "run")
    assert level(result, 1).wrong_counts == 0 and level(result, 1).answered_output_tokens == 9


@pytest.mark.usefixtures("patient")
def test_a_server_that_cuts_its_answers_short_does_not_pass(tmp_path: Path) -> None:
    """Two tokens to 64 asked for, every answer in order: the run is INCONCLUSIVE and says what was answered."""
    workload = WorkloadSpec(fixed_tokens(4), fixed_tokens(64))
    with serving(FakeEndpoint(itl_s=0, stops_after=2)) as endpoint:
        result = run(
            endpoint,
            tmp_path / "run",
            concurrency=(4,),
            requests_per_level=80,
            workload=workload,
            objectives=(parse_objective("e2e_p95_ms=60000"),),
        )
    assert level(result, 4).asked_output_tokens == 64 and level(result, 4).answered_output_tokens == 2
    assert result.summary.verdict.outcome == "INCONCLUSIVE"
    assert "2 of the 64 tokens" in result.summary.verdict.reasons[0]
