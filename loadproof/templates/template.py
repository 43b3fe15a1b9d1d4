"""A CloudFormation template as rules read it: resources, policy statements, containers, texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Block: TypeAlias = Mapping[str, Any]  # a map of a template: what it holds may have any shape
_REFERENCE: Final = re.compile(r"\$\{(?!!)([^}]*)\}")  # within an Fn::Sub
UNKNOWN: Final = "${…}"  # stands in a text for what only the deployment knows
_PSEUDO: Final = re.compile(r"AWS::(AccountId|Partition|Region|URLSuffix)")


@dataclass(frozen=True, slots=True)
class Resource:
    logical_id: str
    type: str
    properties: Block
    acknowledged: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Template:
    resources: tuple[Resource, ...]

    @classmethod
    def read(cls, template: Block) -> Template:
        return cls(
            tuple(
                Resource(
                    logical_id,
                    body["Type"],
                    body.get("Properties") or {},
                    body.get("Metadata", {}).get("loadproof", {}).get("acknowledged", {}),
                )
                for logical_id, body in template.get("Resources", {}).items()
            )
        )

    def of(self, *types: str) -> Iterator[Resource]:
        return (resource for resource in self.resources if resource.type in types)

    def containers(self) -> Iterator[tuple[Resource, Block]]:
        """Every container SageMaker would start, with the model or component it belongs to."""
        for resource in self.of("AWS::SageMaker::Model"):
            for container in (resource.properties.get("PrimaryContainer"), *listed(resource.properties, "Containers")):
                if isinstance(container, dict):
                    yield resource, container
        for resource in self.of("AWS::SageMaker::InferenceComponent"):
            for specification in specifications(resource):
                if isinstance(specification.get("Container"), dict):
                    yield resource, specification["Container"]


def specifications(component: Resource) -> list[Block]:
    """A component's one specification, or its several (one an instance type)."""
    one = component.properties.get("Specification")
    return [one] if isinstance(one, dict) else listed(component.properties, "Specifications")


def listed(properties: Block, name: str) -> list[Any]:
    """The property as a list: CloudFormation's policies write one of something without its brackets."""
    value = properties.get(name)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def leaves(value: object) -> Iterator[object]:
    """What a property may come to hold: one or many, in either branch of a condition."""
    if value is None or value == {"Ref": "AWS::NoValue"}:
        return
    if isinstance(value, list):
        branches = value
    elif isinstance(value, dict) and value.keys() == {"Fn::If"} and isinstance(value["Fn::If"], list):
        branches = value["Fn::If"][1:]
    else:
        yield value
        return
    for branch in branches:
        yield from leaves(branch)


def at(properties: object, path: str) -> Iterator[object]:
    """Everything at a path of names (`Policies.PolicyDocument`), through lists and conditions; nothing for ''."""
    found = list(leaves(properties)) if path else []
    for name in path.split("."):
        found = [one for holder in found if isinstance(holder, dict) for one in leaves(holder.get(name))]
    return iter(found)


def text(value: object) -> str:
    """A value as text, with `${…}` for references and everything else that is not known before deployment.

    Account, region and partition keep their names (`${AccountId}`): they are the same all over the stack.
    """
    if isinstance(value, dict) and len(value) == 1:
        ((function, argument),) = value.items()
        if function == "Fn::Join" and isinstance(argument, list) and isinstance(argument[1], list):
            return str(argument[0]).join(text(part) for part in argument[1])
        if function == "Fn::Sub":
            return _REFERENCE.sub(
                lambda one: _reference(one[1]), str(argument[0] if isinstance(argument, list) else argument)
            )
        if function == "Ref":
            return _reference(str(argument))
    return UNKNOWN if isinstance(value, dict | list) else str(value)


def _reference(name: str) -> str:
    pseudo = _PSEUDO.fullmatch(name)
    return f"${{{pseudo[1]}}}" if pseudo else UNKNOWN
