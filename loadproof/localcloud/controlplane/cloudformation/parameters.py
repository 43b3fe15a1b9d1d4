"""Template parameters: defaults, constraints, previous values, values kept in Systems Manager, template rules."""

from __future__ import annotations

import re
from collections.abc import Callable

from loadproof.localcloud.account.networks import security_groups, subnets, vpcs
from loadproof.localcloud.controlplane.cloudformation.template import Resolver, Template, invalid
from loadproof.localcloud.wire import Caller
from loadproof.wire.documents import Document, Json

SsmValue = Callable[[str], str]


def given_parameters(template: Template, request: list[Document], previous: dict[str, str]) -> dict[str, str]:
    """The raw value of every parameter of the template. Raises AwsError for missing and unknown ones."""
    slots = template.section("Parameters")
    given: dict[str, str] = {}
    for entry in request:
        name = entry["ParameterKey"]
        if name not in slots:
            if entry.get("UsePreviousValue"):
                continue
            raise invalid(f"Parameters: [{name}] do not exist in the template")
        if entry.get("UsePreviousValue"):
            if name not in previous:
                raise invalid(f"Invalid input for parameter key {name}. It has no previous value to use")
            given[name] = previous[name]
        else:
            given[name] = str(entry.get("ParameterValue", ""))
    missing = []
    for name, slot in slots.items():
        if name not in given:
            if "Default" not in slot:
                missing.append(name)
            else:
                given[name] = _default(slot["Default"])
    if missing:
        raise invalid(f"Parameters: [{', '.join(missing)}] must have values")
    return given


def check_defaults(template: Template) -> None:
    """A default that its own slot does not allow. Raises AwsError."""
    for name, slot in template.section("Parameters").items():
        allowed = slot.get("AllowedValues")
        if "Default" in slot and allowed and _default(slot["Default"]) not in [_default(one) for one in allowed]:
            raise invalid(f"Template format error: Parameter '{name}' default value is not in its allowed values.")


def _default(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def resolved_parameters(
    template: Template, given: dict[str, str], caller: Caller, stack_name: str, stack_arn: str, ssm: SsmValue
) -> Document:
    """What Ref yields for every parameter and pseudo parameter. Raises AwsError when a constraint is broken."""
    resolved: Document = {
        "AWS::AccountId": caller.account,
        "AWS::Region": caller.region,
        "AWS::Partition": "aws",
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::StackName": stack_name,
        "AWS::StackId": stack_arn,
        "AWS::NotificationARNs": [],
    }
    for name, slot in template.section("Parameters").items():
        resolved[name] = _value(name, slot, given[name], ssm)
        _check_exists(caller, name, str(slot.get("Type")), resolved[name])
    _check_rules(template, resolved)
    return resolved


def _value(name: str, slot: Document, raw: str, ssm: SsmValue) -> Json:
    kind = str(slot.get("Type", "String"))
    if kind.startswith("AWS::SSM::Parameter::Value"):
        raw = ssm(raw)
        return raw.split(",") if "List" in kind else raw
    allowed = slot.get("AllowedValues")
    if allowed and raw not in [_default(one) for one in allowed]:
        raise invalid(f"Parameter '{name}' must be one of AllowedValues")
    pattern = slot.get("AllowedPattern")
    if pattern and not re.fullmatch(pattern, raw):
        raise invalid(f"Parameter '{name}' must match pattern {pattern}")
    if not int(slot.get("MinLength", 0)) <= len(raw) <= int(slot.get("MaxLength", len(raw))):
        raise invalid(f"Parameter '{name}' has a length outside MinLength and MaxLength")
    if kind == "Number":
        return _number(name, slot, raw)
    if kind == "List<Number>":
        return [_number(name, slot, part.strip()) for part in raw.split(",")] if raw else []
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [part.strip() for part in raw.split(",")] if raw else []
    return raw


def _check_exists(caller: Caller, name: str, kind: str, value: Json) -> None:
    """Parameters of AWS's own types name what is there."""
    for place, known in (("VPC::Id", vpcs), ("Subnet::Id", subnets), ("SecurityGroup::Id", security_groups)):
        if kind not in (f"AWS::EC2::{place}", f"List<AWS::EC2::{place}>"):
            continue
        for one in value if isinstance(value, list) else [value]:
            if one not in known(caller):
                raise invalid(
                    f"Parameter validation failed: parameter value {one} for parameter name {name} does not exist"
                )


def _number(name: str, slot: Document, raw: str) -> str:
    try:
        number = float(raw)
    except ValueError:
        raise invalid(f"Parameter '{name}' must be a number.") from None
    if not float(slot.get("MinValue", number)) <= number <= float(slot.get("MaxValue", number)):
        raise invalid(f"Parameter '{name}' must lie between MinValue and MaxValue")
    return raw


def _check_rules(template: Template, resolved: Document) -> None:
    def no_resources(name: str, attribute: str | None) -> Json:
        raise invalid(f"Template error: a rule must not refer to resource {name}")

    resolver = Resolver(template, resolved, no_resources, lambda name: name)
    for name, rule in template.section("Rules").items():
        if "RuleCondition" in rule and not resolver.test(rule["RuleCondition"]):
            continue
        for assertion in rule.get("Assertions", []):
            if not resolver.test(assertion["Assert"]):
                raise invalid(f"Rule {name} failed: {assertion.get('AssertDescription', 'assertion is false')}")
