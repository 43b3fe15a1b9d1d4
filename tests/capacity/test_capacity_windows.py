"""Sliding windows, latent vectors and fixed states in the planner's memory, worked by hand."""

from __future__ import annotations

import pytest

from loadproof.capacity import (
    PlannedDeployment,
    architecture_from_tag,
    deployment_from_container,
    memory_fit,
    predict_level,
)
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.memory import GIB, batch_limits, kv_bytes_per_token, kv_bytes_per_token_per_accelerator
from loadproof.catalog import Architecture

# 10 layers, 2 kv heads of 128: 2 · 2 · 128 · 2 bytes = 1,024 bytes a layer and token.
TAG = "layers=10 hidden=1024 heads=8 kv_heads=2 head_dim=128 intermediate=4096 context=65536 parameters_b=1"


def deployment(more: str = "", *, family: str = "vllm", accelerators: int = 1, model: str = "x/y") -> PlannedDeployment:
    variables = {"vllm": {"SM_VLLM_MAX_MODEL_LEN": "65536"}, "tgi": {"MAX_TOTAL_TOKENS": "65536"}}[family]
    shape: Architecture | None = architecture_from_tag(f"{TAG} {more}") if model == "x/y" else None
    return deployment_from_container(
        family=family,  # type: ignore[arg-type]
        version={"vllm": "0.30.0", "tgi": "3.3.6"}[family],
        variables=variables,
        model_id=model,
        architecture=shape,
        instance_type="ml.g6e.12xlarge",
        accelerators_per_copy=accelerators,
        copies=1,
    )


WINDOW = "sliding_window=1024 sliding_layers=8"


def test_past_the_window_only_full_layers_grow() -> None:
    """65,536 tokens: 2 layers keep all, 8 keep 1,024: (131,072 + 8,192) · 1,024 bytes = 0.1328 GiB instead of 0.625."""
    plain, windowed = memory_fit(deployment()), memory_fit(deployment(WINDOW))
    assert plain.kv_cache_gib == windowed.kv_cache_gib
    assert plain.kv_cache_gib - plain.margin_gib == pytest.approx(0.625)
    assert windowed.kv_cache_gib - windowed.margin_gib == pytest.approx((2 * 65536 + 8 * 1024) * 1024 / GIB)


def test_tgi_keeps_every_token() -> None:
    """The same shape takes its full 0.625 GiB there."""
    fit = memory_fit(deployment(WINDOW, family="tgi"))
    assert fit.kv_cache_gib - fit.margin_gib == pytest.approx(0.625)


def test_capacity_counts_tokens_of_requests_of_one_length() -> None:
    """10,240 bytes inside the window; requests of 4,096 take (2 · 4,096 + 8 · 1,024) · 1,024 / 4,096 = 4,096 each."""
    windowed = deployment(WINDOW)
    room = memory_fit(windowed).kv_cache_gib * GIB
    assert memory_fit(windowed).kv_token_capacity == int(room / 10_240)
    assert memory_fit(windowed, 1024).kv_token_capacity == int(room / 10_240)
    assert memory_fit(windowed, 4096).kv_token_capacity == int(room / 4096)
    assert batch_limits(windowed, 4096).kv_token_capacity == int(room / 4096)


def test_a_window_lets_more_requests_in() -> None:
    """What the planner runs at once grows with the capacity: 2.5 times as many requests of 4,096 tokens."""
    plain = predict_level(deployment(), 3072, 1024, 100_000)
    windowed = predict_level(deployment(WINDOW), 3072, 1024, 100_000)
    assert plain is not None and windowed is not None
    assert windowed.batch == pytest.approx(min(2.5 * plain.batch, 256), rel=0.01)


def test_linear_layers_keep_a_state_and_no_tokens() -> None:
    """8 of 10 layers linear: 2,048 bytes a token; a state of 1 MiB makes a request of 1,024 tokens 3,072 each."""
    hybrid = deployment("linear_layers=8 state_bytes=1048576")
    assert kv_bytes_per_token(hybrid) == 2048
    room = memory_fit(hybrid).kv_cache_gib * GIB
    assert memory_fit(hybrid, 1024).kv_token_capacity == int(room / 3072)


def test_accelerators_share_heads_and_states_and_copy_latent_vectors() -> None:
    """2 heads over 4 accelerators: half each; a state: a quarter each; a latent vector of 576: all of it on each."""
    assert kv_bytes_per_token_per_accelerator(deployment(accelerators=4)) == 10 * 1024 / 2
    hybrid = deployment("linear_layers=8 state_bytes=1048576", accelerators=4)
    fit = memory_fit(hybrid)
    assert (fit.kv_cache_gib - fit.margin_gib) * GIB == pytest.approx(2 * 65536 * 512 + 262144)
    latent = deployment("kv_latent_dim=576", accelerators=4)
    assert kv_bytes_per_token(latent) == kv_bytes_per_token_per_accelerator(latent) == 10 * 576 * 2


def test_gpt_oss_halves_its_layers() -> None:
    """24 layers of 2 · 8 · 64 · 2 = 2,048 bytes; at 8,192 tokens 12 · 8,192 + 12 · 128 of them: 0.19 GiB, not 0.375."""
    fit = memory_fit(deployment(model="openai/gpt-oss-20b"), 8192)
    room = fit.kv_cache_gib * GIB
    assert fit.kv_token_capacity == int(room / ((12 * 8192 + 12 * 128) * 2048 / 8192))


def test_fp32_values_take_four_bytes() -> None:
    """The cache is kept as the model computes, unless it is quantized."""
    plain = deployment()
    wide = deployment_from_container(
        family="vllm",
        version="0.30.0",
        variables={"SM_VLLM_MAX_MODEL_LEN": "4096", "SM_VLLM_DTYPE": "float32"},
        model_id="x/y",
        architecture=architecture_from_tag(TAG),
        instance_type="ml.g6e.12xlarge",
        accelerators_per_copy=1,
        copies=1,
    )
    assert kv_bytes_per_token(wide) == 2 * kv_bytes_per_token(plain)


def test_attention_nobody_fitted_is_a_rough_guess() -> None:
    """Latent attention is grade D, whatever the server and the accelerator; a plain shape is A to C there."""
    assert confidence_of(deployment("kv_latent_dim=576")).grade == "D"
    assert confidence_of(deployment()).grade in "ABC"
