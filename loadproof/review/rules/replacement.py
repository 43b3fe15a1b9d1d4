"""Rules about what is replaced, moved or removed (LR00x)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.review.model import ResourceChange, Severity
from loadproof.review.rules.change import Change, is_literal, references, rendered
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import COMPONENT, ENDPOINT, component_label, endpoint_label
from loadproof.review.rules.words import label
from loadproof.review.schemas import identity_of
from loadproof.templates.template import Resource, specifications

# What others hold by its ARN or its name, and what they lose with the old one.
_HELD_BY_OTHERS: Final = {
    "AWS::IAM::Role": "policies and trusts elsewhere that name the old role hold no longer",
    "AWS::SNS::Topic": "subscriptions that were not made by this stack are lost, and e-mail ones confirmed again",
    "AWS::Lambda::Function": "callers that name the old function, its versions or its ARN fail",
    "AWS::StepFunctions::StateMachine": "running executions are stopped, and callers that name the old one fail",
    "AWS::EC2::SecurityGroup": "rules elsewhere that name the old group hold no longer",
    "AWS::EC2::VPCEndpoint": "connections through the old one break",
}


@rule(
    "LR001",
    "Endpoint replaced or removed",
    reason="A new endpoint starts from nothing beside the old one, which is then deleted with all that runs on it: "
    "requests to the old name fail, streams end, and the number of copies that scaling had reached is lost. Under "
    "`Retain` the old one runs on outside its stack, and is billed: a warning where it is removed.",
    mend="Keep the endpoint's name and logical id; change what it serves through its configuration. For another name, "
    "deploy a second endpoint, move the callers, then remove the first.",
    source="AWS::SageMaker::Endpoint: EndpointName is create-only (AWS's resource schema, in cfn-lint 1.58.0)",
    severity="break",
    also=("risk", "warning"),
)
def endpoint_replaced(change: Change) -> Iterator[Found]:
    for one, before, after in () if change.field("backend") else change.gone(ENDPOINT):
        old = endpoint_label(before)
        if one.kept and after is None:
            message = f"endpoint `{old}` leaves its stack and is kept (DeletionPolicy Retain): it runs on, is billed, "
            message += "and nothing scales or updates it"
            yield Found(one.logical_id, message, "note who looks after it, and who deletes it", "warning")
            continue
        if after is None:
            message = f"endpoint `{old}` is deleted with everything that runs on it; requests to it fail from then on"
            mend = "keep it until nothing calls it"
        else:
            new = endpoint_label(after)
            found = f"is replaced by `{new}`" if new != old else "is replaced by another endpoint"
            old_one = "stays beside it and is billed on" if one.kept else "is deleted with its copies and its streams"
            message = f"endpoint `{old}` {found}: the old one {old_one}"
            mend = "keep its name, or deploy the new endpoint beside it and move the callers first"
        yield Found(one.logical_id, message, mend, _severity(one), _why(one))


@rule(
    "LR002",
    "Inference component replaced or removed",
    reason="A component cannot be renamed in place: its copies are deleted and the model is loaded again. Requests "
    "that name the old component fail, and there is no capacity until the first new copy is up.",
    mend="Keep the component's name. For another name, add the new component beside the old one, move the callers, "
    "then remove the old one.",
    source="UpdateInferenceComponent takes no new name (botocore 1.44.5); CloudFormation's page says \"no "
    'interruption" all the same',
    severity="break",
    also=("risk",),
)
def component_replaced(change: Change) -> Iterator[Found]:
    moved = {id(old) for old, _ in _moves(change)}
    for one, before, after in change.gone(COMPONENT):
        if id(before) in moved or _goes_with_endpoint(change, before):
            continue
        old = component_label(before)
        if after is None:
            message = f"inference component `{old}` is deleted with its copies: its model answers no longer"
            mend = "keep it until no caller names it"
        else:
            new = component_label(after)
            found = f"becomes `{new}`" if new != old else "is made again"
            message = f"inference component `{old}` {found}: all its copies are deleted and the model is loaded again"
            mend = "keep its name, or add the new component beside it and remove the old one in a later deployment"
        subject = change.field("components", "adapters", otherwise=one.logical_id)
        yield Found(subject, message, mend, _severity(one), _why(one))


@rule(
    "LR003",
    "Inference component moved",
    reason="SageMaker has no call that moves a component to another endpoint or variant: it is deleted there and made "
    "here, with no copy of it in between.",
    mend="Add a second component under another name on the new endpoint, move the callers, then remove the old one.",
    source="UpdateInferenceComponent has no parameter for endpoint or variant (botocore 1.44.5)",
    severity="break",
)
def component_moved(change: Change) -> Iterator[Found]:
    for old, new in _moves(change):
        message = (
            f"inference component `{component_label(old)}` moves from {_place(change, old, after=False)} to "
            f"{_place(change, new, after=True)}: it is deleted and made again, its copies load the model again"
        )
        mend = "add one of another name there, move the callers, then remove this one in a later deployment"
        yield Found(new.logical_id, message, mend)


@rule(
    "LR004",
    "Replacement under an unchanged name",
    reason="CloudFormation makes the new resource before it deletes the old one. Both would have the same name, so "
    "AWS refuses the new one and the deployment is rolled back.",
    mend="Leave the name out, or give it a part that changes with what forces the replacement.",
    source="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-name.html",
    severity="break",
    also=("risk",),
)
def name_collides(change: Change) -> Iterator[Found]:
    for one in change.context.resources if change.has_both else ():
        before, after = change.sides(one)
        if after is None or one.action not in ("add", "replace"):
            continue
        name = _same_name(before, after)
        if name:
            yield _collision(one.logical_id, after, name, "is replaced", _severity(one), _why(one))
            continue
        for other, gone, _ in change.gone(one.type):
            name = _same_name(gone, after)
            if name:
                how, elsewhere = f"takes the place of {other.logical_id}", other.stack != one.stack
                # Another stack may be deployed first, and so make room.
                yield _collision(one.logical_id, after, name, how, "risk" if elsewhere else _severity(other), "")


@rule(
    "LR005",
    "Replacement that others notice",
    reason="The new resource has another ARN or name. What refers to it inside the stack follows; whatever others "
    "wrote down does not.",
    mend="Leave the property that forces the replacement as it is, or tell those who use the resource.",
    source="create-only properties of AWS's resource schemas (cfn-lint 1.58.0)",
    severity="warning",
)
def held_by_others(change: Change) -> Iterator[Found]:
    for one in change.resources(*_HELD_BY_OTHERS, action="replace"):
        if not one.cause:
            message = f"{_kind(one.type)} {label(change.old(one))} is replaced: {_HELD_BY_OTHERS[one.type]}"
            yield Found(one.logical_id, message, "keep the property, or tell those who use it", evidence=_why(one))


@rule(
    "LR006",
    "Kind of hosting changed",
    reason="An endpoint hosts either inference components or the model of a plain variant. AWS documents no way from "
    "one to the other for a running endpoint, and callers, metrics and scaling name other things afterwards.",
    mend="Deploy the other kind as a profile of another name, move the callers, then destroy the old one.",
    source="none: nobody documents that it works, and it was not tried against an account",
    severity="break",
)
def hosting_changed(change: Change) -> Iterator[Found]:
    if change.profiles is None:
        return
    before, after = (profile.endpoint for profile in change.profiles)
    if before is not None and after is not None and before.hosting != after.hosting:
        message = f"the endpoint changes from {_words(before.hosting)} to {_words(after.hosting)} under its callers"
        mend = "deploy it as a profile of another name, move the callers, then destroy the old one"
        yield Found("endpoint.hosting", message, mend)


@rule(
    "LR007",
    "Backend changed",
    reason="SageMaker and Bedrock have different interfaces: everything of the old backend is deleted, and callers "
    "need another API, other rights and other names.",
    mend="Deploy the new backend as a profile of another name, move the callers, then destroy the old one.",
    source="the API references of SageMaker Runtime and Bedrock Runtime: InvokeEndpoint, Converse",
    severity="break",
)
def backend_changed(change: Change) -> Iterator[Found]:
    if change.profiles is None:
        return
    before, after = (profile.backend for profile in change.profiles)
    if before != after:
        message = f"the model moves from {before} to {after}: what ran before is deleted, callers need another API"
        yield Found("backend", message, "deploy it as a profile of another name, and move the callers first")


def _moves(change: Change) -> Iterator[tuple[Resource, Resource]]:
    """Components that run the same on another endpoint or variant: under the same id, or under a new one."""
    for one in change.resources(COMPONENT, action="replace"):
        old, new = change.sides(one)
        if old is not None and new is not None and _where(old) != _where(new):
            yield old, new
    removed = [old for _, old, new in change.gone(COMPONENT) if new is None]
    added = [new for one in change.resources(COMPONENT, action="add") if (new := change.sides(one)[1]) is not None]
    for old in removed:
        for new in added:
            same = _label_or_work(old) & _label_or_work(new)
            if same and _where(old) != _where(new):
                yield old, new


def _label_or_work(component: Resource) -> set[str]:
    """By what a component is known again: its name, or what it runs."""
    return {component_label(component), str(specifications(component))}


def _where(component: Resource) -> tuple[str, str]:
    properties = component.properties
    return rendered(properties.get("EndpointName")), rendered(properties.get("VariantName"))


def _place(change: Change, component: Resource, *, after: bool) -> str:
    """`endpoint X` or `variant V of endpoint X`, by name where the endpoint is in the template."""
    view = change.after if after else change.before
    endpoint, variant = _where(component)
    held = next((view.named(name) for name in references(component.properties.get("EndpointName"))), None)
    label = endpoint_label(held) if held is not None else endpoint
    return f"endpoint `{label}`" + (f", variant `{variant}`" if variant else "")


def _goes_with_endpoint(change: Change, component: Resource) -> bool:
    """True where the endpoint itself is replaced or removed, or changes its hosting: one finding says it all."""
    lost = {endpoint.logical_id for _, endpoint, _ in change.gone(ENDPOINT)}
    return not lost.isdisjoint(references(component.properties.get("EndpointName"))) or bool(
        change.field("endpoint.hosting", "backend")
    )


def _same_name(before: Resource | None, after: Resource) -> str:
    """The literal name that both have, its first part where it has several; empty where one has none or they differ."""
    if before is None or before.type != after.type:
        return ""
    parts = [name for name in sorted(identity_of(after.type)) if name in after.properties]
    old, new = ([rendered(side.properties.get(name)) for name in parts] for side in (before, after))
    return new[0] if new and old == new and all(map(is_literal, new)) else ""


def _severity(one: ResourceChange) -> Severity | None:
    """A replacement that AWS's schema calls possible only is a risk."""
    return "risk" if one.possible else None


def _collision(
    subject: str, resource: Resource, name: str, how: str, severity: Severity | None, evidence: str
) -> Found:
    found = f"{_kind(resource.type)} `{name}` {how} under its old name"
    message = f"{found}: AWS refuses a second one, the deployment fails"
    return Found(subject, message, "leave the name out, or change it together with the replacement", severity, evidence)


def _why(one: ResourceChange) -> str:
    """Which property forces the replacement, or what it follows from."""
    if one.cause:
        return f"it refers to {one.cause}, which is replaced"
    paths = [prop.path for prop in one.properties if prop.replaces]
    return f"changed: {', '.join(paths[:3])}" if paths else ""


def _kind(type_name: str) -> str:
    return type_name.removeprefix("AWS::").replace("::", " ")


def _words(hosting: str) -> str:
    return hosting.replace("_", " ").replace("plain variant", "a plain variant")
