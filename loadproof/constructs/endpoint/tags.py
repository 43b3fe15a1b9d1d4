"""Tags that say what a container holds: the local cloud and the bill read them, nothing else does."""

from __future__ import annotations

from loadproof.profiles.schema import ArchitectureOverride, Model

MODEL_ID = "loadproof:model-id"
ARCHITECTURE = "loadproof:architecture"


def model_tags(model: Model) -> dict[str, str]:
    """`loadproof:model-id`, and with an override `loadproof:architecture`."""
    tags = {MODEL_ID: model.id}
    if model.architecture is not None:
        tags[ARCHITECTURE] = architecture_text(model.architecture)
    return tags


def architecture_text(shape: ArchitectureOverride) -> str:
    """`layers=32 hidden=4096 ...`: the field names of `catalog.Architecture`, at most 256 characters.

    What is zero is left out, and whatever has its usual value: active parameters where all are active, two all-reduces.
    """
    fields: dict[str, float | None] = {
        "layers": shape.num_hidden_layers,
        "hidden": shape.hidden_size,
        "heads": shape.num_attention_heads,
        "kv_heads": shape.num_key_value_heads,
        "head_dim": shape.head_dim,
        "intermediate": shape.intermediate_size,
        "vocab": shape.vocab_size,
        "context": shape.max_position_embeddings,
        "experts": shape.num_experts,
        "experts_per_token": shape.num_experts_per_token,
        "moe_intermediate": shape.moe_intermediate_size,
        "parameters_b": shape.parameters_b,
        "active_parameters_b": shape.active_parameters_b,
        "sliding_window": shape.sliding_window_tokens,
        "sliding_layers": shape.shape("").sliding_layers,
        "linear_layers": shape.linear_attention_layers,
        "state_bytes": shape.sequence_state_bytes,
        "kv_latent_dim": shape.kv_latent_dim,
        "allreduces_per_layer": shape.allreduces_per_layer % 2,
    }
    return " ".join(f"{name}={value}" for name, value in fields.items() if value)
