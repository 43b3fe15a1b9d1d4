"""What AWS refuses of a template before anything starts: its form, its names, its limits, its functions' arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

from loadproof.localcloud.wire import AwsError

Section = Mapping[str, Any]  # of a template, or all of it

# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
_MOST = {"Resources": 500, "Parameters": 200, "Outputs": 200, "Mappings": 200}
_MOST_DESCRIPTION, _MOST_NAME, _MOST_CONDITIONS = 1024, 255, 10
_VERSION = "2010-09-09"
_SINGULAR = {"Resources": "Resource", "Parameters": "Parameter", "Outputs": "Output", "Mappings": "Mapping"}
_RESOURCE_KEYS = {
    "Type", "Properties", "DependsOn", "Condition", "Metadata", "DeletionPolicy", "UpdateReplacePolicy", "UpdatePolicy",
    "CreationPolicy",
}  # fmt: skip
_PARAMETER_KEYS = {
    "Type", "Default", "AllowedValues", "AllowedPattern", "ConstraintDescription", "Description", "MaxLength",
    "MinLength", "MaxValue", "MinValue", "NoEcho",
}  # fmt: skip
_OUTPUT_KEYS = {"Value", "Description", "Export", "Condition"}
_PARAMETER_TYPE = re.compile(
    r"String|Number|List<Number>|CommaDelimitedList|(List<)?AWS::[A-Za-z0-9]+::[A-Za-z0-9:]+>?"
    r"|AWS::SSM::Parameter::(Name|Value<.+>)"
)
_POLICIES = ("Delete", "Retain", "Snapshot", "RetainExceptOnCreate")
_WITH_SNAPSHOTS = re.compile(r"AWS::(EC2::Volume|ElastiCache|Neptune|RDS|Redshift|DocDB)")
_WITH_UPDATE_POLICY = {
    "AWS::AutoScaling::AutoScalingGroup", "AWS::ElastiCache::ReplicationGroup", "AWS::OpenSearchService::Domain",
    "AWS::Elasticsearch::Domain", "AWS::Lambda::Alias", "AWS::AppStream::Fleet",
}  # fmt: skip
_WITH_CREATION_POLICY = {
    "AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::Instance", "AWS::CloudFormation::WaitCondition",
    "AWS::AppStream::Fleet",
}  # fmt: skip
_CUSTOM_TYPE = re.compile(r"Custom::[A-Za-z0-9_@-]{1,60}")
# What AWS names when it meets another one. Those of the transform AWS::LanguageExtensions are not among them.
_FUNCTIONS = (
    "Fn::Base64", "Fn::Cidr", "Fn::GetAtt", "Fn::GetAZs", "Fn::ImportValue", "Fn::Join", "Fn::Split", "Fn::FindInMap",
    "Fn::Select", "Ref", "Fn::Equals", "Fn::If", "Fn::Not", "Condition", "Fn::And", "Fn::Or", "Fn::Contains",
    "Fn::EachMemberEquals", "Fn::EachMemberIn", "Fn::ValueOf", "Fn::ValueOfAll", "Fn::RefAll", "Fn::Sub",
)  # fmt: skip
_CONDITION_FUNCTIONS = {"Condition", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or", "Fn::Contains"}


def _refuse(message: str) -> AwsError:
    return AwsError("ValidationError", message)


def check(document: object) -> None:
    """Raise AwsError(ValidationError) for the first fault of a template's document, in AWS's words where known."""
    if not isinstance(document, dict | None):
        raise _refuse("Template format error: unsupported structure.")
    document = document or {}
    if not document.get("Resources") or not isinstance(document["Resources"], dict):
        raise _refuse("Template format error: At least one Resources member must be defined.")
    if str(document.get("AWSTemplateFormatVersion", _VERSION)) != _VERSION:
        raise _refuse("Template format error: Unsupported template version.")
    if len(str(document.get("Description", "")).encode()) > _MOST_DESCRIPTION:
        raise _refuse("Template format error: 'Description' length is greater than 1024.")
    for section, most in _MOST.items():
        _check_names(section, document.get(section) or {}, most)
    for name, resource in document["Resources"].items():
        _check_resource(name, resource)
    for name, slot in (document.get("Parameters") or {}).items():
        _check_parameter(name, slot)
        if name in document["Resources"]:
            raise _refuse(f"Template format error: logical name {name} is used more than once.")
    _check_mappings(document.get("Mappings") or {})
    _check_outputs(document.get("Outputs") or {}, document["Resources"])
    _check_conditions(document)
    for section in ("Resources", "Outputs"):
        _check_functions(document, document.get(section) or {})


def _check_names(section: str, rows: object, most: int) -> None:
    if not isinstance(rows, dict):
        raise _refuse(f"Template format error: {section} must be an object.")
    if len(rows) > most:
        noun = section.lower()
        raise _refuse(f"Template format error: Number of {noun}, {len(rows)}, is greater than maximum allowed, {most}")
    for name in rows:
        if not re.fullmatch(r"[A-Za-z0-9]+", str(name)):
            hint = " (Loops are of the transform AWS::LanguageExtensions.)" if str(name).startswith("Fn::") else ""
            raise _refuse(f"Template format error: {_SINGULAR[section]} name {name} is non alphanumeric.{hint}")
        if len(str(name)) > _MOST_NAME:
            raise _refuse(f"Template format error: {_SINGULAR[section]} name {name} is longer than {_MOST_NAME}.")


def _check_resource(name: str, resource: object) -> None:
    if not isinstance(resource, dict):
        raise _refuse("Template format error: Any Resources member must be an object.")
    if not isinstance(resource.get("Type"), str):
        raise _refuse(f"Template format error: [/Resources/{name}] Every Resources object must contain a Type member.")
    _check_members(name, resource)
    if not isinstance(resource.get("Properties", {}), dict):
        raise _refuse(f"Template format error: [/Resources/{name}/Properties] must be an object.")
    _check_nulls(resource.get("Properties", {}), f"/Resources/{name}/Properties")
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        _check_policy(name, resource, policy)


def _check_members(name: str, resource: Section) -> None:
    for key in resource:
        if key not in _RESOURCE_KEYS:
            raise _refuse(f"Invalid template resource property '{key}'")
    for policy, types in (("UpdatePolicy", _WITH_UPDATE_POLICY), ("CreationPolicy", _WITH_CREATION_POLICY)):
        if policy in resource and resource["Type"] not in types:
            raise _refuse(f"Template format error: {policy} is not supported by {resource['Type']} of resource {name}.")
    if not isinstance(resource.get("Metadata", {}), dict):
        raise _refuse(f"Template format error: [/Resources/{name}/Metadata] must be an object.")
    custom = resource["Type"].startswith("Custom::")
    if custom and not _CUSTOM_TYPE.fullmatch(resource["Type"]):
        raise _refuse(f"Template format error: the type {resource['Type']} of resource {name} is no custom type.")


def _check_policy(name: str, resource: Section, policy: str) -> None:
    """A function in its place is looked at again once it is resolved."""
    chosen = resource.get(policy)
    if chosen is None or isinstance(chosen, dict):
        return
    if chosen not in _POLICIES or (chosen == "RetainExceptOnCreate" and policy == "UpdateReplacePolicy"):
        raise _refuse(f"Template format error: Unrecognized {policy} {chosen} for resource {name}")
    if chosen == "Snapshot" and not _WITH_SNAPSHOTS.match(resource["Type"]):
        raise _refuse(f"Template error: resource type {resource['Type']} does not support {policy} Snapshot")


def check_policies(resources: Mapping[str, Section]) -> None:
    """As the form is checked, once the functions in DeletionPolicy and UpdateReplacePolicy are resolved."""
    for name, resource in resources.items():
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            if isinstance(resource.get(policy), dict):
                raise _refuse(f"Template format error: Every {policy} member must be a string: resource {name}")
            _check_policy(name, resource, policy)


def _check_nulls(value: object, place: str) -> None:
    if value is None:
        raise _refuse(f"[{place}] 'null' values are not allowed in templates")
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        _check_nulls(inner, f"{place}/{key}")


def _check_parameter(name: str, slot: object) -> None:
    if not isinstance(slot, dict) or not isinstance(slot.get("Type"), str):
        raise _refuse(f"Template format error: Every Parameters object must contain a Type member: {name}")
    unknown = sorted(slot.keys() - _PARAMETER_KEYS)
    if unknown:
        raise _refuse(f"Invalid template parameter property '{unknown[0]}'")
    if not _PARAMETER_TYPE.fullmatch(slot["Type"]):
        raise _refuse(f"Template format error: Unrecognized parameter type: {slot['Type']}")
    if not isinstance(slot.get("AllowedValues", []), list):
        raise _refuse(f"Template format error: AllowedValues of parameter {name} must be a list.")
    if str(slot.get("NoEcho", False)).lower() not in ("true", "false"):
        raise _refuse(f"Template format error: NoEcho of parameter {name} must be true or false.")
    try:
        regex.compile(str(slot.get("AllowedPattern", "")))
    except regex.error:
        raise _refuse(f"Template format error: AllowedPattern of parameter {name} is no regular expression.") from None


def _check_mappings(mappings: Section) -> None:
    for name, rows in mappings.items():
        if not isinstance(rows, dict):
            raise _refuse(f"Template format error: Every Mappings member {name} must be a map")
        for key, row in rows.items():
            if not isinstance(row, dict):
                raise _refuse(f"Template format error: Every Mappings member {key} must be a map")
            if any(isinstance(value, dict) for value in row.values()):
                raise _refuse("Template format error: Every Mappings attribute must be a String or a List.")


def _check_outputs(outputs: Section, resources: Section) -> None:
    exported = []
    for name, entry in outputs.items():
        if not isinstance(entry, dict) or "Value" not in entry:
            raise _refuse("Template format error: Every Outputs member must contain a Value object")
        _check_nulls(entry["Value"], f"/Outputs/{name}/Value")
        unknown = sorted(entry.keys() - _OUTPUT_KEYS)
        if unknown:
            raise _refuse(f"Invalid template output property '{unknown[0]}'")
        value = entry["Value"]
        if isinstance(value, list) or (isinstance(value, dict) and not _is_function(value)):
            raise _refuse(
                f"Template format error: The Value field of every Outputs member must evaluate to a String: {name}"
            )
        export = entry.get("Export", {})
        if not isinstance(export, dict):
            raise _refuse(f"Template format error: [/Outputs/{name}/Export] must be an object.")
        if any(used in resources for used in _names_in(export)):
            raise _refuse(f"Template format error: Output {name}: the name of an Export cannot depend on a resource.")
        exported.append(str(export.get("Name", name)))
    if len(set(exported)) != len(exported):
        raise _refuse("Template format error: Output export names must be unique.")


def _check_conditions(document: Section) -> None:
    conditions = document.get("Conditions") or {}
    if not isinstance(conditions, dict):
        raise _refuse("Template format error: Conditions must be an object.")
    _check_circles(conditions)
    for expression in conditions.values():
        _check_condition(expression, conditions)
        for used in _names_in(expression):
            if used in document["Resources"]:
                raise _refuse(
                    f"Template format error: Unresolved dependencies [{used}]. Cannot reference resources in the "
                    "Conditions block of the template"
                )
    for entry in [*document["Resources"].values(), *(document.get("Outputs") or {}).values()]:
        wanted = entry.get("Condition")
        if wanted is not None and str(wanted) not in conditions:
            raise _refuse(
                f"Template format error: Unresolved condition dependencies [{wanted}] in the Resources block of "
                "the template"
            )


def _check_circles(conditions: Section) -> None:
    left = {name: set(_conditions_in(expression)) & conditions.keys() for name, expression in conditions.items()}
    while ready := [name for name, needed in left.items() if not needed & left.keys()]:
        left = {name: needed for name, needed in left.items() if name not in ready}
    if left:
        raise _refuse(f"Template format error: Circular dependencies for condition(s) [{', '.join(sorted(left))}]")


def _conditions_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "Condition" and isinstance(inner, str):
                yield inner
            elif name == "Fn::If" and isinstance(inner, list) and inner:
                yield str(inner[0])
            yield from _conditions_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _conditions_in(inner)


def _check_condition(expression: object, conditions: Section) -> None:
    if not isinstance(expression, dict) or len(expression) != 1 or next(iter(expression)) not in _CONDITION_FUNCTIONS:
        raise _refuse("Template format error: Every Conditions member must be a condition function.")
    name, argument = next(iter(expression.items()))
    if name == "Condition":
        if str(argument) not in conditions:
            raise _refuse(f"Template format error: Unresolved condition dependency {argument}")
        return
    size = len(argument) if isinstance(argument, list) else 0
    if name == "Fn::Equals" and size != 2:
        raise _refuse("Template error: every Fn::Equals object requires a list of 2 string parameters.")
    if name == "Fn::Not" and size != 1:
        raise _refuse("Template error: every Fn::Not object requires one parameter which must be a condition.")
    if name in ("Fn::And", "Fn::Or"):
        if not 2 <= size <= _MOST_CONDITIONS:
            raise _refuse(
                f"Template error: every {name} object requires a list of at least 2 and at most 10 boolean parameters."
            )
        for inner in argument:
            _check_condition(inner, conditions)
    if name == "Fn::Not":
        _check_condition(argument[0], conditions)


def _names_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "Ref":
                yield str(inner)
            elif name == "Fn::GetAtt":
                yield str(inner[0] if isinstance(inner, list) else inner).split(".")[0]
            else:
                yield from _names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names_in(inner)


def _check_functions(document: Section, value: object) -> None:
    """The arguments of every function, wherever it stands."""
    if isinstance(value, list):
        for inner in value:
            _check_functions(document, inner)
    if not isinstance(value, dict):
        return
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if str(name).startswith("Fn::") and name not in _FUNCTIONS:
            raise _refuse(
                f"Template Error: Encountered unsupported function: {name} Supported functions are: "
                f"[{', '.join(_FUNCTIONS)}]"
            )
        rule = _ARGUMENTS.get(name)
        if rule is not None:
            rule(document, argument)
    for inner in value.values():
        _check_functions(document, inner)


def _is_function(value: Section) -> bool:
    return len(value) == 1 and str(next(iter(value))).startswith(("Fn::", "Ref"))


def _is_list(value: object) -> bool:
    """A list, or a function that may yield one."""
    return isinstance(value, list | dict)


def _if(document: Section, argument: object) -> None:
    if not isinstance(argument, list) or len(argument) != 3:
        raise _refuse("Template error: Fn::If requires a list argument with three elements")
    if str(argument[0]) not in (document.get("Conditions") or {}):
        raise _refuse(f"Template error: unresolved condition dependency {argument[0]} in Fn::If")


def _get_att(document: Section, argument: object) -> None:
    parts = argument if isinstance(argument, list) else str(argument).split(".", 1)
    if len(parts) != 2 or not all(parts):
        raise _refuse(
            "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the "
            "resource attribute"
        )


def _select(document: Section, argument: Any) -> None:
    valid = isinstance(argument, list) and len(argument) == 2 and _is_list(argument[1])
    index = argument[0] if valid else None
    if not valid or not (isinstance(index, dict) or str(index).isdigit()):
        raise _refuse(
            "Template error: Fn::Select requires a list argument with two elements: an integer index and a list"
        )
    if isinstance(argument[1], list) and not isinstance(index, dict) and int(str(index)) >= len(argument[1]):
        raise _refuse(f"Template error: Fn::Select cannot select nonexistent value at index {index}")


def _split(document: Section, argument: Any) -> None:
    pair = isinstance(argument, list) and len(argument) == 2
    if not pair or not isinstance(argument[0], str) or not isinstance(argument[1], str | dict):
        raise _refuse(
            "Template error: every Fn::Split object requires two parameters, (1) a string delimiter and (2) a "
            "string to be split or a function that returns a string to be split."
        )


def _join(document: Section, argument: object) -> None:
    valid = isinstance(argument, list) and len(argument) == 2 and isinstance(argument[0], str) and _is_list(argument[1])
    if not valid:
        raise _refuse(
            "Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of "
            "strings to be joined or a function that returns a list of strings (such as Fn::GetAZs) to be joined."
        )


def _base64(document: Section, argument: Any) -> None:
    if isinstance(argument, list):
        raise _refuse("Template error: every Fn::Base64 object must have a String-typed value.")


def _cidr(document: Section, argument: Any) -> None:
    if not isinstance(argument, list) or len(argument) not in (2, 3):
        raise _refuse(
            "Template error: every Fn::Cidr object requires two or three parameters, (1) an IP address block, (2) the "
            "number of blocks to generate and (3) the number of subnet bits"
        )
    for value, least, most in zip(argument[1:], (1, 1), (256, 128), strict=False):
        if not isinstance(value, dict) and not (str(value).isdigit() and least <= int(str(value)) <= most):
            raise _refuse(f"Template error: Fn::Cidr takes {least} to {most}, found {value}")


def _sub(document: Section, argument: object) -> None:
    match argument:
        case str() | [str(), dict()]:
            return
    raise _refuse(
        "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as "
        "first argument, and an optional second argument to specify a mapping of values to replace in the string"
    )


def _find_in_map(document: Section, argument: object) -> None:
    if not isinstance(argument, list) or len(argument) not in (3, 4):
        raise _refuse(
            "Template error: every Fn::FindInMap object requires three parameters, the map name, map key and the "
            "attribute for return value"
        )
    mappings = document.get("Mappings") or {}
    if isinstance(argument[0], str) and argument[0] not in mappings:
        raise _refuse(
            f"Template error: Mapping named '{argument[0]}' is not present in the 'Mappings' section of template."
        )
    if len(argument) == 3 and all(isinstance(part, str) for part in argument):
        found = mappings[argument[0]].get(argument[1], {})
        if argument[2] not in found:
            raise _refuse(f"Template error: Unable to get mapping for {'::'.join(argument)}")


_ARGUMENTS: dict[str, Callable[[Section, object], None]] = {
    "Fn::If": _if,
    "Fn::GetAtt": _get_att,
    "Fn::Select": _select,
    "Fn::Base64": _base64,
    "Fn::Cidr": _cidr,
    "Fn::Split": _split,
    "Fn::Join": _join,
    "Fn::Sub": _sub,
    "Fn::FindInMap": _find_in_map,
}
