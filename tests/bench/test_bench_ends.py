"""Conversations that end before a turn that is too long: drawn, expected, checked and sent, each by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from bench_fakes import FakeEndpoint, serving
from workload_files import workload_file

from loadproof.bench.connect import parse_target
from loadproof.bench.from_profile import workload_of
from loadproof.bench.job import run_benchmark
from loadproof.bench.measure.records import read_records
from loadproof.bench.plan import read_plan
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, empirical_tokens, fixed_tokens
from loadproof.bench.workload.drawn_sessions import DrawnSessions
from loadproof.capacity.workload import planned_workload
from loadproof.loads import Load
from loadproof.profiles import check_file, load_profile
from loadproof.profiles.loader import profile_document
from loadproof.profiles.mixture import mixture_of, planned_mixture_of
from loadproof.sessions import ExpectedStep, Mixture, SessionClass, Step
from loadproof.simulation.sizes import request_sizes
from loadproof.token_counts import TokenCounts

CHAT = """
name: chat
model: {id: Qwen/Qwen3-8B, source: {type: s3, s3_uri: s3://my-models/qwen3-8b/}}
container: {family: vllm, version: 0.30.0, settings: {max_model_len: 8192}}
endpoint: {instance_type: ml.g6e.2xlarge}
objectives: {at_concurrency: 8, ttft_p95_ms: 4000}
benchmark: {requests_per_level: 861}
workload: {input_tokens: 3072, output_tokens: 256, turns: 6}
"""
file_of = partial(workload_file, CHAT)


def chain(turns: int, prompts: TokenCounts, answers: TokenCounts, **others: Any) -> SessionClass:
    steps = (Step(prompts, answers, (turn - 1,) if turn else ()) for turn in range(turns))
    return SessionClass(tuple(steps), **others)


def told(folder: Path, **workload: Any) -> list[str]:
    return [str(one) for one in check_file(file_of(folder, **workload)).errors]


def test_the_turn_that_would_be_too_long_is_not_sent() -> None:
    """150, 300 and 450 tokens with their answers: two turns within 400."""
    drawn = chain(6, fixed_tokens(100), fixed_tokens(50), max_context_tokens=400).drawn(Random(0))
    assert [step.input_tokens for step in drawn] == [100, 250]


def test_a_first_answer_ends_where_the_context_does() -> None:
    """380 of 400 tokens are the prompt's."""
    (drawn,) = chain(1, fixed_tokens(380), fixed_tokens(50), max_context_tokens=400).drawn(Random(0))
    assert drawn.output_tokens == 20


HALF = empirical_tokens((100, 300)), fixed_tokens(100)  # a turn is 200 or 400 tokens


def test_what_is_expected_is_of_those_that_are_sent() -> None:
    """Within 500 only 200 + 200 have a second turn, a quarter of all, and its prompt is 300; a third has none."""
    first, second = chain(6, *HALF, max_context_tokens=500).expected
    assert first == ExpectedStep(1.0, pytest.approx(200, rel=0.01), 0, 100)
    assert second == ExpectedStep(pytest.approx(0.25, abs=0.005), 300, 200, 100)


def test_both_ends_of_a_conversation_go_together() -> None:
    """A quarter has room for a second turn, and half of these go on: 1.125 requests in the mean."""
    mixture = Mixture((chain(6, *HALF, max_context_tokens=500, continues=0.5),))
    assert mixture.requests == pytest.approx(1.125, abs=0.003)


def test_without_an_end_nothing_is_drawn() -> None:
    """Σ 0.5ᵏ of three turns, exactly."""
    assert chain(3, *HALF, continues=0.5).requests == 1.75


def test_single_requests_have_their_end_in_the_twin() -> None:
    """Prompts of 380 and answers of 50: 400 tokens, and 330 where the prompt is 280."""
    one = chain(1, empirical_tokens((280, 380)), fixed_tokens(50), max_context_tokens=400)
    sizes = request_sizes(Mixture((one,)))
    assert {next(sizes) for _ in range(50)} == {(280, 50), (380, 20)}


def test_every_process_draws_the_same_ends() -> None:
    workload = WorkloadSpec(*HALF, turns=6, max_context_tokens=900)
    drawn = [[DrawnSessions(workload).steps(level, number) for number in range(50)] for level in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {2, 3, 4}  # 400 + 400, 400 + 200 + 200, four of 200


def test_the_benchmark_sends_no_longer_request(tmp_path: Path) -> None:
    """Words stand for tokens: prompt and answer, with all before them, never come to more than 60, and to no fewer
    than the 24 that one turn more would have had."""
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        spec = BenchmarkSpec(
            target=parse_target(endpoint.url, "openai", streaming=True),
            workload=WorkloadSpec(empirical_tokens((8, 20)), fixed_tokens(4), turns=9, max_context_tokens=60),
            concurrency=(2,),
            requests_per_level=40,
            warmup_requests=3,
            loads=(Load(concurrency=2, requests=40),),
        )
        run_benchmark(spec, lambda progress: None, tmp_path)
    records = [one for one in read_records(tmp_path / "requests.jsonl").records if one.phase == "measured"]
    whole = [(one.index // 9, one.planned_input_tokens + 4) for one in records]
    longest = {session: max(tokens for other, tokens in whole if other == session) for session, _ in whole}
    assert len(records) >= 40
    assert all(60 - 24 < tokens <= 60 for tokens in longest.values())
    assert read_plan(tmp_path).spec.workload.max_context_tokens == 60


def test_check_names_the_way_out(tmp_path: Path) -> None:
    """The third turn has 3 · 3,072 + 2 · 256 prompt tokens: over 8,192."""
    (found,) = told(tmp_path)
    assert "turn 3 of 6" in found
    assert "`max_context_tokens: 8192` where conversations end before they are longer" in found
    assert told(tmp_path, max_context_tokens=8192) == []


def test_a_context_beyond_the_servers_is_told(tmp_path: Path) -> None:
    (found,) = told(tmp_path, max_context_tokens=10_000)
    assert "LP252" in found


@pytest.mark.parametrize(("workload", "words"), [
    ({"max_context_tokens": 3000}, "a first prompt, which is always sent, may have 3,072 tokens: 3,000 leave no"),
    ({"max_context_tokens": 6000}, "no conversation gets to a second turn within 6,000 tokens"),
    ({"max_context_tokens": 8192, "turns": 1, "steps": [{"name": "a", "input_tokens": 9, "output_tokens": 9}]},
     "it ends conversations of made prompts, and these are steps"),
], ids=["no answer", "no second turn", "steps"])  # fmt: skip
def test_an_end_that_makes_no_sense_is_told(workload: dict[str, Any], words: str, tmp_path: Path) -> None:
    (found,) = told(tmp_path, **workload)
    assert "LP254 workload.max_context_tokens" in found
    assert words in found


def test_an_end_that_nothing_reaches_is_told(tmp_path: Path) -> None:
    """Two turns of 3,328 tokens with their answers are 6,656."""
    (found,) = check_file(file_of(tmp_path, turns=2, max_context_tokens=8192)).problems
    assert "it ends nothing: the longest session has 6,656 tokens" in str(found)


PICTURES = {
    "model": {"id": "Qwen/Qwen2.5-VL-7B-Instruct", "source": {"type": "s3", "s3_uri": "s3://models/qwen/"}},
    "objectives": {"at_concurrency": 2, "ttft_p95_ms": 9000},
}
IMAGES = {"width_px": 1024, "height_px": 1024}  # 37 x 37 tokens and two around them


def pictured(folder: Path, **workload: Any) -> Path:
    file = file_of(folder, images=IMAGES, input_tokens=300, output_tokens=200, **workload)
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | PICTURES), encoding="utf-8")
    return file


def test_pictures_take_room_in_what_is_sent_as_in_what_is_planned(tmp_path: Path) -> None:
    """1,371 of pictures and turns of 500 within 3,000: three, for the plan and for the benchmark."""
    profile = load_profile(pictured(tmp_path, turns=12, max_context_tokens=3000))
    assert planned_mixture_of(profile).requests == workload_of(profile, tmp_path).mixture.requests == 3


def test_a_first_prompt_has_its_pictures(tmp_path: Path) -> None:
    found = [str(one) for one in check_file(pictured(tmp_path, turns=12, max_context_tokens=1200)).errors]
    assert any("may have 1,671 tokens: 1,200 leave no answer" in one for one in found)


def test_a_class_of_single_requests_has_the_workloads_end(tmp_path: Path) -> None:
    """What it does not write is as above."""
    workload = load_profile(
        file_of(tmp_path, max_context_tokens=7000, classes=[{"name": "short", "share": 0.5, "turns": 1}])
    ).workload
    assert [one.max_context_tokens for one in mixture_of(workload).classes] == [7000, 7000]


def test_a_plan_is_of_the_turns_that_are_sent(tmp_path: Path) -> None:
    """Two turns of 3,072 tokens, the second with 3,328 before it: 4,736 in the mean."""
    planned = planned_workload(load_profile(file_of(tmp_path, max_context_tokens=8192)))
    assert (planned.input_tokens, planned.turns) == (4_736, 2)


def test_a_class_of_steps_does_not_inherit_an_end(tmp_path: Path) -> None:
    steps = [{"name": "a", "input_tokens": 9, "output_tokens": 9}]
    assert told(tmp_path, max_context_tokens=8192, classes=[{"name": "agent", "share": 0.5, "steps": steps}]) == []


def test_evidence_of_before_the_key_stays_valid(tmp_path: Path) -> None:
    """Unset, it is no part of what a run is tied to; set, it is."""
    without, with_it = (load_profile(file_of(tmp_path, turns=2, max_context_tokens=most)) for most in (None, 8192))
    assert "max_context_tokens" not in profile_document(without)["workload"]
    assert profile_document(with_it)["workload"]["max_context_tokens"] == 8192
