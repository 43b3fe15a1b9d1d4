"""What is served: the model, its source and its shape."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from loadproof.catalog import Architecture
from loadproof.vocabulary import (
    Arn,
    CommitHash,
    Dtype,
    Form,
    Part,
    PositiveInt,
    PositiveNumber,
    Quantization,
    S3Uri,
)


class HubSource(Part):
    """Weights from the Hugging Face Hub, pinned to a commit."""

    type: Literal["hub"]
    revision: CommitHash = Field(description="commit to load: 40 hexadecimal digits, never a branch")
    token_secret_arn: Arn | None = Field(
        default=None, description="Secrets Manager secret that holds the hub token of a gated model"
    )


class S3Source(Part):
    """Weights already in S3: a prefix of safetensors files, or one tar.gz."""

    type: Literal["s3"]
    s3_uri: S3Uri = Field(description="prefix (ends with /) or, with compression gzip, one tar.gz object")
    compression: Literal["none", "gzip"] = "none"
    accept_eula: bool = Field(default=False, description="accept the model's licence where it asks for one")


class JumpStartSource(Part):
    """An artifact of SageMaker JumpStart (a public or private hub's bucket)."""

    type: Literal["jumpstart"]
    s3_uri: S3Uri = Field(description="the artifact's prefix in the JumpStart bucket")
    hub_content_arn: Arn | None = Field(default=None, description="hub content for access through a private hub")
    accept_eula: bool = Field(default=False, description="accept the model's licence where it asks for one")


# What a row of the catalog calls it -> what a config.json does.
ARCHITECTURE_KEYS: Final = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate": "intermediate_size",
    "vocab": "vocab_size",
    "context": "max_position_embeddings",
    "parameters_b": "parameters_b",
    "active_parameters_b": "active_parameters_b",
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_token",
    "moe_intermediate": "moe_intermediate_size",
    "sliding_window": "sliding_window_tokens",
    "sliding_layers": "sliding_window_layers",
    "linear_layers": "linear_attention_layers",
    "state_bytes": "sequence_state_bytes",
    "kv_latent_dim": "kv_latent_dim",
    "allreduces_per_layer": "allreduces_per_layer",
}

_Dimension = Annotated[int, Field(ge=1, le=1 << 24)]  # far above any model's, so that a slip of digits is seen


class ArchitectureOverride(Part):
    """The model's shape for the planner, when the catalog does not know `model.id` (names as in HF config.json)."""

    num_hidden_layers: _Dimension
    hidden_size: _Dimension
    num_attention_heads: _Dimension
    num_key_value_heads: _Dimension
    head_dim: _Dimension
    intermediate_size: _Dimension
    vocab_size: _Dimension
    max_position_embeddings: PositiveInt
    parameters_b: PositiveNumber = Field(description="total parameters, in billions")
    active_parameters_b: PositiveNumber | None = Field(
        default=None, description="parameters used per token, in billions (mixture of experts)"
    )
    num_experts: Annotated[int, Field(ge=0)] = 0
    num_experts_per_token: Annotated[int, Field(ge=0)] = 0
    moe_intermediate_size: Annotated[int, Field(ge=0)] = 0
    sliding_window_tokens: PositiveInt | None = Field(
        default=None, description="tokens that layers with a sliding window keep"
    )
    sliding_window_layers: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="layers with that window; default: all of them"
    )
    linear_attention_layers: Annotated[int, Field(ge=0)] = Field(
        default=0, description="layers that keep a state of fixed size instead of tokens"
    )
    sequence_state_bytes: Annotated[int, Field(ge=0)] = Field(
        default=0, description="those layers' state for one sequence, in bytes"
    )
    kv_latent_dim: Annotated[int, Field(ge=0)] = Field(
        default=0, description="multi-head latent attention: kv_lora_rank + qk_rope_head_dim (kv heads are then 1)"
    )
    allreduces_per_layer: Annotated[int, Field(ge=1, le=2)] = Field(
        default=2, description="1 where attention and feed-forward run side by side (Falcon)"
    )

    def shape(self, model_id: str) -> Architecture:
        """The same as the catalog's rows hold it."""
        window = self.sliding_window_tokens or 0
        sliding = self.num_hidden_layers if self.sliding_window_layers is None else self.sliding_window_layers
        values = {field: getattr(self, key) for field, key in ARCHITECTURE_KEYS.items()} | {
            "active_parameters_b": self.active_parameters_b or self.parameters_b,
            "sliding_window": window,
            "sliding_layers": sliding if window else 0,
        }
        return Architecture(name=model_id, hf_id=model_id, source="model.architecture of the profile", **values)


class Model(Part):
    """What is served."""

    id: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:-]{0,127}$"), Form("a model id", "Qwen/Qwen3-32B")
    ] = Field(description="Hugging Face id (organisation/name), or a Bedrock model id")
    source: Annotated[HubSource | S3Source | JumpStartSource, Field(discriminator="type")] | None = Field(
        default=None, description="where the weights come from; required for backend sagemaker"
    )
    dtype: Dtype = Field(default="bf16", description="compute type of the weights")
    quantization: Quantization = Field(default="none", description="how the checkpoint's weights are quantized")
    trust_remote_code: bool = Field(default=False, description="run Python code shipped with the model")
    architecture: ArchitectureOverride | None = None
    # Reading replaces both by the `architecture` they describe: evidence depends on the shape, not on where it stood.
    base: str | None = Field(
        default=None,
        exclude=True,
        description="a fine-tune's model in the catalog, whose shape it has, instead of `architecture`",
    )
    config_json: str | None = Field(
        default=None,
        exclude=True,
        description="the model's Hugging Face config.json, relative to this file, instead of `architecture`",
    )
