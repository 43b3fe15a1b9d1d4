"""Memory: weights, KV cache and the verdict, against figures worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.capacity import (
    PlannedDeployment,
    StepTimes,
    architecture_from_tag,
    batch_limits,
    deployment_from_container,
    kv_bytes_per_token,
    memory_fit,
    weight_bytes,
)
from loadproof.capacity.deployment import quantized
from loadproof.capacity.memory import activation_bytes


def deployment(model_id: str, instance_type: str, accelerators: int = 1, **overrides: Any) -> PlannedDeployment:
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


def on_memory_of(memory_bytes: int, **limits: Any) -> PlannedDeployment:
    """A model of 1e9 parameters on one accelerator that leaves all its memory to the server, in whole bytes:

    weights 2,000,000,000; activations of steps of 2,048 tokens 2,048 · (4 · 1,024 + 3 · 4,096) · 2 = 67,108,864; its
    longest request of 65,536 tokens takes 10 layers · 2 · 2 heads · 128 · 2 bytes = 10,240 each, so 671,088,640.
    """
    tag = "layers=10 hidden=1024 heads=8 kv_heads=2 head_dim=128 intermediate=4096 context=65536 parameters_b=1"
    made = deployment_from_container(
        family="vllm",
        version="0.30.0",
        variables={"SM_VLLM_MAX_MODEL_LEN": "65536"},
        model_id="x/y",
        architecture=architecture_from_tag(tag),
        instance_type="ml.g6e.2xlarge",
        accelerators_per_copy=1,
        copies=1,
    )
    return replace(
        made,
        accelerator=replace(made.accelerator, memory_bytes=memory_bytes),
        server=replace(made.server, reserve_gib=0.0),
        memory_fraction=1.0,
        limits=replace(made.limits, **{"step_prefill_tokens": 2048, **limits}),
    )


JUST_FITS = 2_738_197_504  # 2,000,000,000 + 67,108,864 + 671,088,640 bytes


@pytest.mark.parametrize(
    ("memory_bytes", "fits"),
    [
        (JUST_FITS - 1, "no"),
        (JUST_FITS, "marginal"),
        (JUST_FITS + 1_610_612_735, "marginal"),  # 1.5 GiB are 1,610,612,736 bytes
        (JUST_FITS + 1_610_612_736, "yes"),
    ],
)
def test_marginal_means_by_less_than_one_and_a_half_gib(memory_bytes: int, fits: str) -> None:
    """A byte too few for the longest request is `no`; what is left over it counts from 1.5 GiB on."""
    assert memory_fit(on_memory_of(memory_bytes)).fits == fits


def test_activations_are_those_of_one_step_of_prompts() -> None:
    """2,048 tokens of (4 · 1,024 + 3 · 4,096) values of 2 bytes are 64 MiB; over two accelerators the feed-forward
    block is halved: 2,048 · (4,096 + 6,144) · 2 bytes are 40 MiB."""
    one = on_memory_of(JUST_FITS)
    assert activation_bytes(one) == 64 * 2**20
    assert activation_bytes(replace(one, accelerators=2)) == 40 * 2**20


def test_experts_wider_than_the_dense_block_size_the_activations() -> None:
    """With experts of 8,192: 2,048 · (4,096 + 24,576) · 2 bytes are 112 MiB; narrower ones change nothing."""
    one = on_memory_of(JUST_FITS)
    wide, narrow = (replace(one, architecture=replace(one.architecture, moe_intermediate=n)) for n in (8192, 1024))
    assert activation_bytes(wide) == 112 * 2**20
    assert activation_bytes(narrow) == 64 * 2**20


def test_what_the_server_reserves_is_no_room_for_requests() -> None:
    """Half a GiB of reserve on an accelerator of 4 GiB: both are shown in GiB, and the KV cache has that much less."""
    without = on_memory_of(4 * 2**30)
    fit = memory_fit(replace(without, server=replace(without.server, reserve_gib=0.5)))
    assert (fit.memory_gib, fit.reserve_gib) == (4.0, 0.5)
    assert memory_fit(without).kv_cache_gib - fit.kv_cache_gib == 0.5


def test_a_server_that_finds_its_own_limit_is_held_to_one_token() -> None:
    """Where no longest request is known, the smallest there is must fit: 10,240 bytes of KV cache."""
    fit = memory_fit(on_memory_of(JUST_FITS, max_request_tokens=None))
    assert fit.longest_request_tokens == 1
    assert fit.kv_cache_gib - fit.margin_gib == pytest.approx(10_240 / 2**30)


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
