"""Where it runs: the machines of an endpoint, and the copies on them."""

from typing import Annotated, Literal

from pydantic import Field

from loadproof.vocabulary import Arn, InstanceType, Name, Part, PositiveInt, S3Uri


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

    input_s3_uri: S3Uri = Field(description="prefix under which callers put requests: the endpoint's role reads them")
    output_s3_uri: S3Uri
    failure_s3_uri: S3Uri | None = None
    success_topic_arn: Arn | None = Field(default=None, description="SNS topic notified of every answer")
    error_topic_arn: Arn | None = Field(default=None, description="SNS topic notified of every failure")
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


_WaitS = Annotated[int, Field(ge=0, le=3600)]
_ExecutionS = Annotated[int, Field(ge=600, le=28800)]
_BatchPercent = Annotated[int, Field(ge=5, le=50)]
_RollbackPercent = Annotated[int, Field(ge=5, le=100)]


class _Update(Part):
    """What every way of updating has. Ten minutes let an alarm see three bad minutes out of five, twice."""

    wait_s: _WaitS = Field(default=600, description="how long the alarms are watched after each step, in seconds")
    max_execution_s: _ExecutionS | None = Field(
        default=None, description="the update is rolled back when it takes longer, in seconds; default: SageMaker's"
    )
    rollback_on_alarms: bool = Field(
        default=True,
        description="roll back when an alarm of this profile's objectives fires; SageMaker starts no update while "
        "one fires, so write false to mend an endpoint that is already bad",
    )


class BlueGreenUpdate(_Update):
    """A second fleet beside the first: traffic moves over, then the first goes."""

    type: Literal["blue_green"]
    traffic: Literal["all_at_once", "canary", "linear"] = Field(
        default="all_at_once", description="in one step, a first small step, or equal steps"
    )
    step_percent: Annotated[int, Field(ge=1, le=50)] | None = Field(
        default=None,
        description="share of the fleet that a canary's first step (1..50) or each linear step (10..50) has",
    )
    termination_wait_s: _WaitS = Field(
        default=480,
        description="how long the old fleet stays when all traffic has moved, in seconds; the longest stream takes 480",
    )


class RollingUpdate(_Update):
    """Batch after batch: a new one starts, takes its traffic, and the old one goes."""

    type: Literal["rolling"]
    batch_percent: _BatchPercent = Field(default=50, description="share of the instances in one batch")
    rollback_batch_percent: _RollbackPercent | None = Field(
        default=None, description="share of the instances in one batch of the way back; default: all at once"
    )


class CopiesUpdate(_Update):
    """How the copies of a component are exchanged for new ones: batch after batch."""

    batch_percent: _BatchPercent | None = Field(
        default=None, description="share of the copies in one batch; default 50, where batch_copies is not given"
    )
    batch_copies: PositiveInt | None = Field(
        default=None, description="copies in one batch, at most half of them, instead of batch_percent"
    )
    rollback_batch_percent: _RollbackPercent | None = Field(
        default=None, description="share of the copies in one batch of the way back; default: all at once"
    )


class Metrics(Part):
    """What SageMaker publishes beyond its free metrics. CloudWatch bills each further metric by the month."""

    detailed: bool = Field(
        default=True,
        description="GPU metrics of each copy, host metrics of each instance, the server's own Prometheus metrics, "
        "copies in each zone (SageMaker's own default since 2026-06-17)",
    )
    enhanced: bool = Field(default=False, description="utilization and invocations of each instance and container")
    period_s: Literal[10, 30, 60, 120, 180, 240, 300] = Field(default=60, description="seconds between data points")


class Endpoint(Part):
    """The machines under the copies."""

    hosting: Literal["inference_components", "plain_variant"] = Field(
        default="inference_components",
        description="inference components give copies per instance, scale to zero and rolling updates",
    )
    instance_type: InstanceType | None = Field(
        default=None,
        description="one type; or use instance_pools. Of a scaled plain variant it changes in three deployments: "
        "docs/scaling.md, -c pause_scaling",
    )
    instance_pools: Annotated[tuple[InstancePool, ...], Field(max_length=5)] = ()
    instance_wait_s: Annotated[int, Field(ge=300, le=3600)] | None = Field(
        default=None, description="how long to wait for instances of a type that has none before the next pool is tried"
    )
    min_instances: Annotated[int, Field(ge=0)] = 1
    max_instances: PositiveInt = 1
    routing: Routing = Field(default_factory=Routing.model_construct)
    scale_in: ScaleInPolicy | None = None
    model_download_timeout_s: Annotated[int, Field(ge=60, le=3600)] = 1800
    container_startup_timeout_s: Annotated[int, Field(ge=60, le=3600)] = 1800
    ami_version: Ami | None = Field(default=None, description="host image; default: what the container image needs")
    volume_gib: Annotated[int, Field(ge=1, le=512)] | None = Field(
        default=None, description="EBS volume; only for instance types without local disk"
    )
    capacity_reservation: CapacityReservation | None = None
    network_isolation: bool = Field(
        default=True, description="no network for the container; false lets the server fetch weights of the hub itself"
    )
    async_inference: AsyncInference | None = None
    data_capture: DataCapture | None = None
    update: Annotated[BlueGreenUpdate | RollingUpdate, Field(discriminator="type")] | None = Field(
        default=None,
        description="how a plain variant moves to a new configuration; default: rolling from two instances on, "
        "blue_green with one. Components have copies.update",
    )
    metrics: Metrics = Field(default_factory=Metrics.model_construct)


class Adapter(Part):
    """A LoRA adapter served on top of a component's base model."""

    name: Name
    s3_uri: S3Uri = Field(description="tar.gz with the adapter's weights")
    rank: PositiveInt | None = Field(
        default=None, description="`r` of its adapter_config.json; the server gets the largest, where it is above 16"
    )


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
        default=1024,
        description="host memory reserved for one copy, in MiB; a floor, not a limit. SageMaker keeps a share of the "
        "machine: an ml.g5.xlarge (16 GiB) has been seen to take 1024 and to refuse 4096",
    )
    data_cache: bool = Field(default=True, description="keep weights and image on the instance for faster copies")
    placement: Literal["spread", "binpack"] | None = None
    update: CopiesUpdate | None = Field(
        default=None,
        description="how copies are exchanged for new ones; default: rolling, half of them at once, where min is 2 or "
        "more. One copy has no half: SageMaker starts the new one beside the old one",
    )
