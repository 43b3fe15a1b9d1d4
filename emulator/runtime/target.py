"""From an invocation's path and headers to the copies that may answer it, or to SageMaker's own refusal."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from emulator.directory import ComponentView, Directory, EndpointView, VariantView
from emulator.model_server.start import Place
from emulator.runtime import errors
from emulator.runtime.fleet import Wanted
from loadproof.catalog.readers import instances

COMPONENT_HEADER = "X-Amzn-SageMaker-Inference-Component"
VARIANT_HEADER = "X-Amzn-SageMaker-Target-Variant"
MODEL_HEADER = "X-Amzn-SageMaker-Target-Model"
_SERVING = frozenset({"InService", "Updating", "RollingBack", "SystemUpdating"})


@dataclass(frozen=True, slots=True)
class Target:
    """Who answers. `key` names the group of copies; each entry of `dimensions` gets its CloudWatch metrics."""

    key: str
    wanted: Wanted
    variant_name: str
    component_name: str | None
    dimensions: tuple[Mapping[str, str], ...]
    log_group: str


def component_key(name: str) -> str:
    return f"component/{name}"


def variant_key(endpoint: str, variant: str) -> str:
    return f"endpoint/{endpoint}/variant/{variant}"


def resolve(directory: Directory, account: str, endpoint_name: str, headers: Mapping[str, str]) -> Target:
    """Raises InvokeError exactly where SageMaker answers 400. Zero copies are the caller's to refuse."""
    endpoint = directory.endpoint(endpoint_name)
    if endpoint is None:
        raise errors.endpoint_not_found(endpoint_name, account)
    if endpoint.status not in _SERVING:
        raise errors.endpoint_not_in_service(endpoint_name, endpoint.status)
    if MODEL_HEADER in headers:
        raise errors.model_header_not_allowed(endpoint_name)
    component_name = headers.get(COMPONENT_HEADER)
    hosts_components = all(variant.container is None for variant in endpoint.variants)
    if component_name is None:
        if hosts_components:
            raise errors.component_missing()
        return variant_target(endpoint, _pick_variant(endpoint, headers.get(VARIANT_HEADER)))
    if not hosts_components:
        raise errors.component_not_allowed(endpoint_name)
    component = directory.component(component_name)
    if component is None or component.endpoint_name != endpoint_name:
        raise errors.component_not_found(component_name, endpoint_name)
    if headers.get(VARIANT_HEADER, component.variant_name) != component.variant_name:
        raise errors.variant_not_found(endpoint_name, headers[VARIANT_HEADER])
    return component_target(endpoint, component)


def component_target(endpoint: EndpointView, component: ComponentView) -> Target:
    routing = {variant.name: variant.routing_strategy for variant in endpoint.variants}
    return Target(
        key=component_key(component.name),
        wanted=Wanted(
            container=component.container,
            place=Place(component.instance_type, component.accelerators_per_copy),
            copies=component.copies,
            generation=component.generation,
            random_routing=routing.get(component.variant_name) == "RANDOM",
        ),
        variant_name=component.variant_name,
        component_name=component.name,
        dimensions=(
            {"InferenceComponentName": component.name},
            {"EndpointName": endpoint.name, "VariantName": component.variant_name},
        ),
        log_group=f"/aws/sagemaker/InferenceComponents/{component.name}",
    )


def variant_target(endpoint: EndpointView, variant: VariantView) -> Target:
    """A plain variant: one copy an instance, on all its accelerators."""
    if variant.container is None:
        raise errors.component_missing()
    return Target(
        key=variant_key(endpoint.name, variant.name),
        wanted=Wanted(
            container=variant.container,
            place=whole_instance(variant.instance_type),
            copies=variant.instances,
            generation=variant.generation,
            random_routing=variant.routing_strategy == "RANDOM",
        ),
        variant_name=variant.name,
        component_name=None,
        dimensions=({"EndpointName": endpoint.name, "VariantName": variant.name},),
        log_group=f"/aws/sagemaker/Endpoints/{endpoint.name}",
    )


def whole_instance(instance_type: str) -> Place:
    """All accelerators of an instance; of one the catalog does not know, one: starting a container there says so."""
    known = instances().get(instance_type)
    return Place(instance_type, known.accelerator_count if known else 1)


def _pick_variant(endpoint: EndpointView, wanted: str | None) -> VariantView:
    if wanted is not None:
        for variant in endpoint.variants:
            if variant.name == wanted:
                return variant
        raise errors.variant_not_found(endpoint.name, wanted)
    plain = [variant for variant in endpoint.variants if variant.container is not None]
    # Without weights in view, traffic goes by instances: equal copies get equal shares.
    weights = [max(1, variant.instances) for variant in plain]
    return random.choices(plain, weights)[0]
