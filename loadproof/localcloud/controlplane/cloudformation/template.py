"""Templates: reading, intrinsic functions, conditions, rules, and who depends on whom."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import yaml

from loadproof.localcloud.controlplane.cloudformation import grammar
from loadproof.localcloud.controlplane.cloudformation.schemas import is_region
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document, Json

Lookup = Callable[[str, str | None], Json]  # (logical id, attribute or None for Ref) -> value
_HOST_BITS = 8  # of Fn::Cidr's blocks where nothing is said
_PLACEHOLDER = re.compile(r"\$\{(!?)([^${}]+)\}")
_SECTIONS = {
    "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Mappings", "Conditions", "Resources",
    "Outputs", "Rules", "Transform",
}  # fmt: skip


class _Loader(yaml.SafeLoader):
    """YAML as CloudFormation reads it: short tags, and dates stay text (`Version: 2012-10-17`)."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, expression) for tag, expression in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_tag(loader: _Loader, suffix: str, node: yaml.Node) -> Document:
    if isinstance(node, yaml.ScalarNode):
        value: Json = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_tag)


def invalid(message: str) -> AwsError:
    return AwsError("ValidationError", message)


@dataclass(frozen=True)
class Template:
    """A parsed template. `body` is the text as it was given."""

    body: str
    document: Document

    @classmethod
    def read(cls, body: str) -> Template:
        """Parse JSON or YAML. Raises AwsError(ValidationError) for anything that is no template."""
        document = _parsed(body)
        if isinstance(document, dict) and "Resources" in document:
            unknown = sorted(map(str, document.keys() - _SECTIONS))
            if unknown:
                raise invalid(f"Template format error: unsupported section {', '.join(unknown)}.")
        grammar.check(document)
        return cls(body, document)

    def section(self, name: str) -> Document:
        return self.document.get(name) or {}

    @property
    def resources(self) -> dict[str, Document]:
        return self.section("Resources")

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Logical ids, each after all it depends on. Raises AwsError for unknown references and circles."""
        needs = {name: self._needs(name, resource) for name, resource in self.resources.items()}
        for output in self.section("Outputs").values():
            self._known(set(references(output.get("Value"))), "Outputs")
        done: list[str] = []
        while needs:
            ready = [name for name, wanted in needs.items() if not wanted & needs.keys()]
            if not ready:
                raise invalid(f"Circular dependency between resources: [{', '.join(sorted(needs))}]")
            for name in ready:
                done.append(name)
                del needs[name]
        return tuple(done)

    def _needs(self, name: str, resource: Document) -> set[str]:
        depends = resource.get("DependsOn", [])
        wanted = {depends} if isinstance(depends, str) else set(depends)
        wanted |= set(references(resource.get("Properties", {})))
        wanted = self._known(wanted, "Resources")
        if name in wanted:
            raise invalid(f"Circular dependency between resources: [{name}]")
        return wanted

    def _known(self, names: set[str], block: str) -> set[str]:
        """The resources among names that a block mentions. Raises AwsError for what is neither one nor a parameter."""
        wanted = {one for one in names if not one.startswith("AWS::")} - self.section("Parameters").keys()
        unknown = sorted(wanted - self.resources.keys())
        if unknown:
            raise invalid(
                f"Template format error: Unresolved resource dependencies [{', '.join(unknown)}] in the {block} block "
                "of the template"
            )
        return wanted


def references(value: Json) -> Iterator[str]:
    """Every name that Ref, GetAtt or Sub mention, pseudo parameters included."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if name == "Ref":
            yield str(inner)
        elif name == "Fn::GetAtt":
            yield str(inner[0] if isinstance(inner, list) else inner.split(".")[0])
        elif name == "Fn::Sub":
            text, local = (inner, {}) if isinstance(inner, str) else inner
            yield from references(local)
            for literal, target in _PLACEHOLDER.findall(text):
                if not literal and target not in local:
                    yield target.split(".")[0]
        else:
            yield from references(inner)


def _parsed(body: str) -> Json:
    if body.lstrip().startswith("{"):
        try:
            return json.loads(body)
        except json.JSONDecodeError as error:
            place = f"(line {error.lineno}, column {error.colno + 1})"
            raise invalid(f"Template format error: JSON not well-formed. {place}") from None
    try:
        return yaml.load(body, Loader=_Loader)  # noqa: S506  a SafeLoader
    except (ValueError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        told = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise invalid(f"Template format error: YAML not well-formed.{told}") from None


NO_VALUE = object()


class Resolver:
    """Evaluates intrinsic functions. `parameters` includes pseudo parameters (`AWS::Region`, ...)."""

    def __init__(
        self,
        template: Template,
        parameters: Document,
        lookup: Lookup,
        imports: Callable[[str], str],
    ) -> None:
        self._template = template
        self._parameters = parameters
        self._lookup = lookup
        self._imports = imports
        self._conditions: dict[str, bool] = {}

    def resolve(self, value: Json) -> Json:
        """`value` with every function replaced. Raises AwsError for what cannot be resolved."""
        if isinstance(value, list):
            return [one for one in (self.resolve(item) for item in value) if one is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Ref":
                return self._ref(argument)
            if name.startswith("Fn::"):
                function = _FUNCTIONS.get(name)
                if function is None:
                    raise invalid(f"Template error: the local cloud does not provide the function {name}.")
                return function(self, argument)
        pairs = ((name, self.resolve(inner)) for name, inner in value.items())
        return {name: inner for name, inner in pairs if inner is not NO_VALUE}

    def condition(self, name: str) -> bool:
        """The value of a named condition."""
        if name not in self._conditions:
            if name not in self._template.section("Conditions"):
                raise invalid(f"Template format error: Unresolved condition dependency {name}")
            self._conditions[name] = self.test(self._template.section("Conditions")[name])
        return self._conditions[name]

    def test(self, expression: Json) -> bool:
        """The value of a condition expression."""
        if not isinstance(expression, dict) or len(expression) != 1:
            raise invalid(f"Template error: {expression!r} is no condition.")
        name, argument = next(iter(expression.items()))
        if name == "Condition":
            return self.condition(argument)
        if name == "Fn::Equals":
            left, right = (self.resolve(one) for one in argument)
            return _text(left) == _text(right)
        if name == "Fn::Not":
            return not self.test(argument[0])
        if name == "Fn::And":
            return all(self.test(one) for one in argument)
        if name == "Fn::Or":
            return any(self.test(one) for one in argument)
        if name == "Fn::Contains":
            return _text(self.resolve(argument[1])) in [_text(one) for one in self.resolve(argument[0])]
        raise invalid(f"Template error: the local cloud does not provide the condition function {name}.")

    def _ref(self, name: str) -> Json:
        if name == "AWS::NoValue":
            return NO_VALUE
        return self._parameters[name] if name in self._parameters else self._lookup(name, None)

    def _get_att(self, argument: Json) -> Json:
        name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
        return self._lookup(name, self.resolve(attribute))

    def _sub(self, argument: Json) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else argument
        values = self.resolve(local)

        def replace(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return "${" + name + "}"
            if name in values:
                return _text(values[name])
            return _text(self._get_att(name) if "." in name and name not in self._parameters else self._ref(name))

        return _PLACEHOLDER.sub(replace, text)

    def _find_in_map(self, argument: list[Json]) -> Json:
        found: Json = self._template.section("Mappings")
        for part in argument[:3]:
            step = self.resolve(part)
            if not isinstance(found, dict) or step not in found:
                raise invalid(f"Template error: Unable to get mapping for {'::'.join(map(str, argument[:3]))}")
            found = found[step]
        return found

    def _select(self, argument: list[Json]) -> Json:
        index, items = self.resolve(argument[0]), self.resolve(argument[1])
        try:
            return items[int(index)]
        except (IndexError, ValueError):
            raise invalid(f"Template error: Fn::Select cannot select nonexistent value at index {index}") from None

    def _cidr(self, argument: list[Json]) -> list[str]:
        block, count, *bits = (self.resolve(one) for one in argument)
        try:
            network = ipaddress.ip_network(block)
            host_bits = int(bits[0]) if bits else _HOST_BITS
            found = [
                str(one) for one in islice(network.subnets(new_prefix=network.max_prefixlen - host_bits), int(count))
            ]
        except ValueError:
            found = []
        if len(found) < int(count):
            raise invalid(
                f"Template error: Fn::Cidr cannot make {count} blocks of {argument[2:] or _HOST_BITS} bits of {block}"
            )
        return found

    def _base64(self, argument: Json) -> str:
        return base64.b64encode(_text(self.resolve(argument)).encode()).decode()

    def _azs(self, argument: Json) -> list[str]:
        region = self.resolve(argument) or self._parameters["AWS::Region"]
        if not is_region(region):
            raise invalid(f"Template error: Fn::GetAZs cannot tell the zones of region {region}")
        return [f"{region}{letter}" for letter in "abc"]


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_FUNCTIONS: dict[str, Callable[[Resolver, Json], Json]] = {
    "Fn::GetAtt": Resolver._get_att,
    "Fn::Sub": Resolver._sub,
    "Fn::Join": lambda self, a: _text(a[0]).join(_text(one) for one in self.resolve(a[1])),
    "Fn::Split": lambda self, a: _text(self.resolve(a[1])).split(a[0]),
    "Fn::Select": Resolver._select,
    "Fn::If": lambda self, a: self.resolve(a[1] if self.condition(a[0]) else a[2]),
    "Fn::FindInMap": Resolver._find_in_map,
    "Fn::ImportValue": lambda self, a: self._imports(_text(self.resolve(a))),
    "Fn::Base64": Resolver._base64,
    "Fn::Cidr": Resolver._cidr,
    "Fn::GetAZs": Resolver._azs,
    "Fn::Equals": lambda self, a: self.test({"Fn::Equals": a}),
}
