"""What is served: the model, its source and its shape."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.profiles.schema.vocabulary import (
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


class ArchitectureOverride(Part):
    """The model's shape for the planner, when the catalog does not know `model.id` (names as in HF config.json)."""

    num_hidden_layers: PositiveInt
    hidden_size: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    intermediate_size: PositiveInt
    vocab_size: PositiveInt
    max_position_embeddings: PositiveInt
    parameters_b: PositiveNumber = Field(description="total parameters, in billions")
    active_parameters_b: PositiveNumber | None = Field(
        default=None, description="parameters used per token, in billions (mixture of experts)"
    )
    num_experts: Annotated[int, Field(ge=0)] = 0
    num_experts_per_token: Annotated[int, Field(ge=0)] = 0
    moe_intermediate_size: Annotated[int, Field(ge=0)] = 0
    sliding_window_tokens: PositiveInt | None = None


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
