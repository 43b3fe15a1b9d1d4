"""A container of one's own behind SageMaker's contract: predicted as if it were vLLM, for want of better."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from loadproof.families.family import Container, ContainerFamily, Settings
from loadproof.families.vllm import engine_limits
from loadproof.vocabulary import PositiveInt
from loadproof.wire.payloads import ContainerProtocol


class CustomSettings(Settings):
    """A container of your own that follows SageMaker's contract (/ping and /invocations on 8080)."""

    # No server reads these variables: they say in a deployed model what none of the container's own does.
    protocol: ContainerProtocol = Field(
        description="payloads the container speaks", json_schema_extra={"read_back": "LOADPROOF_PROTOCOL"}
    )
    tensor_parallel_degree: PositiveInt | None = Field(
        default=None,
        description="accelerators one copy shards over (for the planner; set your own variable too)",
        json_schema_extra={"read_back": "LOADPROOF_TENSOR_PARALLEL_DEGREE"},
    )


class CustomContainer(Container):
    family: Literal["custom"]
    image: str = Field(description="image URI with tag or digest (never :latest)")
    settings: CustomSettings


FAMILY = ContainerFamily(
    name="custom",
    called="your own",
    listed=100,  # last
    preferred=None,
    container=CustomContainer,
    settings=CustomSettings,
    unset={"protocol": "openai"},
    model_variables=None,
    quantizations={"fp8": "fp8", "int8": "int8", "awq": "awq", "gptq": "gptq", "mxfp4": "mxfp4"},
    protocol=None,
    image=None,
    published=None,
    longest_setting=None,
    sequences_setting=None,
    step_tokens_setting=None,
    memory_setting=None,
    memory_share=1.0,
    tied_by=lambda container: "a container of your own",
    server_row=lambda settings: "vllm",
    limits=engine_limits,
    frees_past_window=lambda settings: False,
    alike_since=None,
)
