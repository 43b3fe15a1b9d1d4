"""Memory: weights, KV cache and the verdict, against figures worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.capacity import (
    Deployment,
    StepTimes,
    batch_limits,
    deployment_from_container,
    kv_bytes_per_token,
    memory_fit,
    weight_bytes,
)
from loadproof.capacity.deployment import quantized


def deployment(model_id: str, instance_type: str, accelerators: int = 1, **overrides: Any) -> Deployment:
    variables = {"SM_VLLM_MAX_MODEL_LEN": "4096"} | overrides.pop("variables", {})
    return deployment_from_container(
        family=overrides.pop("family", "vllm"),
        version="0.30.0",
        variables=variables,
        model_id=model_id,
        architecture=None,
        instance_type=instance_type,
        accelerators_per_copy=accelerators,
        copies=1,
    )


def test_llama_2_7b_weighs_13_48_gb_in_16_bits() -> None:
    """6.738 billion parameters of 2 bytes."""
    assert weight_bytes(deployment("meta-llama/Llama-2-7b-hf", "ml.g5.2xlarge")) == pytest.approx(13.476e9)


@pytest.mark.parametrize(
    ("model_id", "bytes_per_token"),
    [
        ("meta-llama/Llama-2-7b-hf", 524_288),  # 2 · 32 layers · 32 heads · 128 · 2 bytes, every head its own key
        ("meta-llama/Llama-3.1-8B", 131_072),  # 2 · 32 · 8 · 128 · 2: grouped queries
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),  # an instruct model has its base model's shape
        ("Qwen/Qwen3-32B", 262_144),  # 2 · 64 · 8 · 128 · 2
        ("mistralai/Mixtral-8x7B-v0.1", 131_072),  # experts share one attention
        ("tiiuae/falcon-7b", 8_192),  # 2 · 32 · 1 · 64 · 2: one key head for all
    ],
)
def test_kv_cache_takes_the_published_bytes_per_token(model_id: str, bytes_per_token: int) -> None:
    """2 · layers · kv_heads · head_dim · dtype_bytes."""
    assert kv_bytes_per_token(deployment(model_id, "ml.p4d.24xlarge", 8)) == bytes_per_token


def test_an_fp8_kv_cache_takes_half() -> None:
    """65,536 bytes a token instead of 131,072."""
    variables = {"SM_VLLM_KV_CACHE_DTYPE": "fp8"}
    assert kv_bytes_per_token(deployment("meta-llama/Llama-3.1-8B", "ml.g6e.2xlarge", variables=variables)) == 65_536


def test_the_parts_of_an_accelerators_memory_sum_to_what_the_server_may_use() -> None:
    """usable = weights + reserve + activations + KV cache, and usable is 0.9 of an A10G's 23.68 GB."""
    fit = memory_fit(deployment("meta-llama/Llama-2-7b-hf", "ml.g5.2xlarge"))
    assert fit.usable_gib == pytest.approx(0.9 * 23.68e9 / 2**30)
    assert fit.weights_gib + fit.reserve_gib + fit.activations_gib + fit.kv_cache_gib == pytest.approx(fit.usable_gib)


def test_llama_2_70b_does_not_fit_one_a10g() -> None:
    """138 GB of weights in 24 GB: no, and no KV cache is promised."""
    fit = memory_fit(deployment("meta-llama/Llama-2-70b-hf", "ml.g5.2xlarge"))
    assert (fit.fits, fit.kv_token_capacity) == ("no", 0)
    assert fit.margin_gib < -100


def test_llama_2_13b_fits_four_a10g_but_not_one() -> None:
    """26 GB: the founding post deploys it from ml.g5.12xlarge upwards."""
    assert memory_fit(deployment("meta-llama/Llama-2-13b-hf", "ml.g5.2xlarge")).fits == "no"
    assert memory_fit(deployment("meta-llama/Llama-2-13b-hf", "ml.g5.12xlarge", 4)).fits == "yes"


def test_vllm_without_a_length_limit_refuses_a_context_its_cache_cannot_hold() -> None:
    """Llama 3.1's 131,072 tokens take 16 GiB of KV cache: an A10G that holds the weights has no room for them."""
    variables = {"SM_VLLM_MAX_MODEL_LEN": "131072"}
    fit = memory_fit(deployment("meta-llama/Llama-3.1-8B", "ml.g5.2xlarge", variables=variables))
    assert fit.fits == "no"
    assert fit.kv_cache_gib > 0


def test_marginal_means_by_less_than_the_predictions_own_uncertainty() -> None:
    """With 4,096 tokens the same model fits; the margin decides between marginal (below 1.5 GiB) and yes."""
    fit = memory_fit(deployment("meta-llama/Llama-3.1-8B", "ml.g5.2xlarge"))
    assert fit.fits == ("marginal" if fit.margin_gib < 1.5 else "yes")
    wider = {"SM_VLLM_MAX_MODEL_LEN": str(fit.kv_token_capacity - 100)}
    assert memory_fit(deployment("meta-llama/Llama-3.1-8B", "ml.g5.2xlarge", variables=wider)).fits == "marginal"


def test_accelerators_past_the_kv_heads_hold_copies_of_them() -> None:
    """Qwen2.5 7B has 4 KV heads: 8 accelerators hold no more tokens per byte of cache than 4."""
    four, eight = (memory_fit(deployment("Qwen/Qwen2.5-7B-Instruct", "ml.p4d.24xlarge", n)) for n in (4, 8))
    per_gib_four, per_gib_eight = (fit.kv_token_capacity / fit.kv_cache_gib for fit in (four, eight))
    assert per_gib_eight == pytest.approx(per_gib_four, rel=1e-4)


def test_a_batch_token_limit_caps_the_kv_capacity() -> None:
    """TGI's MAX_BATCH_TOTAL_TOKENS=8000 leaves the rest of the memory unused."""
    tgi = deployment(
        "meta-llama/Llama-2-7b-hf", "ml.g5.2xlarge", family="tgi", variables={"MAX_BATCH_TOTAL_TOKENS": "8000"}
    )
    assert batch_limits(tgi).kv_token_capacity == 8000


@given(st.sampled_from(["0.5", "0.6", "0.7", "0.8", "0.9"]), st.sampled_from([1, 2, 4, 8]))
def test_more_memory_never_holds_fewer_tokens(fraction: str, accelerators: int) -> None:
    """A larger share of the memory, or more accelerators, never shrinks the KV cache."""
    fits = [
        memory_fit(
            deployment(
                "meta-llama/Llama-3.1-8B",
                "ml.p4d.24xlarge",
                n,
                variables={"SM_VLLM_GPU_MEMORY_UTILIZATION": share},
            )
        )
        for n, share in ((accelerators, fraction), (accelerators, "0.95"), (8, fraction))
    ]
    assert fits[0].kv_token_capacity <= fits[1].kv_token_capacity
    assert fits[0].kv_token_capacity <= fits[2].kv_token_capacity


def test_a_step_of_a_quantized_model_reads_its_output_head_in_16_bits() -> None:
    """Llama 3.1 8B in awq: (7.505 - 0.5253)e9 parameters of 0.52 bytes and 0.5253e9 of 2 are 4.680 GB; in 16 bits it
    reads 15.01. Embeddings are looked up, not read."""
    made = deployment("meta-llama/Llama-3.1-8B", "ml.g5.2xlarge")
    whole, packed = (StepTimes(each).decode_shares(2, 0)["bandwidth"] for each in (made, quantized(made, "awq")))
    assert packed / whole == pytest.approx(4.680 / 15.01, rel=1e-3)
