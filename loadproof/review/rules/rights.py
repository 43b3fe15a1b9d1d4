"""Rules about who may do what: roles, trusts, and policies on resources (LR040, LR049)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from loadproof.pages.wording import counted
from loadproof.review.model import Severity
from loadproof.review.rules.change import Change, View, is_literal, references, rendered
from loadproof.review.rules.denials import denials_lost
from loadproof.review.rules.grants import ON_RESOURCES, Grant, grants, place_of, principals, same_tests
from loadproof.review.rules.refused import new_template_findings, open_finding
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.words import label, listing
from loadproof.templates.template import Resource, listed

_ROLE: Final = "AWS::IAM::Role"
# Who holds rights -> the property it is named by, and in what way a policy lists them.
_HOLDERS: Final = {
    _ROLE: ("RoleName", "Roles", "role"),
    "AWS::IAM::User": ("UserName", "Users", "user"),
    "AWS::IAM::Group": ("GroupName", "Groups", "group"),
}
_SHARED: Final = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
_OF_ONE: Final = {
    "AWS::IAM::RolePolicy": _ROLE,
    "AWS::IAM::UserPolicy": "AWS::IAM::User",
    "AWS::IAM::GroupPolicy": "AWS::IAM::Group",
}
_WIDE_RULES: Final = ("LS007", "LS010", "LS011", "LS012", "LS013")
_PERMISSION: Final = "AWS::Lambda::Permission"
Holder = tuple[str, str]  # its stack, and its logical id (or its name, where no template has it)


@dataclass(frozen=True, slots=True)
class _Rights:
    """What one role, user or group may do: the logical ids that say so, what they allow, and what they deny."""

    kind: str
    sayers: set[str] = field(default_factory=set)
    allowed: list[Grant] = field(default_factory=list)
    denied: list[Grant] = field(default_factory=list)


@rule(
    "LR040",
    "Rights widened",
    reason="What may do more today can do more harm tomorrow: the container with a hole in it, the function with a "
    "bug, the account next door.",
    mend="Name the actions and the resources that the change needs, and no others; keep what denies, and the boundary.",
    source="the statements of both templates: who, action, resource and condition, wildcards understood; a managed "
    "policy's content is not in them",
    severity="warning",
    also=("break", "risk", "info"),
)
def rights_widened(change: Change) -> Iterator[Found]:
    if not change.has_both:
        return
    old, new = _rights(change.before), _rights(change.after)
    for holder, rights in sorted(new.items()):
        yield from _newly_allowed(change, holder, rights, old.get(holder))
        yield from _no_longer_denied(change, holder, rights, old.get(holder))
    yield from _boundaries(change)
    yield from _trusts(change)
    yield from _others(change)
    for lost in denials_lost(change):
        if not lost.tls:  # LR042 tells that
            message = f"the policy on {lost.words} no longer denies {lost.grant.who} {lost.grant.what}"
            yield Found(lost.logical_id, message, "keep what denies it", "risk")


@rule(
    "LR049",
    "Role added",
    reason="A new role is a new door. Worth a look at what it may do.",
    mend="Nothing to mend where its rights are what the change needs.",
    source="the roles of both templates",
    severity="info",
)
def role_added(change: Change) -> Iterator[Found]:
    added = [(one.stack, one.logical_id) for one in change.resources(_ROLE, action="add")]
    names = [_label(change, holder) for holder in added]
    if added and change.has_both:
        rights = _rights(change.after)
        allowed = [grant for holder in added if holder in rights for grant in rights[holder].allowed]
        services = sorted({grant.action.partition(":")[0] for grant in allowed})
        may = f"with rights in {listing(services)}" if services else "without rights of its own"
        message = f"{counted(len(added), 'role')} added ({listing(names)}), {may}"
        yield Found(added[0][1], message, "look at what it may do")


def _newly_allowed(change: Change, holder: Holder, rights: _Rights, before: _Rights | None) -> Iterator[Found]:
    known = before.allowed if before is not None else []
    fresh = [grant for grant in rights.allowed if not any(old.covers(grant) for old in known)]
    reported = {finding.place for finding in new_template_findings(change, *_WIDE_RULES)} & rights.sayers
    is_wide = bool(reported) or any(grant.sweeping for grant in fresh)
    if not fresh or (before is None and not is_wide):
        return
    who, subject = f"{rights.kind} {_label(change, holder)}", _subject(change, holder)
    gone = [old for old in known if not any(new.covers(old) for new in rights.allowed)]
    if not is_wide and all(_moved(grant, gone) for grant in fresh):
        message = f"rights of {who} go over to other resources: {_shown(fresh, change)}"
        yield Found(subject, message, "check that they are the right ones", "info")
        return
    conditions = all(_same_but_condition(grant, known) for grant in fresh)
    why = ", the condition on it is gone or another" if conditions else ""
    message = f"{who} is newly allowed {_shown(fresh, change)}{why}"
    mend = "name what it needs, no wildcards" if is_wide else "check that each is needed"
    stopped = open_finding(change, *_WIDE_RULES) if reported else None
    evidence = f"{stopped.code}: synthesis stops until it is acknowledged" if stopped else ""
    severity: Severity | None = "break" if evidence else "risk" if is_wide else None
    yield Found(subject, message, mend, severity, evidence)


def _no_longer_denied(change: Change, holder: Holder, rights: _Rights, before: _Rights | None) -> Iterator[Found]:
    """Denials that are gone and that something the holder may do now would fall under."""
    lost = [
        denial
        for denial in (before.denied if before is not None else [])
        if not any(new.covers(denial) for new in rights.denied)
        and any(grant.action.startswith(_MANAGED) or grant.meets(denial) for grant in rights.allowed)
    ]
    if lost:
        message = f"{rights.kind} {_label(change, holder)} is no longer denied {_shown(lost, change)}"
        yield Found(_subject(change, holder), message, "keep what denies it", "risk")


def _boundaries(change: Change) -> Iterator[Found]:
    for stack, resource in change.after.placed(*_HOLDERS):
        before = change.before.find(stack, resource.logical_id)
        was = rendered(before.properties.get("PermissionsBoundary")) if before is not None else ""
        becomes = rendered(resource.properties.get("PermissionsBoundary"))
        if was and was != becomes:
            who = f"{_HOLDERS[resource.type][2]} {label(resource)}"
            message = f"{who} has {'another' if becomes else 'no'} permissions boundary{'' if becomes else ' any more'}"
            severity: Severity = "warning" if becomes else "risk"
            yield Found(resource.logical_id, message, "keep the boundary", severity)


_MANAGED: Final = "all of "


def _rights(view: View) -> dict[Holder, _Rights]:
    """By who holds them, stack by stack: policies are renamed freely, and two stacks may have the same logical id."""
    found: dict[Holder, _Rights] = {}
    names = _names(view)
    for stack, resource in view.placed(*_HOLDERS, *_SHARED, *_OF_ONE):
        documents = [policy.get("PolicyDocument") for policy in listed(resource.properties, "Policies")]
        documents.append(resource.properties.get("PolicyDocument"))
        for kind, named in _held_by(resource):
            who = _named(named)
            holder = names.get((kind, who), (stack, who))
            rights = found.setdefault(holder, _Rights(_HOLDERS[kind][2]))
            rights.sayers.add(resource.logical_id)
            for document in documents:
                rights.allowed.extend(grants(holder[1], document))
                rights.denied.extend(grants(holder[1], document, "Deny"))
            for arn in listed(resource.properties, "ManagedPolicyArns"):
                rights.allowed.append(Grant(holder[1], f"{_MANAGED}{rendered(arn).rpartition('/')[2]}", "*"))
    return found


def _held_by(resource: Resource) -> Iterator[tuple[str, object]]:
    """Whose rights a resource speaks of: the kind, and how it names them."""
    if resource.type in _HOLDERS:
        yield resource.type, resource.logical_id
    elif resource.type in _OF_ONE:
        kind = _OF_ONE[resource.type]
        yield kind, resource.properties.get(_HOLDERS[kind][0])
    else:
        for kind, (_, several, _) in _HOLDERS.items():
            yield from ((kind, named) for named in listed(resource.properties, several))


def _names(view: View) -> dict[tuple[str, str], Holder]:
    """Who is meant by a name that is written out: a policy in another stack may name a role so."""
    named = {
        (resource.type, rendered(resource.properties.get(_HOLDERS[resource.type][0]))): (stack, resource.logical_id)
        for stack, resource in view.placed(*_HOLDERS)
    }
    return {(kind, name): holder for (kind, name), holder in named.items() if is_literal(name)}


def _trusts(change: Change) -> Iterator[Found]:
    for stack, role in change.after.placed(_ROLE):
        before = change.before.find(stack, role.logical_id)
        if before is None:
            continue
        known = list(principals(before.properties.get("AssumeRolePolicyDocument")))
        for grant in principals(role.properties.get("AssumeRolePolicyDocument")):
            if not any(old.covers(grant) for old in known):
                message = f"{grant.who} may newly take on role {label(role)}" + _without(grant, known)
                yield Found(
                    role.logical_id, message, "trust only who needs it, with a condition on the account", "risk"
                )


def _others(change: Change) -> Iterator[Found]:
    """Rights that a policy on a resource gives to others. On resources that were there before: a new one is new."""
    for stack, resource in change.after.placed(*ON_RESOURCES):
        held, on = ON_RESOURCES[resource.type]
        targets = [name for each in listed(resource.properties, on) for name in references(each)] if on else []
        before = change.before.find(stack, resource.logical_id)
        if before is None and not any(change.before.find(stack, name) is not None for name in targets):
            continue
        known = list(principals(before.properties.get(held))) if before is not None else []
        for grant in principals(resource.properties.get(held)):
            if not grant.public and not any(old.covers(grant) for old in known):  # LR043 tells what is public
                allowed = f"{grant.what} on {place_of(grant.where, change.after)}"
                message = f"{grant.who} is newly allowed {allowed}" + _without(grant, known)
                yield Found(resource.logical_id, message, "check that it must", "risk")
    for one in change.resources(_PERMISSION):
        after = change.sides(one)[1]
        if after is None:
            continue
        names = references(after.properties.get("FunctionName"))
        function = next((change.before.find(one.stack, name) for name in names), None)
        if function is not None:
            who = rendered(after.properties.get("Principal"))
            message = f"{who} may newly invoke function {label(function)}"
            yield Found(one.logical_id, message, "check that it must", "risk")


def _moved(grant: Grant, gone: list[Grant]) -> bool:
    """True for a right on one thing that was had on another before, no less bound."""
    return any(
        (old.action, old.but, old.but_places) == (grant.action, grant.but, grant.but_places)
        and same_tests(old.condition, grant.condition)
        for old in gone
    )


def _same_but_condition(grant: Grant, known: list[Grant]) -> bool:
    what = (grant.who, grant.action, grant.place, grant.but, grant.but_places)
    return any(old.condition and (old.who, old.action, old.place, old.but, old.but_places) == what for old in known)


def _without(grant: Grant, known: list[Grant]) -> str:
    """Says so where only the condition went."""
    same = any(old.who == grant.who and old.action == grant.action and old.condition for old in known)
    return ", the condition on it is gone or another" if same else ""


def _named(holder: object) -> str:
    """A role, user or group by its logical id, else by its name."""
    return next(iter(references(holder)), rendered(holder))


def _shown(granted: list[Grant], change: Change) -> str:
    """By resource, its actions together; what has a wildcard first."""
    by_place: dict[str, list[str]] = {}
    for grant in sorted(granted, key=lambda one: (one.place != "*", "*" not in one.action, one.place, one.action)):
        actions = by_place.setdefault(grant.where, [])
        if grant.what not in actions:
            actions.append(grant.what)
    return listing([f"{listing(actions)} on {place_of(place, change.after)}" for place, actions in by_place.items()])


def _label(change: Change, holder: Holder) -> str:
    resource = change.after.find(*holder)
    return label(resource) if resource is not None else holder[1]


def _subject(change: Change, holder: Holder) -> str:
    resource = change.after.find(*holder)
    return resource.logical_id if resource is not None else holder[1]
