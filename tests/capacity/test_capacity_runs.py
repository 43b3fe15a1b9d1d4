"""Whole runs of a closed loop: TGI's admission rules by hand, then invariants over any shape."""

from __future__ import annotations

from dataclasses import replace

import pytest
from capacity_seed import seed_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.capacity import BatchLimits, predict_level, predict_run
from loadproof.capacity.rounds import PlannedLoop
from loadproof.capacity.rows import row_deployment
from loadproof.errors import InputError


class TenMsSteps:
    """A server whose every decode takes 10 ms and every prefill 100 ms."""

    def decode_ms(self, batch: float, context_tokens: float) -> float:
        return 10.0

    def prefill_ms(self, new_tokens: int, requests: int = 1, cached_tokens: int = 0) -> float:
        return 100.0


def loop(
    *, prompt: int = 10, answer: int = 5, budget: int = 100, ratio: float = 1.2, capacity: int = 1000
) -> PlannedLoop:
    limits = BatchLimits(
        scheduler="prefill_first",
        max_sequences=1 << 30,
        step_prefill_tokens=budget,
        max_request_tokens=None,
        max_input_tokens=None,
        max_admitted_requests=1 << 30,
        waiting_served_ratio=ratio,
        max_waiting_steps=20,
        kv_token_capacity=capacity,
    )
    return PlannedLoop(TenMsSteps(), limits, prompt, answer)


def test_one_request_takes_its_prefill_and_its_further_tokens() -> None:
    """100 ms for the prompt and the first token, 4 · 10 ms for the other four."""
    run = loop().run(1, 1)
    assert (run.duration_ms, run.latencies_ms, run.ttfts_ms) == (140.0, [140.0], [100.0])


def test_prompts_beyond_the_budget_wait_until_the_server_grows_impatient() -> None:
    """Three prompts, one a prefill, answers of 50: the second joins after one decode (1 >= 1 · 1.2 rounded down), the
    third needs 2 · 1.2 = 2 at once, so it waits for the 20th step: 100 + 10 + 100 + 19 · 10 + 100 = 500 ms."""
    run = loop(answer=50, budget=10).run(3, 3)
    assert run.ttfts_ms == [100.0, 210.0, 500.0]


def test_a_full_cache_makes_requests_wait_for_a_whole_round() -> None:
    """Room for two of three (15 tokens each): two end after 140 ms, the third after 280 ms."""
    run = loop(capacity=30).run(3, 3)
    assert run.latencies_ms == [140.0, 140.0, 280.0]


@given(
    prompt=st.integers(1, 200),
    answer=st.integers(1, 60),
    budget=st.integers(1, 500),
    ratio=st.floats(0, 3),
    concurrency=st.integers(1, 40),
    rounds=st.integers(1, 4),
)
@settings(deadline=None, max_examples=60)
def test_every_request_ends_and_none_before_its_own_work(
    prompt: int, answer: int, budget: int, ratio: float, concurrency: int, rounds: int
) -> None:
    """Each sent request is answered once, no sooner than one prefill and its decodes, and none outlasts the run."""
    run = loop(prompt=prompt, answer=answer, budget=budget, ratio=ratio, capacity=300).run(
        concurrency, rounds * concurrency
    )
    assert len(run.latencies_ms) == len(run.ttfts_ms) == rounds * concurrency
    assert min(run.latencies_ms) >= 100 + 10 * (answer - 1)
    assert max(run.latencies_ms) <= run.duration_ms


def test_a_single_stream_is_the_closed_forms() -> None:
    """With one request in flight nothing is scheduled, so run and level agree."""
    deployment = seed_rows()[0].deployment()
    run, level = predict_run(deployment, 256, 256, 1), predict_level(deployment, 256, 256, 1)
    assert run is not None and level is not None
    assert run.latency_mean_ms == pytest.approx(level.e2e_ms, rel=1e-3)
    assert run.latency_p90_ms == pytest.approx(run.latency_mean_ms)


def test_what_does_not_fit_has_no_run_and_counts_start_at_one() -> None:
    """A prompt beyond the server's 4,096 tokens cannot be served; a concurrency of 0 is bad input."""
    deployment = seed_rows()[0].deployment()
    assert predict_run(deployment, 5000, 256, 1) is None
    with pytest.raises(InputError, match="at least 1"):
        predict_run(deployment, 256, 256, 0)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["TGI", "vLLM"]),
    st.sampled_from([("Llama 2 7B", "ml.g5.2xlarge", 1), ("Mixtral 8x7B", "ml.p4d.24xlarge", 8)]),
    st.integers(1, 1500),
    st.integers(2, 400),
    st.integers(1, 300),
)
def test_faster_hardware_and_more_copies_never_make_a_run_slower(
    server: str, placed: tuple[str, str, int], prompt: int, answer: int, in_flight: int
) -> None:
    """A fifth more bandwidth or compute, or a second copy: no less throughput, no later answer; twice the load: no less
    throughput but for TGI's uneven rounds. TGI's second copy is left out: a short run ends with stragglers of whichever
    copy chance dealt more."""
    model, instance_type, degree = placed
    row = {"model": model, "instance_type": instance_type, "tp_degree": str(degree), "server": server}
    deployment = row_deployment(row | {"instance_count": "1"}, prompt + answer)
    chip = deployment.accelerator
    run = predict_run(deployment, prompt, answer, in_flight)
    assert run is not None
    for better in (
        replace(deployment, accelerator=replace(chip, bandwidth_gb_per_s=1.2 * chip.bandwidth_gb_per_s)),
        replace(deployment, accelerator=replace(chip, bf16_tflops=1.2 * chip.bf16_tflops)),
        replace(deployment, copies=2 if server == "vLLM" else 1),
    ):
        found = predict_run(better, prompt, answer, in_flight)
        assert found is not None
        assert found.output_tokens_per_s >= 0.97 * run.output_tokens_per_s
        assert found.latency_mean_ms <= 1.01 * run.latency_mean_ms
    loaded = predict_run(deployment, prompt, answer, 2 * in_flight)
    assert loaded is not None
    if not loaded.refused:
        assert loaded.output_tokens_per_s >= (0.95 if server == "vLLM" else 0.9) * run.output_tokens_per_s
