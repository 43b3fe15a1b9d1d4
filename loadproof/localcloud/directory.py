"""What the runtime may know about the control plane: a read-only view, looked up anew for each request.

The control plane (`controlplane`) implements `Directory`; the runtime (`runtime`) reads it. Names, statuses and
counts are AWS's own, so that a template that forgets something behaves here as it would there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ContainerView:
    """What SageMaker would start: nothing here comes from a profile, only from deployed resources."""

    image: str
    environment: Mapping[str, str]
    model_data_s3_uri: str | None
    tags: Mapping[str, str]  # of the Model or component; `loadproof:model-id` names the model for the twin
    ami_version: str | None = None  # InferenceAmiVersion of its variant; None: SageMaker's default host
    adapter: bool = False  # requests are for an adapter that the container was asked to load
    adapter_name: str | None = None  # as SageMaker names it to the container: its component's name


@dataclass(frozen=True, slots=True)
class GroupView:
    """Copies that are all alike. `following`: they belong to what a deployment is moving to."""

    container: ContainerView
    instance_type: str
    accelerators_per_copy: int
    copies: int
    generation: int
    following: bool = False


@dataclass(frozen=True, slots=True)
class ComponentView:
    """One inference component. `copies` is the number in service now, not the desired one.

    `groups` is empty unless copies differ: on the instance types of pools, or before and after a deployment, which
    sends `following_share` (0 to 1) of the requests to the copies that follow.
    """

    name: str
    endpoint_name: str
    variant_name: str
    status: str  # Creating | InService | Updating | Failed | Deleting
    copies: int
    accelerators_per_copy: int
    instance_type: str
    container: ContainerView
    generation: int  # grows when the container must be started anew (image, environment, size)
    groups: tuple[GroupView, ...] = ()
    following_share: float = 0.0


@dataclass(frozen=True, slots=True)
class VariantView:
    """One production variant. `container` is None on a variant that hosts inference components.

    `groups` and `following_share` as for a component; a plain variant has one copy an instance.
    """

    name: str
    instance_type: str
    instances: int
    container: ContainerView | None
    generation: int
    routing_strategy: str = "RANDOM"  # RoutingConfig.RoutingStrategy; AWS's default when the config names none
    weight: float = 1.0  # share of the endpoint's traffic: weight / sum of all variants' weights
    groups: tuple[GroupView, ...] = ()
    following_share: float = 0.0


@dataclass(frozen=True, slots=True)
class AsynchronousView:
    """Where an asynchronous endpoint's answers go, and how many requests an instance takes at once."""

    output_uri: str
    failure_uri: str | None
    success_topic: str | None
    error_topic: str | None
    kms_key_id: str | None
    max_concurrent_per_instance: int | None


@dataclass(frozen=True, slots=True)
class CaptureView:
    """Which requests and answers are kept, and where."""

    sampling_percentage: int
    destination_uri: str
    kms_key_id: str | None
    captures_input: bool
    captures_output: bool
    csv_types: frozenset[str]
    json_types: frozenset[str]


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One endpoint. `asynchronous` and `capture` are None where they are not configured."""

    name: str
    status: str  # Creating | InService | Updating | RollingBack | Failed | Deleting
    variants: tuple[VariantView, ...]
    component_names: tuple[str, ...]
    asynchronous: AsynchronousView | None = None
    capture: CaptureView | None = None


class RecordMetric(Protocol):
    """Puts one CloudWatch datum as the service itself would; `at_s` on the cloud's clock, None for now.

    `count`: how often the value came.
    """

    def __call__(
        self,
        namespace: str,
        name: str,
        value: float,
        dimensions: Mapping[str, str],
        *,
        unit: str = "None",
        at_s: float | None = None,
        count: float = 1.0,
    ) -> None: ...


class Directory(Protocol):
    """Thread-safe look-ups; None where AWS would say the thing does not exist."""

    def endpoint(self, name: str) -> EndpointView | None: ...

    def component(self, name: str) -> ComponentView | None: ...

    def endpoints(self) -> tuple[EndpointView, ...]: ...

    @property
    def record_metric(self) -> RecordMetric: ...

    def fail_component(self, name: str, reason: str) -> None:
        """A container could not be started: the component becomes Failed with this FailureReason."""
        ...
