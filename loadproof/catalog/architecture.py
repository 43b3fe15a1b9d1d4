"""A transformer's shape, and what its caches take: the one formula that checks, planner and catalog share."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from loadproof.catalog.provenance import unverified


@dataclass(frozen=True, slots=True)
class Architecture:
    """A transformer's shape: all that memory and step-time formulas need.

    Of `layers`, `sliding_layers` keep only the last `sliding_window` tokens, and `linear_layers` keep no tokens at
    all but a state of fixed size (`state_bytes` for one sequence, all layers together). The rest keep every token.
    `kv_latent_dim` is the width of multi-head latent attention's one vector a token; 0 for keys and values by head.
    """

    name: str
    hf_id: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    experts: int
    experts_per_token: int
    moe_intermediate: int
    allreduces_per_layer: int
    parameters_b: float
    active_parameters_b: float
    source: str
    sliding_window: int = 0
    sliding_layers: int = 0
    linear_layers: int = 0
    state_bytes: int = 0
    kv_latent_dim: int = 0
    date: str = ""
    quantization: str = "none"  # how the published checkpoint stores its weights

    @property
    def unverified(self) -> bool:
        return unverified(self.source)

    @property
    def full_layers(self) -> int:
        """Layers that keep every token."""
        return self.layers - self.sliding_layers - self.linear_layers

    @property
    def kv_values_per_layer(self) -> int:
        """Values a layer keeps for one token = 2 · kv_heads · head_dim; the latent vector alone with latent attention.

        Source: key and value of every kv head; DeepSeek-V2 (arXiv:2405.04434) for the latent vector, which is
        kv_lora_rank + qk_rope_head_dim wide and shared by all heads.
        """
        return self.kv_latent_dim or 2 * self.kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class KvCache:
    """What one sequence's cache takes on each accelerator of a copy, in bytes.

    `windowed` False: a server that keeps every token of sliding layers too.
    """

    shape: Architecture
    bytes_per_value: float
    accelerators: int = 1
    windowed: bool = True

    @property
    def shards(self) -> int:
        """Parts a token's keys and values are split into: heads are never cut, and a latent vector is copied."""
        return 1 if self.shape.kv_latent_dim else min(self.accelerators, self.shape.kv_heads)

    @property
    def bytes_per_layer_and_token(self) -> float:
        return self.shape.kv_values_per_layer * self.bytes_per_value / self.shards

    @property
    def bytes_per_token(self) -> float:
        """Within the window = (full + sliding layers) · values per layer · bytes per value / shards."""
        return (self.shape.full_layers + self.shape.sliding_layers) * self.bytes_per_layer_and_token

    @property
    def state_bytes(self) -> float:
        return self.shape.state_bytes / self.accelerators

    def bytes_of(self, tokens: float) -> float:
        """`(full · tokens + sliding · min(tokens, window)) · values · bytes per value / shards + state`."""
        shape = self.shape
        kept = min(tokens, shape.sliding_window) if self.windowed else tokens
        layer_tokens = shape.full_layers * tokens + shape.sliding_layers * kept
        return layer_tokens * self.bytes_per_layer_and_token + self.state_bytes

    def tokens_within(self, budget_bytes: float) -> float:
        """The longest sequence that takes `budget_bytes`: the inverse of `bytes_of`.

        0 where not even the state fits; infinite where no layer grows past the window.
        """
        shape = self.shape
        layer_tokens = (budget_bytes - self.state_bytes) / self.bytes_per_layer_and_token
        growing = shape.full_layers + shape.sliding_layers
        if layer_tokens <= 0:
            return 0.0
        if not self.windowed or not shape.sliding_layers or layer_tokens <= growing * shape.sliding_window:
            return layer_tokens / growing if growing else inf
        beyond = layer_tokens - shape.sliding_layers * shape.sliding_window
        return beyond / shape.full_layers if shape.full_layers else inf
