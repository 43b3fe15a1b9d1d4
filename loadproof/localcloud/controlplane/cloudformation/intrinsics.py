"""What AWS refuses of the functions in a template: names that are none, arguments of another form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Json

Section = Mapping[str, Json]  # of a template, or all of it

# What AWS names when it meets another one. Those of the transform AWS::LanguageExtensions are not among them.
_FUNCTIONS = (
    "Fn::Base64", "Fn::Cidr", "Fn::GetAtt", "Fn::GetAZs", "Fn::ImportValue", "Fn::Join", "Fn::Split", "Fn::FindInMap",
    "Fn::Select", "Ref", "Fn::Equals", "Fn::If", "Fn::Not", "Condition", "Fn::And", "Fn::Or", "Fn::Contains",
    "Fn::EachMemberEquals", "Fn::EachMemberIn", "Fn::ValueOf", "Fn::ValueOfAll", "Fn::RefAll", "Fn::Sub",
)  # fmt: skip
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/pseudo-parameter-reference.html
_PSEUDO = {
    "AWS::AccountId", "AWS::NotificationARNs", "AWS::NoValue", "AWS::Partition", "AWS::Region", "AWS::StackId",
    "AWS::StackName", "AWS::URLSuffix",
}  # fmt: skip


def refuse(message: str) -> AwsError:
    return AwsError("ValidationError", message)


def check_functions(document: Section, value: object) -> None:
    """The arguments of every function, wherever it stands."""
    if isinstance(value, list):
        for inner in value:
            check_functions(document, inner)
    if not isinstance(value, dict):
        return
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if str(name).startswith("Fn::") and name not in _FUNCTIONS:
            raise refuse(
                f"Template Error: Encountered unsupported function: {name} Supported functions are: "
                f"[{', '.join(_FUNCTIONS)}]"
            )
        if name == "Ref":
            _check_pseudo(argument)
        rule = _ARGUMENTS.get(name)
        if rule is not None:
            rule(document, argument)
    for inner in value.values():
        check_functions(document, inner)


def _check_pseudo(name: object) -> None:
    if str(name).startswith("AWS::") and name not in _PSEUDO:
        raise refuse(
            f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the template"
        )


def is_function(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and str(next(iter(value))).startswith(("Fn::", "Ref"))


def _is_list(value: object) -> bool:
    """A list of texts, or a function that may yield one."""
    return is_function(value) or (isinstance(value, list) and all(_is_text(one) for one in value))


def _is_text(value: object) -> bool:
    return is_function(value) or not isinstance(value, list | dict)


def _if(document: Section, argument: object) -> None:
    if not isinstance(argument, list) or len(argument) != 3:
        raise refuse("Template error: Fn::If requires a list argument with three elements")
    if str(argument[0]) not in (document.get("Conditions") or {}):
        raise refuse(f"Template error: unresolved condition dependency {argument[0]} in Fn::If")


def _get_att(document: Section, argument: object) -> None:
    parts = argument if isinstance(argument, list) else str(argument).split(".", 1)
    valid = len(parts) == 2 and all(parts) and isinstance(parts[0], str)
    if not valid or not (isinstance(parts[1], str) or (is_function(parts[1]) and "Ref" in parts[1])):
        raise refuse(
            "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the "
            "resource attribute"
        )


def _select(document: Section, argument: Json) -> None:
    valid = isinstance(argument, list) and len(argument) == 2 and _is_list(argument[1])
    index = argument[0] if valid else None
    if not valid or not (isinstance(index, dict) or str(index).isdigit()):
        raise refuse(
            "Template error: Fn::Select requires a list argument with two elements: an integer index and a list"
        )
    if isinstance(argument[1], list) and not isinstance(index, dict) and int(str(index)) >= len(argument[1]):
        raise refuse(f"Template error: Fn::Select cannot select nonexistent value at index {index}")


def _split(document: Section, argument: Json) -> None:
    pair = isinstance(argument, list) and len(argument) == 2
    if not pair or not isinstance(argument[0], str) or not isinstance(argument[1], str | dict):
        raise refuse(
            "Template error: every Fn::Split object requires two parameters, (1) a string delimiter and (2) a "
            "string to be split or a function that returns a string to be split."
        )


def _join(document: Section, argument: object) -> None:
    valid = isinstance(argument, list) and len(argument) == 2 and isinstance(argument[0], str) and _is_list(argument[1])
    if not valid:
        raise refuse(
            "Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of "
            "strings to be joined or a function that returns a list of strings (such as Fn::GetAZs) to be joined."
        )


def _base64(document: Section, argument: Json) -> None:
    if isinstance(argument, list):
        raise refuse("Template error: every Fn::Base64 object must have a String-typed value.")


def _cidr(document: Section, argument: Json) -> None:
    if not isinstance(argument, list) or len(argument) not in (2, 3):
        raise refuse(
            "Template error: every Fn::Cidr object requires two or three parameters, (1) an IP address block, (2) the "
            "number of blocks to generate and (3) the number of subnet bits"
        )
    for value, least, most in zip(argument[1:], (1, 1), (256, 128), strict=False):
        if not isinstance(value, dict) and not (str(value).isdigit() and least <= int(str(value)) <= most):
            raise refuse(f"Template error: Fn::Cidr takes {least} to {most}, found {value}")


_SUB = (
    "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as "
    "first argument, and an optional second argument to specify a mapping of values to replace in the string"
)


def _sub(document: Section, argument: object) -> None:
    match argument:
        case str() as text:
            given: Section = {}
        case [str() as text, dict() as given] if all(_is_text(one) for one in given.values()):
            pass
        case _:
            raise refuse(_SUB)
    for name in re.findall(r"\$\{(AWS::[^}]*)\}", text):
        if name not in given:
            _check_pseudo(name.strip())


def _find_in_map(document: Section, argument: object) -> None:
    nested = {next(iter(part)) for part in argument if is_function(part)} if isinstance(argument, list) else set()
    if not isinstance(argument, list) or len(argument) != 3 or nested - {"Ref", "Fn::FindInMap"}:
        raise refuse(
            "Template error: every Fn::FindInMap object requires three parameters, the map name, map key and the "
            "attribute for return value"
        )
    mappings = document.get("Mappings") or {}
    if isinstance(argument[0], str) and argument[0] not in mappings:
        raise refuse(
            f"Template error: Mapping named '{argument[0]}' is not present in the 'Mappings' section of template."
        )
    if all(isinstance(part, str) for part in argument):
        found = mappings[argument[0]].get(argument[1], {})
        if argument[2] not in found:
            raise refuse(f"Template error: Unable to get mapping for {'::'.join(argument)}")


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
