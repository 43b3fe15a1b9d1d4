"""The deploy profile, typed and strict: every key an operator may write, with unit, bounds and meaning.

The models are frozen and forbid unknown keys; strict mode means no value is converted silently. Positions, YAML
pitfalls and cross-field rules live beside this file (`loader.py`, `checks.py`). `deploy_profiles/schema.json` is
generated from here, and so are the container's environment variables: a setting names its variable in `setting()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# ---------------------------------------------------------------------------------------------------------------
# Vocabulary


@dataclass(frozen=True, slots=True)
class Form:
    """A text's pattern in words, for messages: `a lower-case name such as chat-8b`."""

    words: str
    example: str


Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40),
    Form("lower-case letters, digits and single hyphens, a letter first", "chat-8b"),
]
InstanceType = Annotated[
    str,
    StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$", max_length=40),
    Form("a SageMaker instance type", "ml.g5.2xlarge"),
]
S3Uri = Annotated[
    str,
    StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/\S*$", max_length=1024),
    Form("an S3 address", "s3://bucket/prefix/"),
]
Arn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:[0-9]{0,12}:\S+$", max_length=2048),
    Form("an ARN", "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-a1b2c3"),
]
CommitHash = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{40}$"),
    Form("a commit of 40 hexadecimal digits", "0123456789abcdef0123456789abcdef01234567"),
]
EnvironmentName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,1023}$"),
    Form("a variable name of letters, digits and underscores", "OMP_NUM_THREADS"),
]
EnvironmentValue = Annotated[str, StringConstraints(max_length=1024)]
PositiveInt = Annotated[int, Field(ge=1)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

Family = Literal["tgi", "lmi", "vllm", "sglang", "custom"]
Protocol = Literal["tgi", "lmi", "openai"]
Dtype = Literal["bf16", "fp16", "fp32"]
Quantization = Literal["none", "fp8", "int8", "awq", "gptq", "mxfp4"]


class Part(BaseModel):
    """Base of every part of a profile."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def setting(variable: str, description: str, **bounds: Any) -> Any:
    """An optional container setting: `variable` is the container's own environment variable for it."""
    return Field(default=None, description=description, json_schema_extra={"variable": variable}, **bounds)


# ---------------------------------------------------------------------------------------------------------------
# Model


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


# ---------------------------------------------------------------------------------------------------------------
# Container


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
    speculative_config: str | None = setting("OPTION_SPECULATIVE_CONFIG", "speculative decoding, as vLLM's JSON")
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
    speculative_config: str | None = setting("SM_VLLM_SPECULATIVE_CONFIG", "speculative decoding, as vLLM's JSON")


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
    speculative_algorithm: str | None = setting("SM_SGLANG_SPECULATIVE_ALGORITHM", "speculative decoding algorithm")


class CustomSettings(Part):
    """A container of your own that follows SageMaker's contract (/ping and /invocations on 8080)."""

    protocol: Protocol = Field(description="payloads the container speaks")
    tensor_parallel_degree: PositiveInt | None = Field(
        default=None, description="accelerators one copy shards over (for the planner; set your own variable too)"
    )


class _Container(Part):
    version: str | None = Field(default=None, description="server version from the catalog; default: its newest")
    image: str | None = Field(
        default=None, description="image URI with tag or digest, instead of the catalog's (never :latest)"
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


class VllmContainer(_Container):
    family: Literal["vllm"]
    settings: VllmSettings = Field(default_factory=VllmSettings)


class SglangContainer(_Container):
    family: Literal["sglang"]
    settings: SglangSettings = Field(default_factory=SglangSettings)


class CustomContainer(_Container):
    family: Literal["custom"]
    image: str = Field(description="image URI with tag or digest (never :latest)")
    settings: CustomSettings


Container = Annotated[
    TgiContainer | LmiContainer | VllmContainer | SglangContainer | CustomContainer, Field(discriminator="family")
]

# ---------------------------------------------------------------------------------------------------------------
# Endpoint and copies


class InstancePool(Part):
    """One of up to five instance types an endpoint may be filled from; 1 is tried first, released last."""

    instance_type: InstanceType
    priority: Annotated[int, Field(ge=1, le=5)]


class Routing(Part):
    """How SageMaker picks the copy for a request."""

    strategy: Literal["least_outstanding_requests", "random", "prefix_aware"] = "least_outstanding_requests"
    prefix_length_bytes: Annotated[int, Field(ge=1024, le=65536)] | None = Field(
        default=None, description="prefix compared by prefix_aware, in bytes"
    )
    concurrency_threshold: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="outstanding requests past which prefix_aware spreads"
    )


class ScaleInPolicy(Part):
    """When managed instance scaling releases instances."""

    strategy: Literal["idle_release", "consolidation"] = "idle_release"
    max_step_instances: Annotated[int, Field(ge=1, le=100)] = 1
    cooldown_min: Annotated[int, Field(ge=5, le=1440)] = 20


class CapacityReservation(Part):
    """An ML capacity reservation (training plan) the instances come from."""

    arn: Arn


class AsyncInference(Part):
    """SageMaker asynchronous inference instead of real time (plain variants only)."""

    output_s3_uri: S3Uri
    failure_s3_uri: S3Uri | None = None
    max_concurrent_invocations_per_instance: Annotated[int, Field(ge=1, le=1000)] | None = None


class DataCapture(Part):
    """Requests and answers copied to S3."""

    s3_uri: S3Uri
    sampling_percent: Annotated[int, Field(ge=1, le=100)] = 100


Ami = Literal[
    "al2-ami-sagemaker-inference-gpu-2",
    "al2-ami-sagemaker-inference-gpu-2-1",
    "al2-ami-sagemaker-inference-gpu-3-1",
    "al2023-ami-sagemaker-inference-gpu-4-1",
    "al2-ami-sagemaker-inference-neuron-2",
]


class Endpoint(Part):
    """The machines under the copies."""

    hosting: Literal["inference_components", "plain_variant"] = Field(
        default="inference_components",
        description="inference components give copies per instance, scale to zero and rolling updates",
    )
    instance_type: InstanceType | None = Field(default=None, description="one type; or use instance_pools")
    instance_pools: Annotated[tuple[InstancePool, ...], Field(max_length=5)] = ()
    min_instances: Annotated[int, Field(ge=0)] = 1
    max_instances: PositiveInt = 1
    routing: Routing = Field(default_factory=Routing)
    scale_in: ScaleInPolicy | None = None
    model_download_timeout_s: Annotated[int, Field(ge=60, le=3600)] = 1800
    container_startup_timeout_s: Annotated[int, Field(ge=60, le=3600)] = 1800
    ami_version: Ami | None = Field(default=None, description="host image; default: what the container image needs")
    volume_gib: Annotated[int, Field(ge=1, le=512)] | None = Field(
        default=None, description="EBS volume; only for instance types without local disk"
    )
    capacity_reservation: CapacityReservation | None = None
    network_isolation: bool = Field(
        default=True, description="no outbound network for the container; must be false for hub sources"
    )
    async_inference: AsyncInference | None = None
    data_capture: DataCapture | None = None


class Adapter(Part):
    """A LoRA adapter served on top of a component's base model."""

    name: Name
    s3_uri: S3Uri = Field(description="tar.gz with the adapter's weights")


class Copies(Part):
    """How many model replicas run, and what each one takes of its instance."""

    min: Annotated[int, Field(ge=0)] = Field(default=1, description="fewest copies; 0 needs scaling.to_zero")
    max: PositiveInt = Field(default=1, description="most copies")
    accelerators_per_copy: PositiveInt | None = Field(
        default=None, description="accelerators of one copy; default: the tensor parallel degree, else 1"
    )
    cpus_per_copy: Annotated[float, Field(ge=0.25)] | None = Field(
        default=None, description="vCPUs of one copy; default: left to SageMaker"
    )
    memory_mib_per_copy: Annotated[int, Field(ge=128)] = Field(
        default=4096, description="host memory reserved for one copy, in MiB"
    )
    data_cache: bool = Field(default=True, description="keep weights and image on the instance for faster copies")
    placement: Literal["spread", "binpack"] | None = None


# ---------------------------------------------------------------------------------------------------------------
# Scaling

ScalingMetric = Literal[
    "concurrent_requests_per_copy",
    "invocations_per_copy",
    "concurrent_requests_per_model",
    "invocations_per_instance",
    "backlog_per_copy",
]


class TargetTracking(Part):
    """Keeps a metric at a target, like a thermostat."""

    type: Literal["target_tracking"]
    metric: ScalingMetric
    target: PositiveNumber | Literal["auto"] = Field(description="a number, or auto: derived from the plan's knee")
    scale_out_cooldown_s: Annotated[int, Field(ge=0)] = 60
    scale_in_cooldown_s: Annotated[int, Field(ge=0)] = 300
    scale_in: bool = Field(default=True, description="false: this policy only ever adds copies")


class Step(Part):
    """One row of a step policy: from `at` (above the alarm's threshold) add `add_copies`."""

    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    add_copies: int


class StepScaling(Part):
    """Adds (or removes) a fixed number of copies when an alarm fires."""

    type: Literal["step"]
    metric: ScalingMetric
    threshold: PositiveNumber
    comparison: Literal["above", "below"] = "above"
    evaluation_periods: PositiveInt = 1
    period_s: Literal[10, 20, 30, 60, 120, 300] = 60
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20)]
    cooldown_s: Annotated[int, Field(ge=0)] = 60


class ScheduledScaling(Part):
    """Moves the bounds at a time known in advance."""

    type: Literal["scheduled"]
    name: Name
    schedule: Annotated[
        str,
        StringConstraints(pattern=r"^(at|rate|cron)\(.+\)$", max_length=256),
        Form("an at(...), rate(...) or cron(...) expression", "cron(0 8 ? * MON-FRI *)"),
    ]
    timezone: str = "UTC"
    min_copies: Annotated[int, Field(ge=0)] | None = None
    max_copies: Annotated[int, Field(ge=0)] | None = None


class ToZero(Part):
    """Down to no copy and no instance when idle, and back when a request arrives."""

    wake_on_failed_invocation: bool = Field(
        default=True, description="add the first copy when a request found no capacity"
    )
    wake_on_backlog: bool = Field(default=False, description="add the first copy when the buffer holds messages")
    wake_cooldown_s: Annotated[int, Field(ge=0)] = 60


class Scaling(Part):
    """How the number of copies follows the load. Without it the count stays at copies.min."""

    policies: tuple[Annotated[TargetTracking | StepScaling | ScheduledScaling, Field(discriminator="type")], ...] = ()
    to_zero: ToZero | None = None


# ---------------------------------------------------------------------------------------------------------------
# Buffer, objectives, workload, benchmark


class Buffer(Part):
    """An SQS queue in front of the endpoint, so that no request is dropped while copies start."""

    enabled: bool = True
    invocation_timeout_s: Annotated[int, Field(ge=1, le=900)] = Field(
        default=300, description="longest time for one answer; the consumer streams, so SageMaker's 60 s does not bind"
    )
    visibility_timeout_s: Annotated[int, Field(ge=1, le=43200)] | None = Field(
        default=None, description="default: 6 x the function's timeout, as Lambda asks"
    )
    max_receive_count: Annotated[int, Field(ge=1, le=1000)] = 5
    max_concurrency: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=2, description="consumers at work at once (MaximumConcurrency of the event source)"
    )
    batch_size: Annotated[int, Field(ge=1, le=10)] = 1
    retention_s: Annotated[int, Field(ge=60, le=1209600)] = 1209600
    max_message_bytes: Annotated[int, Field(ge=1024, le=1048576)] = 1048576


class Objectives(Part):
    """Bounds the endpoint must meet at `at_concurrency`; latency from the intended send time."""

    at_concurrency: PositiveInt = Field(description="requests in flight at which the bounds must hold")
    ttft_p50_ms: PositiveNumber | None = None
    ttft_p90_ms: PositiveNumber | None = None
    ttft_p95_ms: PositiveNumber | None = None
    ttft_p99_ms: PositiveNumber | None = None
    itl_p50_ms: PositiveNumber | None = None
    itl_p90_ms: PositiveNumber | None = None
    itl_p95_ms: PositiveNumber | None = None
    itl_p99_ms: PositiveNumber | None = None
    tpot_p50_ms: PositiveNumber | None = None
    tpot_p90_ms: PositiveNumber | None = None
    tpot_p95_ms: PositiveNumber | None = None
    tpot_p99_ms: PositiveNumber | None = None
    e2e_p50_ms: PositiveNumber | None = None
    e2e_p90_ms: PositiveNumber | None = None
    e2e_p95_ms: PositiveNumber | None = None
    e2e_p99_ms: PositiveNumber | None = None
    error_rate_max: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = Field(
        default=None, description="share of requests that may fail: 0.01 is 1%"
    )
    output_tokens_per_s_min: PositiveNumber | None = None
    requests_per_s_min: PositiveNumber | None = None


class TokenDistribution(Part):
    """A distribution of token counts, cut to [min, max]."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform"]
    mean: PositiveNumber | None = None
    stddev: PositiveNumber | None = None
    min: PositiveInt = 1
    max: PositiveInt | None = None


class Arrivals(Part):
    """When requests are sent: closed (a fixed number in flight) or open (a rate)."""

    process: Literal["closed", "constant", "poisson", "gamma"] = "closed"
    requests_per_s: PositiveNumber | None = None
    burstiness: PositiveNumber | None = None


class Workload(Part):
    """What requests look like."""

    input_tokens: PositiveInt | TokenDistribution
    output_tokens: PositiveInt | TokenDistribution
    streaming: bool = True
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = 0
    arrivals: Arrivals = Field(default_factory=Arrivals)


class Benchmark(Part):
    """What the companion job does after a deployment."""

    concurrency: Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=32)] = (1, 2, 4, 8)
    requests_per_level: PositiveInt = 32
    warmup_requests: Annotated[int, Field(ge=0)] = 4
    request_timeout_s: PositiveNumber = 120
    seed: Annotated[int, Field(ge=0)] = 0
    gate: Literal["none", "alarm", "rollback"] = Field(
        default="none", description="what a missed objective does to a deployment"
    )


# ---------------------------------------------------------------------------------------------------------------
# Bedrock and the whole


class ProvisionedThroughput(Part):
    model_units: PositiveInt
    commitment: Literal["none", "one_month", "six_months"] = "none"


class Bedrock(Part):
    """A model that Bedrock hosts: no container, no instances."""

    inference_profile: Literal["none", "us", "eu", "au", "apac", "global"] = Field(
        default="none", description="cross-region inference profile prefix"
    )
    service_tier: Literal["default", "priority", "flex", "reserved"] = "default"
    provisioned_throughput: ProvisionedThroughput | None = None
    max_concurrency: PositiveInt = 8


class Component(Part):
    """A further model on the same endpoint, with its own container, copies and scaling."""

    name: Name
    model: Model
    container: Container
    copies: Copies = Field(default_factory=Copies)
    scaling: Scaling | None = None
    adapters: tuple[Adapter, ...] = ()


class Profile(Part):
    """One LLM endpoint: what `cdk deploy` provisions and `loadproof bench` proves."""

    name: Name = Field(description="names the stack and its resources; renaming replaces them all")
    description: Annotated[str, StringConstraints(max_length=500)] | None = None
    backend: Literal["sagemaker", "bedrock"] = "sagemaker"
    model: Model
    container: Container | None = Field(default=None, description="required for backend sagemaker")
    endpoint: Endpoint | None = Field(default=None, description="required for backend sagemaker")
    copies: Copies = Field(default_factory=Copies)
    scaling: Scaling | None = None
    adapters: tuple[Adapter, ...] = ()
    components: tuple[Component, ...] = Field(default=(), description="further models on the same endpoint")
    bedrock: Bedrock | None = None
    buffer: Buffer | None = None
    objectives: Objectives
    workload: Workload
    benchmark: Benchmark = Field(default_factory=Benchmark)


# ---------------------------------------------------------------------------------------------------------------
# Environment (deploy_profiles/<environment>/environment.yaml)


class Network(Part):
    """The VPC the containers and the consumer run in."""

    vpc_id: Annotated[
        str, StringConstraints(pattern=r"^vpc-[0-9a-f]{8,17}$"), Form("a VPC id", "vpc-0123456789abcdef0")
    ]
    subnet_ids: Annotated[
        tuple[
            Annotated[
                str,
                StringConstraints(pattern=r"^subnet-[0-9a-f]{8,17}$"),
                Form("a subnet id", "subnet-0123456789abcdef0"),
            ],
            ...,
        ],
        Field(min_length=1),
    ]
    security_group_ids: Annotated[
        tuple[
            Annotated[
                str,
                StringConstraints(pattern=r"^sg-[0-9a-f]{8,17}$"),
                Form("a security group id", "sg-0123456789abcdef0"),
            ],
            ...,
        ],
        Field(min_length=1),
    ]


class Environment(Part):
    """What `cdk deploy -c env=<folder>` is pointed at."""

    account: Annotated[
        str, StringConstraints(pattern=r"^[0-9]{12}$"), Form("twelve digits in quotes", "123456789012")
    ] = Field(description="twelve digits, quoted")
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$"), Form("an AWS region", "us-east-1")]
    network: Network | None = None
    kms_key_arn: Arn | None = Field(default=None, description="key for volumes, queues, results and logs")
    alarm_topic_arn: Arn | None = Field(default=None, description="SNS topic that alarms notify")
    log_retention_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = 30
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = Field(default_factory=dict)
