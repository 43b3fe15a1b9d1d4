"""Components and variants as the runtime sees them: image, variables and tags that were really deployed."""

from __future__ import annotations

from dataclasses import replace

from loadproof.catalog.readers import instances
from loadproof.localcloud.controlplane.sagemaker.capacity import copy_size, instance_types, specification_for
from loadproof.localcloud.controlplane.sagemaker.store import Component, Endpoint, Rollout, Store, Stored, Variant
from loadproof.localcloud.directory import (
    AsynchronousView,
    CaptureView,
    ComponentView,
    ContainerView,
    GroupView,
    VariantView,
)
from loadproof.wire.documents import Document


def variant_view(store: Store, endpoint: Endpoint, variant: Variant) -> VariantView:
    """A variant; one without a ModelName has no container of its own."""
    kinds = instance_types(variant.config)
    groups: list[GroupView] = []
    new = next((one for one in endpoint.fleets()[-1] if one.name == variant.name), variant)
    if variant.config.get("ModelName") and (new is not variant or len(kinds) > 1):
        groups = _variant_groups(store, endpoint, variant, following=False)
        if new is not variant:
            groups += _variant_groups(store, endpoint, new, following=True)
    return VariantView(
        name=variant.name,
        instance_type=kinds[0],
        instances=variant.current_count if new is variant else variant.current_count + new.current_count,
        container=_variant_container(store, endpoint, variant, kinds[0]),
        generation=variant.generation,
        routing_strategy=variant.config.get("RoutingConfig", {}).get("RoutingStrategy", "RANDOM"),
        weight=variant.weight,
        groups=tuple(groups),
        following_share=_share(store, endpoint.rollout),
    )


def component_view(
    store: Store, component: Component, *, following: bool = False, on_type: str | None = None
) -> ComponentView:
    """The component with its container: the Model's, or its own image; tags of both, the component's winning.

    `following`: what an update is moving to; `on_type`: on that instance type (to see whether they can start).
    """
    endpoint = store.endpoints.named(component.caller, component.endpoint_name)
    variant = next((one for one in endpoint.variants if one.name == component.variant_name), None) if endpoint else None
    pools = instance_types(variant.config) if variant else ("",)
    kinds = (on_type,) if on_type else pools
    kind = next((one for one in kinds if _runs(store, component, one, following=following)), kinds[0])
    runs = _runs(store, component, kind, following=following) or {}
    rollout = component.rollout or (endpoint.rollout if endpoint else None)
    unlike = endpoint is not None and (rollout is not None or len(pools) > 1)
    groups = _component_groups(store, component, endpoint) if endpoint and unlike else []
    return ComponentView(
        name=component.name,
        endpoint_name=component.endpoint_name,
        variant_name=component.variant_name,
        status=component.status,
        copies=component.copies,
        accelerators_per_copy=int(copy_size(runs).accelerators),
        instance_type=kind,
        container=_component_container(store, component, runs, _ami(variant), following=following),
        generation=_generation(store, component) + (variant.generation - 1 if variant else 0),
        groups=tuple(groups),
        following_share=_share(store, rollout),
    )


def asynchronous_view(store: Store, endpoint: Endpoint) -> AsynchronousView | None:
    config = store.configs.named(endpoint.caller, endpoint.config_name)
    settings = config.request.get("AsyncInferenceConfig") if config else None
    if not settings:
        return None
    output = settings["OutputConfig"]
    topics = output.get("NotificationConfig", {})
    return AsynchronousView(
        output_uri=output["S3OutputPath"],
        failure_uri=output.get("S3FailurePath"),
        success_topic=topics.get("SuccessTopic"),
        error_topic=topics.get("ErrorTopic"),
        kms_key_id=output.get("KmsKeyId"),
        max_concurrent_per_instance=settings.get("ClientConfig", {}).get("MaxConcurrentInvocationsPerInstance"),
    )


def capture_view(endpoint: Endpoint) -> CaptureView | None:
    capture = endpoint.capture
    if capture is None or not capture.get("EnableCapture"):
        return None
    modes = {option["CaptureMode"] for option in capture["CaptureOptions"]}
    types = capture.get("CaptureContentTypeHeader", {})
    return CaptureView(
        sampling_percentage=int(capture["InitialSamplingPercentage"]),
        destination_uri=capture["DestinationS3Uri"],
        kms_key_id=capture.get("KmsKeyId"),
        captures_input=bool(modes & {"Input", "InputAndOutput"}),
        captures_output=bool(modes & {"Output", "InputAndOutput"}),
        csv_types=frozenset(types.get("CsvContentTypes", ["text/csv"])),
        json_types=frozenset(types.get("JsonContentTypes", ["application/json"])),
    )


def _share(store: Store, rollout: Rollout | None) -> float:
    if rollout is None or not rollout.provisioned:
        return 0.0
    return rollout.course.share(store.clock() - rollout.began_s)


def _variant_groups(store: Store, endpoint: Endpoint, variant: Variant, *, following: bool) -> list[GroupView]:
    groups = []
    for kind, count in variant.instances.items():
        container = _variant_container(store, endpoint, variant, kind)
        if container is not None:
            row = instances().get(kind)
            accelerators = row.accelerator_count if row else 1
            groups.append(GroupView(container, kind, accelerators, count, variant.generation, following))
    return groups


def _variant_container(store: Store, endpoint: Endpoint, variant: Variant, kind: str) -> ContainerView | None:
    """The container of a plain variant on one instance type: a pool may name a model of its own."""
    if not variant.config.get("ModelName"):
        return None
    pools = variant.config.get("InstancePools", [])
    own = next((pool.get("ModelNameOverride") for pool in pools if pool["InstanceType"] == kind), None)
    model = store.models.named(endpoint.caller, own or variant.config["ModelName"])
    return replace(_model_container(store, model), ami_version=_ami(variant)) if model else None


def _ami(variant: Variant | None) -> str | None:
    return variant.config.get("InferenceAmiVersion") if variant else None


def _component_groups(store: Store, component: Component, endpoint: Endpoint) -> list[GroupView]:
    """Copies by fleet, generation and instance type; an adapter's are its base's."""
    base = component.base_name or component.name
    found = []
    for fleet, variants in enumerate(endpoint.fleets()):
        for variant in variants:
            for name, following in ((base, False), (f"{base}/next", True)):
                for kind, copies in variant.copies.get(name, {}).items():
                    runs = _runs(store, component, kind, following=following) or {}
                    found.append(
                        GroupView(
                            container=_component_container(store, component, runs, _ami(variant), following=following),
                            instance_type=kind,
                            accelerators_per_copy=int(copy_size(runs).accelerators),
                            copies=copies,
                            generation=_generation(store, component) + variant.generation - 1 + following,
                            following=following or fleet > 0,
                        )
                    )
    return found


def _runs(store: Store, component: Component, kind: str, *, following: bool) -> Document | None:
    """The specification whose container runs on an instance type: an adapter's is its base's."""
    wanted = _base(store, component) or component
    specifications = wanted.pending if following and wanted.pending is not None else wanted.specifications
    return specification_for(specifications, kind)


def _base(store: Store, component: Component) -> Component | None:
    """The component in whose containers an adapter runs; None for one with containers of its own."""
    return store.components.named(component.caller, component.base_name) if component.base_name else None


def _generation(store: Store, component: Component) -> int:
    """An adapter is loaded anew with its base's containers."""
    base = _base(store, component)
    return component.generation + (base.generation - 1 if base else 0)


def _component_container(
    store: Store, component: Component, runs: Document, ami_version: str | None, *, following: bool = False
) -> ContainerView:
    own = dict(runs.get("Container", {}))
    if component.base_name:
        specifications = component.pending if following and component.pending is not None else component.specifications
        own.update(specifications[0].get("Container", {}))
    model = store.models.named(component.caller, runs.get("ModelName", ""))
    base = _model_container(store, model) if model else ContainerView("", {}, None, {})
    return ContainerView(
        image=own.get("Image", base.image),
        environment={**base.environment, **own.get("Environment", {})},
        model_data_s3_uri=own.get("ArtifactUrl", base.model_data_s3_uri),
        tags={**base.tags, **store.tags.get(component.arn, {})},
        ami_version=ami_version,
        adapter=component.base_name is not None,
        adapter_name=component.name if component.base_name is not None else None,
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
