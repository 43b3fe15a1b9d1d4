"""Rows of published tables, played by the twin: what a chunked scheduler's clients would have measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadproof.capacity import PlannedDeployment, StepTimes, deployment_from_container, predict_run
from loadproof.simulation.rows import predict_row
from loadproof.simulation.table_runs import first_sent_ms, play_run

ROW = {
    "model": "gpt-oss-120b",
    "instance_type": "ml.p5e.48xlarge",
    "instance_count": "1",
    "tp_degree": "2",
    "input_tokens": "7373",
    "output_tokens": "922",
    "concurrency": "64",
    "server": "vLLM 0.11.2",
}


def deployment(family: str = "vllm", copies: int = 1) -> PlannedDeployment:
    return deployment_from_container(
        family=family,  # type: ignore[arg-type]
        version="",
        variables={},
        model_id="meta-llama/Llama-3.1-8B-Instruct",
        architecture=None,
        instance_type="ml.g6e.2xlarge",
        accelerators_per_copy=1,
        copies=copies,
    )


def test_a_published_wait_for_the_first_token_grows_with_the_load() -> None:
    """InferenceMAX measured 256.8 ms at 4 in flight and 937.7 ms at 64 (gpt-oss-120b, two H200, 2026-01)."""
    few, many = (float(predict_row(ROW | {"concurrency": at})["predicted_ttft_ms"]) for at in ("4", "64"))
    assert few == pytest.approx(256.8, rel=0.25)
    assert many == pytest.approx(937.7, rel=0.25)


def test_a_tail_lies_above_the_mean_where_prompts_meet() -> None:
    """Of 64 clients with prompts of 7,373 tokens, one request in ten waits for more of them than the mean does."""
    answer = predict_row(ROW)
    p90, mean = (float(answer[f"predicted_latency_{name}_ms_per_token"]) for name in ("p90", "mean"))
    assert 1.02 < p90 / mean < 1.53  # as wide as published tables are


def test_answers_that_were_counted_may_be_of_any_lengths() -> None:
    """AWS's suite, Qwen3 14B on ml.g7e.2xlarge calling tools: 180.4 tokens in the mean, p90 of latency 2.02 times its
    mean. A mean with a fraction has a p90 of up to ln 10 = 2.303 times the mean's upper end; a whole one has not."""
    row = ROW | {"model": "Qwen3 14B", "instance_type": "ml.g7e.2xlarge", "tp_degree": "1", "concurrency": "2"}
    row |= {"input_tokens": "351"}
    counted, alike = (predict_row(row | {"output_tokens": tokens}) for tokens in ("180.4", "180"))
    mean, p90 = (f"predicted_latency_{name}_ms_per_token" for name in ("mean", "p90"))
    assert float(counted[f"{p90}_high"]) == pytest.approx(2.303 * float(counted[f"{mean}_high"]), rel=1e-3)
    assert float(counted[f"{p90}_low"]) < 2.02 * float(counted[mean]) < float(counted[f"{p90}_high"])
    assert float(alike[f"{p90}_high"]) < 1.3 * float(alike[mean])


def test_one_client_waits_for_nobody() -> None:
    """Its E2E is its prompt's step, 99 decodes and what the server adds; lengths within 5% of 500 and 100."""
    plain = deployment()
    steps, run = StepTimes(plain), play_run(plain, 500, 100, 1)
    assert run is not None
    alone_ms = steps.prefill_ms(500) + 99 * steps.decode_ms(1, 550) + plain.server.ttft_ms
    assert run.latency_mean_ms == pytest.approx(alone_ms, rel=0.03)


def test_two_copies_serve_twice_the_clients() -> None:
    """Sixteen in flight over two copies: as long as eight on one, twice the tokens."""
    one, two = play_run(deployment(), 500, 100, 8), play_run(deployment(copies=2), 500, 100, 16)
    assert one is not None and two is not None
    assert two.latency_mean_ms == one.latency_mean_ms
    assert two.output_tokens_per_s == pytest.approx(2 * one.output_tokens_per_s)


def test_tgi_is_replayed_by_its_own_rules() -> None:
    """A server that prefills first has its run as `predict_run` gives it."""
    assert play_run(deployment("tgi"), 500, 100, 8) == predict_run(deployment("tgi"), 500, 100, 8)


def test_ten_tokens_sent_at_once_come_nine_steps_later() -> None:
    """100 ms to the first of 101 tokens, 1,100 ms to the last: 10 ms a token, so ten of them after 190 ms."""
    run = play_run(deployment(), 500, 101, 1)
    assert run is not None
    run = replace(run, ttft_mean_ms=100.0, latency_mean_ms=1100.0)
    assert [first_sent_ms(run, 101, at) for at in (1, 10, 1000)] == [100.0, 190.0, 1100.0]


def test_sglang_that_sends_ten_tokens_at_once_is_told_so() -> None:
    """DeepSeek-R1 on eight H200 at 4 in flight, ten tokens at once: InferenceMAX measured 179.7 ms to the first."""
    row = {
        **ROW,
        "model": "DeepSeek-R1",
        "tp_degree": "8",
        "input_tokens": "922",
        "concurrency": "4",
        "server": "SGLang 0.5.6",
    }
    chunk, token = (float(predict_row(row | {"stream_interval": at})["predicted_ttft_ms"]) for at in ("10", ""))
    assert chunk == pytest.approx(179.7, rel=0.15)
    assert token < 0.6 * chunk
