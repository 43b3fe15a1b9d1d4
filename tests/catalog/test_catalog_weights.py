"""What weights take: formats pack the blocks, not the embeddings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof import catalog
from loadproof.catalog import Architecture, bytes_per_parameter, weight_bytes
from loadproof.catalog.weights import QUANTIZED_BYTES, looked_up_parameters, wide_parameters


def shape(hf_id: str) -> Architecture:
    return catalog.architectures()[hf_id]


@pytest.mark.parametrize(("hf_id", "published_gb"), [("openai/gpt-oss-20b", 13.8), ("openai/gpt-oss-120b", 65.2)])
def test_mxfp4_packs_experts_alone(hf_id: str, published_gb: float) -> None:
    """The checkpoints' published sizes, within half a percent."""
    found = weight_bytes(shape(hf_id), bytes_per_parameter("mxfp4"), "mxfp4") / 1e9
    assert found == pytest.approx(published_gb, rel=0.005)


def test_embeddings_and_head_stay_in_16_bits() -> None:
    """Llama 3.1 8B: 2 · 128,256 · 4,096 = 1.0507e9 parameters of 2 bytes, 6.9793e9 of 1 or 0.52."""
    llama = shape("meta-llama/Llama-3.1-8B")
    assert weight_bytes(llama, 1.0, "fp8") == pytest.approx(9.0807e9, rel=1e-4)
    assert weight_bytes(llama, 0.52, "awq") == pytest.approx(5.7306e9, rel=1e-4)
    assert weight_bytes(llama) == pytest.approx(16.06e9)


def test_a_tied_head_is_the_embedding() -> None:
    """Qwen3 4B has one matrix of 151,936 · 2,560 for both, and multiplies with all it has."""
    qwen = shape("Qwen/Qwen3-4B")
    assert wide_parameters(qwen, "awq") == 151_936 * 2_560
    assert looked_up_parameters(qwen) == 0


@given(st.sampled_from(sorted(catalog.architectures())), st.sampled_from(sorted(QUANTIZED_BYTES)))
def test_a_quantized_model_is_smaller_than_in_16_bits_and_larger_than_its_packed_bits(
    hf_id: str, quantization: str
) -> None:
    """For every row and format."""
    packed = bytes_per_parameter(quantization)
    whole = shape(hf_id).parameters_b * 1e9
    assert packed * whole <= weight_bytes(shape(hf_id), packed, quantization) < 2 * whole
