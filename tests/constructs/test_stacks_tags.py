"""The architecture tag: written by the stacks, read by whoever predicts a deployed container."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.capacity import architecture_from_tag
from loadproof.constructs.endpoint.tags import architecture_text
from loadproof.profiles.schema import ArchitectureOverride

sizes = st.integers(min_value=1, max_value=2**24)
billions = st.floats(min_value=0.001, max_value=2000).map(lambda value: round(value, 3))
overrides = st.builds(
    ArchitectureOverride,
    num_hidden_layers=sizes,
    hidden_size=sizes,
    num_attention_heads=sizes,
    num_key_value_heads=sizes,
    head_dim=sizes,
    intermediate_size=sizes,
    vocab_size=sizes,
    max_position_embeddings=sizes,
    parameters_b=billions,
    active_parameters_b=st.none() | billions,
    num_experts=st.integers(min_value=0, max_value=512),
    num_experts_per_token=st.integers(min_value=0, max_value=16),
    moe_intermediate_size=st.integers(min_value=0, max_value=2**16),
    sliding_window_tokens=st.none(),
)


@given(overrides)
def test_the_tag_is_read_as_it_was_written(shape: ArchitectureOverride) -> None:
    """No digit is lost on the way through the tag, and its text is one a tag can hold."""
    text = architecture_text(shape)
    assert len(text) <= 256
    read = architecture_from_tag(text)
    assert (read.layers, read.hidden, read.heads) == (
        shape.num_hidden_layers,
        shape.hidden_size,
        shape.num_attention_heads,
    )
    assert (read.kv_heads, read.head_dim, read.intermediate) == (
        shape.num_key_value_heads,
        shape.head_dim,
        shape.intermediate_size,
    )
    assert (read.vocab, read.context) == (shape.vocab_size, shape.max_position_embeddings)
    assert (read.experts, read.experts_per_token, read.moe_intermediate) == (
        shape.num_experts,
        shape.num_experts_per_token,
        shape.moe_intermediate_size,
    )
    assert read.parameters_b == shape.parameters_b
    assert read.active_parameters_b == (shape.active_parameters_b or shape.parameters_b)


@pytest.mark.parametrize(
    "more",
    [
        {"sliding_window_tokens": 1024, "sliding_window_layers": 52},
        {"sliding_window_tokens": 4096},  # of every layer
        {"linear_attention_layers": 36, "sequence_state_bytes": 153_649_152},
        {"kv_latent_dim": 576, "num_key_value_heads": 1},
        {"allreduces_per_layer": 1},
    ],
)
def test_every_kind_of_cache_comes_through_the_tag(more: dict[str, int]) -> None:
    """A large model's shape with all its words fits a tag, and is read as the planner had it."""
    written = {
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
        "head_dim": 192,
        "intermediate_size": 18432,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
        "num_experts": 256,
        "num_experts_per_token": 8,
        "moe_intermediate_size": 2048,
        "parameters_b": 671.026,
        "active_parameters_b": 36.626,
    }
    shape = ArchitectureOverride.model_validate(written | more)
    text = architecture_text(shape)
    assert len(text) <= 256
    assert replace(architecture_from_tag(text), source="") == replace(shape.shape(""), source="")
