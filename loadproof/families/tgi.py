"""Text Generation Inference, Hugging Face's server. Sources: its launcher's arguments, 3.x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pydantic import Field

from loadproof.catalog import Accelerator, Architecture
from loadproof.families.family import (
    UNLIMITED,
    Admission,
    BatchLimits,
    Container,
    ContainerFamily,
    Contradiction,
    ModelVariables,
    PublishedImage,
    PublishedName,
    Refusal,
    Settings,
)
from loadproof.vocabulary import Fraction, PositiveInt, PositiveNumber, setting

_ADMITTED: Final = Admission("max_concurrent_requests", default=128, beside_batch=False)
_FITTED: Final = "1.1"  # figures named without a version are taken as the one our row was fitted on
_MOST_BODY_BYTES: Final = 2_000_000
# What JumpStart's images of January 2024 ran with, beside the limits below: as the tables the row was fitted on.
_JUMPSTART: Final = {"MAX_CONCURRENT_REQUESTS": "512", "WAITING_SERVED_RATIO": "1.2"}
_JUMPSTART_REQUEST_TOKENS: Final = 4096


class TgiSettings(Settings):
    """Text Generation Inference (archived upstream 2026-03-21; kept for fleets that still run it)."""

    tensor_parallel_degree: PositiveInt | None = setting("SM_NUM_GPUS", "accelerators one copy shards over")
    max_input_tokens: PositiveInt | None = setting("MAX_INPUT_TOKENS", "longest prompt accepted, in tokens")
    max_total_tokens: PositiveInt | None = setting("MAX_TOTAL_TOKENS", "prompt plus answer, in tokens")
    max_batch_prefill_tokens: PositiveInt | None = setting(
        "MAX_BATCH_PREFILL_TOKENS", "prompt tokens prefilled in one step"
    )
    max_batch_total_tokens: PositiveInt | None = setting(
        "MAX_BATCH_TOTAL_TOKENS", "tokens (prompt + answer) in the running batch; default fills the memory"
    )
    max_concurrent_requests: PositiveInt | None = setting(
        "MAX_CONCURRENT_REQUESTS", "requests admitted before the server answers 429"
    )
    max_client_batch_size: PositiveInt | None = setting("MAX_CLIENT_BATCH_SIZE", "inputs in one request")
    waiting_served_ratio: PositiveNumber | None = setting(
        "WAITING_SERVED_RATIO", "waiting / running ratio that interrupts decoding for a prefill"
    )
    max_waiting_tokens: PositiveInt | None = setting(
        "MAX_WAITING_TOKENS", "decode steps after which waiting requests are let in"
    )
    payload_limit_bytes: PositiveInt | None = setting("PAYLOAD_LIMIT", "largest request body, in bytes")
    cuda_memory_fraction: Fraction | None = setting("CUDA_MEMORY_FRACTION", "share of each GPU's memory to use")


class TgiContainer(Container):
    family: Literal["tgi"]
    settings: TgiSettings = Field(default_factory=TgiSettings.model_construct)


def _limits(
    family: ContainerFamily[TgiContainer, TgiSettings],
    settings: TgiSettings,
    architecture: Architecture,
    accelerator: Accelerator,
) -> BatchLimits:
    longest_input = settings.max_input_tokens
    return BatchLimits(
        scheduler="prefill_first",
        max_sequences=UNLIMITED,
        step_prefill_tokens=settings.max_batch_prefill_tokens or (longest_input + 50 if longest_input else 4096),
        max_request_tokens=settings.max_total_tokens,
        max_input_tokens=longest_input,
        max_admitted_requests=settings.max_concurrent_requests or _ADMITTED.default,
        batch_total_tokens=settings.max_batch_total_tokens,
        waiting_served_ratio=settings.waiting_served_ratio or 0.3,
        max_waiting_steps=settings.max_waiting_tokens or 20,
        max_body_bytes=settings.payload_limit_bytes or _MOST_BODY_BYTES,
    )


def _token_limits(container: TgiContainer) -> Iterator[Contradiction]:
    settings = container.settings
    prompt, total = settings.max_input_tokens, settings.max_total_tokens
    prefill, batch = settings.max_batch_prefill_tokens, settings.max_batch_total_tokens
    if prompt is not None and total is not None and total <= prompt:
        found = f"max_total_tokens {total} leaves no room past max_input_tokens {prompt}"
        yield Contradiction(("settings", "max_total_tokens"), found, f"write more than {prompt}")
    if prompt is not None and prefill is not None and prefill < prompt:
        found = f"max_batch_prefill_tokens {prefill} cannot hold a prompt of max_input_tokens {prompt}"
        mend = f"write at least {prompt + 50}, or leave it out"
        yield Contradiction(("settings", "max_batch_prefill_tokens"), found, mend)
    if batch is not None and total is not None and batch < total:
        found = f"max_batch_total_tokens {batch} cannot hold one request of max_total_tokens {total}"
        yield Contradiction(("settings", "max_batch_total_tokens"), found, f"write at least {total}, or leave it out")


def _published(version: str, request_tokens: int, dynamic: Mapping[str, int] | None) -> dict[str, str] | None:
    """What JumpStart sets: room for the longest request, and the limits of its TGI 1.x images."""
    if dynamic is not None:
        return None
    longest = max(_JUMPSTART_REQUEST_TOKENS, request_tokens)
    return {
        "MAX_TOTAL_TOKENS": str(longest),
        "MAX_INPUT_TOKENS": str(longest - 1),
        "MAX_BATCH_PREFILL_TOKENS": str(longest),
        **(_JUMPSTART if version.startswith(("0", "1")) else {}),
    }


FAMILY = ContainerFamily(
    name="tgi",
    called="TGI",
    listed=1,
    preferred=3,  # archived upstream
    container=TgiContainer,
    settings=TgiSettings,
    former_variables={
        "MAX_INPUT_LENGTH": "container.settings.max_input_tokens",
        "NUM_SHARD": "container.settings.tensor_parallel_degree",  # SM_NUM_GPUS goes before it
        "QUANTIZE": "model.quantization",
    },
    model_variables=ModelVariables(
        model="HF_MODEL_ID",
        revision="HF_MODEL_REVISION",
        trust_remote_code="HF_MODEL_TRUST_REMOTE_CODE",
        dtype="DTYPE",
        quantization="HF_MODEL_QUANTIZE",
        dtype_beside_quantization=False,
        looked_up=("HF_MODEL_ID",),
        unnamed="HF_MODEL_ID must be set",  # its sagemaker-entrypoint.sh, which then exits with 1
    ),
    quantizations={"fp8": "fp8", "int8": "bitsandbytes", "awq": "awq", "gptq": "gptq"},
    refusals=(
        Refusal(
            code="LP230",
            title="TGI token limits contradict each other",
            reason="TGI stops at start-up: an answer needs room past the prompt, and a prompt must fit a prefill and a "
            "batch.",
            mend="max_input_tokens < max_total_tokens ≤ max_batch_total_tokens, "
            "max_input_tokens ≤ max_batch_prefill_tokens.",
            check=_token_limits,
        ),
    ),
    protocol="tgi",
    image=PublishedImage("tgi-inference", "huggingface-llm.json", r"tgi(\d[\d.]*)"),
    published=PublishedName(
        r"\btgi|text[\s_-]?generation[\s_-]?inference",
        r"(?:tgi|text[\s_-]?generation[\s_-]?inference)",
        _FITTED,
        _published,
    ),
    longest_setting="max_total_tokens",
    longest_is_context=False,
    prompt_setting="max_input_tokens",
    sequences_setting=None,
    step_tokens_setting="max_batch_prefill_tokens",
    memory_setting="cuda_memory_fraction",
    memory_share=1.0,
    admission=_ADMITTED,
    server_row=lambda settings: "tgi",
    limits=_limits,
    frees_past_window=lambda settings: False,
    alike_since=(),
    measured_lines=((1, 1),),  # JumpStart's images of January 2024
)
