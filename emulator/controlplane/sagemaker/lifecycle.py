"""Status machines: what has become of endpoints and components by now.

Nothing runs in the background: whoever looks calls `settle` first, which moves every resource whose time has come.
So a test passes its own clock, and the runtime sees the same world as DescribeEndpoint.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.controlplane.sagemaker.capacity import copy_size, place
from emulator.controlplane.sagemaker.store import Component, Endpoint, Store, key, utc_now
from emulator.controlplane.sagemaker.views import component_view, variant_view
from emulator.directory import ComponentView, VariantView

Startable = Callable[[ComponentView | VariantView], str | None]  # why a container could not start; None when it can


def settle(store: Store, startable: Startable) -> None:
    """Move every endpoint and component whose waiting time is over. The caller holds the lock."""
    now_s = store.clock()
    for endpoint in list(store.endpoints.values()):
        if now_s >= endpoint.ready_at_s:
            _settle_endpoint(store, endpoint, startable)
    for component in list(store.components.values()):
        if now_s >= component.ready_at_s:
            _settle_component(store, component, startable)


def _settle_endpoint(store: Store, endpoint: Endpoint, startable: Startable) -> None:
    if endpoint.status == "Deleting":
        del store.endpoints[key(endpoint.caller, endpoint.name)]
        store.tags.pop(endpoint.arn, None)
    elif endpoint.status in ("Creating", "Updating"):
        _bring_into_service(store, endpoint, startable)


def _bring_into_service(store: Store, endpoint: Endpoint, startable: Startable) -> None:
    """The new variants serve, or, when a container cannot start, the old ones go on (a first creation fails)."""
    variants = endpoint.variants if endpoint.pending_variants is None else endpoint.pending_variants
    reasons = (startable(variant_view(store, endpoint, variant)) for variant in variants)
    reason = next((reason for reason in reasons if reason is not None), None)
    endpoint.failure_reason, endpoint.modified = reason, utc_now()
    if reason is not None and endpoint.status == "Creating":
        endpoint.status = "Failed"
        return
    if reason is None and endpoint.pending_variants is not None:
        endpoint.config_name = endpoint.pending_config or endpoint.config_name
        endpoint.variants = variants
    endpoint.pending_variants = endpoint.pending_config = None
    for variant in endpoint.variants:
        variant.current_count = variant.desired_count
    endpoint.status = "InService"
    repack(store, endpoint)


def _settle_component(store: Store, component: Component, startable: Startable) -> None:
    if component.status == "Deleting":
        del store.components[key(component.caller, component.name)]
        store.tags.pop(component.arn, None)
        endpoint = store.endpoints.get(key(component.caller, component.endpoint_name))
        if endpoint is not None:
            repack(store, endpoint)
    elif component.status in ("Creating", "Updating"):
        _start(store, component, startable)


def _start(store: Store, component: Component, startable: Startable) -> None:
    endpoint = store.endpoints.get(key(component.caller, component.endpoint_name))
    if endpoint is None or endpoint.status in ("Creating", "Updating"):
        return  # waits for its endpoint
    if component.pending is not None:
        component.specification, component.pending = component.pending, None
        component.generation += 1
    if component.pending_copies is not None:
        component.desired_copies, component.pending_copies = component.pending_copies, None
    component.status, component.modified = "InService", utc_now()
    reason = startable(component_view(store, component))
    if reason is None:
        repack(store, endpoint)
        if component.copies < component.desired_copies:
            reason = (
                f"Unable to place {component.desired_copies} copies of the inference component: "
                f"{component.copies} fit on the variant's instances. Request fewer copies or fewer resources "
                "for each, or allow more instances."
            )
    if reason is not None:
        fail(component, reason)
        repack(store, endpoint)


def fail(component: Component, reason: str) -> None:
    """The component's containers are gone, and DescribeInferenceComponent says why."""
    component.status, component.failure_reason = "Failed", reason[:1024]
    component.copies = 0
    component.modified = utc_now()


def repack(store: Store, endpoint: Endpoint) -> None:
    """Place all components' copies anew and give every variant the instances they need."""
    for variant in endpoint.variants:
        if variant.config.get("ModelName"):
            continue
        present = [
            component
            for component in store.components_of(endpoint.caller, endpoint.name)
            if component.variant_name == variant.name and component.status in ("InService", "Updating", "Deleting")
        ]
        placed, instances = place(
            variant.config,
            ((one.name, copy_size(one.specification), one.desired_copies) for one in present),
        )
        for component in present:
            component.copies = placed[component.name]
        variant.current_count = variant.desired_count = instances
