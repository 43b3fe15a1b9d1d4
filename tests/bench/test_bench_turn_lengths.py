"""Lengths of turns as they are drawn, from those that a full context let through; and first prompts of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from bench_fakes import FakeEndpoint, serving
from workload_files import workload_file

from loadproof.bench.connect import parse_target
from loadproof.bench.from_profile import workload_of
from loadproof.bench.learn import closeness, trace_columns
from loadproof.bench.learn.drift import drift_of
from loadproof.bench.learn.fitting import fit
from loadproof.bench.learn.reading import read_recorded
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.learn.trace_columns import shared_blocks
from loadproof.bench.learn.turn_lengths import as_drawn
from loadproof.bench.plan import new_plan, read_plan, write_plan
from loadproof.bench.spec import BenchmarkSpec
from loadproof.bench.workload import traces
from loadproof.bench.workload.drawn_sessions import DrawnSessions
from loadproof.bench.workload.prompts import Prompts
from loadproof.capacity.workload import planned_workload
from loadproof.cli.main import run
from loadproof.errors import ExitCode
from loadproof.profiles import check_file, load_profile
from loadproof.profiles.loader import profile_document
from loadproof.profiles.mixture import mixture_of
from loadproof.sessions import SessionClass, chain
from loadproof.token_counts import TokenCounts

CHAT = """
name: chat
model: {id: Qwen/Qwen3-8B, source: {type: s3, s3_uri: s3://my-models/qwen3-8b/}}
container: {family: vllm, version: 0.30.0, settings: {max_model_len: 8192}}
endpoint: {instance_type: ml.g6e.2xlarge}
objectives: {at_concurrency: 8, ttft_p95_ms: 4000}
benchmark: {requests_per_level: 861}
workload: {input_tokens: 100, output_tokens: 50, first_input_tokens: 3000, turns: 3}
"""
file_of = partial(workload_file, CHAT)


def log_of(folder: Path, conversations: Iterator[Sequence[tuple[int, int]]]) -> str:
    """LiteLLM's log of conversations of (what a turn brings, its answer), turns 30 s apart."""
    rows = []
    for number, turns in enumerate(conversations):
        history = 0
        for place, (new, answer) in enumerate(turns):
            began_s = 7 * number + 30 * place
            rows.append((began_s, number, history + new, answer))
            history += new + answer
    lines = [
        json.dumps(
            {
                "startTime": f"2026-01-05T{began_s // 3600:02}:{began_s // 60 % 60:02}:{began_s % 60:02}Z",
                "endTime": f"2026-01-05T{began_s // 3600:02}:{began_s // 60 % 60:02}:{began_s % 60:02}Z",
                "prompt_tokens": prompt,
                "completion_tokens": answer,
                "session_id": f"s{number}",
            }
        )
        for began_s, number, prompt, answer in sorted(rows)
    ]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "log.jsonl")


def counts_of(values: Sequence[int] | np.ndarray) -> dict[int, int]:
    return {int(value): int(count) for value, count in zip(*np.unique(values, return_counts=True), strict=True)}


def test_short_turns_that_alone_had_room_count_for_less() -> None:
    """120 turns had room for 2, of which half are 2 long; 40 had room for 1. So half of all drawn are 2 long."""
    lengths = np.array([1] * 60 + [2] * 60 + [1] * 40)
    room = np.array([9] * 120 + [1] * 40)
    assert counts_of(lengths[as_drawn(lengths, room)]) == {1: 80, 2: 80}


def test_three_lengths_by_hand() -> None:
    """Of 90 turns with room for 3 a third are 3 long. Of the 60 shorter ones of these and 90 with room for 2, 90 of 150
    are 2 long: F(1) = (2/3) · (60/150)."""
    lengths = np.array([1] * 15 + [2] * 45 + [3] * 30 + [1] * 45 + [2] * 45)
    room = np.array([3] * 90 + [2] * 90)
    found = counts_of(lengths[as_drawn(lengths, room)])
    assert found == {1: pytest.approx(180 * 4 / 15, abs=1), 2: pytest.approx(180 * 6 / 15, abs=1), 3: 60}


def test_turns_that_all_had_room_stay_as_they_are() -> None:
    lengths = np.array([5, 3, 3, 8, 1] * 40)
    found = lengths[as_drawn(lengths, np.full(200, 8))]
    assert counts_of(found) == pytest.approx(counts_of(lengths), abs=1)


def test_what_few_turns_had_room_for_is_not_blown_up() -> None:
    """One turn in 201 had room for 1,000 tokens, and took them: it stays one in 31, not all."""
    lengths = np.array([10] * 200 + [1000])
    found = counts_of(lengths[as_drawn(lengths, np.array([10] * 200 + [1000]))])
    assert found[1000] == pytest.approx(201 / 30, abs=1)


@pytest.mark.parametrize("seed", range(3))
def test_a_distribution_is_found_behind_random_rooms(seed: int) -> None:
    """Lognormal lengths of mean 1,000 that are seen where a room between 200 and 9,000 holds them."""
    draw = np.random.default_rng(seed)
    lengths = draw.lognormal(np.log(1000) - 0.25, np.sqrt(0.5), 40_000)
    room = draw.uniform(200, 9000, 40_000)
    seen = lengths <= room
    lengths, room = lengths[seen], room[seen]
    assert lengths.mean() < 930
    assert lengths[as_drawn(lengths, room)].mean() == pytest.approx(1000, rel=0.02)


def documents(seed: int, limit: int = 10**9) -> Iterator[list[tuple[int, int]]]:
    """600 conversations about a document of 4,000 tokens in the mean, with short questions, six at most."""
    draw = Random(seed)
    for _ in range(600):
        turns = [(round(draw.uniform(3000, 5000)), 50)]
        turns += [(round(draw.uniform(50, 150)), 50) for _ in range(draw.randrange(6))]
        while sum(map(sum, turns)) > limit:
            turns.pop()
        yield turns


def test_first_prompts_of_their_own_are_told_apart(tmp_path: Path) -> None:
    learned = fit(read_recorded([log_of(tmp_path, documents(1))]))
    assert learned.first_prompts.mean == pytest.approx(4000, rel=0.02)
    assert learned.input_tokens.mean == pytest.approx(100, rel=0.02)
    assert learned.turns == 6


def test_first_prompts_like_all_others_are_not(tmp_path: Path) -> None:
    assert fit(read_recorded([log_of(tmp_path, alike(2))])).first_input_tokens is None


def alike(seed: int) -> Iterator[list[tuple[int, int]]]:
    """600 conversations of six turns of 50 to 150 tokens and answers of 50."""
    draw = Random(seed)
    return ([(round(draw.uniform(50, 150)), 50) for _ in range(6)] for _ in range(600))


def second_half(log: str) -> str:
    """The log from its middle on: 21 conversations are under way."""
    rows = Path(log).read_text(encoding="utf-8").splitlines(keepends=True)
    Path(log).write_text("".join(rows[len(rows) // 2 :]), encoding="utf-8")
    return log


def test_what_was_under_way_is_no_first_prompt(tmp_path: Path) -> None:
    learned = fit(read_recorded([second_half(log_of(tmp_path, alike(3)))]))
    assert (learned.first_input_tokens, learned.turns) == (None, 6)
    assert learned.input_tokens.mean == pytest.approx(100, rel=0.02)


def test_a_log_that_is_cut_out_says_what_of_it_tells_no_turns(tmp_path: Path) -> None:
    (note,) = (one for one in read_recorded([second_half(log_of(tmp_path, alike(3)))]).notes if "under way" in one)
    assert "turns of its first 30 s" in note


def test_a_whole_log_tells_all_its_turns(tmp_path: Path) -> None:
    assert 0 not in read_recorded([log_of(tmp_path, alike(3))]).turns


def test_the_rate_is_one_of_conversations_begun(tmp_path: Path) -> None:
    """One every 7 s, of 31 turns: the last one goes on for 15 minutes, in which no other begins."""
    long = ([(100, 50)] * 31 for _ in range(100))
    assert fit(read_recorded([log_of(tmp_path, long)])).requests_per_s == pytest.approx(31 / 7, rel=1e-3)


def test_requests_without_conversations_have_no_first_prompt() -> None:
    recorded = Recorded()
    for name, column in (("at_s", [0.0, 1.0]), ("input_tokens", [9, 8]), ("output_tokens", [5, 5])):
        getattr(recorded, name).extend(column)
    recorded.new_tokens.extend([9, 8])
    recorded.turns.extend([0, 0])
    assert fit(recorded).first_input_tokens is None


def test_the_diff_has_the_first_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole prompts of the learned workload are as the recorded ones in the mean, even of one draw."""
    monkeypatch.setattr(closeness, "DRAWS", 1)
    log = log_of(tmp_path, documents(3))
    file = file_of(tmp_path, first_input_tokens=None, max_context_tokens=8000)
    assert run(["learn", log, "--profile", str(file), "--out", str(tmp_path / "w.diff"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "+  first_input_tokens:" in document["diff"]
    (close,) = [row for row in document["predicted"] if row["name"] == "ttft_p95_ms"]
    assert abs(close["apart"]) < 0.05


def test_a_conversation_begins_with_its_first_prompt(tmp_path: Path) -> None:
    """3,000, then 3,000 + 50 + 100, then that + 50 + 100."""
    (one,) = mixture_of(load_profile(file_of(tmp_path)).workload).classes
    assert [step.input_tokens for step in one.drawn(Random(0))] == [3000, 3150, 3300]
    assert [step.input_tokens for step in one.expected] == [3000, 3150, 3300]
    assert one.words == "3 turns of 100 + 50 tokens after a first of 3,000 + 50"


def test_a_plan_reckons_with_it(tmp_path: Path) -> None:
    """The mean of 3,000, 3,150 and 3,300."""
    assert planned_workload(load_profile(file_of(tmp_path))).input_tokens == 3150


def test_the_benchmark_sends_it(tmp_path: Path) -> None:
    spec = workload_of(load_profile(file_of(tmp_path)), tmp_path)
    assert spec.first_input_tokens == TokenCounts("fixed", 3000.0)
    prompts = Prompts(spec)
    first = prompts.planned(0)
    assert first.input_tokens == pytest.approx(3000, abs=5)
    second = prompts.following(1, first, "word " * 50, 50)
    assert second is not None
    assert second.input_tokens - first.input_tokens == pytest.approx(150, abs=5)


def test_a_runs_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What was driven is judged, reported and resumed by its plan.json."""
    workload = workload_of(load_profile(file_of(tmp_path, turn_correlation=0.5, max_context_tokens=8000)), tmp_path)
    target = parse_target("http://127.0.0.1:1", "openai", streaming=True)
    spec = BenchmarkSpec(target=target, workload=workload, concurrency=(1,), requests_per_level=9)
    plan = new_plan(spec, "run", 0, {})
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == plan


def test_a_benchmark_of_documents_ends_with_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the command is given, against a server that answers."""
    workload = "{input_tokens: 50, first_input_tokens: 'lognormal:200:50', output_tokens: 4, turns: 3}"
    (tmp_path / "w.yaml").write_text(workload, encoding="utf-8")
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        options = ["--protocol", "openai", "--model", "m", "--concurrency", "2", "--requests-per-level", "12"]
        files = ["--workload", str(tmp_path / "w.yaml"), "--out", str(tmp_path / "run")]
        code = run(["bench", "--target", endpoint.url, *options, *files])
    said = capsys.readouterr()
    assert code in (ExitCode.NOT_JUDGED, ExitCode.COULD_NOT_RUN), said.err  # INVALID on a machine that is too busy
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["levels"][0]["requests"] == 12


def test_a_class_has_its_own_or_the_workloads(tmp_path: Path) -> None:
    """Single requests have no later turn, and all they bring is `input_tokens`."""
    classes = [
        {"name": "books", "share": 0.2, "first_input_tokens": 6000},
        {"name": "single", "share": 0.2, "turns": 1},
        {"name": "agent", "share": 0.2, "steps": [{"name": "a", "input_tokens": 7, "output_tokens": 9}]},
    ]
    found = mixture_of(load_profile(file_of(tmp_path, classes=classes)).workload).classes
    assert [one.steps[0].input_tokens.mean for one in found] == [3000, 6000, 100, 7]


def test_a_class_takes_nothing_back_by_null(tmp_path: Path) -> None:
    classes = [{"name": "short", "share": 0.5, "first_input_tokens": None, "turn_correlation": 0}]
    (found,) = [str(one) for one in check_file(file_of(tmp_path, classes=classes)).problems]
    assert "LP254 (warning) workload.classes[0].first_input_tokens: null takes nothing back" in found


@pytest.mark.parametrize(
    ("workload", "place", "says"),
    [
        ({"first_input_tokens": 9000}, "workload.first_input_tokens", "9,000 prompt and 50 answer tokens exceed 8,192"),
        ({"turns": 1}, "workload.first_input_tokens", "a conversation's first prompt"),
        (
            {"first_input_tokens": "lognormal:900:100", "max_context_tokens": 8000},
            "workload.first_input_tokens",
            "tail",
        ),
        ({"first_input_tokens": {"distribution": "normal", "mean": 9}}, "workload.first_input_tokens", "`stddev`"),
        ({"shared_prefix_tokens": 3500}, "workload.shared_prefix_tokens", "exceed prompts of 3000"),
        ({"max_context_tokens": 2000}, "workload.max_context_tokens", "may have 3,000 tokens: 2,000 leave no answer"),
    ],
)
def test_one_that_does_not_go_is_told(tmp_path: Path, workload: dict[str, Any], place: str, says: str) -> None:
    found = [str(one) for one in check_file(file_of(tmp_path, **workload)).problems]
    assert any(place in one and says in one for one in found), found


def test_a_prefix_may_be_longer_than_a_later_turn(tmp_path: Path) -> None:
    """A system prompt of 2,500 tokens, before questions of 100."""
    assert not check_file(file_of(tmp_path, shared_prefix_tokens=2500)).errors


def test_a_profile_without_it_keeps_its_hash(tmp_path: Path) -> None:
    document = profile_document(load_profile(file_of(tmp_path, first_input_tokens=None)))
    assert "first_input_tokens" not in document["workload"]


def test_a_chain_of_equal_prompts_is_said_as_before() -> None:
    one = TokenCounts("fixed", 9.0)
    assert chain(one, one, 2) == chain(one, one, 2, first_prompts=one)


def users(seed: int) -> Iterator[list[tuple[int, int]]]:
    """1,500 conversations of six turns, of users whose turns have 100 tokens or 400, within 3,000 in all."""
    draw = Random(seed)
    for _ in range(1500):
        tokens = draw.choice([100, 400])
        turns = [(round(draw.uniform(0.8, 1.2) * tokens), round(draw.uniform(0.8, 1.2) * tokens)) for _ in range(6)]
        while sum(map(sum, turns)) > 3000:
            turns.pop()
        yield turns


def test_users_who_differ_are_learned(tmp_path: Path) -> None:
    """A third of all turns are long, since long ones have room for three; of first ones it is half."""
    learned = fit(read_recorded([log_of(tmp_path, users(1))]))
    assert learned.turn_correlation > 0.7
    assert learned.input_tokens.mean == pytest.approx(250, rel=0.02)
    assert learned.mean_turns == pytest.approx(4.5, rel=0.05)


def test_users_who_do_not_differ_have_no_correlation(tmp_path: Path) -> None:
    draw = Random(4)
    alike = ([(round(draw.uniform(50, 150)), 50) for _ in range(draw.randrange(1, 7))] for _ in range(600))
    assert fit(read_recorded([log_of(tmp_path, alike)])).turn_correlation == 0.0


LENGTHS = (
    TokenCounts("lognormal", 500.0, 400.0),
    TokenCounts("normal", 500.0, 100.0),
    TokenCounts("uniform", 505.0, 0.0, 10, 1000),
    TokenCounts("empirical", 400.0, 0.0, 100, 900, (900, 100, 400, 200)),
)


@pytest.mark.parametrize("counts", LENGTHS, ids=lambda one: one.distribution)
def test_alike_turns_are_of_the_distribution_that_each_is(counts: TokenCounts) -> None:
    """Quantiles of second prompts, against as many counts drawn one by one."""
    one = SessionClass(chain(counts, counts, 2), turn_correlation=0.6)
    chance = Random(0)
    second = [steps[1].input_tokens - steps[1].history_tokens for steps in (one.drawn(chance) for _ in range(20_000))]
    alone = [counts.drawn(chance) for _ in range(20_000)]
    shares = (0.1, 0.3, 0.6, 0.9)
    assert np.quantile(second, shares) == pytest.approx(np.quantile(alone, shares), rel=0.06)


def test_two_turns_go_together_as_much_as_is_said() -> None:
    counts = TokenCounts("lognormal", 5000.0, 2500.0)
    one = SessionClass(chain(counts, counts, 3), turn_correlation=0.6)
    chance = Random(0)
    turns = np.array([[s.input_tokens - s.history_tokens for s in one.drawn(chance)] for _ in range(20_000)])
    found = np.corrcoef(np.log(turns).T)
    assert [found[0, 1], found[0, 2], found[1, 2]] == pytest.approx([0.6] * 3, abs=0.02)


def test_paired_lengths_stay_pairs() -> None:
    """Whoever sends the long prompt gets the long answer, and sends it again more often than not."""
    prompts, answers = (TokenCounts("empirical", 0.0, 0.0, 1, 99, values) for values in ((10, 99), (1, 50)))
    one = SessionClass(chain(prompts, answers, 2), paired_lengths=True, turn_correlation=0.9)
    chance = Random(0)
    drawn = [[(s.input_tokens - s.history_tokens, s.output_tokens) for s in one.drawn(chance)] for _ in range(2000)]
    assert {pair for turns in drawn for pair in turns} == {(10, 1), (99, 50)}
    assert sum(first == second for first, second in drawn) / 2000 > 0.8


def test_the_benchmark_sends_what_the_twin_draws_of_alike_turns(tmp_path: Path) -> None:
    """By level and session: lengths of all turns are drawn together, as `drawn` does."""
    file = file_of(tmp_path, input_tokens="uniform:50:150", first_input_tokens=None, turn_correlation=0.9)
    spec = workload_of(load_profile(file), tmp_path)
    sessions = DrawnSessions(spec)
    new = np.array([[s.input_tokens - s.history_tokens for s in sessions.lengths(0, number)] for number in range(3000)])
    assert np.corrcoef(new.T)[0, 1] == pytest.approx(0.89, abs=0.02)  # of uniform ones: 6/π · asin(0.9/2)
    second = spec.stride + 1
    planned = Prompts(spec).following(second, Prompts(spec).planned(spec.stride), "word " * 50, 50)
    assert planned is not None
    level, session, step = spec.place(second)
    assert planned.input_tokens == pytest.approx(sessions.lengths(level, session)[step].input_tokens, abs=6)


def test_a_correlation_of_no_turns_is_told(tmp_path: Path) -> None:
    file = file_of(tmp_path, turns=1, first_input_tokens=None, turn_correlation=0.5)
    assert any("LP254 workload.turn_correlation" in str(one) for one in check_file(file).errors)


def moved(folder: Path, conversations: Iterator[Sequence[tuple[int, int]]]) -> set[str]:
    """Lengths that are said to have moved from a profile of documents and questions."""
    lengths = {"first_input_tokens": "uniform:3000:5000", "input_tokens": "uniform:50:150", "turns": 6}
    profile = load_profile(file_of(folder, **lengths))
    found, _ = drift_of(profile, read_recorded([log_of(folder, conversations)]))
    return {one.quantity for one in found if one.moved and "tokens" in one.quantity}


@pytest.mark.parametrize("seed", range(3))
def test_documents_as_proven_are_no_alarm(tmp_path: Path, seed: int) -> None:
    assert moved(tmp_path, documents(seed)) == set()


def test_longer_documents_are_seen(tmp_path: Path) -> None:
    """By 600 of them, 30% longer, whatever hangs together within a conversation."""
    longer = ([(first * 13 // 10, answer), *others] for (first, answer), *others in documents(5))
    assert moved(tmp_path, longer) == {"first prompt tokens"}


def test_longer_questions_are_seen(tmp_path: Path) -> None:
    longer = ([first, *((new * 13 // 10, answer) for new, answer in others)] for first, *others in documents(6))
    assert moved(tmp_path, longer) == {"second prompt tokens"}


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (
            {"turn_correlation": 0.5, "first_input_tokens": None},
            "LP254 (warning) workload.turn_correlation: lengths that",
        ),
        ({"max_context_tokens": 6000, "classes": [{"name": "q", "share": 0.5, "turns": 1}]}, "workload.max_context"),
    ],
    ids=["fixed lengths are alike", "what a class inherits is not told of the class"],
)
def test_what_has_no_effect_is_told_once_where_it_is_written(
    tmp_path: Path, workload: dict[str, Any], says: str
) -> None:
    (found,) = [str(one) for one in check_file(file_of(tmp_path, **workload)).problems]
    assert says in found


def test_a_prompt_beyond_the_context_has_no_negative_answer(tmp_path: Path) -> None:
    lengths = {"first_input_tokens": "lognormal:900:500", "max_context_tokens": 8000}
    found = " ".join(str(one) for one in check_file(file_of(tmp_path, input_tokens=9000, **lengths)).problems)
    assert "and -" not in found


def test_blocks_that_half_of_first_prompts_begin_with_are_a_system_prompt() -> None:
    """The last block of a prompt may not be full, and is none of them."""
    assert shared_blocks([(1, 2, 3, 70), (1, 2, 4, 71), (1, 2, 3), (9, 2, 3, 72)]) == (1, 2)
    assert shared_blocks([(1, 2), (1, 2)]) == (1,)
    assert shared_blocks([(1, 2, 3), (4, 5, 6), (7, 8, 9)]) == ()
    assert shared_blocks([(1, 2, 3)]) == ()


@pytest.fixture(params=["as much as is held at once", "more than is held at once"])
def mooncake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """512 tokens a block: 300 conversations of two turns behind four blocks of a system prompt."""
    if request.param == "more than is held at once":
        monkeypatch.setattr(traces, "MOST_REQUESTS", 100)
        monkeypatch.setattr(trace_columns, "_TELL", 100)
    rows = []
    for number in range(300):
        own = 10 * number + 100
        rows.append((60_000 * number, 2600, [0, 1, 2, 3, own, own + 1]))
        rows.append((60_000 * number + 30_000, 3700, [0, 1, 2, 3, own, own + 2, own + 3, own + 4]))
    lines = (
        json.dumps({"timestamp": at, "input_length": tokens, "output_length": 100, "hash_ids": blocks})
        for at, tokens, blocks in rows
    )
    (tmp_path / "trace.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(tmp_path / "trace.jsonl")


def test_a_prefix_that_blocks_tell_is_learned(mooncake: str) -> None:
    learned = fit(read_recorded([mooncake]))
    assert (learned.shared_prefix_tokens, learned.turns, learned.first_prompts.min) == (2048, 2, 2600)
