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

    def kv_bytes_per_token(self, bytes_per_value: float) -> float:
        """KV bytes of a token inside the window = (full + sliding layers) · values per layer · bytes per value."""
        return (self.full_layers + self.sliding_layers) * self.kv_values_per_layer * bytes_per_value

    def kv_shards(self, accelerators: int) -> int:
        """Parts the KV cache of a token is split into: heads are sharded, never cut; a latent vector is copied."""
        return 1 if self.kv_latent_dim else min(accelerators, self.kv_heads)

    def cache_bytes(
        self, tokens: float, bytes_per_value: float, *, accelerators: int = 1, windowed: bool = True
    ) -> float:
        """Cache of one sequence of `tokens`, in bytes on each accelerator.

        `(full · tokens + sliding · min(tokens, window)) · values · bytes per value / shards + state / accelerators`.
        `windowed` False: a server that keeps every token of sliding layers too.
        """
        kept = min(tokens, self.sliding_window) if windowed else tokens
        layer_tokens = self.full_layers * tokens + self.sliding_layers * kept
        per_layer = self.kv_values_per_layer * bytes_per_value
        return layer_tokens * per_layer / self.kv_shards(accelerators) + self.state_bytes / accelerators

    def tokens_within(
        self, budget_bytes: float, bytes_per_value: float, *, accelerators: int = 1, windowed: bool = True
    ) -> float:
        """The longest sequence whose cache takes `budget_bytes` on each accelerator: the inverse of `cache_bytes`.

        0 where not even the state fits; infinite where no layer grows past the window.
        """
        per_layer = self.kv_values_per_layer * bytes_per_value / self.kv_shards(accelerators)
        layer_tokens = (budget_bytes - self.state_bytes / accelerators) / per_layer
        growing = self.full_layers + self.sliding_layers
        if layer_tokens <= 0:
            return 0.0
        if not windowed or layer_tokens <= growing * self.sliding_window or not self.sliding_layers:
            return layer_tokens / growing if growing else inf
        beyond = layer_tokens - self.sliding_layers * self.sliding_window
        return beyond / self.full_layers if self.full_layers else inf
