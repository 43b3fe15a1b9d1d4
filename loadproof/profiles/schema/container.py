"""What serves it: the container families with their typed settings, each naming its variable in `setting()`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.profiles.schema.vocabulary import (
    EnvironmentName,
    EnvironmentValue,
    Form,
    Fraction,
    Part,
    PositiveInt,
    PositiveNumber,
    Protocol,
    setting,
)

CudaVersion = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{2}\.[0-9]$"), Form("a CUDA version in quotes", '"13.0"')
]


class TgiSettings(Part):
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


class LmiSettings(Part):
    """Large Model Inference (DJL Serving): `option.*` of serving.properties as OPTION_* variables."""

    tensor_parallel_degree: PositiveInt | None = setting("TENSOR_PARALLEL_DEGREE", "accelerators one copy shards over")
    rolling_batch: Literal["auto", "vllm", "trtllm", "lmi-dist", "disable"] | None = setting(
        "OPTION_ROLLING_BATCH", "continuous batching engine; `disable` gives dynamic batching with batch_size"
    )
    max_rolling_batch_size: PositiveInt | None = setting(
        "OPTION_MAX_ROLLING_BATCH_SIZE", "sequences in the running batch"
    )
    max_rolling_batch_prefill_tokens: PositiveInt | None = setting(
        "OPTION_MAX_ROLLING_BATCH_PREFILL_TOKENS", "prompt tokens prefilled in one step"
    )
    batch_size: PositiveInt | None = setting("SERVING_BATCH_SIZE", "requests in one dynamic batch")
    max_batch_delay_ms: Annotated[int, Field(ge=0)] | None = setting(
        "SERVING_MAX_BATCH_DELAY", "how long a dynamic batch waits to fill, in milliseconds"
    )
    paged_attention: bool | None = setting("OPTION_PAGED_ATTENTION", "paged KV cache (engines that let one choose)")
    max_model_len: PositiveInt | None = setting("OPTION_MAX_MODEL_LEN", "prompt plus answer, in tokens")
    gpu_memory_utilization: Fraction | None = setting(
        "OPTION_GPU_MEMORY_UTILIZATION", "share of each GPU's memory the engine may use"
    )
    enable_prefix_caching: bool | None = setting("OPTION_ENABLE_PREFIX_CACHING", "reuse KV of shared prefixes")
    enable_chunked_prefill: bool | None = setting("OPTION_ENABLE_CHUNKED_PREFILL", "mix prefill chunks and decodes")
    enable_lora: bool | None = setting("OPTION_ENABLE_LORA", "serve LoRA adapters")
    async_mode: bool | None = setting("OPTION_ASYNC_MODE", "vLLM's own asynchronous engine loop")
    entrypoint: str | None = setting("OPTION_ENTRYPOINT", "Python module that handles requests")
    job_queue_size: PositiveInt | None = setting("SERVING_JOB_QUEUE_SIZE", "requests queued before 503")
    model_loading_timeout_s: PositiveInt | None = setting(
        "OPTION_MODEL_LOADING_TIMEOUT", "time the model may take to load, in seconds"
    )


class VllmSettings(Part):
    """AWS's vLLM container: SM_VLLM_X becomes --x."""

    tensor_parallel_degree: PositiveInt | None = setting(
        "SM_VLLM_TENSOR_PARALLEL_SIZE", "accelerators one copy shards over"
    )
    max_num_seqs: PositiveInt | None = setting("SM_VLLM_MAX_NUM_SEQS", "sequences in the running batch")
    max_num_batched_tokens: PositiveInt | None = setting(
        "SM_VLLM_MAX_NUM_BATCHED_TOKENS", "tokens processed in one step"
    )
    max_model_len: PositiveInt | None = setting("SM_VLLM_MAX_MODEL_LEN", "prompt plus answer, in tokens")
    gpu_memory_utilization: Fraction | None = setting(
        "SM_VLLM_GPU_MEMORY_UTILIZATION", "share of each GPU's memory the engine may use"
    )
    enable_prefix_caching: bool | None = setting("SM_VLLM_ENABLE_PREFIX_CACHING", "reuse KV of shared prefixes")
    enable_chunked_prefill: bool | None = setting("SM_VLLM_ENABLE_CHUNKED_PREFILL", "mix prefill chunks and decodes")
    kv_cache_dtype: Literal["auto", "fp8"] | None = setting("SM_VLLM_KV_CACHE_DTYPE", "type of the KV cache")
    enable_lora: bool | None = setting("SM_VLLM_ENABLE_LORA", "serve LoRA adapters")


class SglangSettings(Part):
    """AWS's SGLang container: SM_SGLANG_X becomes --x."""

    tensor_parallel_degree: PositiveInt | None = setting("SM_SGLANG_TP_SIZE", "accelerators one copy shards over")
    max_running_requests: PositiveInt | None = setting(
        "SM_SGLANG_MAX_RUNNING_REQUESTS", "sequences in the running batch"
    )
    context_length: PositiveInt | None = setting("SM_SGLANG_CONTEXT_LENGTH", "prompt plus answer, in tokens")
    chunked_prefill_size: PositiveInt | None = setting(
        "SM_SGLANG_CHUNKED_PREFILL_SIZE", "prompt tokens prefilled in one step"
    )
    mem_fraction_static: Fraction | None = setting(
        "SM_SGLANG_MEM_FRACTION_STATIC", "share of each GPU's memory for weights and KV cache"
    )
    disable_radix_cache: bool | None = setting("SM_SGLANG_DISABLE_RADIX_CACHE", "do not reuse shared prefixes")


class CustomSettings(Part):
    """A container of your own that follows SageMaker's contract (/ping and /invocations on 8080)."""

    protocol: Protocol = Field(description="payloads the container speaks")
    tensor_parallel_degree: PositiveInt | None = Field(
        default=None, description="accelerators one copy shards over (for the planner; set your own variable too)"
    )


class Speculative(Part):
    """Speculative decoding: something cheap proposes tokens, and the model checks them in one step."""

    method: Literal["draft_model", "eagle", "eagle3", "mtp", "ngram"] = Field(
        description="who proposes: a smaller model, an EAGLE head, the model's own heads, or the prompt's text"
    )
    tokens: Annotated[int, Field(ge=1, le=64)] = Field(description="tokens proposed a step")
    draft_model: str | None = Field(
        default=None,
        description="weights of the draft model or EAGLE head: a folder of the artifact (/opt/ml/model/draft) "
        "or a hub id",
    )


class VllmSpeculative(Speculative):
    """As vLLM's `--speculative-config` has it; LMI hands the same to its vLLM."""

    draft_tensor_parallel_degree: PositiveInt | None = Field(
        default=None, description="accelerators the draft model shards over; default: the server's own"
    )
    longest_ngram_tokens: PositiveInt | None = Field(
        default=None, description="longest piece of text that `ngram` looks up in the prompt, in tokens"
    )


class SglangSpeculative(Speculative):
    """As SGLang's `--speculative-*` have it."""

    branches: PositiveInt = Field(default=1, description="alternatives kept at each proposed token (EAGLE's tree)")
    checked_tokens: PositiveInt | None = Field(
        default=None, description="tokens of the tree checked in one step; default: tokens + 1, a single branch"
    )


class _Container(Part):
    version: str | None = Field(default=None, description="server version from the catalog; default: its newest")
    image: str | None = Field(
        default=None, description="image URI with tag or digest, instead of the catalog's (never :latest)"
    )
    cuda: CudaVersion | None = Field(
        default=None, description="CUDA inside `image`, in quotes, where its tag does not say (cu130)"
    )
    environment: dict[EnvironmentName, EnvironmentValue] = Field(
        default_factory=dict, description="variables no typed setting covers: the last resort"
    )


class TgiContainer(_Container):
    family: Literal["tgi"]
    settings: TgiSettings = Field(default_factory=TgiSettings)


class LmiContainer(_Container):
    family: Literal["lmi"]
    settings: LmiSettings = Field(default_factory=LmiSettings)
    speculative: VllmSpeculative | None = None


class VllmContainer(_Container):
    family: Literal["vllm"]
    settings: VllmSettings = Field(default_factory=VllmSettings)
    speculative: VllmSpeculative | None = None


class SglangContainer(_Container):
    family: Literal["sglang"]
    settings: SglangSettings = Field(default_factory=SglangSettings)
    speculative: SglangSpeculative | None = None


class CustomContainer(_Container):
    family: Literal["custom"]
    image: str = Field(description="image URI with tag or digest (never :latest)")
    settings: CustomSettings


Container = Annotated[
    TgiContainer | LmiContainer | VllmContainer | SglangContainer | CustomContainer, Field(discriminator="family")
]
