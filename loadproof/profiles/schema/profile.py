"""The whole profile, and what only Bedrock has."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.profiles.schema.calibration import Calibration
from loadproof.profiles.schema.container import Container
from loadproof.profiles.schema.endpoint import Adapter, Copies, Endpoint
from loadproof.profiles.schema.model import Model
from loadproof.profiles.schema.proving import Benchmark, Buffer, Objectives
from loadproof.profiles.schema.scaling import Scaling
from loadproof.profiles.schema.workload import Workload, WorkloadName
from loadproof.vocabulary import Acknowledged, Fraction, Name, Part, PositiveInt


class ProvisionedThroughput(Part):
    """Model units of one's own, billed by the hour whether used or not."""

    model_units: PositiveInt
    commitment: Literal["none", "one_month", "six_months"] = Field(
        default="none", description="until it ends, AWS refuses to delete the throughput, and bills it"
    )


class Bedrock(Part):
    """A model that Bedrock hosts: no container, no instances."""

    inference_profile: Literal["none", "us", "eu", "au", "apac", "global"] = Field(
        default="none", description="cross-region inference profile prefix"
    )
    service_tier: Literal["default", "priority", "flex", "reserved"] = Field(
        default="default", description="sent with every request of ours; it is not a property of what is deployed"
    )
    provisioned_throughput: ProvisionedThroughput | None = Field(
        default=None, description="instead of an application inference profile on the account's quotas"
    )
    max_concurrency: PositiveInt = Field(default=8, description="the most requests in flight at once")
    quota_alarm_share: Fraction | None = Field(
        default=0.8,
        description="alarm past this share of the account's tokens per minute for the model; null: no alarm, and the "
        "quota is not looked up",
    )


class Component(Part):
    """A further model on the same endpoint, with its own container, copies and scaling."""

    name: Name
    model: Model
    container: Container
    copies: Copies = Field(default_factory=Copies.model_construct)
    scaling: Scaling | None = None
    adapters: tuple[Adapter, ...] = ()


if TYPE_CHECKING:
    Shape = Workload  # once it is read
else:
    Shape = Workload | WorkloadName


class Profile(Part):
    """One LLM endpoint: what `cdk deploy` provisions and `loadproof bench` proves."""

    name: Name = Field(description="names the stack and its resources; renaming replaces them all")
    description: Annotated[str, StringConstraints(max_length=500)] | None = None
    backend: Literal["sagemaker", "bedrock"] = "sagemaker"
    model: Model
    container: Container | None = Field(default=None, description="required for backend sagemaker")
    endpoint: Endpoint | None = Field(default=None, description="required for backend sagemaker")
    copies: Copies = Field(default_factory=Copies.model_construct)
    scaling: Scaling | None = None
    adapters: tuple[Adapter, ...] = ()
    components: tuple[Component, ...] = Field(default=(), description="further models on the same endpoint")
    bedrock: Bedrock | None = None
    buffer: Buffer | None = None
    objectives: Objectives
    workload: Shape = Field(
        description="what requests look like, or the name of a published shape; with a dataset, lengths are what "
        "the planner reckons with"
    )
    benchmark: Benchmark = Field(default_factory=Benchmark.model_construct)
    calibration: Calibration | None = Field(
        default=None, description="calibration file from `loadproof calibrate`, relative to this one"
    )
    acknowledged: Acknowledged = Field(
        default_factory=dict,
        description="rules over templates (docs/template-checks.md) accepted here, each with the reason",
    )

    def model_post_init(self, context: object) -> None:
        """The workload, where only its name is given."""
        named = self.__dict__.get("workload")
        if isinstance(named, str):
            self.__dict__["workload"] = Workload.model_construct({"name"}, name=named)
