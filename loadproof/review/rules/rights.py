"""Rules about who may do what: roles, trusts, and policies on resources (LR040, LR043, LR049)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from loadproof.review.model import Severity
from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.review.rules.refused import new_template_findings, open_finding
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.words import label, listing
from loadproof.templates.template import Resource, listed

_ROLE: Final = "AWS::IAM::Role"
_POLICIES: Final = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
_WIDE_RULES: Final = ("LS007", "LS010", "LS011", "LS012", "LS013")
# Policies on a resource -> the property that holds the document, and the one that names what it is on.
_ON_RESOURCES: Final = {
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "Queues"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "Topics"),
    "AWS::S3::BucketPolicy": ("PolicyDocument", "Bucket"),
    "AWS::KMS::Key": ("KeyPolicy", ""),
    "AWS::SecretsManager::ResourcePolicy": ("ResourcePolicy", "SecretId"),
    "AWS::ECR::Repository": ("RepositoryPolicyText", ""),
}
_PERMISSION: Final = "AWS::Lambda::Permission"
_PUBLIC: Final = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
_ANYWHERE: Final = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True, slots=True)
class _Grant:
    """One thing that is allowed: `who` may `action` on `place`, under `condition` (canonical JSON, '' without)."""

    who: str
    action: str
    place: str
    condition: str

    def covers(self, other: _Grant) -> bool:
        """True where whoever has this has the other too."""
        return (
            self.who == other.who
            and _matches(other.action.lower(), self.action.lower())
            and _matches(other.place, self.place)
            and _no_wider(other.condition, self.condition)
        )

    def __str__(self) -> str:
        return f"{self.action} on {self.place}"


@rule(
    "LR040",
    "Rights widened",
    reason="What may do more today can do more harm tomorrow: the container with a hole in it, the function with a "
    "bug, the account next door.",
    fix="Name the actions and the resources that the change needs, and no others.",
    source="the statements of both templates: who, action, resource and condition, wildcards understood",
    severity="warning",
)
def rights_widened(change: Change) -> Iterator[Found]:
    if not change.has_both:
        return
    old_roles, new_roles = _grants(change.before), _grants(change.after)
    wide = {finding.resource for finding in new_template_findings(change, *_WIDE_RULES)}
    stopped = open_finding(change, *_WIDE_RULES)
    for who, (holders, grants) in sorted(new_roles.items()):
        known = old_roles.get(who, (set(), []))[1]
        fresh = [grant for grant in grants if not any(old.covers(grant) for old in known)]
        is_wide = bool(wide & holders)
        if not fresh or (who not in old_roles and not is_wide):
            continue
        role = f"role {_role_label(change, who)}"
        gone = {old.action for old in known if not any(new.covers(old) for new in grants)}
        if not is_wide and all(grant.action in gone for grant in fresh):
            message = f"rights of {role} go over to other resources: {_shown(fresh, change)}"
            yield Found(_role_subject(change, who), message, "check that they are the right ones", "info")
            continue
        message = f"{role} is newly allowed {_shown(fresh, change)}"
        mend = "name what it needs, no wildcards" if is_wide else "check that each is needed"
        evidence = f"{stopped.code}: synthesis stops until it is acknowledged" if is_wide and stopped else ""
        severity: Severity | None = "break" if evidence else "risk" if is_wide else None
        yield Found(_role_subject(change, who), message, mend, severity, evidence)
    yield from _trusts(change)
    yield from _others(change)


@rule(
    "LR043",
    "Open to the public",
    reason="Anybody, in any account or from any address, could reach what only the platform should.",
    fix="Name the accounts, roles or networks that need it; keep the four switches that block public access on.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html",
    severity="risk",
)
def opened(change: Change) -> Iterator[Found]:
    yield from change.fresh(_public)


@rule(
    "LR049",
    "Role added",
    reason="A new role is a new door. Worth a look at what it may do.",
    fix="Nothing to mend where its rights are what the change needs.",
    source="the roles of both templates",
    severity="info",
)
def role_added(change: Change) -> Iterator[Found]:
    added = [one.logical_id for one in change.resources(_ROLE, action="add")]
    names = [_role_label(change, name) for name in added]
    if added and change.has_both:
        rights = _grants(change.after)
        services = sorted({grant.action.partition(":")[0] for name in added for grant in rights.get(name, ((), ()))[1]})
        word = "role" if len(added) == 1 else "roles"
        may = f"with rights in {listing(services)}" if services else "without rights of its own"
        message = f"{len(added)} {word} added ({listing(names)}), {may}"
        yield Found(added[0], message, "look at what it may do")


def _grants(view: View) -> dict[str, tuple[set[str], list[_Grant]]]:
    """Role -> the logical ids that hold its rights, and the rights. By the role: policies are renamed freely."""
    found: dict[str, tuple[set[str], list[_Grant]]] = {}
    for resource in view.of(_ROLE, *_POLICIES):
        documents = [policy.get("PolicyDocument") for policy in listed(resource.properties, "Policies")]
        if resource.type == _ROLE:
            roles = [resource.logical_id]
        else:
            roles = [_named(role) for role in listed(resource.properties, "Roles")]
            documents.append(resource.properties.get("PolicyDocument"))
        for role in roles:
            holders, grants = found.setdefault(role, (set(), []))
            holders.add(resource.logical_id)
            for document in documents:
                grants += _allowed(role, document)
            grants += [
                _Grant(role, f"all of {rendered(arn).rpartition('/')[2]}", "*", "")
                for arn in listed(resource.properties, "ManagedPolicyArns")
            ]
    return found


def _allowed(who: str, document: Any) -> Iterator[_Grant]:
    for statement in listed(document or {}, "Statement"):
        if statement.get("Effect") != "Allow":
            continue
        actions = listed(statement, "Action") or ["*"]  # NotAction: all but a few
        places = listed(statement, "Resource") or ["*"]
        for action in actions:
            for place in places:
                yield _Grant(who, rendered(action), rendered(place) or "*", _condition(statement))


def _trusts(change: Change) -> Iterator[Found]:
    for role in change.after.of(_ROLE):
        before = change.before.named(role.logical_id)
        if before is None:
            continue
        known = list(_principals(before.properties.get("AssumeRolePolicyDocument")))
        for grant in _principals(role.properties.get("AssumeRolePolicyDocument")):
            if not any(old.covers(grant) for old in known):
                message = f"{grant.who} may newly take on role {label(role)}" + _without(grant, known)
                yield Found(
                    role.logical_id, message, "trust only who needs it, with a condition on the account", "risk"
                )


def _others(change: Change) -> Iterator[Found]:
    """Rights that a policy on a resource gives to others. On resources that were there before: a new one is new."""
    for resource in change.after.of(*_ON_RESOURCES):
        held, on = _ON_RESOURCES[resource.type]
        targets = [name for each in listed(resource.properties, on) for name in references(each)] if on else []
        before = change.before.named(resource.logical_id)
        if before is None and not any(change.before.named(name) is not None for name in targets):
            continue
        known = list(_principals(before.properties.get(held))) if before is not None else []
        for grant in _principals(resource.properties.get(held)):
            public = grant.who == "everybody" and not grant.condition  # LR043 tells that
            if not public and not any(old.covers(grant) for old in known):
                allowed = f"{grant.action} on {_place(grant.place, change.after)}"
                message = f"{grant.who} is newly allowed {allowed}" + _without(grant, known)
                yield Found(resource.logical_id, message, "check that it must", "risk")
    for one in change.resources(_PERMISSION):
        after = change.after.find(one.stack, one.logical_id)
        if after is None or one.action == "remove":
            continue
        function = next((change.before.named(name) for name in references(after.properties.get("FunctionName"))), None)
        if function is not None:
            who = rendered(after.properties.get("Principal"))
            message = f"{who} may newly invoke function {label(function)}"
            yield Found(one.logical_id, message, "check that it must", "risk")


def _principals(document: Any) -> Iterator[_Grant]:
    """What a policy on a resource or a trust gives, by principal."""
    for statement in listed(document or {}, "Statement"):
        if statement.get("Effect") != "Allow":
            continue
        principal = statement.get("Principal")
        named = (
            [rendered(each) for kind in sorted(principal) for each in listed(principal, kind)]
            if isinstance(principal, Mapping)
            else [rendered(principal)]
        )
        for who in named:
            yield from _allowed("everybody" if who == "*" else who, {"Statement": [statement]})


def _public(view: View) -> Iterator[tuple[tuple[str, str], Found]]:
    for bucket in view.of("AWS::S3::Bucket"):
        switches = bucket.properties.get("PublicAccessBlockConfiguration") or {}
        off = [name for name in _PUBLIC if switches.get(name) is not True]
        if off:
            message = f"bucket {label(bucket)} does not block public access ({listing(off)})"
            yield (bucket.logical_id, "block"), Found(bucket.logical_id, message, "keep all four switches true")
    for resource in view.of(*_ON_RESOURCES):
        for grant in _principals(resource.properties.get(_ON_RESOURCES[resource.type][0])):
            if grant.who == "everybody" and not grant.condition:
                allowed = f"{grant.action} on {_place(grant.place, view)}"
                message = f"{label(resource)} allows everybody {allowed}"
                yield (resource.logical_id, str(grant)), Found(resource.logical_id, message, "name who needs it")
    for url in view.of("AWS::Lambda::Url"):
        if url.properties.get("AuthType") == "NONE":
            message = f"function address {url.logical_id} asks nobody who they are"
            yield (url.logical_id, "url"), Found(url.logical_id, message, "use AuthType AWS_IAM")
    for group in view.of("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"):
        for entry in (group.properties, *listed(group.properties, "SecurityGroupIngress")):
            source = rendered(entry.get("CidrIp") or entry.get("CidrIpv6"))
            if source in _ANYWHERE:
                message = f"security group {group.logical_id} lets in every address"
                yield (group.logical_id, source), Found(group.logical_id, message, "name the networks that need it")


def _without(grant: _Grant, known: list[_Grant]) -> str:
    """Says so where only the condition went."""
    same = any(old.who == grant.who and old.action == grant.action and old.condition for old in known)
    return ", the condition on it is gone or another" if same else ""


def _condition(statement: Mapping[str, Any]) -> str:
    condition = statement.get("Condition")
    return json.dumps(condition, sort_keys=True) if condition else ""


def _no_wider(condition: str, than: str) -> bool:
    """True where whoever meets `condition` meets `than` too: no test fewer, and no value more in any."""
    if than in ("", condition):
        return True
    have: dict[str, Any] = json.loads(condition or "{}")
    return all(
        key in have.get(operator, {})
        and set(map(rendered, listed(have[operator], key))) <= set(map(rendered, listed(tests, key)))
        for operator, tests in json.loads(than).items()
        for key in tests
    )


def _named(role: Any) -> str:
    """A role by its logical id, else by its name."""
    return next(iter(references(role)), rendered(role))


def _shown(grants: list[_Grant], change: Change) -> str:
    """By resource, its actions together; what has a wildcard first."""
    by_place: dict[str, list[str]] = {}
    for grant in sorted(grants, key=lambda one: (one.place != "*", "*" not in one.action, one.place, one.action)):
        actions = by_place.setdefault(grant.place, [])
        if grant.action not in actions:
            actions.append(grant.action)
    return listing([f"{listing(actions)} on {_place(place, change.after)}" for place, actions in by_place.items()])


def _place(place: str, view: View) -> str:
    """A resource with the names of what it refers to: `chat-in` for `${Queue.Arn}`."""
    for name in _REFERRED.findall(place):
        held = view.named(name)
        if held is not None:
            place = re.sub(rf"\$\{{{name}(\.Arn)?\}}", label(held), place)
    return place


_REFERRED: Final = re.compile(r"\$\{(\w+)(?:\.Arn)?\}")


def _role_label(change: Change, role: str) -> str:
    holder = change.after.named(role)
    return label(holder) if holder is not None else role


def _role_subject(change: Change, role: str) -> str:
    holder: Resource | None = change.after.named(role)
    return holder.logical_id if holder is not None else role


def _matches(text: str, pattern: str) -> bool:
    """IAM's wildcards: `*` and `?`, and no other sign means anything."""
    return text == pattern or (("*" in pattern or "?" in pattern) and fnmatchcase(text, _escaped(pattern)))


@cache
def _escaped(pattern: str) -> str:
    return re.sub(r"\[", "[[]", pattern)


RULES: Final = (rights_widened, opened, role_added)
