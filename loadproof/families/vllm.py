"""vLLM in AWS's own image, and what every server that runs vLLM shares with it. Sources: its engine's arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from loadproof.catalog import Accelerator, Architecture
from loadproof.families.family import (
    MOUNTED_WEIGHTS,
    UNLIMITED,
    BatchLimits,
    C,
    Container,
    ContainerFamily,
    Contradiction,
    ModelVariables,
    PublishedImage,
    PublishedName,
    Refusal,
    S,
    Settings,
    Speculation,
    Speculative,
    as_published,
    draft_contradictions,
)
from loadproof.vocabulary import Fraction, PositiveInt, Quantization, setting

QUANTIZATIONS: Final[Mapping[Quantization, str]] = {
    "fp8": "fp8",
    "int8": "compressed-tensors",
    "awq": "awq",
    "gptq": "gptq",
    "mxfp4": "mxfp4",
}


class VllmSettings(Settings):
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
    max_lora_rank: PositiveInt | None = setting(
        "SM_VLLM_MAX_LORA_RANK", "largest rank of an adapter; default: 16, or what the adapters' `rank` needs"
    )
    max_loras: PositiveInt | None = setting("SM_VLLM_MAX_LORAS", "different adapters in one batch")


# As long as fits, up to the model's context (vllm/config/model.py): predicted as that context.
FITTING: Final[Mapping[str, None]] = {"auto": None, "-1": None}
_SPECULATIVE_CONFIG: Final = {
    "method": "method",
    "num_speculative_tokens": "tokens",
    "model": "draft_model",
    "draft_tensor_parallel_size": "draft_tensor_parallel_degree",
    "prompt_lookup_max": "longest_ngram_tokens",
}


class VllmSpeculative(Speculative):
    """As vLLM's `--speculative-config` has it; LMI hands the same to its vLLM."""

    draft_tensor_parallel_degree: PositiveInt | None = Field(
        default=None, description="accelerators the draft model shards over; default: the server's own"
    )
    longest_ngram_tokens: PositiveInt | None = Field(
        default=None, description="longest piece of text that `ngram` looks up in the prompt, in tokens"
    )

    def as_json(self) -> str:
        """vLLM's `--speculative-config`."""
        config = {name: getattr(self, field) for name, field in _SPECULATIVE_CONFIG.items()}
        return json.dumps({name: value for name, value in config.items() if value is not None})

    @classmethod
    def from_json(cls, text: str) -> VllmSpeculative | None:
        """What `as_json` wrote, or somebody by hand; None for what no profile says."""
        try:
            config = json.loads(text)
            return cls.model_validate({_SPECULATIVE_CONFIG[name]: value for name, value in config.items()})
        except (ValueError, KeyError, AttributeError):
            return None


class VllmContainer(Container):
    family: Literal["vllm"]
    settings: VllmSettings = Field(default_factory=VllmSettings.model_construct)
    speculative: VllmSpeculative | None = None


def engine_limits(
    family: ContainerFamily[C, S],
    settings: S,
    architecture: Architecture,
    accelerator: Accelerator,
    *,
    sequences: int | None = None,
    queue: int | None = None,
) -> BatchLimits:
    """The family's settings, and vLLM's own limits where one is unset. It takes large batches by default where memory
    is large, except on the A100, where they cost throughput. `queue` bounds what waits beside the batch; None: nothing
    does. `sequences`: the family's own default of its setting."""
    large = accelerator.memory_bytes >= 70 << 30 and not accelerator.name.startswith("A100")
    most = family.value(settings, family.sequences_setting) or sequences or (1024 if large else 256)
    return BatchLimits(
        scheduler="chunked",
        max_sequences=most,
        step_prefill_tokens=family.value(settings, family.step_tokens_setting) or (8192 if large else 2048),
        max_request_tokens=family.value(settings, family.longest_setting) or architecture.context or None,
        max_input_tokens=None,
        max_admitted_requests=UNLIMITED if queue is None else most + queue,
    )


def _switched_off(variable: str) -> dict[str, str]:
    """The entry point turns `true` into a bare flag and leaves `false` out: off needs a variable of its own."""
    return {variable.replace("SM_VLLM_", "SM_VLLM_NO_", 1): "true"}


def speculative_contradictions(wanted: VllmSpeculative, degree: int | None) -> Iterator[Contradiction]:
    """Fields that the method has no use for, or needs. `degree`: what the model shards over, None where unset."""
    yield from draft_contradictions(wanted)
    if wanted.method != "ngram" and wanted.longest_ngram_tokens is not None:
        found = f"`longest_ngram_tokens` has no use with method {wanted.method}"
        yield Contradiction(("speculative", "longest_ngram_tokens"), found, "delete it, or write method: ngram")
    if not wanted.drafted and wanted.draft_tensor_parallel_degree is not None:
        found = f"`draft_tensor_parallel_degree` has no use with method {wanted.method}"
        yield Contradiction(("speculative", "draft_tensor_parallel_degree"), found, "delete it")
    elif degree is not None and wanted.draft_tensor_parallel_degree not in (None, 1, degree):
        # vllm/config/speculative.py: "cannot be other value than 1 or target model tensor_parallel_size".
        found = f"a draft over {wanted.draft_tensor_parallel_degree} accelerators, the model shards over {degree}"
        yield Contradiction(("speculative", "draft_tensor_parallel_degree"), found, f"write 1 or {degree}")


def speculation_by(
    variable: str, check: Callable[[C, VllmSpeculative], Iterator[Contradiction]]
) -> Speculation[C, VllmSpeculative]:
    """Written as vLLM's JSON in one variable."""
    return Speculation(
        variables=(variable,),
        write=lambda wanted: {variable: wanted.as_json()},
        read=lambda variables: VllmSpeculative.from_json(variables[variable]) if variable in variables else None,
        check=check,
    )


def step_refusal(step: str, sequences: str) -> Refusal[Any]:
    """Of a server that runs vLLM, by what it calls the tokens of a step and the sequences of a batch."""

    def check(container: Any) -> Iterator[Contradiction]:
        settings, path = container.settings, ("settings", step)
        tokens, longest, batch = (getattr(settings, name, None) for name in (step, "max_model_len", sequences))
        if tokens is None:
            return
        chunked = getattr(settings, "enable_chunked_prefill", None)
        if chunked is False and longest is not None and tokens < longest:
            found = f"{tokens} tokens a step cannot hold a prompt of max_model_len {longest} without chunked prefill"
            yield Contradiction(path, found, f"write at least {longest}, or enable_chunked_prefill: true")
        if batch is not None and tokens < batch:
            found = f"{tokens} tokens a step are fewer than {sequences} {batch}"
            yield Contradiction(path, found, f"write at least {batch}")

    return Refusal(
        code="LP232",
        title="Step too small for a request",
        reason="Without chunked prefill a whole prompt runs in one step of vLLM, LMI's too, and each sequence needs a "
        "token in it (SchedulerConfig).",
        mend="Raise the tokens of a step, or leave chunked prefill on.",
        check=check,
    )


FAMILY = ContainerFamily(
    name="vllm",
    called="vLLM",
    listed=3,
    preferred=1,
    container=VllmContainer,
    settings=VllmSettings,
    former_variables={"HF_MODEL_ID": "model.id or model.source"},
    switched_off=_switched_off,
    bare_flags=True,
    suffixed={"max_num_batched_tokens": "vllm", "max_model_len": "vllm"},
    words={"max_model_len": FITTING},
    degree_variables={
        "SM_VLLM_PIPELINE_PARALLEL_SIZE": "",
        "SM_VLLM_DATA_PARALLEL_SIZE": "SM_VLLM_DATA_PARALLEL_SIZE_LOCAL",
    },
    model_variables=ModelVariables(
        model="SM_VLLM_MODEL",
        revision="SM_VLLM_REVISION",
        trust_remote_code="SM_VLLM_TRUST_REMOTE_CODE",
        dtype="SM_VLLM_DTYPE",
        quantization="SM_VLLM_QUANTIZATION",
        # deep-learning-containers docs/vllm/deployment/sagemaker.md, "Specifying the Model".
        looked_up=("SM_VLLM_MODEL", MOUNTED_WEIGHTS, "HF_MODEL_ID"),
        unnamed="set SM_VLLM_MODEL, or give model data",
    ),
    quantizations=QUANTIZATIONS,
    speculation=speculation_by(
        "SM_VLLM_SPECULATIVE_CONFIG",
        lambda container, wanted: speculative_contradictions(wanted, container.settings.tensor_parallel_degree),
    ),
    refusals=(step_refusal("max_num_batched_tokens", "max_num_seqs"),),
    protocol="openai",
    image=PublishedImage("vllm", "vllm.json"),
    published=PublishedName(r"vllm", r"vllm(?:[\s/_-]*openai)?", "", as_published),
    longest_setting="max_model_len",
    sequences_setting="max_num_seqs",
    step_tokens_setting="max_num_batched_tokens",
    memory_setting="gpu_memory_utilization",
    memory_share=0.9,
    tied_by=lambda container: "container.settings.kv_cache_dtype" if container.settings.kv_cache_dtype else None,
    server_row=lambda settings: "vllm",
    limits=engine_limits,
    frees_past_window=lambda settings: True,
    alike_since=((0, 8),),  # its second engine
    measured_lines=((0, 11), (0, 15)),
    keeps_prompts=lambda settings: settings.enable_prefix_caching is not False,  # on since the second engine
)
