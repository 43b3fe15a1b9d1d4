"""Every policy of a template, statement by statement, whatever resource, property, intrinsic or text holds it.

A policy is known by its shape: a map with a Statement that has an Effect. Who may do it stands in a resource's, as a
Principal, and not in an identity's. A property that `Fn::If` decides is read in both branches: one will be deployed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from loadproof.templates.conditions import restricts
from loadproof.templates.template import UNKNOWN, Block, Resource, Template, leaves, text

# Of an identity: what it may do. Of a resource: who may do something with it. Of a trust: who may take a role.
Kind: TypeAlias = Literal["identity", "resource", "trust"]
_TRUST: Final = "AssumeRolePolicyDocument"
# Their Allow is the most that others may allow, and gives nobody a right.
_BOUNDS: Final = ("AWS::Organizations::Policy",)
# Types that say in properties what others say in a policy: property -> the condition's key.
_SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "AWS::Events::EventBusPolicy": {},
    "AWS::Lambda::LayerVersionPermission": {"OrganizationId": "aws:PrincipalOrgID"},
    "AWS::Lambda::Permission": {
        "EventSourceToken": "lambda:EventSourceToken",
        "PrincipalOrgID": "aws:PrincipalOrgID",
        "SourceAccount": "aws:SourceAccount",
        "SourceArn": "aws:SourceArn",
    },
}
_TEXTS: Final = frozenset({"Fn::Join", "Fn::Sub"})
_SERVICE: Final = re.compile(r"([\w.-]+)\.(?:amazon(?:aws)?\.com(?:\.cn)?|\$\{URLSuffix\})")
# What a policy is attached to, by the properties of the policy.
_HOLDERS: Final = ("Roles", "Users", "Groups", "RoleName", "UserName", "GroupName")


@dataclass(frozen=True, slots=True)
class Statement:
    """One Allow, with the resource that it stands in."""

    resource: Resource
    kind: Kind
    body: Block

    @property
    def actions(self) -> list[str]:
        return [text(action) for action in leaves(self.body.get("Action"))]

    @property
    def places(self) -> list[str]:
        """What it is about, as text; a run of `*` says no more than one."""
        return [_collapsed(text(place)) for place in leaves(self.body.get("Resource"))]

    @property
    def is_inverted(self) -> bool:
        """True where it allows all but what it names."""
        return "NotAction" in self.body or "NotResource" in self.body

    def principals(self, kind: str) -> list[str]:
        """Whom it lets in, of one kind: AWS, Service, Federated."""
        found: list[str] = []
        for principal in leaves(self.body.get("Principal")):
            named = principal if isinstance(principal, dict) else {"AWS": principal}
            found += [_collapsed(text(one)) for one in leaves(named.get(kind))]
        return found

    @property
    def services(self) -> Mapping[str, str]:
        """The services that it lets in and that are known: as written -> short (`lambda`)."""
        matches = {one: _SERVICE.fullmatch(one) for one in self.principals("Service") if one != UNKNOWN}
        return {one: match[1] if match else one for one, match in matches.items()}

    def allows(self, action: str) -> bool:
        """True when its actions reach this one, in any case and by any wildcard."""
        return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in self.actions)

    def asks(self, *keys: str) -> bool:
        """True when it holds only under a condition that truly restricts one of these keys."""
        return restricts(self.body.get("Condition"), keys)


def statements(template: Template, *kinds: Kind) -> Iterator[Statement]:
    """Every Allow of the policies of these kinds."""
    for resource in template.resources:
        bodies = [] if resource.type in _BOUNDS else [*_written(resource), *_in_properties(resource)]
        for kind, body in bodies:
            if kind in kinds and "Allow" in map(text, leaves(body.get("Effect"))):
                yield Statement(resource, kind, body)


def holders(template: Template) -> Mapping[str, frozenset[str]]:
    """Logical id of a role, a user, a group or a policy -> logical ids and names of all whose rights it adds to."""
    found: dict[str, set[str]] = {}
    for resource in template.resources:
        own = found.setdefault(resource.logical_id, {resource.logical_id})
        own |= {_named(one) for name in _HOLDERS for one in leaves(resource.properties.get(name))} - {UNKNOWN}
        if resource.type in ("AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group"):
            for policy in leaves(resource.properties.get("ManagedPolicyArns")):
                found.setdefault(_named(policy), {_named(policy)}).update(own)
    by_name = {
        text(resource.properties["RoleName"]): resource.logical_id
        for resource in template.of("AWS::IAM::Role")
        if "RoleName" in resource.properties
    }
    return {logical_id: frozenset(by_name.get(name, name) for name in names) for logical_id, names in found.items()}


def of_template(value: object, template: Template, *types: str) -> bool:
    """True for a reference to a resource of these types that the template itself makes."""
    return any(resource.logical_id == _named(value) for resource in template.of(*types))


def _named(value: object) -> str:
    """The logical id that a Ref or a GetAtt refers to; anything else as text."""
    if isinstance(value, dict) and len(value) == 1:
        ((function, argument),) = value.items()
        if function == "Ref":
            return str(argument)
        if function == "Fn::GetAtt":
            return str(argument[0] if isinstance(argument, list) and argument else argument).partition(".")[0]
        if function == "Fn::Sub" and isinstance(argument, str) and argument.startswith("${"):
            return argument[2:].partition("}")[0].partition(".")[0]
    return text(value)


def _written(resource: Resource) -> Iterator[tuple[Kind, Block]]:
    """The statements of every policy that stands anywhere in the properties."""
    rest = {name: value for name, value in resource.properties.items() if name != _TRUST}
    for body in _statements(resource.properties.get(_TRUST)):
        yield "trust", body
    for body in _statements(rest):
        yield ("resource" if body.keys() & {"Principal", "NotPrincipal"} else "identity"), body


def _statements(holder: object) -> Iterator[Block]:
    """CloudFormation also takes a policy as text."""
    if isinstance(holder, dict):
        for name, value in holder.items():
            bodies = [one for one in leaves(value) if isinstance(one, dict) and "Effect" in one]
            yield from bodies if name == "Statement" else _statements(value)
    elif isinstance(holder, list):
        for one in holder:
            yield from _statements(one)
    if isinstance(holder, str) or (isinstance(holder, dict) and len(holder) == 1 and holder.keys() <= _TEXTS):
        written = text(holder)
        if written.lstrip().startswith(("{", "[")) and '"Statement"' in written:
            with suppress(ValueError):
                yield from _statements(json.loads(written))


def _in_properties(resource: Resource) -> Iterator[tuple[Kind, Block]]:
    """The statement that the service makes of a permission's properties."""
    properties = resource.properties
    if resource.type == "AWS::Lambda::Url" and "NONE" in map(text, leaves(properties.get("AuthType"))):
        yield "resource", {"Effect": "Allow", "Principal": "*", "Action": "lambda:InvokeFunctionUrl"}
    sources = _SOURCES.get(resource.type)
    if sources is None or "Principal" not in properties:
        return
    asked = {key: properties[name] for name, key in sources.items() if properties.get(name)}
    condition: Block = {"StringLike": asked} if asked else {}
    own = properties.get("Condition")
    if isinstance(own, dict) and {"Type", "Key", "Value"} <= own.keys():  # as an event bus's policy writes it
        condition = {text(own["Type"]): {text(own["Key"]): own["Value"]}}
    for one in leaves(properties["Principal"]):
        principal = {"Service": one} if _SERVICE.fullmatch(text(one)) else one
        body = {"Effect": "Allow", "Principal": principal, "Action": properties.get("Action"), "Condition": condition}
        yield "resource", body


def _collapsed(place: str) -> str:
    while "**" in place:
        place = place.replace("**", "*")
    return place
