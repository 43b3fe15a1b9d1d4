"""NVIDIA NIM, a family that Loadproof does not ship: `test_adding_a_family.py` puts this module beside the others."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from loadproof.families.family import (
    Container,
    ContainerFamily,
    ModelVariables,
    PublishedImage,
    PublishedName,
    Settings,
    as_published,
)
from loadproof.families.vllm import engine_limits
from loadproof.vocabulary import Fraction, PositiveInt, setting


class NimSettings(Settings):
    """NVIDIA NIM for large language models."""

    tensor_parallel_degree: PositiveInt | None = setting(
        "NIM_TENSOR_PARALLEL_SIZE", "accelerators one copy shards over"
    )
    max_model_len: PositiveInt | None = setting("NIM_MAX_MODEL_LEN", "prompt plus answer, in tokens")
    max_num_seqs: PositiveInt | None = setting("NIM_MAX_NUM_SEQS", "sequences in the running batch")
    kv_cache_fraction: Fraction | None = setting("NIM_KVCACHE_PERCENT", "share of each GPU's memory to use")
    enable_prefix_caching: bool | None = setting("NIM_ENABLE_KV_CACHE_REUSE", "reuse KV of shared prefixes")


class NimContainer(Container):
    family: Literal["nim"]
    settings: NimSettings = Field(default_factory=NimSettings.model_construct)


FAMILY = ContainerFamily(
    name="nim",
    called="NIM",
    listed=5,
    preferred=5,
    container=NimContainer,
    settings=NimSettings,
    model_variables=ModelVariables(
        model="NIM_MODEL_NAME",
        revision="NIM_MODEL_REVISION",
        trust_remote_code="NIM_FORCE_TRUST_REMOTE_CODE",
        dtype="NIM_DTYPE",
        quantization="NIM_QUANTIZATION",
    ),
    quantizations={"fp8": "fp8"},
    protocol="openai",
    image=PublishedImage("nvidia-nim", "nim.json"),
    published=PublishedName(r"\bnim\b", r"nim", "", as_published),
    longest_setting="max_model_len",
    sequences_setting="max_num_seqs",
    step_tokens_setting=None,
    memory_setting="kv_cache_fraction",
    memory_share=0.9,
    server_row=lambda settings: "vllm",
    limits=engine_limits,
    frees_past_window=lambda settings: True,
    alike_since=None,
)
