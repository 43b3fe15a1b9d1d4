"""Levels between the listed ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.capacity import make_plan, predict_run
from loadproof.capacity.search import admitted, invocation_limit, ladder, last_that
from loadproof.capacity.workload import PlannedWorkload, planned_deployment
from loadproof.profiles import Profile, load_profile

PROFILES = Path(__file__).parents[2] / "deploy_profiles"
LLAMA = load_profile(PROFILES / "dev" / "llama-3-1-8b.yaml")
QWEN = load_profile(PROFILES / "dev" / "qwen3-32b.yaml")


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_halving_finds_the_last_that_holds(threshold: int, beyond: int) -> None:
    """Whatever lies between: the answer is the threshold itself."""
    assert last_that(lambda number: number <= threshold, 1, threshold + beyond) == threshold


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([LLAMA, QWEN]), st.integers(100, 1000), st.integers(600, 2000))
def test_the_60_s_limit_is_exact(profile: Profile, prompt: int, answer: int) -> None:
    """At the limit 19 in 20 requests end within 60 s, at one more they do not."""
    deployment, workload = planned_deployment(profile), PlannedWorkload(prompt, answer)
    found = invocation_limit(deployment, workload, streaming=False)
    assert found is not None
    assert found.applies
    for concurrency, timeout in ((found.concurrency, False), (found.concurrency + 1, True)):
        if concurrency and found.reached:
            run = predict_run(deployment, prompt, answer, concurrency)
            assert run is not None
            assert run.timeout is timeout


def test_an_answer_that_never_ends_in_time_leaves_no_load() -> None:
    """4,000 tokens at 26 ms each take 104 s even alone."""
    found = invocation_limit(planned_deployment(LLAMA), PlannedWorkload(256, 4000), streaming=True)
    assert found is not None
    assert (found.concurrency, found.reached, found.applies) == (0, True, False)


def test_short_answers_end_in_time_at_every_load_the_server_admits() -> None:
    """48 tokens: 64 requests, which is all TGI admits, take seconds."""
    found = invocation_limit(planned_deployment(LLAMA), PlannedWorkload(256, 48), streaming=False)
    assert found is not None
    assert (found.concurrency, found.reached) == (64, False)


def test_a_request_that_cannot_be_served_has_no_limit() -> None:
    """Prompt plus answer past max_total_tokens 5,120."""
    assert invocation_limit(planned_deployment(LLAMA), PlannedWorkload(4096, 2000), streaming=False) is None


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([LLAMA, QWEN]), st.integers(1, 5), st.lists(st.integers(1, 100), max_size=4))
def test_a_ladder_climbs_from_one_unit_and_never_past_what_is_admitted(
    profile: Profile, copies: int, listed: list[int]
) -> None:
    """Listed levels are on it, levels ascend, none has a refused request, and it ends at or past the highest listed."""
    deployment = replace(planned_deployment(profile), copies=copies)
    level = partial(PlannedWorkload(256, 48).level, deployment)
    rungs = ladder(level, deployment, listed, unit=copies)
    at = [row.concurrency for row in rungs]
    assert at == sorted(set(at))
    assert copies in at
    assert not any(row.refused for row in rungs)
    assert at[-1] <= admitted(deployment)
    assert {rung for rung in listed if rung <= admitted(deployment)} <= set(at)


def test_a_ladder_ends_where_every_batch_is_full_twice() -> None:
    """Two copies of 8 are full at 16: at 32 the last is seen, though chance adds 5% a doubling to what was played."""
    deployment = replace(planned_deployment(LLAMA), copies=2)
    row = PlannedWorkload(256, 48).level(deployment, 1)
    assert row is not None
    found = ladder(
        lambda rung: replace(row, concurrency=rung, batch=min(rung, 8), output_tokens_per_s=1.05**rung), deployment
    )
    assert [one.concurrency for one in found] == [1, 2, 4, 8, 16, 32]


def test_the_objective_bound_lies_between_the_listed_levels() -> None:
    """TTFT p95 under 100 ms holds up to some level between 4 and 8, and not at the next one."""
    data = LLAMA.model_dump(exclude_none=True)
    data["objectives"] = {"at_concurrency": 4, "ttft_p95_ms": 100.0}
    plan = make_plan(Profile.model_validate(data))
    bound = plan.knees[0]
    assert (bound.rule, bound.reached) == ("objective bound", True)
    here = plan.workload.level(plan.deployment, bound.concurrency)
    beyond = plan.workload.level(plan.deployment, bound.concurrency + 1)
    assert here is not None
    assert beyond is not None
    assert here.ttft_last_ms <= 100 < beyond.ttft_last_ms


@pytest.mark.parametrize("bounds", [{"output_tokens_per_s_min": 1.0}, {"error_rate_max": 0.5}])
def test_without_a_latency_objective_there_is_no_objective_bound(bounds: dict[str, float]) -> None:
    """Two rules are left, and marginal gain is the one that `knee` means."""
    data = LLAMA.model_dump(exclude_none=True)
    data["objectives"] = {"at_concurrency": 4, **bounds}
    plan = make_plan(Profile.model_validate(data))
    assert [knee.rule for knee in plan.knees] == ["half-latency", "marginal gain"]
    assert plan.knee is plan.knees[1]
