"""One copy of a model on its accelerators: all the planner and the twin need, from a profile or from a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

from loadproof import catalog
from loadproof.capacity.calibrated import calibrated_rows
from loadproof.capacity.servers import FabricRow, ServerRow, fabric_row, server_row
from loadproof.catalog.weights import DTYPE_BYTES, QUANTIZED_BYTES
from loadproof.errors import InputError
from loadproof.profiles.schema import ArchitectureOverride, Calibration, Component, Family, Profile
from loadproof.profiles.settings import accelerators_per_copy as accelerators_of
from loadproof.profiles.settings import (
    components_of,
    frees_past_window,
    quantization_from_variables,
    settings_from_variables,
    tensor_parallel_degree,
)

Scheduler = Literal["prefill_first", "chunked", "dynamic"]

# The row of servers.csv for LMI's dynamic batching: Hugging Face Accelerate instead of an engine of its own.
DYNAMIC_SERVER = "accelerate"
UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What the server lets into a batch. Token counts cover prompt plus answer unless named otherwise.

    `kv_token_capacity` is None until memory is known (`memory.batch_limits` fills it in). `max_request_tokens` and
    `max_input_tokens` are None where the server derives them from the memory it finds. `dynamic` gathers up to
    `max_sequences` requests, waiting `max_batch_delay_ms` from the first one, and answers them together.
    """

    scheduler: Scheduler
    max_sequences: int
    step_prefill_tokens: int
    max_request_tokens: int | None
    max_input_tokens: int | None
    max_admitted_requests: int
    batch_total_tokens: int | None = None
    waiting_served_ratio: float = 0.3
    max_waiting_steps: int = 20
    kv_token_capacity: int | None = None
    max_batch_delay_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """One model on one instance type: `copies` of it, each over `accelerators` accelerators.

    `copies_per_instance` is how many fit by accelerators alone; `cost` uses it for the copy's share of an hour.
    """

    model_id: str
    architecture: catalog.Architecture
    instance: catalog.Instance
    accelerator: catalog.Accelerator
    accelerators: int
    weight_bytes_per_parameter: float
    kv_bytes_per_value: float
    family: Family
    version: str
    server: ServerRow
    fabric: FabricRow
    memory_fraction: float
    limits: BatchLimits
    copies: int
    quantization: str = "none"
    frees_past_window: bool = False  # the server frees what layers with a sliding window no longer read

    @property
    def copies_per_instance(self) -> int:
        return max(1, self.instance.accelerator_count // self.accelerators)


def deployment_of(profile: Profile, component: Component | None = None) -> Deployment:
    """The deployment of one component of a profile (default: the profile's own model), at its fewest copies.

    Raises InputError where the backend has no machines to plan (Bedrock) or the catalog lacks model or instance.
    """
    endpoint = profile.endpoint
    if profile.backend != "sagemaker" or endpoint is None:
        raise InputError(f"{profile.name}: nothing to plan, Bedrock shows no machines; use backend sagemaker")
    component = component or components_of(profile)[0]
    instance_type = endpoint.instance_type or min(endpoint.instance_pools, key=lambda pool: pool.priority).instance_type
    container, model = component.container, component.model
    version = container.version or ("" if container.family == "custom" else _newest(container.family))
    deployment = _deployment(
        family=container.family,
        version=version,
        settings=container.settings,
        model_id=model.id,
        architecture=_architecture(model.id, model.architecture),
        instance_type=instance_type,
        accelerators=min(accelerators_of(component), max(1, tensor_parallel_degree(component))),
        dtype=model.dtype,
        quantization=model.quantization,
        copies=max(1, component.copies.min),
    )
    return deployment if profile.calibration is None else with_calibration(deployment, profile.calibration)


def with_calibration(deployment: Deployment, calibration: Calibration) -> Deployment:
    """The deployment with one's own measurements for its rows; unchanged where they are of another server or chip."""
    measured_on = (calibration.server.family, calibration.accelerator)
    if measured_on != (deployment.family, deployment.accelerator.name):
        return deployment
    server, fabric, accelerator = calibrated_rows(
        calibration, deployment.server, deployment.fabric, deployment.accelerator
    )
    return replace(deployment, server=server, fabric=fabric, accelerator=accelerator)


def deployment_from_container(
    *,
    family: Family,
    version: str,
    variables: Mapping[str, str],
    model_id: str,
    architecture: catalog.Architecture | None,
    instance_type: str,
    accelerators_per_copy: int,
    copies: int,
) -> Deployment:
    """The same from deployed resources: image family and version, environment variables, instance type.

    `architecture` None asks the catalog by `model_id`. Raises InputError for an unknown model, instance type or a
    variable that is no number where one is needed.
    """
    settings = settings_from_variables(family, variables)
    degree = getattr(settings, "tensor_parallel_degree", None) or accelerators_per_copy
    return _deployment(
        family=family,
        version=version,
        settings=settings,
        model_id=model_id,
        architecture=architecture or _architecture(model_id, None),
        instance_type=instance_type,
        accelerators=max(1, min(degree, accelerators_per_copy)),
        dtype=_dtype(variables),
        quantization=quantization_from_variables(family, variables),
        copies=max(1, copies),
    )


def quantized(deployment: Deployment, quantization: str) -> Deployment:
    """The same deployment with weights stored so. Raises InputError for a way nobody knows the size of."""
    if quantization not in ("none", *QUANTIZED_BYTES):
        raise InputError(f"quantization: expected one of none, {', '.join(QUANTIZED_BYTES)}, found `{quantization}`")
    packed_bytes = catalog.bytes_per_parameter(quantization)
    return replace(deployment, quantization=quantization, weight_bytes_per_parameter=packed_bytes)


def architecture_from_tag(text: str) -> catalog.Architecture:
    """`layers=32 hidden=4096 ...` (the tag `loadproof:architecture`) as an Architecture; unnamed fields are 0 or ''.

    Raises InputError naming the word that cannot be read or the field that is missing.
    """
    values: dict[str, Any] = {"source": "tag loadproof:architecture", "quantization": "none"}
    kinds = {field.name: field.type for field in fields(catalog.Architecture)}
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in kinds or not value:
            raise InputError(f"loadproof:architecture: cannot read `{word}`; expected field=number")
        try:
            values[name] = value if kinds[name] == "str" else float(value) if "." in value else int(value)
        except ValueError:
            raise InputError(f"loadproof:architecture: `{word}` is no number; expected field=number") from None
    needed = {"layers", "hidden", "heads", "kv_heads", "head_dim", "parameters_b"}
    if missing := sorted(needed - values.keys()):
        raise InputError(f"loadproof:architecture: {', '.join(missing)} missing; found `{text}`")
    values.setdefault("active_parameters_b", values["parameters_b"])
    values.setdefault("allreduces_per_layer", 2)
    for name, kind in kinds.items():
        values.setdefault(name, "" if kind == "str" else 0)
    return catalog.Architecture(**values)


def _deployment(
    *,
    family: Family,
    version: str,
    settings: Any,
    model_id: str,
    architecture: catalog.Architecture,
    instance_type: str,
    accelerators: int,
    dtype: str,
    quantization: str,
    copies: int,
) -> Deployment:
    instance = catalog.instance(instance_type)
    if accelerators > instance.accelerator_count:
        raise InputError(
            f"{instance_type} has {instance.accelerator_count} accelerators, one copy asks for {accelerators}; "
            "lower the tensor parallel degree or take a larger instance"
        )
    accelerator = catalog.accelerator(instance.accelerator)
    server = server_row(DYNAMIC_SERVER if batches_dynamically(settings) else family, version)
    return Deployment(
        model_id=model_id,
        architecture=architecture,
        instance=instance,
        accelerator=accelerator,
        accelerators=accelerators,
        weight_bytes_per_parameter=catalog.bytes_per_parameter(quantization, dtype),
        kv_bytes_per_value=1.0 if getattr(settings, "kv_cache_dtype", None) == "fp8" else DTYPE_BYTES[dtype],
        family=family,
        version=version,
        server=server,
        fabric=fabric_row(instance.fabric, accelerators, family),
        memory_fraction=_memory_fraction(settings) or server.memory_fraction,
        limits=_limits(family, settings, architecture, accelerator),
        copies=copies,
        quantization=quantization,
        frees_past_window=frees_past_window(family, settings),
    )


def _limits(
    family: Family, settings: Any, architecture: catalog.Architecture, accelerator: catalog.Accelerator
) -> BatchLimits:
    """The settings, and the family's own default where one is unset.

    Sources: TGI's launcher arguments (3.x); the LMI user guide (256 sequences, 1,000 requests in the job queue);
    vLLM's engine arguments, whose defaults SGLang and custom servers are given too for want of better.
    """
    if family == "tgi":
        longest_input = settings.max_input_tokens
        return BatchLimits(
            scheduler="prefill_first",
            max_sequences=UNLIMITED,
            step_prefill_tokens=settings.max_batch_prefill_tokens or (longest_input + 50 if longest_input else 4096),
            max_request_tokens=settings.max_total_tokens,
            max_input_tokens=longest_input,
            max_admitted_requests=settings.max_concurrent_requests or 128,
            batch_total_tokens=settings.max_batch_total_tokens,
            waiting_served_ratio=settings.waiting_served_ratio or 0.3,
            max_waiting_steps=settings.max_waiting_tokens or 20,
        )
    # vLLM takes large batches by default where memory is large, except on the A100, where they cost throughput.
    large = accelerator.memory_bytes >= 70 << 30 and not accelerator.name.startswith("A100")
    sequences, step_tokens, admitted = (1024 if large else 256), (8192 if large else 2048), UNLIMITED
    longest = None
    if batches_dynamically(settings):
        return _dynamic_limits(settings, architecture)
    if family == "lmi":
        sequences = settings.max_rolling_batch_size or 256
        step_tokens = settings.max_rolling_batch_prefill_tokens or step_tokens
        longest = settings.max_model_len
        admitted = sequences + (settings.job_queue_size or 1000)
    elif family == "vllm":
        sequences = settings.max_num_seqs or sequences
        step_tokens = settings.max_num_batched_tokens or step_tokens
        longest = settings.max_model_len
    elif family == "sglang":
        sequences = settings.max_running_requests or sequences
        step_tokens = settings.chunked_prefill_size or step_tokens
        longest = settings.context_length
    return BatchLimits(
        scheduler="chunked",
        max_sequences=sequences,
        step_prefill_tokens=step_tokens,
        max_request_tokens=longest or architecture.context or None,
        max_input_tokens=None,
        max_admitted_requests=admitted,
    )


def batches_dynamically(settings: Any) -> bool:
    """LMI with `rolling_batch: disable` gathers whole batches instead of letting requests join a running one."""
    return getattr(settings, "rolling_batch", None) == "disable"


def _dynamic_limits(settings: Any, architecture: catalog.Architecture) -> BatchLimits:
    """DJL Serving's own defaults: batches of 1, 100 ms of delay, 1,000 jobs queued before it answers 503."""
    batch_size = settings.batch_size or 1
    delay_ms = settings.max_batch_delay_ms
    return BatchLimits(
        scheduler="dynamic",
        max_sequences=batch_size,
        step_prefill_tokens=2048,  # only sizes the activations: a batch's prompts are computed in one step
        max_request_tokens=settings.max_model_len or architecture.context or None,
        max_input_tokens=None,
        max_admitted_requests=batch_size + (settings.job_queue_size or 1000),
        max_batch_delay_ms=100.0 if delay_ms is None else float(delay_ms),
    )


def _memory_fraction(settings: Any) -> float | None:
    for name in ("gpu_memory_utilization", "mem_fraction_static", "cuda_memory_fraction"):
        if (value := getattr(settings, name, None)) is not None:
            return cast(float, value)
    return None


def _dtype(variables: Mapping[str, str]) -> str:
    """fp32 where a variable says so; the 16-bit types weigh the same, and are what servers choose by themselves."""
    names = ("DTYPE", "OPTION_DTYPE", "SM_VLLM_DTYPE", "SM_SGLANG_DTYPE")
    return "fp32" if any(variables.get(name, "").endswith("32") for name in names) else "bf16"


def _architecture(model_id: str, override: ArchitectureOverride | None) -> catalog.Architecture:
    if override is not None:
        return override.shape(model_id)
    found = catalog.architecture(model_id)
    if found is None:
        raise InputError(
            f"the catalog does not know the shape of `{model_id}`; give model.config_json, or model.architecture "
            "(the fields of the model's config.json)"
        )
    return found


def _newest(family: Family) -> str:
    return catalog.container_image(family).version
