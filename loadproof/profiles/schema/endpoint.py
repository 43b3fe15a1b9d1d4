"""Where it runs: the machines of an endpoint, and the copies on them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loadproof.profiles.schema.vocabulary import Arn, InstanceType, Name, Part, PositiveInt, S3Uri


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
