"""Conversations: prompts grow with each turn, and what they cost hangs on what the cache still has."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from loadproof import simulation
from loadproof.capacity import make_plan
from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.profiles import check_file, load_profile
from loadproof.profiles.mixture import mixture_of
from loadproof.profiles.schema import Profile
from loadproof.simulation import OpenLoop, Traffic
from loadproof.simulation.profile import simulate_profile
from loadproof.simulation.sessions import Session
from loadproof.simulation.sizes import request_sizes

# What `bench --turns 6 --input-tokens 3072 --output-tokens 256` was seen to send.
SENT = (3_072, 6_400, 9_728, 13_056, 16_384, 19_712)
LED_BACK = "prefix_aware, concurrency_threshold: 16, prefix_length_bytes: 4096"
CHAT = """
name: chat
model: {id: Qwen/Qwen3-32B, source: {type: s3, s3_uri: s3://my-models/qwen/}}
container:
  family: vllm
  settings: {tensor_parallel_degree: 4, max_model_len: LONGEST, enable_prefix_caching: CACHES}
endpoint: {instance_type: ml.g6e.12xlarge, min_instances: COPIES, max_instances: COPIES, routing: {strategy: ROUTING}}
copies: {min: COPIES, max: COPIES}
objectives: {at_concurrency: 8, tpot_p95_ms: 60}
workload: {input_tokens: 3072, output_tokens: 256, turns: 6}
"""


def file_of(folder: Path, **values: object) -> Path:
    """The profile as a file, with these in place of its words in capitals."""
    text = dedent(CHAT)
    found = {"longest": 32_768, "caches": "true", "copies": 1, "routing": "least_outstanding_requests"} | values
    for name, value in found.items():
        text = text.replace(name.upper(), str(value))
    file = folder / "chat.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def chat(folder: Path, **values: object) -> Profile:
    return load_profile(file_of(folder, **values))


def test_a_turn_has_all_before_it(tmp_path: Path) -> None:
    """The prompts that were seen on the wire."""
    (chain,) = mixture_of(chat(tmp_path).workload).classes
    assert tuple(step.input_tokens for step in chain.expected) == SENT


def test_history_is_what_the_turn_before_ended_with(tmp_path: Path) -> None:
    """Its prompt and its answer."""
    (chain,) = mixture_of(chat(tmp_path).workload).classes
    assert chain.expected[2].history_tokens == SENT[1] + 256


def test_the_twin_is_sent_the_same_prompts(tmp_path: Path) -> None:
    """Of one conversation."""
    session = next(request_sizes(mixture_of(chat(tmp_path).workload)))
    assert isinstance(session, Session)
    assert tuple(step.input_tokens for step in session.steps) == SENT


@pytest.mark.parametrize(
    ("longest", "turn"),
    [(3_327, None), (4_096, 2), (6_655, 2), (6_656, 3), (19_967, 6), (19_968, None)],
)
def test_the_first_turn_that_cannot_be_served_is_told(tmp_path: Path, longest: int, turn: int | None) -> None:
    """Turn 2 and its answer are 6,656 tokens, turn 6 19,968; a first turn that is too long is another finding."""
    problems = [one.message for one in check_file(file_of(tmp_path, longest=longest)).problems if one.code == "LP252"]
    told = [message for message in problems if " of 6 has " in message]
    assert len(told) == (turn is not None)
    if turn is not None:
        assert f"turn {turn} of 6 has {SENT[turn - 1]:,} prompt tokens" in told[0]


def test_a_plan_is_of_the_mean_prompt(tmp_path: Path) -> None:
    """68,352 tokens in six turns: 11,392 each."""
    assert make_plan(chat(tmp_path)).input_tokens == sum(SENT) / 6 == 11_392


def test_a_plan_says_what_it_leans_on_and_loses_a_grade(tmp_path: Path) -> None:
    """vLLM 0.30 on an L40S is grade B for single requests: A, were there rows of that release line."""
    plan = make_plan(chat(tmp_path))
    assert plan.grade == "C"
    assert any("100% of what came before is planned as in the cache" in note for note in plan.notes)


def test_without_a_cache_each_turn_computes_its_whole_prompt(tmp_path: Path) -> None:
    """11,392 tokens where 3,072 are new: between 3 and 4 times the TTFT of one alone."""
    alone = [make_plan(chat(tmp_path, caches=caches)).levels[0].ttft_ms for caches in ("true", "false")]
    assert 3.0 < alone[1] / alone[0] < 4.0


@pytest.mark.parametrize(("routing", "share"), [("least_outstanding_requests", 10.96875 / 15), (LED_BACK, 1.0)])
def test_of_two_copies_a_turn_finds_what_its_own_was_told_unless_it_is_led_back(
    tmp_path: Path, routing: str, share: float
) -> None:
    """A turn finds the latest one before it on its copy: turns 2 to 6 find 1/2, 5/4, 17/8, 49/16 and 129/32 parts of
    1 + 2 + 3 + 4 + 5."""
    profile = chat(tmp_path, copies=2, routing=routing)
    assert planned_workload(profile).kept_share(planned_deployment(profile), 8) == pytest.approx(share)


def test_conversations_that_do_not_fit_the_memory_are_computed_anew(tmp_path: Path) -> None:
    """At twice the conversations that the cache holds half of their history is found."""
    profile = chat(tmp_path)
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    held = make_plan(profile).memory.kv_token_capacity / (11_392 + 256)
    assert workload.kept_share(deployment, int(held)) == 1.0
    assert workload.kept_share(deployment, 2 * int(held)) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("caches", ["true", "false"])
def test_plan_and_twin_agree_on_a_conversation(tmp_path: Path, caches: str) -> None:
    """Tokens a second and the mean latency of eight in flight, within 5 and 10%: two ways to reckon the same."""
    profile = chat(tmp_path, caches=caches)
    planned, simulated = simulation.make_plan(profile).at_objectives, simulate_profile(profile, minutes=30).summary
    assert planned is not None and simulated.e2e.mean_ms is not None
    assert simulated.output_tokens_per_s == pytest.approx(planned.output_tokens_per_s, rel=0.05)
    assert simulated.e2e.mean_ms == pytest.approx(planned.e2e_ms, rel=0.10)


def test_one_turn_is_a_request_as_before(tmp_path: Path) -> None:
    """No history, no growth, no lost grade."""
    file = file_of(tmp_path)
    file.write_text(file.read_text(encoding="utf-8").replace("turns: 6", "turns: 1"), encoding="utf-8")
    plan = make_plan(load_profile(file))
    assert (plan.input_tokens, plan.grade, plan.workload.history_tokens) == (3_072, "B", 0)


@pytest.mark.parametrize("sessions", [1, 2, 4])
def test_sessions_that_pause_send_as_often_as_little_says(tmp_path: Path, sessions: int) -> None:
    """Six answers one after another and five times 20 s between them: less than one request in flight is less work."""
    profile = chat(tmp_path)
    pausing = profile.model_copy(update={"workload": profile.workload.model_copy(update={"think_time_s": 20.0})})
    level = planned_workload(pausing).by_formula.level(planned_deployment(pausing), sessions)
    assert level is not None
    takes_s = 6 * level.e2e_ms / 1000 + 5 * 20
    assert level.output_tokens_per_s == pytest.approx(sessions * 6 * 256 / takes_s)


@pytest.mark.parametrize(
    ("caching", "cached", "said"),
    [
        ("", 2048, "found in the prefix cache"),  # vLLM's own default
        (", enable_prefix_caching: false", 0, "computed for each: the server keeps no prompts"),
    ],
)
def test_a_shared_prefix_is_found_as_the_server_has_it(tmp_path: Path, caching: str, cached: int, said: str) -> None:
    """By plan and twin alike, of single requests as of conversations: 1,024 of 3,072 tokens are left to compute."""
    file = file_of(tmp_path)
    text = file.read_text().replace(", enable_prefix_caching: true", caching).replace("turns: 6", "SHARED")
    file.write_text(text.replace("SHARED", "shared_prefix_tokens: 2048"))
    profile = load_profile(file)
    plan = make_plan(profile)
    assert plan.workload.cached_tokens == cached
    assert f"2,048 tokens of each prompt are planned as {said}" in plan.notes
    file.write_text(text.replace(", SHARED", ""))
    alone = simulate_profile(load_profile(file), minutes=5).summary.ttft.percentile_ms(50)
    shared = simulate_profile(profile, minutes=5).summary.ttft.percentile_ms(50)
    assert alone is not None
    assert shared is not None
    assert (shared < 0.6 * alone) == bool(cached)
    # What was recorded begins as it says, and not as the profile's own prompts do.
    recorded = Traffic(OpenLoop([10_000.0 * at for at in range(20)]), [(3072, 8)] * 20, "recorded")
    own, another = (
        simulate_profile(one, minutes=5, traffic=recorded).summary.ttft.percentile_ms(50)
        for one in (profile, load_profile(file))
    )
    assert own == another
