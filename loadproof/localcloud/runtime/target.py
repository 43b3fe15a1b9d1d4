"""From an invocation's path and headers to the copies that may answer it, or to SageMaker's own refusal."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from botocore.model import Shape
from moto.core.utils import get_service_model

from loadproof.catalog.readers import instances
from loadproof.localcloud.directory import CaptureView, ComponentView, Directory, EndpointView, GroupView, VariantView
from loadproof.localcloud.model_server.contract import Place
from loadproof.localcloud.runtime import errors
from loadproof.localcloud.runtime.fleet import Wanted
from loadproof.localcloud.wire import faults

COMPONENT_HEADER = "X-Amzn-SageMaker-Inference-Component"
VARIANT_HEADER = "X-Amzn-SageMaker-Target-Variant"
MODEL_HEADER = "X-Amzn-SageMaker-Target-Model"
_CONTAINER_HEADER = "X-Amzn-SageMaker-Target-Container-Hostname"
_SERVING = frozenset({"InService", "Updating", "RollingBack", "SystemUpdating"})


@dataclass(frozen=True, slots=True)
class Target:
    """Who answers. Each entry of `dimensions` gets the CloudWatch metrics.

    While a deployment goes on, `following` are the copies that it moves to, with `following_share` of the requests.
    """

    key: str
    wanted: tuple[Wanted, ...]
    following: tuple[Wanted, ...]
    following_share: float
    random_routing: bool
    variant_name: str
    component_name: str | None
    dimensions: tuple[Mapping[str, str], ...]
    log_group: str
    endpoint_name: str
    capture: CaptureView | None

    @property
    def copies(self) -> int:
        return sum(group.copies for group in (*self.wanted, *self.following))

    def side(self) -> tuple[Wanted, ...]:
        """The copies for one request: those that follow get their share of them, as far as both sides have any."""
        sides = [side for side in (self.wanted, self.following) if any(group.copies for group in side)]
        if len(sides) < 2:
            return sides[0] if sides else ()
        return self.following if random.random() < self.following_share else self.wanted


def component_key(name: str) -> str:
    return f"component/{name}"


def variant_key(endpoint: str, variant: str) -> str:
    return f"endpoint/{endpoint}/variant/{variant}"


def resolve(directory: Directory, account: str, endpoint_name: str, headers: Mapping[str, str]) -> Target:
    """Raises InvokeError exactly where SageMaker answers 400. Zero copies are the caller's to refuse."""
    check_headers(headers)
    endpoint = serving_endpoint(directory, account, endpoint_name)
    if endpoint.asynchronous is not None:
        raise errors.asynchronous_only(endpoint_name)
    if _CONTAINER_HEADER in headers:
        raise errors.container_header_not_allowed(endpoint_name)
    if MODEL_HEADER in headers:
        raise errors.model_header_not_allowed(endpoint_name)
    component_name = headers.get(COMPONENT_HEADER)
    hosts_components = all(variant.container is None for variant in endpoint.variants)
    if component_name is None:
        if hosts_components:
            raise errors.component_missing()
        return variant_target(endpoint, pick_variant(endpoint, headers.get(VARIANT_HEADER)))
    if not hosts_components:
        raise errors.component_not_allowed(endpoint_name)
    component = directory.component(component_name)
    if component is None or component.endpoint_name != endpoint_name:
        raise errors.component_not_found(component_name, endpoint_name)
    if headers.get(VARIANT_HEADER, component.variant_name) != component.variant_name:
        raise errors.variant_not_found(endpoint_name, headers[VARIANT_HEADER])
    return component_target(endpoint, component)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises InvokeError for a header of another length or form than the service model allows."""
    for name, field, shape in _headers():
        value = headers.get(name)
        found = [] if value is None else faults(shape, value)
        if found:
            raise errors.header_refused(field, found)


@cache
def _headers() -> tuple[tuple[str, str, Shape], ...]:
    """SageMaker's own headers: name, the field's name in the service model, and its shape."""
    shape = get_service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape
    own = [(member.serialization.get("name", ""), field, member) for field, member in shape.members.items()]
    return tuple(one for one in own if one[0].startswith("X-Amzn-SageMaker-"))


def serving_endpoint(directory: Directory, account: str, name: str) -> EndpointView:
    """Raises InvokeError where there is no such endpoint, or it takes no requests."""
    endpoint = directory.endpoint(name)
    if endpoint is None:
        raise errors.endpoint_not_found(name, account)
    if endpoint.status not in _SERVING:
        raise errors.endpoint_not_in_service(name, endpoint.status)
    return endpoint


def component_target(endpoint: EndpointView, component: ComponentView) -> Target:
    routing = {variant.name: variant.routing_strategy for variant in endpoint.variants}
    own = GroupView(
        component.container,
        component.instance_type,
        component.accelerators_per_copy,
        component.copies,
        component.generation,
    )
    key, groups = component_key(component.name), component.groups or (own,)
    return Target(
        key=key,
        wanted=_wanted(key, groups, following=False),
        following=_wanted(key, groups, following=True),
        following_share=component.following_share,
        random_routing=routing.get(component.variant_name) == "RANDOM",
        variant_name=component.variant_name,
        component_name=component.name,
        dimensions=(
            {"InferenceComponentName": component.name},
            {"EndpointName": endpoint.name, "VariantName": component.variant_name},
        ),
        log_group=f"/aws/sagemaker/InferenceComponents/{component.name}",
        endpoint_name=endpoint.name,
        capture=endpoint.capture,
    )


def variant_target(endpoint: EndpointView, variant: VariantView) -> Target:
    """A plain variant: one copy an instance, on all its accelerators."""
    if variant.container is None:
        raise errors.component_missing()
    accelerators = whole_instance(variant.instance_type).accelerators_per_copy
    own = GroupView(variant.container, variant.instance_type, accelerators, variant.instances, variant.generation)
    key, groups = variant_key(endpoint.name, variant.name), variant.groups or (own,)
    return Target(
        key=key,
        wanted=_wanted(key, groups, following=False),
        following=_wanted(key, groups, following=True),
        following_share=variant.following_share,
        random_routing=variant.routing_strategy == "RANDOM",
        variant_name=variant.name,
        component_name=None,
        dimensions=({"EndpointName": endpoint.name, "VariantName": variant.name},),
        log_group=f"/aws/sagemaker/Endpoints/{endpoint.name}",
        endpoint_name=endpoint.name,
        capture=endpoint.capture,
    )


def _wanted(key: str, groups: tuple[GroupView, ...], *, following: bool) -> tuple[Wanted, ...]:
    return tuple(
        Wanted(
            key=f"{key}/{group.instance_type}/{group.generation}",
            container=group.container,
            place=Place(group.instance_type, group.accelerators_per_copy),
            copies=group.copies,
        )
        for group in groups
        if group.following == following
    )


def whole_instance(instance_type: str) -> Place:
    """All accelerators of an instance; of one the catalog does not know, one: starting a container there says so."""
    known = instances().get(instance_type)
    return Place(instance_type, known.accelerator_count if known else 1)


def pick_variant(endpoint: EndpointView, wanted: str | None) -> VariantView:
    if wanted is not None:
        for variant in endpoint.variants:
            if variant.name == wanted:
                return variant
        raise errors.variant_not_found(endpoint.name, wanted)
    plain = [variant for variant in endpoint.variants if variant.container is not None]
    if sum(variant.weight for variant in plain) == 0:
        return plain[0]
    return random.choices(plain, [variant.weight for variant in plain])[0]
