"""How many parameters a shape has, counted matrix by matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Latent:
    """Widths of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434); `query_rank` 0: queries unfactored."""

    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int

    @property
    def kv_width(self) -> int:
        """What a layer keeps for a token: the latent vector and the one rotary key."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Widths of a gated delta rule layer (Qwen3-Next); its state is kept in 32 bits, its convolution's in 16."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @property
    def mixed_width(self) -> int:
        """Queries, keys and values that pass the convolution."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def state_bytes(self) -> int:
        """A layer's state for one sequence = 4 · value_heads · key_dim · value_dim + 2 · (kernel - 1) · mixed width."""
        return 4 * self.value_heads * self.key_dim * self.value_dim + 2 * (self.kernel - 1) * self.mixed_width


@dataclass(frozen=True, slots=True)
class Parts:
    """The sizes of a transformer's matrices. `dense_layers` have one feed-forward block instead of experts."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    matrices: int
    norms: int
    attention_bias: Literal["none", "qkv", "all"]
    gated_attention: bool
    biased: bool
    experts: int
    experts_per_token: int
    moe_intermediate: int
    expert_bias: bool
    shared_intermediate: int
    shared_gate: bool
    dense_layers: int
    latent: Latent | None
    linear_layers: int
    linear: LinearAttention | None


def total_parameters(parts: Parts) -> int:
    """`embeddings + layers · (attention + norms) + dense · feed-forward + sparse · (router + shared + E · expert)`.

    - embeddings = vocabulary · hidden, twice unless tied
    - attention = hidden · heads · d + 2 · hidden · kv_heads · d + heads · d · hidden (d: head dimension)
    - feed-forward = 3 · hidden · intermediate (2 without a gate); an expert the same with its own width
    - router = hidden · E; norms and biases are vectors
    """
    embeddings = parts.vocab * parts.hidden * (1 if parts.tied else 2)
    attending = parts.layers - parts.linear_layers
    attention = attending * _attention(parts) + parts.linear_layers * _linear_attention(parts)
    sparse = parts.layers - parts.dense_layers if parts.experts else 0
    dense = parts.layers - sparse
    blocks = dense * _dense_block(parts) + sparse * (_beside_experts(parts) + parts.experts * _expert(parts))
    norms = (parts.layers * parts.norms + 1) * parts.hidden
    return embeddings + attention + blocks + norms


def active_parameters(parts: Parts) -> int:
    """Those that a token is multiplied with = all - looked-up embeddings (where untied) - experts not chosen."""
    looked_up = 0 if parts.tied else parts.vocab * parts.hidden
    sparse = parts.layers - parts.dense_layers if parts.experts else 0
    return total_parameters(parts) - looked_up - sparse * (parts.experts - parts.experts_per_token) * _expert(parts)


def _attention(parts: Parts) -> int:
    if parts.latent is not None:
        return _latent_attention(parts, parts.latent)
    queries, keys = parts.heads * parts.head_dim, parts.kv_heads * parts.head_dim
    weights = parts.hidden * (queries + 2 * keys) + queries * parts.hidden
    if parts.gated_attention:  # the queries' projection also gives one gate a value
        weights += parts.hidden * queries
    if parts.attention_bias != "none" or parts.biased:
        weights += queries + 2 * keys
    if parts.attention_bias == "all" or parts.biased:
        weights += parts.hidden
    return weights


def _latent_attention(parts: Parts, latent: Latent) -> int:
    """Queries down and up, keys and values down and up, output."""
    query_width = parts.heads * (latent.nope_dim + latent.rope_dim)
    queries = parts.hidden * query_width
    if latent.query_rank:
        queries = latent.query_rank * (parts.hidden + query_width + 1)
    down = parts.hidden * latent.kv_width + latent.kv_rank
    up = latent.kv_rank * parts.heads * (latent.nope_dim + latent.value_dim)
    return queries + down + up + parts.heads * latent.value_dim * parts.hidden


def _linear_attention(parts: Parts) -> int:
    """In: queries, keys, values, gates, two numbers a value head. Convolution, decay and step vectors, output."""
    linear = parts.linear
    if linear is None:
        return 0
    values = linear.value_heads * linear.value_dim
    projections = parts.hidden * (linear.mixed_width + values + 2 * linear.value_heads) + values * parts.hidden
    return projections + linear.kernel * linear.mixed_width + 2 * linear.value_heads + linear.value_dim


def _dense_block(parts: Parts) -> int:
    bias = parts.intermediate + parts.hidden if parts.biased else 0
    return parts.matrices * parts.hidden * parts.intermediate + bias


def _expert(parts: Parts) -> int:
    bias = 2 * parts.moe_intermediate + parts.hidden if parts.expert_bias else 0
    return parts.matrices * parts.hidden * parts.moe_intermediate + bias


def _beside_experts(parts: Parts) -> int:
    router = parts.hidden * parts.experts + (parts.experts if parts.expert_bias else 0)
    gate = parts.hidden if parts.shared_gate else 0
    return router + gate + parts.matrices * parts.hidden * parts.shared_intermediate
