"""What AWS refuses of a template before anything starts: its form, its names, its limits, its functions' arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import regex

from loadproof.localcloud.controlplane.cloudformation.intrinsics import Section, check_functions, is_function, refuse

# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
_MOST = {"Resources": 500, "Parameters": 200, "Outputs": 200, "Mappings": 200}
_MOST_DESCRIPTION, _MOST_NAME, _MOST_CONDITIONS = 1024, 255, 10
_MOST_OF_PARAMETER = 4000  # of its description
_VERSION = "2010-09-09"
_SECTIONS = ("Metadata", "Parameters", "Mappings", "Conditions", "Rules", "Outputs")
_MAPPING_KEY = re.compile(r"[A-Za-z0-9.-]+")
_SINGULAR = {"Resources": "Resource", "Parameters": "Parameter", "Outputs": "Output", "Mappings": "Mapping"}
_RESOURCE_KEYS = {
    "Type", "Properties", "DependsOn", "Condition", "Metadata", "DeletionPolicy", "UpdateReplacePolicy", "UpdatePolicy",
    "CreationPolicy",
}  # fmt: skip
_PARAMETER_KEYS = {
    "Type", "Default", "AllowedValues", "AllowedPattern", "ConstraintDescription", "Description", "MaxLength",
    "MinLength", "MaxValue", "MinValue", "NoEcho",
}  # fmt: skip
_EXPORT = re.compile(r"[A-Za-z0-9:-]+")
_OUTPUT_KEYS = {"Value", "Description", "Export", "Condition"}
_PARAMETER_TYPE = re.compile(
    r"String|Number|List<(Number|String)>|CommaDelimitedList|(List<)?AWS::(EC2::(AvailabilityZone::Name|Image::Id|Instance::Id"
    r"|KeyPair::KeyName|SecurityGroup::(GroupName|Id)|Subnet::Id|Volume::Id|VPC::Id)|Route53::HostedZone::Id)>?"
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
_TESTS = {"Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or"}
_CONDITION_FUNCTIONS = {"Condition", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or", "Fn::Contains"}


def check(document: object) -> None:
    """Raise AwsError(ValidationError) for the first fault of a template's document, in AWS's words where known."""
    if not isinstance(document, dict | None):
        raise refuse("Template format error: unsupported structure.")
    document = document or {}
    if not document.get("Resources") or not isinstance(document["Resources"], dict):
        raise refuse("Template format error: At least one Resources member must be defined.")
    if str(document.get("AWSTemplateFormatVersion", _VERSION)) != _VERSION:
        raise refuse("Template format error: Unsupported template version.")
    if len(str(document.get("Description", "")).encode()) > _MOST_DESCRIPTION:
        raise refuse("Template format error: 'Description' length is greater than 1024.")
    if not isinstance(document.get("Description", ""), str):
        raise refuse("Template format error: Description must be a string.")
    for section in _SECTIONS:
        if not isinstance(document.get(section) or {}, dict) or document.get(section) in ([], ""):
            raise refuse(f"Template format error: {section} must be an object.")
    for section, most in _MOST.items():
        _check_names(section, document.get(section) or {}, most)
    for name, resource in document["Resources"].items():
        _check_resource(name, resource)
        _check_dependencies(name, resource.get("DependsOn", []), document["Resources"])
    for name, slot in (document.get("Parameters") or {}).items():
        _check_parameter(name, slot)
        if name in document["Resources"]:
            raise refuse(f"Template format error: logical name {name} is used more than once.")
    _check_mappings(document.get("Mappings") or {})
    _check_outputs(document.get("Outputs") or {}, document["Resources"])
    _check_conditions(document)
    for section in ("Resources", "Outputs"):
        check_functions(document, document.get(section) or {})


def _check_names(section: str, rows: object, most: int) -> None:
    if not isinstance(rows, dict):
        raise refuse(f"Template format error: {section} must be an object.")
    if len(rows) > most:
        noun = section.lower()
        raise refuse(f"Template format error: Number of {noun}, {len(rows)}, is greater than maximum allowed, {most}")
    for name in rows:
        if not re.fullmatch(r"[A-Za-z0-9]+", str(name)):
            hint = " (Loops are of the transform AWS::LanguageExtensions.)" if str(name).startswith("Fn::") else ""
            raise refuse(f"Template format error: {_SINGULAR[section]} name {name} is non alphanumeric.{hint}")
        if len(str(name)) > _MOST_NAME:
            raise refuse(f"Template format error: {_SINGULAR[section]} name {name} is longer than {_MOST_NAME}.")


def _check_resource(name: str, resource: object) -> None:
    if not isinstance(resource, dict):
        raise refuse("Template format error: Any Resources member must be an object.")
    if not isinstance(resource.get("Type"), str):
        raise refuse(f"Template format error: [/Resources/{name}] Every Resources object must contain a Type member.")
    _check_members(name, resource)
    if not isinstance(resource.get("Properties", {}), dict):
        raise refuse(f"Template format error: [/Resources/{name}/Properties] must be an object.")
    _check_nulls(resource.get("Properties", {}), f"/Resources/{name}/Properties")
    for function in _TESTS & set(_functions_in(resource.get("Properties", {}))):
        raise refuse(
            f"Template error: {function} is no function of a property; name a condition in Fn::If"
        )  # from memory
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        _check_policy(name, resource, policy)


def _functions_in(value: object) -> Iterator[str]:
    if isinstance(value, dict) and len(value) == 1:
        yield str(next(iter(value)))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _functions_in(inner)


def _check_dependencies(name: str, needed: object, resources: Section) -> None:
    names = needed if isinstance(needed, list) else [needed]
    if not all(isinstance(one, str) for one in names):
        raise refuse(f"Template format error: DependsOn of resource {name} must be a string or a list of strings.")
    unknown = [str(one) for one in names if one not in resources]
    if unknown:
        raise refuse(
            f"Template format error: Unresolved resource dependencies [{', '.join(unknown)}] in the Resources block of "
            "the template"
        )


def _check_members(name: str, resource: Section) -> None:
    for key in resource:
        if key not in _RESOURCE_KEYS:
            raise refuse(f"Invalid template resource property '{key}'")
    for policy, types in (("UpdatePolicy", _WITH_UPDATE_POLICY), ("CreationPolicy", _WITH_CREATION_POLICY)):
        if policy in resource and resource["Type"] not in types:
            raise refuse(f"Template format error: {policy} is not supported by {resource['Type']} of resource {name}.")
    if not isinstance(resource.get("Metadata", {}), dict):
        raise refuse(f"Template format error: [/Resources/{name}/Metadata] must be an object.")
    custom = resource["Type"].startswith("Custom::")
    if custom and not _CUSTOM_TYPE.fullmatch(resource["Type"]):
        raise refuse(f"Template format error: the type {resource['Type']} of resource {name} is no custom type.")


def _check_policy(name: str, resource: Section, policy: str) -> None:
    """A function in its place is looked at again once it is resolved."""
    chosen = resource.get(policy)
    if chosen is None or isinstance(chosen, dict):
        return
    if chosen not in _POLICIES or (chosen == "RetainExceptOnCreate" and policy == "UpdateReplacePolicy"):
        raise refuse(f"Template format error: Unrecognized {policy} {chosen} for resource {name}")
    if chosen == "Snapshot" and not _WITH_SNAPSHOTS.match(resource["Type"]):
        raise refuse(f"Template error: resource type {resource['Type']} does not support {policy} Snapshot")


def check_policies(resources: Mapping[str, Section]) -> None:
    """As the form is checked, once the functions in DeletionPolicy and UpdateReplacePolicy are resolved."""
    for name, resource in resources.items():
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            if isinstance(resource.get(policy), dict):
                raise refuse(f"Template format error: Every {policy} member must be a string: resource {name}")
            _check_policy(name, resource, policy)


def _check_nulls(value: object, place: str) -> None:
    if value is None:
        raise refuse(f"[{place}] 'null' values are not allowed in templates")
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        _check_nulls(inner, f"{place}/{key}")


def _check_parameter(name: str, slot: object) -> None:
    if not isinstance(slot, dict) or not isinstance(slot.get("Type"), str):
        raise refuse(f"Template format error: Every Parameters object must contain a Type member: {name}")
    unknown = sorted(slot.keys() - _PARAMETER_KEYS)
    if unknown:
        raise refuse(f"Invalid template parameter property '{unknown[0]}'")
    if not _PARAMETER_TYPE.fullmatch(slot["Type"]):
        raise refuse(f"Template format error: Unrecognized parameter type: {slot['Type']}")
    if isinstance(slot.get("Default"), dict | list):
        raise refuse("Template format error: Every Default member must be a string.")
    if len(str(slot.get("Description", ""))) > _MOST_OF_PARAMETER:
        raise refuse(f"Template format error: Description of parameter {name} is longer than {_MOST_OF_PARAMETER}.")
    if not isinstance(slot.get("AllowedValues", []), list):
        raise refuse(f"Template format error: AllowedValues of parameter {name} must be a list.")
    if str(slot.get("NoEcho", False)).lower() not in ("true", "false"):
        raise refuse(f"Template format error: NoEcho of parameter {name} must be true or false.")
    try:
        regex.compile(str(slot.get("AllowedPattern", "")))
    except regex.error:
        raise refuse(f"Template format error: AllowedPattern of parameter {name} is no regular expression.") from None


def _check_mappings(mappings: Section) -> None:
    for name, rows in mappings.items():
        if not isinstance(rows, dict):
            raise refuse(f"Template format error: Every Mappings member {name} must be a map")
        for key, row in rows.items():
            if not _MAPPING_KEY.fullmatch(str(key)):
                raise refuse(f"Template format error: Mappings element name '{key}' must be alphanumeric, '-' or '.'")
            if not isinstance(row, dict):
                raise refuse(f"Template format error: Every Mappings member {key} must be a map")
            if any(isinstance(value, dict) for value in row.values()):
                raise refuse("Template format error: Every Mappings attribute must be a String or a List.")


def _check_outputs(outputs: Section, resources: Section) -> None:
    exported = []
    for name, entry in outputs.items():
        if not isinstance(entry, dict) or "Value" not in entry:
            raise refuse("Template format error: Every Outputs member must contain a Value object")
        _check_nulls(entry["Value"], f"/Outputs/{name}/Value")
        unknown = sorted(entry.keys() - _OUTPUT_KEYS)
        if unknown:
            raise refuse(f"Invalid template output property '{unknown[0]}'")
        value = entry["Value"]
        if isinstance(value, list) or (isinstance(value, dict) and not is_function(value)):
            raise refuse(
                f"Template format error: The Value field of every Outputs member must evaluate to a String: {name}"
            )
        export = entry.get("Export", {})
        if not isinstance(export, dict):
            raise refuse(f"Template format error: [/Outputs/{name}/Export] must be an object.")
        if "Export" in entry and not (isinstance(export.get("Name"), str) or is_function(export.get("Name") or {})):
            raise refuse(f"Template format error: Output {name} has an Export without a Name that is a string.")
        if isinstance(export.get("Name"), str) and not _EXPORT.fullmatch(export["Name"]):
            raise refuse(
                f"Template format error: Output {name} is malformed. The Name field of every Export member must be "
                "specified and consist only of alphanumeric characters, colons, or hyphens."
            )
        if any(used in resources for used in _names_in(export)):
            raise refuse(f"Template format error: Output {name}: the name of an Export cannot depend on a resource.")
        exported.append(str(export.get("Name", name)))
    if len(set(exported)) != len(exported):
        raise refuse("Template format error: Output export names must be unique.")


def _check_conditions(document: Section) -> None:
    conditions = document.get("Conditions") or {}
    if not isinstance(conditions, dict):
        raise refuse("Template format error: Conditions must be an object.")
    _check_circles(conditions)
    for name, expression in conditions.items():
        if not re.fullmatch(r"[A-Za-z0-9]+", str(name)):
            raise refuse(f"Template format error: Condition name {name} is non alphanumeric.")
        _check_condition(expression, conditions)
        for used in _names_in(expression):
            if used in document["Resources"]:
                raise refuse(
                    f"Template format error: Unresolved dependencies [{used}]. Cannot reference resources in the "
                    "Conditions block of the template"
                )
    for entry in [*document["Resources"].values(), *(document.get("Outputs") or {}).values()]:
        wanted = entry.get("Condition")
        if wanted is not None and str(wanted) not in conditions:
            raise refuse(
                f"Template format error: Unresolved condition dependencies [{wanted}] in the Resources block of "
                "the template"
            )


def _check_circles(conditions: Section) -> None:
    left = {name: set(_conditions_in(expression)) & conditions.keys() for name, expression in conditions.items()}
    while ready := [name for name, needed in left.items() if not needed & left.keys()]:
        left = {name: needed for name, needed in left.items() if name not in ready}
    if left:
        raise refuse(f"Template format error: Circular dependencies for condition(s) [{', '.join(sorted(left))}]")


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
        raise refuse("Template format error: Every Conditions member must be a condition function.")
    name, argument = next(iter(expression.items()))
    if name == "Condition":
        if str(argument) not in conditions:
            raise refuse(f"Template format error: Unresolved condition dependency {argument}")
        return
    size = len(argument) if isinstance(argument, list) else 0
    if name == "Fn::Equals" and size != 2:
        raise refuse("Template error: every Fn::Equals object requires a list of 2 string parameters.")
    if name == "Fn::Not" and size != 1:
        raise refuse("Template error: every Fn::Not object requires one parameter which must be a condition.")
    if name in ("Fn::And", "Fn::Or"):
        if not 2 <= size <= _MOST_CONDITIONS:
            raise refuse(
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
