"""Models by id: the rows weigh what their publishers' names say, and variants of a model have its shape."""

from __future__ import annotations

import re

import pytest

from loadproof import catalog

# Names round: 1B for 1.24, 40B for 41.8; some leave out embeddings (Gemma 2B has 2.61, Qwen 1.5B untied 1.78).
SIZE = re.compile(r"-(\d+(?:\.\d+)?)([bm])\b(?!-?\d)", re.IGNORECASE)
SAID_WITHOUT_EMBEDDINGS = {
    *("DeepSeek-R1-Distill-Qwen-1.5B", "Falcon3-1B-Base", "Falcon3-1B-Instruct", "Qwen3-VL-2B-Instruct"),
    *("gemma-2b", "gemma-7b", "gemma-2-2b"),
    "granite-3.3-2b-instruct",
}
NAMED = [
    (row, float(size[1]) * (1.0 if size[2] in "bB" else 1e-3))
    for row in catalog.architectures().values()
    if (size := SIZE.search(row.hf_id)) and row.hf_id.partition("/")[2] not in SAID_WITHOUT_EMBEDDINGS
]


@pytest.mark.parametrize(("row", "billions"), NAMED, ids=[row.hf_id for row, _ in NAMED])
def test_a_model_weighs_what_its_name_says(row: catalog.Architecture, billions: float) -> None:
    """Within 13%, as names round, or 0.3 billion."""
    assert row.parameters_b == pytest.approx(billions, rel=0.13, abs=0.3)


def test_three_hundred_models_resolve_by_id() -> None:
    assert len(set(catalog.model_ids())) >= 300
    assert all(catalog.architecture(model_id) for model_id in catalog.model_ids())


@pytest.mark.parametrize(
    ("model_id", "whole", "quantization"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", "awq"),
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-32B-Instruct", "gptq"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-8B", "fp8"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-70B", "awq"),
        ("RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8", "Qwen/Qwen2.5-7B-Instruct", "int8"),
        ("Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-235B-A22B", "fp8"),
    ],
)
def test_a_packed_checkpoint_has_the_shape_of_the_model_that_it_packs(
    model_id: str, whole: str, quantization: str
) -> None:
    found, unpacked = catalog.architecture(model_id), catalog.architecture(whole)
    assert found is not None and unpacked is not None
    assert (found.layers, found.hidden, found.parameters_b) == (unpacked.layers, unpacked.hidden, unpacked.parameters_b)
    assert found.quantization == quantization


def test_a_packed_name_of_a_model_nobody_lists_is_not_guessed() -> None:
    assert catalog.architecture("acme/Support-9B-AWQ") is None


@pytest.mark.parametrize("model_id", ["meta-llama/Llama-3.1-8B-Instruct", "google/gemma-2-9b-it"])
def test_models_that_ask_for_a_licence_are_gated(model_id: str) -> None:
    assert catalog.is_gated(model_id)


def test_a_name_without_a_publisher_is_no_model() -> None:
    """Nobody could download `qwen3-8b`; what is near has a publisher."""
    assert catalog.architecture("qwen3-8b") is None
    assert catalog.near_models("qwen3-8b")[0] == "Qwen/Qwen3-8B"
    assert catalog.near_models("foo/bar") == ()


@pytest.mark.parametrize(
    ("packed", "whole"),
    [
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "Qwen/Qwen3-8B"),
        ("nvidia/DeepSeek-R1-FP4", "deepseek-ai/DeepSeek-R1"),
        ("mlx-community/Llama-3.2-3B-Instruct-4bit", "meta-llama/Llama-3.2-3B"),
    ],
)
def test_a_packing_whose_size_is_not_known_is_near_its_model(packed: str, whole: str) -> None:
    """Its bytes a weight would be a guess, so it does not resolve; the first suggestion is what was packed."""
    assert catalog.architecture(packed) is None
    assert catalog.near_models(packed)[0] == whole


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("meta-llama/Llama-3.1-8B-Instrct", "meta-llama/Llama-3.1-8B-Instruct"),  # a variant, which no row lists
        ("meta-llama/lama-2-7b-chat-hf", "meta-llama/Llama-2-7b-chat-hf"),
        ("NousResearch/Hermes-3-Lama-3.1-8B", "NousResearch/Hermes-3-Llama-3.1-8B"),  # a fine-tune
        ("Qwen/Qwn3-8B-AWQ", "Qwen/Qwen3-8B-AWQ"),  # packed
    ],
)
def test_a_slip_of_an_id_that_resolves_is_told_first(typed: str, meant: str) -> None:
    assert catalog.architecture(typed) is None
    assert catalog.near_models(typed)[0] == meant
    assert catalog.architecture(meant) is not None
