"""Values with the definitions they hang on: a parameter, condition or mapping that changed changes its users too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loadproof.review.references import is_function, references

Template = Mapping[str, object]
_SECTIONS: Final = {"Parameters": "Ref", "Conditions": "Fn::If", "Mappings": "Fn::FindInMap"}
WITH: Final = "with"  # the key of what a function is given: no function is called so


def with_definitions(before: Template, after: Template) -> tuple[Template, Template]:
    """Both templates, their functions completed by the definitions that are not the same on both sides.

    A value that only AWS can work out so differs where what it is worked out from does: rather one change too many.
    """
    changed = {section: _changed(part(before, section), part(after, section)) for section in _SECTIONS}
    # A condition may be written in terms of parameters and of other conditions.
    conditions = {**part(before, "Conditions"), **part(after, "Conditions")}
    while True:
        names = changed["Parameters"] | changed["Conditions"] | changed["Mappings"]
        more = {name for name, body in conditions.items() if _mentioned(body) & names} - changed["Conditions"]
        if not more:
            break
        changed["Conditions"] |= more
    if not any(changed.values()):
        return before, after
    return _completed(before, changed), _completed(after, changed)


def part(template: Template, section: str) -> Mapping[str, Any]:
    """One section of a template; empty where there is none, or something that AWS would refuse."""
    found = template.get(section)
    return found if isinstance(found, Mapping) else {}


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _mentioned(body: object) -> set[str]:
    """Parameters, conditions and mappings in a condition's body."""
    names = set(references(body))
    if isinstance(body, list):
        return names.union(*map(_mentioned, body))
    if isinstance(body, dict):
        if is_function(body):
            ((function, argument),) = body.items()
            named = argument[0] if function == "Fn::FindInMap" and isinstance(argument, list) and argument else argument
            names |= {named} if function in ("Condition", "Fn::FindInMap") and isinstance(named, str) else set()
        return names.union(*map(_mentioned, body.values()))
    return names


def _completed(template: Template, changed: Mapping[str, set[str]]) -> Template:
    resources = {
        logical_id: _resource(body, template, changed) for logical_id, body in part(template, "Resources").items()
    }
    return {**template, "Resources": resources}


def _resource(body: object, template: Template, changed: Mapping[str, set[str]]) -> object:
    if not isinstance(body, Mapping):
        return body
    completed = {**body, "Properties": _value(body.get("Properties") or {}, template, changed)}
    condition = body.get("Condition")
    if isinstance(condition, str) and condition in changed["Conditions"]:
        completed["Condition"] = _defined(condition, "Conditions", template, changed)
    return completed


def _value(value: object, template: Template, changed: Mapping[str, set[str]]) -> object:
    if isinstance(value, list):
        return [_value(item, template, changed) for item in value]
    if not isinstance(value, dict):
        return value
    if is_function(value):
        names = _used(value, changed)
        if names:
            ((function, argument),) = value.items()
            given = {name: _defined(name, section, template, changed) for section, name in sorted(names)}
            if function == "Ref":
                return given[argument]
            return {function: [_value(argument, template, changed), {WITH: given}]}
    return {name: _value(item, template, changed) for name, item in value.items()}


def _used(function: dict[str, object], changed: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """(section, name) of the changed definitions that this very function uses."""
    ((name, argument),) = function.items()
    first = argument[0] if isinstance(argument, list) and argument else argument
    first = first if isinstance(first, str) else ""  # a name that AWS would refuse names nothing
    if name in ("Fn::If", "Condition"):
        return {("Conditions", first)} if first in changed["Conditions"] else set()
    if name == "Fn::FindInMap":
        return {("Mappings", first)} if first in changed["Mappings"] else set()
    if name in ("Ref", "Fn::Sub"):
        return {("Parameters", found) for found in references(function) if found in changed["Parameters"]}
    return set()


def _defined(name: Any, section: str, template: Template, changed: Mapping[str, set[str]]) -> Any:
    """A parameter by its default, everything else as it is defined; as a name where this side has no such thing.

    What a definition hangs on itself is written inside it, each once: a circle ends.
    """
    definition = part(template, section).get(name)
    if section == "Parameters" and isinstance(definition, Mapping):
        return definition.get("Default", {"Ref": name})
    others = {**changed, section: changed[section] - {name}}
    return name if definition is None else {name: _value(definition, template, others)}
