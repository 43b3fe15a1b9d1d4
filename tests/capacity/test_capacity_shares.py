"""Where a request's latency and a copy's time go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadproof.capacity import PlannedDeployment, PredictedLevel
from loadproof.capacity.shares import binding_of, latency_shares, resource_shares
from loadproof.capacity.workload import PlannedWorkload, planned_deployment, planned_workload
from loadproof.profiles import Profile, load_profile

PROFILES = Path(__file__).parents[2] / "deploy_profiles"


def profile_of(file: str, **changes: Any) -> Profile:
    data = load_profile(PROFILES / file).model_dump(exclude_none=True)
    for key, value in changes.items():
        data[key] = data[key] | value if isinstance(value, dict) else value
    return Profile.model_validate(data)


def level(deployment: PlannedDeployment, workload: PlannedWorkload, concurrency: int) -> PredictedLevel:
    found = workload.level(deployment, concurrency)
    assert found is not None
    return found


def test_shares_of_latency_are_queue_then_prefill_then_decode() -> None:
    """E2E 1,000 ms with 100 ms of queue and TTFT at 250: a tenth waits, 15% prefills, three quarters decode."""
    deployment = planned_deployment(profile_of("dev/llama-3-1-8b.yaml"))
    made = replace(level(deployment, PlannedWorkload(256, 48), 4), queue_ms=100.0, ttft_ms=250.0, e2e_ms=1000.0)
    shares = latency_shares(made)
    assert (shares.queue, shares.prefill, shares.decode) == pytest.approx((0.1, 0.15, 0.75))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["dev/llama-3-1-8b.yaml", "dev/qwen3-32b.yaml", "local-vllm/tiny-llama.yaml"]),
    st.integers(2, 400),
    st.integers(1, 200),
    st.integers(1, 60),
    st.booleans(),
)
def test_shares_are_shares(file: str, prompt: int, answer: int, concurrency: int, staggered: bool) -> None:
    """Each lies between 0 and 1 and they sum to 1, for latency and for the copy's time, whatever is sent."""
    deployment, workload = planned_deployment(profile_of(file)), PlannedWorkload(prompt, answer, staggered)
    found = workload.level(deployment, concurrency)
    assume(found is not None)  # the tiny model serves no more than 512 tokens
    assert found is not None
    latency = latency_shares(found)
    for shares in (
        (latency.queue, latency.prefill, latency.decode),
        tuple(resource_shares(deployment, workload, found).values()),
    ):
        assert sum(shares) == pytest.approx(1)
        assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)


def test_one_sequence_reads_weights_and_a_long_prompt_computes() -> None:
    """An 8B model on one L40S: decoding alone is bound by bandwidth, 4,000-token prompts with 2-token answers by
    compute."""
    deployment = planned_deployment(profile_of("dev/llama-3-1-8b.yaml"))
    decoding, prefilling = PlannedWorkload(16, 200), PlannedWorkload(4000, 2)
    assert binding_of(deployment, decoding, level(deployment, decoding, 1)).resource == "bandwidth"
    assert binding_of(deployment, prefilling, level(deployment, prefilling, 1)).resource == "compute"


def test_a_tiny_model_is_bound_by_its_server() -> None:
    """26 million parameters are read in a fraction of what a step of the server takes."""
    profile = profile_of("local-vllm/tiny-llama.yaml")
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    binding = binding_of(deployment, workload, level(deployment, workload, 4))
    assert binding.resource == "server"
    assert binding.shares[0][0] == "server"


def test_requests_that_queue_for_a_place_are_bound_by_the_servers_limit() -> None:
    """Eight sequences at once: sixteen in flight wait for a place, not for memory."""
    profile = profile_of("local-vllm/tiny-llama.yaml")
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    binding = binding_of(deployment, workload, level(deployment, workload, 16))
    assert binding.resource == "server"
    assert "8 sequences" in binding.reason


def test_requests_that_queue_for_kv_cache_are_bound_by_memory() -> None:
    """14,998 tokens of KV cache a copy hold three requests of 4,096 tokens; four copies are sent 64."""
    deployment, workload = planned_deployment(profile_of("base/llama-2-7b.yaml")), PlannedWorkload(3000, 1096)
    binding = binding_of(deployment, workload, level(deployment, workload, 64))
    assert (binding.resource, binding.concurrency) == ("memory", 64)
    assert "3 of them at once" in binding.reason


def test_answers_in_one_piece_past_a_minute_are_bound_by_the_60_s_limit() -> None:
    """4,000 tokens at 26 ms take 104 s; streamed, the same is bound by bandwidth."""
    deployment, workload = planned_deployment(profile_of("dev/llama-3-1-8b.yaml")), PlannedWorkload(256, 4000)
    found = level(deployment, workload, 1)
    assert binding_of(deployment, workload, found, streaming=False).resource == "60 s limit"
    assert binding_of(deployment, workload, found, streaming=True).resource == "bandwidth"


def test_refused_requests_are_bound_by_the_server() -> None:
    """TGI admits 64; 80 in flight leave 16 refused."""
    profile = profile_of("dev/llama-3-1-8b.yaml")
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    binding = binding_of(deployment, workload, level(deployment, workload, 80))
    assert binding.resource == "server"
    assert "refuses 16" in binding.reason
