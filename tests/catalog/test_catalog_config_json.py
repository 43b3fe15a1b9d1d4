"""Hugging Face config.json files: shapes and parameter counts against what the models' publishers say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof import catalog
from loadproof.catalog import KvCache
from loadproof.catalog.config_json import architecture_from_config, read_config_json
from loadproof.errors import InputError

LLAMA_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def keys(model_type: str, layers: int, hidden: int, heads: int, feed_forward: int, vocab: int, **more: Any) -> Any:
    """A config.json in short, with the keys every family has."""
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": feed_forward,
        "vocab_size": vocab,
        "max_position_embeddings": 32768,
        **more,
    }


FALCON = {"multi_query": True, "parallel_attn": True, "bias": False}
# What each publisher gives for the whole model, in billions (safetensors totals or model cards).
PUBLISHED = {
    "Llama 3.2 1B": (
        keys("llama", 16, 2048, 32, 8192, 128256, num_key_value_heads=8, tie_word_embeddings=True),
        1.236,
    ),
    "Llama 2 70B": (keys("llama", 80, 8192, 64, 28672, 32000, num_key_value_heads=8), 68.977),
    "Mistral 7B": (keys("mistral", 32, 4096, 32, 14336, 32000, num_key_value_heads=8), 7.242),
    "Mixtral 8x7B": (
        keys("mixtral", 32, 4096, 32, 14336, 32000, num_key_value_heads=8, num_local_experts=8, num_experts_per_tok=2),
        46.703,
    ),
    "Qwen2.5 7B": (keys("qwen2", 28, 3584, 28, 18944, 152064, num_key_value_heads=4), 7.616),
    "Qwen3 4B": (
        keys("qwen3", 36, 2560, 32, 9728, 151936, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True),
        4.022,
    ),
    "Qwen3 235B-A22B": (
        keys(
            *("qwen3_moe", 94, 4096, 64, 12288, 151936),
            num_key_value_heads=4,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
        ),
        235.09,
    ),
    "Falcon 7B": (keys("falcon", 32, 4544, 71, 0, 65024, **FALCON), 7.217),
    "Falcon 40B": (
        keys("falcon", 60, 8192, 128, 0, 65024, num_kv_heads=8, new_decoder_architecture=True, **FALCON),
        41.84,
    ),
    "Falcon 180B": (
        keys("falcon", 80, 14848, 232, 0, 65024, num_kv_heads=8, new_decoder_architecture=True, **FALCON),
        179.52,
    ),
    "Gemma 2 27B": (
        keys("gemma2", 46, 4608, 32, 36864, 256000, num_key_value_heads=16, head_dim=128),
        27.227,
    ),
    "Phi-3 mini": (keys("phi3", 32, 3072, 32, 8192, 32064, num_key_value_heads=32), 3.821),
    "GPT-NeoX 20B": (keys("gpt_neox", 44, 6144, 64, 24576, 50432), 20.555),
    "gpt-oss-120b": (
        keys(
            *("gpt_oss", 36, 2880, 64, 2880, 201088),
            num_key_value_heads=8,
            head_dim=64,
            num_local_experts=128,
            num_experts_per_tok=4,
        ),
        116.83,
    ),
    "DeepSeek-V3": (
        keys(
            *("deepseek_v3", 61, 7168, 128, 18432, 129280),
            q_lora_rank=1536,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
            n_routed_experts=256,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=2048,
            first_k_dense_replace=3,
        ),
        671.0,
    ),
}

# The others are themselves counted from a config.json.
ROWS = [row for row in catalog.architectures().values() if "counted from its shapes" not in row.source]


@pytest.mark.parametrize("model", PUBLISHED)
def test_parameters_counted_from_shapes_are_the_published_ones(model: str) -> None:
    """Within 1% of the publisher's figure, for every family that is read."""
    config, billions = PUBLISHED[model]
    assert architecture_from_config(config).parameters_b == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_of_the_catalog_weigh_what_their_shape_says(row: catalog.Architecture) -> None:
    """Each row's own sizes, written as a config.json of its family, give the row's parameters within 1%."""
    name = row.hf_id.lower()
    family = next(
        kind
        for mark, kind in (
            ("falcon", "falcon"),
            ("gpt-oss", "gpt_oss"),
            ("mixtral", "mixtral"),
            ("qwen3", "qwen3_moe" if row.experts else "qwen3"),
            ("qwen", "qwen2"),
            ("", "llama"),
        )
        if mark in name
    )
    tied = row.name in ("Llama 3.2 1B", "Llama 3.2 3B", "Qwen3 4B")
    config = keys(
        *(family, row.layers, row.hidden, row.heads, row.intermediate, row.vocab),
        num_key_value_heads=row.kv_heads,
        num_kv_heads=row.kv_heads,
        new_decoder_architecture=row.kv_heads > 1,
        head_dim=row.head_dim,
        num_local_experts=row.experts,
        num_experts_per_tok=row.experts_per_token,
        moe_intermediate_size=row.moe_intermediate,
        tie_word_embeddings=tied,
    )
    shape = architecture_from_config(config)
    assert shape.parameters_b == pytest.approx(row.parameters_b, rel=0.01)
    assert shape.active_parameters_b == pytest.approx(row.active_parameters_b, rel=0.01)
    assert shape.kv_heads == row.kv_heads


def test_falcon_7b_has_one_key_head_and_one_all_reduce() -> None:
    """Multi-query attention beside a parallel feed-forward block: 2 · 32 · 1 · 64 · 2 = 8,192 bytes a token."""
    shape = architecture_from_config(PUBLISHED["Falcon 7B"][0])
    assert (shape.kv_heads, shape.head_dim, shape.intermediate, shape.allreduces_per_layer) == (1, 64, 18176, 1)
    assert KvCache(shape, 2).bytes_per_token == 8192


def test_gemma_3_keeps_a_window_in_five_layers_of_six() -> None:
    """62 layers, every sixth full: 10 keep all tokens, 52 the last 1,024; what the file leaves out has defaults."""
    config = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "num_hidden_layers": 62,
            "hidden_size": 5376,
            "intermediate_size": 21504,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "sliding_window": 1024,
        },
        "vision_config": {"hidden_size": 1152},
    }
    shape = architecture_from_config(config)
    assert (shape.full_layers, shape.sliding_layers, shape.sliding_window) == (10, 52, 1024)
    assert (shape.context, shape.vocab) == (131072, 262208)
    assert shape.parameters_b == pytest.approx(27.0, rel=0.01)
    # 2 · 16 heads · 128 · 2 bytes = 8,192 bytes a layer and token; 10 · 8,192 + 52 · 1,024 tokens of it.
    assert KvCache(shape, 2).bytes_of(8192) == (10 * 8192 + 52 * 1024) * 8192


def test_gemma_2_and_gpt_oss_alternate() -> None:
    """Every other layer has the window, from a rule or from `layer_types`."""
    assert architecture_from_config(PUBLISHED["Gemma 2 27B"][0]).sliding_layers == 23
    kinds = ["sliding_attention", "full_attention"] * 18
    oss = architecture_from_config(PUBLISHED["gpt-oss-120b"][0] | {"layer_types": kinds, "sliding_window": 128})
    assert (oss.sliding_layers, oss.sliding_window) == (18, 128)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (0, 0)),  # Mistral 7B v0.2 and later: none
        ({"sliding_window": None}, (0, 0)),
        ({"sliding_window": 4096}, (4096, 32)),
        ({"sliding_window": 32768}, (0, 0)),  # as long as the context: nothing is forgotten
    ],
)
def test_a_window_counts_where_it_is_shorter_than_the_context(changed: Any, expected: tuple[int, int]) -> None:
    """Mistral's window is every layer's."""
    shape = architecture_from_config(PUBLISHED["Mistral 7B"][0] | changed)
    assert (shape.sliding_window, shape.sliding_layers) == expected


def test_qwen_uses_its_window_only_when_told() -> None:
    """`use_sliding_window` is false unless written; then the layers from `max_window_layers` on have it."""
    config = PUBLISHED["Qwen2.5 7B"][0] | {"sliding_window": 4096, "max_window_layers": 21}
    assert architecture_from_config(config).sliding_layers == 0
    assert architecture_from_config(config | {"use_sliding_window": True}).sliding_layers == 7


def test_deepseek_keeps_one_latent_vector_a_layer() -> None:
    """512 + 64 values in each of 61 layers, 2 bytes each: 70,272 bytes a token, on every accelerator of a copy."""
    shape = architecture_from_config(PUBLISHED["DeepSeek-V3"][0])
    assert shape.kv_latent_dim == 576
    assert KvCache(shape, 2).bytes_per_token == 61 * 576 * 2 == 70272
    assert KvCache(shape, 2, accelerators=8).bytes_per_token == 70272
    assert shape.active_parameters_b == pytest.approx(37, rel=0.02)


def test_qwen3_5_keeps_tokens_in_a_quarter_of_its_layers() -> None:
    """12 of 48 layers with 2 heads of 256; a state of 36 · (4 · 64 · 128 · 128 + 2 · 3 · 12,288) bytes a sequence."""
    config = keys(
        *("qwen3_5_moe_text", 48, 3072, 32, 0, 248320),
        num_key_value_heads=2,
        head_dim=256,
        num_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=1024,
        shared_expert_intermediate_size=1024,
        linear_num_key_heads=16,
        linear_num_value_heads=64,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )
    del config["intermediate_size"]
    shape = architecture_from_config(config)
    assert (shape.full_layers, shape.linear_layers) == (12, 36)
    assert shape.parameters_b == pytest.approx(122, rel=0.01)
    assert KvCache(shape, 2).bytes_of(100) == 12 * 2 * 2 * 256 * 2 * 100 + 153_649_152


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"config\.json:1:1: no JSON"),
        ("[]", r"expected a JSON object"),
        ("{}", r"no `model_type`; known: deepseek_v2, "),
        ('{"model_type": "mamba2"}', r"`mamba2` is not read here"),
        (LLAMA_8B | {"num_hidden_layers": None}, r"`num_hidden_layers` is missing; copy"),
        (LLAMA_8B | {"num_hidden_layers": "32"}, r"expected a whole number, found `32`"),
        (LLAMA_8B | {"num_hidden_layers": True}, r"expected a whole number, found `True`"),
        (LLAMA_8B | {"vocab_size": 0}, r"`vocab_size` expected at least 1, found 0"),
        (LLAMA_8B | {"hidden_size": 4100}, r"4100 is no multiple of 32 heads"),
        (LLAMA_8B | {"tie_word_embeddings": 1}, r"expected true or false, found `1`"),
        (PUBLISHED["Qwen3 235B-A22B"][0] | {"num_experts": 4}, r"`num_experts_per_tok` expected 1\.\.4, found 8"),
        (LLAMA_8B | {"layer_types": ["full_attention"]}, r"expected a list of 32"),
        (LLAMA_8B | {"layer_types": ["chunked_attention"] * 32}, r"has `chunked_attention`; known: full_attention"),
    ],
)
def test_a_bad_file_is_refused_in_words(tmp_path: Path, content: Any, message: str) -> None:
    """Place, what was found, what is allowed: never a traceback, never a guess."""
    file = tmp_path / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_config_json(file)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    """Both are the user's mistakes, and different ones."""
    with pytest.raises(InputError, match=r"a folder; name the model's config\.json"):
        read_config_json(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_config_json(tmp_path / "nowhere.json")


shapes = st.builds(
    lambda full, sliding, linear, window, heads, state, latent: catalog.Architecture(
        *("", "", full + sliding + linear, 64, heads, heads, 64, 1, 1, 1, 0, 0, 0, 2, 1.0, 1.0, ""),
        sliding_window=window,
        sliding_layers=sliding,
        linear_layers=linear,
        state_bytes=state * linear,
        kv_latent_dim=latent,
    ),
    full=st.integers(1, 80),
    sliding=st.integers(0, 80),
    linear=st.integers(0, 40),
    window=st.integers(1, 8192),
    heads=st.sampled_from([1, 2, 8, 32]),
    state=st.integers(0, 10**6),
    latent=st.sampled_from([0, 576]),
)


@given(shapes, st.integers(1, 200_000), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_tokens_within_is_the_inverse_of_bytes(
    shape: catalog.Architecture, tokens: int, accelerators: int, windowed: bool
) -> None:
    """A budget of exactly one sequence holds exactly that sequence, and no token more."""
    cache = KvCache(shape, 2, accelerators, windowed)
    assert cache.tokens_within(cache.bytes_of(tokens)) == pytest.approx(tokens, rel=1e-9)


@given(shapes, st.integers(1, 100_000), st.integers(1, 100_000))
def test_a_longer_sequence_never_takes_less(shape: catalog.Architecture, tokens: int, more: int) -> None:
    """And keeping only windows never takes more than keeping all."""
    cache = KvCache(shape, 2)
    assert cache.bytes_of(tokens) <= cache.bytes_of(tokens + more)
    assert cache.bytes_of(tokens) <= KvCache(shape, 2, windowed=False).bytes_of(tokens)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(PUBLISHED)),
    st.dictionaries(
        st.sampled_from(
            [
                *("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
                *("vocab_size", "sliding_window", "layer_types", "mlp_only_layers", "num_experts", "model_type"),
                *("decoder_sparse_step", "first_k_dense_replace", "text_config", "tie_word_embeddings", "q_lora_rank"),
                *("use_sliding_window", "max_window_layers", "sliding_window_pattern", "moe_layer_freq"),
            ]
        ),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-2, 100),
            st.integers(0, 10**40),
            st.floats(),
            st.text(max_size=5),
            st.lists(st.one_of(st.integers(0, 50), st.text(max_size=3), st.just([])), max_size=3),
            st.just({}),
        ),
        max_size=4,
    ),
)
def test_no_file_is_a_traceback(model: str, changed: dict[str, Any]) -> None:
    """Whatever a key holds: a shape whose layers add up, or an InputError."""
    try:
        shape = architecture_from_config(PUBLISHED[model][0] | changed)
    except InputError:
        return
    assert shape.full_layers >= 0 and shape.parameters_b >= shape.active_parameters_b >= 0


def test_a_number_of_thousands_of_digits_is_no_shape(tmp_path: Path) -> None:
    """Python refuses to read it; so do we, in words."""
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "vocab_size": ' + "9" * 5000 + "}", encoding="utf-8")
    with pytest.raises(InputError, match="no JSON that a model's configuration would be"):
        read_config_json(file)


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "gptq", "bits": 8}, "none"),
        ({"quant_method": "compressed-tensors"}, "none"),
        ({"quant_method": ["fp8"]}, "none"),
        ({}, "none"),
        ("fp8", "none"),
    ],
)
def test_a_checkpoints_quantization_is_read_where_its_size_is_known(stored: Any, read: str) -> None:
    """Four bits of awq and gptq, not eight; what is unknown or odd is none."""
    config = PUBLISHED["gpt-oss-120b"][0] | {"quantization_config": stored}
    assert architecture_from_config(config).quantization == read
