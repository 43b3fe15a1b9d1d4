"""Large Model Inference: DJL Serving around vLLM (v15 and later). Source: the LMI user guide."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from loadproof.catalog import Accelerator, Architecture
from loadproof.catalog.contracts import software_of, within
from loadproof.families import vllm
from loadproof.families.family import (
    MOUNTED_WEIGHTS,
    Admission,
    BatchLimits,
    ConfigurationFile,
    Container,
    ContainerFamily,
    Contradiction,
    ModelVariables,
    PublishedImage,
    PublishedName,
    Refusal,
    Settings,
)
from loadproof.vocabulary import Fraction, PositiveInt, setting

_QUEUE: Final = Admission("job_queue_size", default=1000, beside_batch=True)  # past it the answer is 503
# DJL Serving's LmiConfigRecommender gives 256 sequences to an engine that is named, and 32 to what it finds itself.
_NAMED_ENGINES: Final = ("vllm", "lmi-dist", "trtllm")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SCRIPT: Final = re.compile(r"(?!(.*/)?\.\./).+\.(py|zip|tar\.gz)")  # a file of the artifact, or of an address
_DYNAMIC_SERVER: Final = "accelerate"  # dynamic batching runs Hugging Face Accelerate instead of an engine of its own


class LmiSettings(Settings):
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
    max_lora_rank: PositiveInt | None = setting(
        "OPTION_MAX_LORA_RANK", "largest rank of an adapter; default: 16, or what the adapters' `rank` needs"
    )
    max_loras: PositiveInt | None = setting("OPTION_MAX_LORAS", "different adapters in one batch")
    async_mode: bool | None = setting("OPTION_ASYNC_MODE", "vLLM's own asynchronous engine loop")
    entrypoint: str | None = setting("OPTION_ENTRYPOINT", "Python module that handles requests")
    job_queue_size: PositiveInt | None = setting("SERVING_JOB_QUEUE_SIZE", "requests queued before 503")
    model_loading_timeout_s: PositiveInt | None = setting(
        "OPTION_MODEL_LOADING_TIMEOUT", "time the model may take to load, in seconds"
    )

    @property
    def batches_dynamically(self) -> bool:
        """Whole batches are gathered instead of letting requests join a running one."""
        return self.rolling_batch == "disable"


class LmiContainer(Container):
    family: Literal["lmi"]
    settings: LmiSettings = Field(default_factory=LmiSettings.model_construct)
    speculative: vllm.VllmSpeculative | None = None


def _limits(
    family: ContainerFamily[LmiContainer, LmiSettings],
    settings: LmiSettings,
    architecture: Architecture,
    accelerator: Accelerator,
) -> BatchLimits:
    """32 sequences, 256 with an engine written out; DJL Serving's batches of 1 and 100 ms of delay where dynamic."""
    queue = settings.job_queue_size or _QUEUE.default
    if not settings.batches_dynamically:
        most = 256 if settings.rolling_batch in _NAMED_ENGINES else 32
        return vllm.engine_limits(family, settings, architecture, accelerator, sequences=most, queue=queue)
    batch_size, delay_ms = settings.batch_size or 1, settings.max_batch_delay_ms
    return BatchLimits(
        scheduler="dynamic",
        max_sequences=batch_size,
        step_prefill_tokens=2048,  # only sizes the activations: a batch's prompts are computed in one step
        max_request_tokens=settings.max_model_len or architecture.context or None,
        max_input_tokens=None,
        max_admitted_requests=batch_size + queue,
        max_batch_delay_ms=100.0 if delay_ms is None else float(delay_ms),
    )


def _batching(container: LmiContainer) -> Iterator[Contradiction]:
    settings = container.settings
    rolling = ("max_rolling_batch_size", "max_rolling_batch_prefill_tokens")
    dynamic = ("batch_size", "max_batch_delay_ms")
    off = settings.batches_dynamically
    for name in rolling if off else dynamic:
        if getattr(settings, name) is not None:
            found = f"`{name}` has no use with rolling_batch {'disable' if off else settings.rolling_batch or 'auto'}"
            mend = f"delete it, or write rolling_batch: {'auto' if off else 'disable'}"
            yield Contradiction(("settings", name), found, mend)
    if settings.paged_attention is False and settings.rolling_batch in (None, "auto", "vllm"):
        yield Contradiction(("settings", "paged_attention"), "vLLM always pages its KV cache", "delete it", "warning")


def _engine(container: LmiContainer) -> Iterator[Contradiction]:
    path, engine = ("settings", "rolling_batch"), container.settings.rolling_batch
    lmi = software_of(container.image).get("lmi_image") if container.image is not None else None
    if engine == "lmi-dist" and (container.image is None or (lmi is not None and within(lmi, "15.0.0", ""))):
        yield Contradiction(path, "lmi-dist was removed in LMI 0.33", "write auto")
    if engine == "trtllm" and (container.image is None or lmi is not None):
        found = "the -lmi images have no TensorRT-LLM"
        yield Contradiction(path, found, "write auto, or give container.image of a -tensorrtllm tag")


# DJL Serving's own, in engines/python/setup/djl_python; a name nearly one of these is meant to be it.
_HANDLERS: Final = tuple(
    f"djl_python.{name}"
    for name in (
        "huggingface",
        "tensorrt_llm",
        "transformers_neuronx",
        "sentence_transformers",
        "lmi_vllm.vllm_async_service",
        "lmi_trtllm.trtllm_async_service",
    )
)


def _entry_point(container: LmiContainer) -> Iterator[Contradiction]:
    entry = container.settings.entrypoint
    near = difflib.get_close_matches(entry or "", _HANDLERS, n=1, cutoff=0.9)
    if near and entry not in _HANDLERS:
        found = f"No module named '{entry}': nearly {near[0]}"
        yield Contradiction(("settings", "entrypoint"), found, f"write {near[0]}")
    if entry is not None and not (_MODULE.fullmatch(entry) or _SCRIPT.fullmatch(entry)):
        yield Contradiction(("settings", "entrypoint"), "no Python module and no .py file", "write such as model.py")


def _speculative_contradictions(container: LmiContainer, wanted: vllm.VllmSpeculative) -> Iterator[Contradiction]:
    yield from vllm.speculative_contradictions(wanted, container.settings.tensor_parallel_degree)
    engine = container.settings.rolling_batch
    if engine in ("disable", "trtllm"):
        found = f"rolling_batch {engine} has no vLLM that speculates"
        yield Contradiction(("speculative",), found, "write rolling_batch: auto")


def _published(version: str, request_tokens: int, dynamic: Mapping[str, int] | None) -> dict[str, str]:
    if dynamic is None:
        return {}
    names = {"batch_size": "SERVING_BATCH_SIZE", "max_batch_delay": "SERVING_MAX_BATCH_DELAY"}
    return {"OPTION_ROLLING_BATCH": "disable", **{names[name]: str(value) for name, value in dynamic.items()}}


def _tied_by(container: LmiContainer) -> str | None:
    settings = container.settings
    if settings.rolling_batch not in (None, "auto", "vllm"):
        return "container.settings.rolling_batch"
    return next(
        (f"container.settings.{name}" for name in ("entrypoint", "async_mode") if getattr(settings, name)), None
    )


# Of serving.properties; any other `option.x` is OPTION_X.
_PROPERTIES: Final = {
    "engine": "OPTION_ENGINE",
    "option.model_id": "HF_MODEL_ID",
    "option.revision": "HF_REVISION",
    "option.tensor_parallel_degree": "TENSOR_PARALLEL_DEGREE",
    "batch_size": "SERVING_BATCH_SIZE",
    "max_batch_delay": "SERVING_MAX_BATCH_DELAY",
    "job_queue_size": "SERVING_JOB_QUEUE_SIZE",
}


def _as_variables(properties: str) -> dict[str, str]:
    """The variables that lines `key=value` of a serving.properties stand for; comments and other keys left out."""
    found: dict[str, str] = {}
    for line in properties.splitlines():
        key, _, value = line.partition("=")
        key = key.strip()
        variable = _PROPERTIES.get(key) or (key.replace("option.", "OPTION_", 1).upper() if "option." in key else None)
        if variable is not None and not key.startswith("#"):
            found[variable] = value.strip()
    return found


FAMILY = ContainerFamily(
    name="lmi",
    called="LMI (djl-inference)",
    listed=2,
    preferred=2,
    container=LmiContainer,
    settings=LmiSettings,
    former_variables={
        "OPTION_TENSOR_PARALLEL_DEGREE": "container.settings.tensor_parallel_degree",
        "OPTION_MODEL_ID": "model.id or model.source",
        "OPTION_REVISION": "model.source.revision",
    },
    degree_variables={"OPTION_PIPELINE_PARALLEL_DEGREE": ""},
    model_variables=ModelVariables(
        model="HF_MODEL_ID",
        revision="HF_REVISION",
        trust_remote_code="OPTION_TRUST_REMOTE_CODE",
        dtype="OPTION_DTYPE",
        dtypes={"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"},
        quantization="OPTION_QUANTIZE",
        # djl-serving, LMI starting guide and deployment guide; model data with a configuration of its own goes first.
        looked_up=("HF_MODEL_ID", "OPTION_MODEL_ID", MOUNTED_WEIGHTS),
        unnamed="set HF_MODEL_ID or option.model_id, or give model data",
        loads_s3=True,
        configured_by=ConfigurationFile("serving.properties", _as_variables),
    ),
    quantizations=vllm.QUANTIZATIONS,
    speculation=vllm.speculation_by("OPTION_SPECULATIVE_CONFIG", _speculative_contradictions),
    refusals=(
        vllm.step_refusal("max_rolling_batch_prefill_tokens", "max_rolling_batch_size"),
        Refusal(
            code="LP231",
            title="Rolling and dynamic batching mixed",
            reason="LMI batches continuously (rolling) or by time (dynamic); fields of the other kind are ignored.",
            mend="Use batch_size and max_batch_delay_ms with rolling_batch: disable, max_rolling_batch_* otherwise.",
            check=_batching,
            stops=False,
        ),
        Refusal(
            code="LP233",
            title="Engine the image no longer has",
            reason="LMI 15 (0.33) removed lmi-dist; TensorRT-LLM lives in images of its own up to 0.33.",
            mend="Use auto or vllm, or give an image that has the engine.",
            check=_engine,
        ),
        Refusal(
            code="LP391",
            title="Entry point that is no Python, or nearly a name of DJL Serving's",
            reason="DJL Serving imports it: a module like djl_python.huggingface, or a .py file of the artifact.",
            mend="Name the module or the file, without `..`.",
            check=_entry_point,
        ),
    ),
    protocol="lmi",
    image=PublishedImage("djl-inference", "djl-lmi.json"),
    published=PublishedName(r"\blmi|\bdjl", r"(?:lmi|djl(?:[\s_-]*(?:serving|lmi))?)", "", _published),
    suffixed={"max_model_len": "vllm"},
    words={"tensor_parallel_degree": {"max": None}, "max_model_len": vllm.FITTING},
    longest_setting="max_model_len",
    sequences_setting="max_rolling_batch_size",
    step_tokens_setting="max_rolling_batch_prefill_tokens",
    memory_setting="gpu_memory_utilization",
    memory_share=0.9,
    admission=_QUEUE,
    continuous_batching={"rolling_batch": "auto", "batch_size": None, "max_batch_delay_ms": None},
    tied_by=_tied_by,
    server_row=lambda settings: _DYNAMIC_SERVER if settings.batches_dynamically else "vllm",
    limits=_limits,
    frees_past_window=lambda settings: not settings.batches_dynamically,
    keeps_prompts=lambda settings: not settings.batches_dynamically and settings.enable_prefix_caching is not False,
    alike_since=((0, 33), (15,)),  # vLLM's second engine, since v15 (DJL Serving's 0.33)
    measured_lines=((20,),),
)
