"""Rules about what an update does to autoscaling, and about scaling that is taken away (LR010-LR013)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from loadproof.pages.wording import counted
from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import (
    COMPONENT,
    ENDPOINT,
    SCALING_POLICY,
    TARGET,
    Variant,
    component_label,
    endpoint_label,
    number,
    place_label,
    target_of_component,
    target_of_variant,
    target_pairs,
    targets,
    touches_more_than_tags,
    variant_pairs,
    variants,
)
from loadproof.templates.template import Resource, listed

_TYPE_FIELDS: Final = ("endpoint.instance_type", "endpoint.instance_pools")
_PAUSE: Final = "deploy without its scaling (-c pause_scaling=PROFILE), then this change, then with its scaling again"


@rule(
    "LR010",
    "Counts or weights reset by the update",
    reason="An update sends the number of instances, copies or the weights that the template holds. What autoscaling "
    "or an operator had reached meanwhile falls back to it, in the middle of the load that had asked for more.",
    mend="Set RetainAllVariantProperties on the endpoint (and do not exclude counts or weights), and let a scaled "
    "component's CopyCount come from what runs.",
    source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html "
    "(RetainAllVariantProperties); a CopyCount in the template is sent with every change",
    severity="risk",
)
def counts_reset(change: Change) -> Iterator[Found]:
    for one, before, after in change.updated(ENDPOINT):
        lost = _not_retained(after)
        if not lost or not touches_more_than_tags(one):
            continue
        for variant in _variants_of(change, after):
            # Both sides: a target that this change only adds has reached nothing yet.
            own = (known for known in variants(change.before) if any(user is before for user in known.endpoints))
            old = next((known for known in own if known.name == variant.name), None)
            if old is None:
                continue
            scaled = target_of_variant(change.before, old)
            several = len(listed(variant.config.properties, "ProductionVariants")) > 1
            if scaled is not None and "DesiredInstanceCount" in lost:
                started = rendered(variant.body.get("InitialInstanceCount")) or "the template's number"
                message = (
                    f"the update sets variant `{variant.name}` of endpoint `{endpoint_label(after)}` back to {started} "
                    "instances, whatever autoscaling has reached"
                )
            elif several and "DesiredWeight" in lost:
                message = (
                    f"the update sets the traffic weight of variant `{variant.name}` of endpoint "
                    f"`{endpoint_label(after)}` back to the template's"
                )
            else:
                continue
            yield Found(one.logical_id, message, "set RetainAllVariantProperties: true on the endpoint")
    for one, before, after in change.updated(COMPONENT):
        count = number((after.properties.get("RuntimeConfig") or {}).get("CopyCount"))
        if count is None or not touches_more_than_tags(one) or target_of_component(change.before, before) is None:
            continue
        if target_of_component(change.after, after) is not None:
            message = (
                f"the update sets inference component `{component_label(after)}` back to "
                f"{counted(count, 'copy', 'copies')}, whatever autoscaling has reached"
            )
            yield Found(one.logical_id, message, "let CopyCount come from what runs, not from the template")


@rule(
    "LR011",
    "Instance type changed under autoscaling",
    reason="SageMaker refuses to change the instance type of a variant that is a scalable target; the update fails "
    "and CloudFormation goes back.",
    mend="Three deployments: without its scaling, with the new type, with its scaling again.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html",
    severity="break",
)
def type_under_scaling(change: Change) -> Iterator[Found]:
    for before, after in variant_pairs(change):
        scaled = target_of_variant(change.before, before) is not None
        if scaled and before.instance_types != after.instance_types:
            message = (
                f"variant `{after.name}` goes from {_types(before)} to {_types(after)} while it is a scaling target: "
                "SageMaker refuses the update"
            )
            yield Found(change.field(*_TYPE_FIELDS, otherwise=after.config.logical_id), message, _PAUSE)


@rule(
    "LR012",
    "Variant removed under autoscaling",
    reason="SageMaker refuses to remove a variant that is a scalable target; the update fails and CloudFormation goes "
    "back.",
    mend="Two deployments: first without the variant's scaling, then without the variant.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html",
    severity="break",
)
def scaled_variant_removed(change: Change) -> Iterator[Found]:
    if not change.has_both:
        return
    for variant in variants(change.before):
        for endpoint in variant.endpoints:
            after = change.after.named(endpoint.logical_id)
            if after is None or target_of_variant(change.before, variant) is None:
                continue
            left = {one.name for one in _variants_of(change, after)}
            if left and variant.name not in left:  # none at all: its configuration stands elsewhere
                message = (
                    f"variant `{variant.name}` of endpoint `{endpoint_label(endpoint)}` is removed while it is a "
                    "scaling target: SageMaker refuses the update"
                )
                yield Found(endpoint.logical_id, message, "remove its scaling in a deployment before")


@rule(
    "LR013",
    "Scaling removed",
    reason="Without a scalable target, or with one that no policy moves or that is suspended, the number of copies "
    "stays where it is: more load finds no more copies, less load frees none.",
    mend="Keep the scaling, or say in the pull request why a fixed number is enough.",
    source=" "
    "https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html; "
    "docs/scaling.md",
    severity="risk",
)
def scaling_removed(change: Change) -> Iterator[Found]:
    kept = {rendered(target.properties.get("ResourceId")) for target in targets(change.after)}
    scaled = {target.logical_id for target in targets(change.before)}
    for one in change.resources(TARGET, action="remove"):
        before = change.old(one)
        place = rendered(before.properties.get("ResourceId"))
        if one.logical_id not in scaled or place in kept or not _still_there(change, before):
            continue
        bounds = _bounds(before)
        message = f"{place_label(place)} no longer scales between {bounds}: the number of copies stays as it is"
        yield Found(change.field("scaling", "components", otherwise=one.logical_id), message, "keep the scaling")
    for before, after in target_pairs(change):
        why = _stopped(change, before, after)
        if why:
            message = f"{place_label(rendered(after.properties.get('ResourceId')))} no longer scales: {why}"
            yield Found(change.field("scaling", "components", otherwise=after.logical_id), message, "keep the scaling")


def _variants_of(change: Change, endpoint: Resource) -> list[Variant]:
    return [one for one in variants(change.after) if any(user is endpoint for user in one.endpoints)]


def _stopped(change: Change, before: Resource, after: Resource) -> str:
    """Why a target that stays moves nothing any more; empty where it does, or never did."""
    if _has_policy(change.before, before) and not _has_policy(change.after, after):
        return "no scaling policy is left"
    if _suspended(after) and not _suspended(before):
        return "its scaling is suspended"
    return ""


def _has_policy(view: View, target: Resource) -> bool:
    place = rendered(target.properties.get("ResourceId"))
    return any(
        target.logical_id in references(policy.properties.get("ScalingTargetId"))
        or rendered(policy.properties.get("ResourceId")) == place
        for policy in view.of(SCALING_POLICY)
    )


def _suspended(target: Resource) -> bool:
    """No copies are added: that is what hurts under load."""
    state = target.properties.get("SuspendedState") or {}
    return rendered(state.get("DynamicScalingOutSuspended")).lower() == "true"


def _not_retained(endpoint: Resource) -> set[str]:
    """What an update of the endpoint takes from the template instead of leaving it as it is."""
    if endpoint.properties.get("RetainAllVariantProperties") is not True:
        return {"DesiredInstanceCount", "DesiredWeight"}
    excluded: list[Any] = listed(endpoint.properties, "ExcludeRetainedVariantProperties")
    return {rendered(one.get("VariantPropertyType")) for one in excluded}


def _still_there(change: Change, target: Resource) -> bool:
    """True where what was scaled stays: scaling that goes with its component or endpoint is no news."""
    for variant in variants(change.before):
        if target_of_variant(change.before, variant) is target:
            return any(change.after.named(endpoint.logical_id) is not None for endpoint in variant.endpoints)
    for component in change.before.of(COMPONENT):
        if target_of_component(change.before, component) is target:
            return change.after.named(component.logical_id) is not None
    return True


def _bounds(target: Resource) -> str:
    properties = target.properties
    return f"{rendered(properties.get('MinCapacity'))} and {rendered(properties.get('MaxCapacity'))}"


def _types(variant: Variant) -> str:
    return ", ".join(variant.instance_types) or "no type"
