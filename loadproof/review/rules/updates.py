"""Rules about how the deployment itself goes on: batches, alarms that roll it back, streams (LR015-LR018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from loadproof.profiles import Profile
from loadproof.review.rules.change import Change, View
from loadproof.review.rules.refused import new_problems, refused
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import (
    COMPONENT,
    CONFIG,
    ENDPOINT,
    MODEL,
    Variant,
    component_label,
    endpoint_label,
    number,
    target_of_component,
    target_of_variant,
    touches_more_than_tags,
    variants,
)
from loadproof.templates.template import Block, Resource, listed

_UPDATE: Final = (
    "endpoint.update.rollback_on_alarms",
    "endpoint.update",
    "copies.update.rollback_on_alarms",
    "copies.update",
)
_LARGEST_PERCENT: Final = 50
DRAIN_S: Final = 30  # between SIGTERM and SIGKILL of a container
_LONG_ANSWERS: Final = 0.99  # the share of answers that are no longer than the "longest" one


@rule(
    "LR015",
    "Rolling update that cannot roll",
    reason="A batch is at most half of what runs, so one instance or copy cannot roll; SageMaker also refuses rolling "
    "updates of an endpoint with several variants or with a serverless one.",
    mend="Run two or more with a batch of at most half, or take blue/green (for a component of one copy: leave the "
    "policy out).",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html; a batch "
    "is 5 to 50 percent (resource schema)",
    severity="break",
)
def cannot_roll(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR015")
    yield from change.fresh(_unrollable)


@rule(
    "LR016",
    "No room for an update",
    reason="A batch of new copies starts beside the copies it replaces. Where no instance has room for it, SageMaker "
    "turns every later update back.",
    mend="Raise endpoint.max_instances, or lower the batch.",
    source="the check LP229: copies, batch and machines, reckoned by the catalog",
    severity="warning",
)
def no_room(change: Change) -> Iterator[Found]:
    yield from new_problems(change, "LR016")


@rule(
    "LR017",
    "Updates are no longer rolled back by alarms",
    reason="Without alarms on it, an update that answers slowly or with errors goes on to the last copy.",
    mend="Keep rollback_on_alarms, or the alarms of AutoRollbackConfiguration.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html",
    severity="risk",
)
def no_rollback(change: Change) -> Iterator[Found]:
    for one, before, after in change.updated(ENDPOINT, COMPONENT):
        if not _rollback_alarms(before) or _rollback_alarms(after):
            continue
        if not _policy(after) and one.type == COMPONENT:
            why = "one copy is replaced at once, without a batch that an alarm could stop"
        else:
            why = "a bad one reaches every copy"
        label = component_label(after) if one.type == COMPONENT else endpoint_label(after)
        message = f"no alarm rolls back an update of `{label}` any more: {why}"
        subject = change.field(*_UPDATE, "copies.min", otherwise=one.logical_id)
        yield Found(subject, message, "keep the alarms on updates")


@rule(
    "LR018",
    "Streams cut by the update",
    reason="A copy that is replaced is sent SIGTERM, and SIGKILL 30 s later: longer answers end in the middle. "
    "Callers must ask again, and what was generated is lost.",
    mend="Deploy when few long answers run, let callers (or the buffer) try again, or, with a plain variant, give "
    "blue/green a termination wait as long as the longest answer.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (SIGTERM, "
    "then SIGKILL after 30 s); the length of answers is the planner's, of what runs before the "
    "change",
    severity="risk",
)
def streams_cut(change: Change) -> Iterator[Found]:
    replaced = _replaced_copies(change)
    if change.profiles is None or not replaced:
        return
    before = change.profiles[0]
    if not before.workload.streaming:
        return
    longest_s, source = _longest_answer(change, before)
    if longest_s is None or longest_s <= DRAIN_S or _waits_s(change.after) >= longest_s:
        return
    message = (
        f"this update replaces running copies, and answers take up to {longest_s:.0f} s ({source}): streams that are "
        f"not done {DRAIN_S} s after the update reaches their copy are cut"
    )
    yield Found(replaced, message, "deploy at a quiet hour, or let callers try again")


def _unrollable(view: View) -> Iterator[tuple[tuple[str, str], Found]]:
    for endpoint in view.of(ENDPOINT):
        if not _policy(endpoint):
            continue
        own = [variant for variant in variants(view) if endpoint in variant.endpoints]
        why = ""
        if len(own) > 1:
            why = f"has {len(own)} variants: SageMaker rolls endpoints of one only"
        elif any("ServerlessConfig" in variant.body for variant in own):
            why = "its variant is serverless"
        elif own:
            why = _batch_too_large(endpoint, _instances(view, own[0]), "instance", "instances")
        if why:
            message = f"endpoint `{endpoint_label(endpoint)}` has a rolling update policy, but {why}"
            yield (endpoint.logical_id, why), Found(endpoint.logical_id, message, "take blue/green, or run more")
    for component in view.of(COMPONENT):
        count = number((component.properties.get("RuntimeConfig") or {}).get("CopyCount"))
        running = count if target_of_component(view, component) is None else None
        why = _batch_too_large(component, running, "copy", "copies") if _policy(component) else ""
        if why:
            message = f"component `{component_label(component)}` has a rolling update policy, but {why}"
            found = Found(component.logical_id, message, "leave the policy out, or run two copies")
            yield (component.logical_id, why), found


def _batch_too_large(resource: Resource, running: int | None, one: str, many: str) -> str:
    """Why a batch of the resource's policy is more than half of what runs; empty where it is not, or nobody knows."""
    if running == 1:
        return f"runs one {one}: a batch is at most half of them"
    batch = _policy(resource).get("MaximumBatchSize") or {}
    size = number(batch.get("Value"))
    if size is None:
        return ""
    if batch.get("Type") == "CAPACITY_PERCENT":
        return f"its batch is {size}%: it is at most half of the {many}" if size > _LARGEST_PERCENT else ""
    if running is not None and 2 * size > running:
        return f"its batch is {size} of {running} {many}: it is at most half of them"
    return ""


def _instances(view: View, variant: Variant) -> int | None:
    """What runs at least while the update goes on: what it starts with, or what scaling keeps whatever that is."""
    managed = variant.body.get("ManagedInstanceScaling") or {}
    target = target_of_variant(view, variant)
    known = (
        number(variant.body.get("InitialInstanceCount")),
        number(managed.get("MinInstanceCount")),
        number(target.properties.get("MinCapacity")) if target is not None else None,
    )
    return max((count for count in known if count is not None), default=None)


def _policy(resource: Resource) -> Any:
    return _deployment(resource).get("RollingUpdatePolicy")


def _rollback_alarms(resource: Resource) -> list[Any]:
    return listed(_deployment(resource).get("AutoRollbackConfiguration") or {}, "Alarms")


def _deployment(resource: Resource) -> Block:
    """How the resource is to be deployed; empty where it does not say."""
    config: Block = resource.properties.get("DeploymentConfig") or {}
    return config


def _replaced_copies(change: Change) -> str:
    """What makes the update replace running copies: a field, else a logical id; empty where none is replaced."""
    moved = [*change.resources(CONFIG, MODEL, action="replace")]
    moved += [
        one
        for one in change.resources(COMPONENT, action="update")
        if touches_more_than_tags(one) and any(not prop.path.startswith(_IN_PLACE) for prop in one.properties)
    ]
    if not moved:
        return ""
    fields = ("model", "container", "endpoint", "copies", "components")
    return change.field(*fields, otherwise=moved[0].logical_id)


_IN_PLACE: Final = ("Tags", "RuntimeConfig", "DeploymentConfig")  # of a component: its copies go on running


def _waits_s(view: View) -> float:
    """Seconds that the old fleet stays once all traffic has moved; 0 where it does not."""
    policies = [_deployment(endpoint).get("BlueGreenUpdatePolicy") or {} for endpoint in view.of(ENDPOINT)]
    return float(max((number(policy.get("TerminationWaitInSeconds")) or 0 for policy in policies), default=0))


def _longest_answer(change: Change, profile: Profile) -> tuple[float | None, str]:
    """Seconds that all but one of a hundred answers stay within, of what runs now: predicted, else as declared."""
    plan = change.context.plan_before
    if plan is not None and plan.at_objectives is not None:
        level, work = plan.at_objectives, plan.workload
        more_tokens = work.output_tokens_at(_LONG_ANSWERS) - work.output_tokens
        return (level.e2e_ms + more_tokens * level.tpot_ms) / 1000, "predicted"
    objectives = profile.objectives
    bounds = [getattr(objectives, f"e2e_p{share}_ms") for share in (99, 95, 90, 50)]
    declared = next((bound for bound in bounds if bound is not None), None)
    return (None, "") if declared is None else (declared / 1000, "by its objective")
