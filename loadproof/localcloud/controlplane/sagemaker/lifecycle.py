"""Status machines: what has become of endpoints and components by now.

Nothing runs in the background: whoever looks calls `settle` first, which moves every resource whose time has come.
So a test passes its own clock, and the runtime sees the same world as DescribeEndpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loadproof.localcloud.controlplane.sagemaker.capacity import (
    Load,
    Room,
    Size,
    copy_size,
    fill,
    place,
    specification_for,
)
from loadproof.localcloud.controlplane.sagemaker.deployments import course_back
from loadproof.localcloud.controlplane.sagemaker.store import Component, Endpoint, Rollout, Store, Variant, utc_now
from loadproof.localcloud.controlplane.sagemaker.views import component_view, variant_view
from loadproof.localcloud.directory import ComponentView, VariantView
from loadproof.localcloud.wire import Caller, key
from loadproof.wire.documents import Document

Startable = Callable[[ComponentView | VariantView], str | None]  # why a container could not start; None when it can

NO_INSTANCES = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
    "Please retry using a different ML instance type or after some time."
)


def settle(store: Store, startable: Startable) -> None:
    """Move every endpoint and component whose waiting time is over. The caller holds the lock."""
    now_s = store.clock()
    for endpoint in list(store.endpoints.values()):
        if endpoint.rollout is not None:
            _move_endpoint(store, endpoint, endpoint.rollout, startable)
        elif now_s >= endpoint.ready_at_s:
            _settle_endpoint(store, endpoint, startable)
    for component in list(store.components.values()):
        if component.rollout is not None:
            _move_component(store, component, component.rollout, startable)
        elif now_s >= component.ready_at_s:
            _settle_component(store, component, startable)


# ---------------------------------------------------------------------------------------------------------- endpoints


def _settle_endpoint(store: Store, endpoint: Endpoint, startable: Startable) -> None:
    if endpoint.status == "Deleting":
        del store.endpoints[key(endpoint.caller, endpoint.name)]
        store.tags.pop(endpoint.arn, None)
    elif endpoint.status == "Creating":
        reason = _provision(store, endpoint, endpoint.variants)
        reason = reason or _broken(store, endpoint, endpoint.variants, startable)
        if reason is not None:
            for variant in endpoint.variants:
                variant.instances = {}
        _come_to_rest(store, endpoint, "Failed" if reason else "InService", reason)
    elif endpoint.status == "Updating":  # weights and counts
        before = [variant.instances for variant in endpoint.variants]
        reason = _provision(store, endpoint, endpoint.variants)
        for variant, instances in zip(endpoint.variants, before, strict=True):
            if reason is None:
                variant.weight = variant.desired_weight
            else:
                variant.instances, variant.desired_weight = instances, variant.weight
                variant.desired_count = variant.current_count
        _come_to_rest(store, endpoint, "InService", reason)


def _come_to_rest(store: Store, endpoint: Endpoint, status: str, reason: str | None) -> None:
    endpoint.status, endpoint.failure_reason, endpoint.modified = status, reason, utc_now()
    endpoint.rollout, endpoint.pending_config, endpoint.pending_variants = None, None, []
    endpoint.pending_capture = None
    repack(store, endpoint)


def _provision(store: Store, endpoint: Endpoint, variants: list[Variant], share: float = 1.0) -> str | None:
    """Give variants this share of the instances they want. The reason when some cannot be had."""
    reason = None
    for variant in variants:
        wanted = round(share * variant.desired_count)
        found = fill(variant.config, wanted, variant.instances, _room(store, endpoint))
        variant.instances = found.instances
        if found.out_of_capacity:
            reason = NO_INSTANCES
    return reason


def _broken(store: Store, endpoint: Endpoint, variants: list[Variant], startable: Startable) -> str | None:
    reasons = (startable(variant_view(store, endpoint, variant)) for variant in variants)
    return next((reason for reason in reasons if reason is not None), None)


def _room(store: Store, endpoint: Endpoint) -> Room:
    return lambda instance_type: store.room(endpoint.caller, instance_type)


def _move_endpoint(store: Store, endpoint: Endpoint, rollout: Rollout, startable: Startable) -> None:
    """One look at an update: the new fleet comes up, takes its share, and the old one goes; or everything goes back."""
    elapsed_s = store.clock() - rollout.began_s
    if rollout.reason is None and elapsed_s >= rollout.course.first_s:
        reason = _bring_up(store, endpoint, rollout, elapsed_s, startable)
        came_up = reason is None
        reason = reason or _alarmed(store, endpoint.caller, rollout, elapsed_s)
        if reason is not None:
            reached_s = elapsed_s if came_up else 0.0
            rollout = endpoint.rollout = rolled_back(store, rollout, reason, reached_s, store.timing.endpoint_s)
            elapsed_s = 0.0
    if elapsed_s >= rollout.course.done_s:
        _finish(store, endpoint, rollout)
    elif rollout.course.in_batches and rollout.provisioned:  # the old fleet has what the new one has not
        share = rollout.course.share(elapsed_s)
        _provision(store, endpoint, endpoint.pending_variants, share)
        _provision(store, endpoint, endpoint.variants, 1.0 - share)


def _bring_up(store: Store, endpoint: Endpoint, rollout: Rollout, elapsed_s: float, startable: Startable) -> str | None:
    """The new fleet's instances, all of them or this batch's, and what it hosts. The reason when it cannot be."""
    new = endpoint.pending_variants
    share = rollout.course.share(elapsed_s) if rollout.course.in_batches else 1.0
    reason = _provision(store, endpoint, new, share)
    if rollout.provisioned or reason is not None:
        return reason
    rollout.provisioned = True
    reason = _broken(store, endpoint, new, startable)
    out_of_capacity = repack(store, endpoint)
    for component in store.components_of(endpoint.caller, endpoint.name):
        placed = _count(new, component.base_name or component.name)
        if component.status == "InService" and placed < component.copies:
            reason = reason or (NO_INSTANCES if out_of_capacity else _no_place(component.copies, placed))
    return reason


def _finish(store: Store, endpoint: Endpoint, rollout: Rollout) -> None:
    if rollout.reason is None:
        endpoint.config_name = endpoint.pending_config or endpoint.config_name
        endpoint.variants, endpoint.capture = endpoint.pending_variants, endpoint.pending_capture
    endpoint.rollout, endpoint.pending_variants = None, []
    _provision(store, endpoint, endpoint.variants)
    _come_to_rest(store, endpoint, "InService", rollout.reason)


# --------------------------------------------------------------------------------------------------------- deployments


def _alarmed(store: Store, caller: Caller, rollout: Rollout, elapsed_s: float) -> str | None:
    """Why the alarms send a deployment back; they are watched until the last baking period is over."""
    if not rollout.course.alarms or rollout.watched_s >= rollout.course.baked_s:
        return None
    rollout.watched_s = elapsed_s
    in_alarm = [name for name in rollout.course.alarms if store.alarm_state(caller, name) == "ALARM"]
    if not in_alarm:
        return None
    return f"The deployment was rolled back because of alarms in state ALARM: {', '.join(in_alarm)}."


def rolled_back(store: Store, rollout: Rollout, reason: str, reached_s: float, provision_s: float) -> Rollout:
    """The same deployment on its way back from where it was after `reached_s`."""
    course = course_back(rollout.course, reached_s, rollout.settings, provision_s, max(1, rollout.capacity))
    return replace(rollout, course=course, began_s=store.clock(), watched_s=0.0, reason=reason)


# ---------------------------------------------------------------------------------------------------------- components


def _settle_component(store: Store, component: Component, startable: Startable) -> None:
    if component.status == "Deleting":
        del store.components[key(component.caller, component.name)]
        store.tags.pop(component.arn, None)
        endpoint = store.endpoints.named(component.caller, component.endpoint_name)
        if endpoint is not None:
            repack(store, endpoint)
    elif component.status in ("Creating", "Updating"):
        _start(store, component, startable)


def _start(store: Store, component: Component, startable: Startable) -> None:
    endpoint = store.endpoints.named(component.caller, component.endpoint_name)
    if endpoint is None or endpoint.status in ("Creating", "Updating"):
        return  # waits for its endpoint
    _adopt(component)
    component.status, component.modified = "InService", utc_now()
    reason = _unable(store, component, startable, following=False) or _unplaced(store, endpoint, component)
    if reason is not None:
        fail(component, reason)
        repack(store, endpoint)


def _unplaced(store: Store, endpoint: Endpoint, component: Component) -> str | None:
    """Place the copies. The reason when some have no room."""
    out_of_capacity = repack(store, endpoint)
    if component.copies >= component.desired_copies:
        return None
    return NO_INSTANCES if out_of_capacity else _no_place(component.desired_copies, component.copies)


def _unable(store: Store, component: Component, startable: Startable, *, following: bool) -> str | None:
    """Why the container cannot start, on any instance type that has a specification of its own."""
    specifications = component.pending if following and component.pending else component.specifications
    views = (
        component_view(store, component, following=following, on_type=one.get("InstanceType")) for one in specifications
    )
    return next((reason for reason in map(startable, views) if reason is not None), None)


def _adopt(component: Component) -> None:
    """What was pending is now what runs."""
    if component.pending is not None:
        component.specifications, component.pending = component.pending, None
        component.generation += 1
    if component.pending_copies is not None:
        component.desired_copies, component.pending_copies = component.pending_copies, None


def _no_place(wanted: int, placed: int) -> str:
    return (
        f"Unable to place {wanted} copies of the inference component: {placed} fit on the variant's instances. "
        "Request fewer copies or fewer resources for each, or allow more instances."
    )


def _move_component(store: Store, component: Component, rollout: Rollout, startable: Startable) -> None:
    """One look at a rolling update: a batch of new copies starts, then as many old ones stop; or all goes back."""
    endpoint = store.endpoints.named(component.caller, component.endpoint_name)
    if endpoint is None:
        return
    elapsed_s = store.clock() - rollout.began_s
    if rollout.reason is None and elapsed_s >= rollout.course.first_s:
        reason = None
        if not rollout.provisioned:
            reason = _unable(store, component, startable, following=True)
            reason = reason or _no_headroom(store, endpoint, component, rollout)
            rollout.provisioned = reason is None
        reason = reason or _alarmed(store, component.caller, rollout, elapsed_s)
        if reason is not None:
            reached_s = elapsed_s if rollout.provisioned else 0.0
            rollout = component.rollout = rolled_back(store, rollout, reason, reached_s, store.timing.component_s)
            elapsed_s = 0.0
    if elapsed_s < rollout.course.done_s:
        repack(store, endpoint)
        return
    component.rollout = None
    if rollout.reason is None:
        _adopt(component)
    else:
        component.pending = component.pending_copies = None
    component.status, component.failure_reason, component.modified = "InService", rollout.reason, utc_now()
    reason = _unplaced(store, endpoint, component)
    if reason is not None:
        fail(component, reason)
        repack(store, endpoint)


def _no_headroom(store: Store, endpoint: Endpoint, component: Component, rollout: Rollout) -> str | None:
    """Why the first batch of new copies cannot start beside all the old ones."""
    variant = next((one for one in endpoint.variants if one.name == component.variant_name), None)
    if variant is None:
        return None
    batch = max(1, round(rollout.course.steps[0].share * component.desired_copies))
    first = Load(component.next_name, batch, _sizes(component.pending or []))
    found = place(variant.config, [*_loads(store, endpoint, variant), first], variant.instances, _room(store, endpoint))
    placed = found.placed(component.next_name)
    if placed == batch:
        return None
    return NO_INSTANCES if found.out_of_capacity else _no_place(batch, placed)


def fail(component: Component, reason: str) -> None:
    """The component's containers are gone, and DescribeInferenceComponent says why."""
    component.status, component.failure_reason = "Failed", reason[:1024]
    component.rollout, component.copies = None, 0
    component.modified = utc_now()


# ----------------------------------------------------------------------------------------------------------- placement


def repack(store: Store, endpoint: Endpoint) -> bool:
    """Place all components' copies anew and give every variant the instances they need.

    Returns whether an instance was wanted and none was to be had.
    """
    short = False
    for fleet in endpoint.fleets():
        for variant in fleet:
            if not variant.config.get("ModelName"):
                short = _pack(store, endpoint, variant) or short
    for component in store.components_of(endpoint.caller, endpoint.name):
        base = component.base_name or component.name
        component.copies = 0 if component.status in ("Creating", "Failed") else _count(endpoint.variants, base)
    return short


def _count(variants: list[Variant], name: str) -> int:
    return sum(
        sum(by_type.values())
        for variant in variants
        for load, by_type in variant.copies.items()
        if load in (name, f"{name}/next")
    )


def _pack(store: Store, endpoint: Endpoint, variant: Variant) -> bool:
    found = place(variant.config, _loads(store, endpoint, variant), variant.instances, _room(store, endpoint))
    variant.copies, variant.instances = found.copies, found.instances
    variant.desired_count = variant.current_count
    return found.out_of_capacity


def _loads(store: Store, endpoint: Endpoint, variant: Variant) -> list[Load]:
    """The copies that are to stand on a variant; adapters run in their base's."""
    loads = []
    for component in store.components_of(endpoint.caller, endpoint.name):
        if (
            component.variant_name != variant.name
            or component.base_name
            or component.status not in ("InService", "Updating", "Deleting")
        ):
            continue
        moved = _moved(store, component)
        loads.append(Load(component.name, component.desired_copies - moved, _sizes(component.specifications)))
        if moved:
            loads.append(Load(component.next_name, moved, _sizes(component.pending or [])))
    return loads


def _moved(store: Store, component: Component) -> int:
    """How many copies of a component under a rolling update are already the new ones."""
    rollout = component.rollout
    if rollout is None or not rollout.provisioned or component.pending is None:
        return 0
    return round(rollout.course.share(store.clock() - rollout.began_s) * component.desired_copies)


def _sizes(specifications: list[Document]) -> Callable[[str], Size | None]:
    def size_on(instance_type: str) -> Size | None:
        found = specification_for(specifications, instance_type)
        return copy_size(found) if found is not None else None

    return size_on
