"""The planner's closed form against the twin: two ways to the same figure, within a stated tolerance."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import mean

import pytest

from loadproof.capacity import PlannedDeployment, deployment_from_container, memory_fit, predict_level
from loadproof.errors import InputError
from loadproof.profiles import Family
from loadproof.simulation import simulate_closed_loop, simulate_requests


def deployment(family: Family, instance_type: str = "ml.g5.2xlarge", accelerators: int = 1) -> PlannedDeployment:
    variables = {
        "MAX_TOTAL_TOKENS": "4096",
        "MAX_BATCH_PREFILL_TOKENS": "4096",
        "SM_VLLM_MAX_MODEL_LEN": "4096",
    }
    return deployment_from_container(
        family=family,
        version="1",
        variables=variables,
        model_id="meta-llama/Llama-2-7b-hf",
        architecture=None,
        instance_type=instance_type,
        accelerators_per_copy=accelerators,
        copies=1,
    )


CASES = [
    (family, instance, accelerators, prompt, answer, concurrency)
    for family in ("tgi", "vllm")
    for instance, accelerators in (("ml.g5.2xlarge", 1), ("ml.p4d.24xlarge", 8))
    for prompt, answer in ((256, 64), (1024, 128))
    for concurrency in (1, 4, 8)
]


@pytest.mark.parametrize(("family", "instance", "accelerators", "prompt", "answer", "concurrency"), CASES)
def test_below_saturation_the_closed_form_is_within_five_percent_of_the_twin(
    family: Family, instance: str, accelerators: int, prompt: int, answer: int, concurrency: int
) -> None:
    """Throughput and E2E within 5%, as long as nothing queues; TTFT within 15%, and within 35% of a chunked
    scheduler, whose budget cuts prompts in ways the closed form does not follow. The twin begins where a request
    reaches the scheduler, so the way there is left out."""
    made = deployment(family, instance, accelerators)
    made = replace(made, server=replace(made.server, ttft_ms=0.0))
    level = predict_level(made, prompt, answer, concurrency)
    assert level is not None
    assert level.queue_ms == 0
    done = simulate_closed_loop(made, prompt, answer, concurrency, requests=8 * concurrency)
    tokens_per_s = sum(request.output_tokens for request in done) / done[-1].end_ms * 1000
    assert level.output_tokens_per_s == pytest.approx(tokens_per_s, rel=0.05)
    assert level.e2e_ms == pytest.approx(mean(request.e2e_ms for request in done), rel=0.05)
    assert level.ttft_ms == pytest.approx(
        mean(request.ttft_ms for request in done), rel=0.15 if family == "tgi" else 0.35
    )


@pytest.mark.parametrize("family", ["tgi", "vllm"])
@pytest.mark.parametrize(("prompt", "answer"), [(256, 64), (1024, 400)])
@pytest.mark.parametrize("concurrency", [4, 8])
def test_spread_lengths_are_within_twelve_percent_of_the_twin(
    family: Family, prompt: int, answer: int, concurrency: int
) -> None:
    """Answers of normal length (stddev 40%), twenty rounds: throughput and E2E within 12%, mean TTFT within 50%, and
    95 of 100 first tokens no later than the start round's last."""
    made, chance = deployment(family), Random(0)
    sizes = [(prompt, max(1, round(chance.gauss(answer, 0.4 * answer)))) for _ in range(20 * concurrency)]
    done = simulate_requests(made, sizes, concurrency)
    level = predict_level(made, prompt, round(mean(tokens for _, tokens in sizes)), concurrency, staggered=True)
    assert level is not None
    tokens_per_s = sum(request.output_tokens for request in done) / done[-1].end_ms * 1000
    assert level.output_tokens_per_s == pytest.approx(tokens_per_s, rel=0.12)
    assert level.e2e_ms == pytest.approx(mean(request.e2e_ms for request in done), rel=0.12)
    first_tokens_ms = sorted(request.ttft_ms for request in done)
    assert level.ttft_ms == pytest.approx(mean(first_tokens_ms), rel=0.5)
    assert first_tokens_ms[int(0.95 * len(done)) - 1] <= level.ttft_last_ms


@pytest.mark.parametrize("concurrency", [4, 8, 16])
def test_requests_out_of_step_have_the_tail_of_tpot_that_is_planned(concurrency: int) -> None:
    """Answers of 48 tokens, give or take five: 95 of 100 have at most the TPOT of equal requests that all others
    interrupt, and that is no more than 15% too much."""
    made, chance = deployment("vllm"), Random(1)
    sizes = [(256, 48 + chance.randint(-5, 5)) for _ in range(40 * concurrency)]
    done = simulate_requests(made, sizes, concurrency)[4 * concurrency :]
    tpots_ms = sorted((one.e2e_ms - one.ttft_ms) / (one.output_tokens - 1) for one in done)
    level = predict_level(made, 256, 48, concurrency)
    assert level is not None
    assert level.tpot_longest_ms == pytest.approx(tpots_ms[int(0.95 * len(tpots_ms)) - 1], rel=0.15)
    assert level.tpot_longest_ms > 1.15 * level.tpot_ms


@pytest.mark.parametrize("concurrency", [32, 64])
def test_in_saturation_the_closed_form_is_within_ten_percent_of_the_twin(concurrency: int) -> None:
    """Llama 2 7B on one A10G holds about 28 requests of 512 tokens; 64 in flight queue. Ten rounds, so that the
    start and the drain weigh little."""
    made = deployment("tgi")
    level = predict_level(made, 256, 256, concurrency)
    assert level is not None
    assert level.queue_ms > 0
    done = simulate_closed_loop(made, 256, 256, concurrency, requests=10 * concurrency)
    tokens_per_s = 256 * len(done) / done[-1].end_ms * 1000
    assert level.output_tokens_per_s == pytest.approx(tokens_per_s, rel=0.10)


def test_every_request_ends_and_time_only_moves_on() -> None:
    """Sent before first token before end; as many records as requests, in order of end."""
    done = simulate_closed_loop(deployment("vllm"), 100, 20, 5, requests=23)
    assert len(done) == 23
    assert [request.end_ms for request in done] == sorted(request.end_ms for request in done)
    for request in done:
        assert request.sent_ms < request.first_token_ms < request.end_ms


def test_a_request_the_server_refuses_ends_the_simulation_with_its_reason() -> None:
    """Nothing is silently dropped."""
    with pytest.raises(InputError, match="refuses 4000 \\+ 256 tokens: too_long"):
        simulate_closed_loop(deployment("tgi"), 4000, 256, 1, 1)


def test_a_state_beside_every_sequence_bounds_the_batch() -> None:
    """Qwen3.5 27B keeps 153,944,064 bytes a sequence beside 65,536 a token: 193,265,664 bytes behind a prompt of 600
    tokens. The KV cache holds 189 of them; spreading the state over a mean request's tokens lets in an eighth more."""
    made = deployment_from_container(
        family="vllm",
        version="0.30.0",
        variables={"SM_VLLM_MAX_MODEL_LEN": "8192"},
        model_id="Qwen/Qwen3.5-27B",
        architecture=None,
        instance_type="ml.g7e.2xlarge",
        accelerators_per_copy=1,
        copies=1,
    )
    done = simulate_closed_loop(made, 600, 100, concurrency=400, requests=800)
    most = max(sum(other.first_token_ms <= one.first_token_ms < other.end_ms for other in done) for one in done)
    assert memory_fit(made).kv_cache_gib * (1 << 30) / 193_265_664 == pytest.approx(189, abs=1)
    assert 170 <= most <= 189 * 9 / 8
