"""Components and variants as the runtime sees them: image, variables and tags that were really deployed."""

from __future__ import annotations

from typing import Any

from emulator.controlplane.sagemaker.capacity import copy_size, instance_type_of
from emulator.controlplane.sagemaker.store import Component, Endpoint, Store, Stored, Variant, key
from emulator.directory import ComponentView, ContainerView, VariantView


def variant_view(store: Store, endpoint: Endpoint, variant: Variant) -> VariantView:
    """A variant; one without a ModelName has no container of its own."""
    model = store.models.get(key(endpoint.caller, variant.config.get("ModelName", "")))
    return VariantView(
        name=variant.name,
        instance_type=instance_type_of(variant.config),
        instances=variant.current_count,
        container=_model_container(store, model) if model else None,
        generation=variant.generation,
        routing_strategy=variant.config.get("RoutingConfig", {}).get("RoutingStrategy", "RANDOM"),
    )


def component_view(store: Store, component: Component) -> ComponentView:
    """The component with its container: the Model's, or its own image; tags of both, the component's winning."""
    specification = component.specification
    base = store.components.get(key(component.caller, specification.get("BaseInferenceComponentName", "")))
    runs = base.specification if base else specification
    model = store.models.get(key(component.caller, runs.get("ModelName", "")))
    endpoint = store.endpoints.get(key(component.caller, component.endpoint_name))
    return ComponentView(
        name=component.name,
        endpoint_name=component.endpoint_name,
        variant_name=component.variant_name,
        status=component.status,
        copies=component.copies,
        accelerators_per_copy=int(copy_size(runs).accelerators),
        instance_type=_instance_type(component, endpoint),
        container=_component_container(
            store, component, {**runs.get("Container", {}), **specification.get("Container", {})}, model
        ),
        generation=component.generation,
    )


def _component_container(
    store: Store, component: Component, own: dict[str, Any], model: Stored | None
) -> ContainerView:
    base = _model_container(store, model) if model else ContainerView("", {}, None, {})
    return ContainerView(
        image=own.get("Image", base.image),
        environment={**base.environment, **own.get("Environment", {})},
        model_data_s3_uri=own.get("ArtifactUrl", base.model_data_s3_uri),
        tags={**base.tags, **store.tags.get(component.arn, {})},
    )


def _model_container(store: Store, model: Stored) -> ContainerView:
    container = (model.request.get("Containers") or [model.request["PrimaryContainer"]])[0]
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    return ContainerView(
        image=container.get("Image", ""),
        environment=dict(container.get("Environment", {})),
        model_data_s3_uri=container.get("ModelDataUrl") or source.get("S3Uri"),
        tags=dict(store.tags.get(model.arn, {})),
    )


def _instance_type(component: Component, endpoint: Endpoint | None) -> str:
    for variant in endpoint.variants if endpoint else ():
        if variant.name == component.variant_name:
            return instance_type_of(variant.config)
    return ""
