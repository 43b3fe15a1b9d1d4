"""What EventBridge refuses beyond its service model."""

from __future__ import annotations

import json
import re
from typing import Any

from loadproof.localcloud.controlplane.schedule_expressions import is_schedule
from loadproof.localcloud.refusals.rules import Rule, moto_of, require
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

# EventBridge user guide, "Comparison operators": what a value may be compared by.
_MATCHES = {"prefix", "suffix", "anything-but", "numeric", "cidr", "exists", "equals-ignore-case", "wildcard"}
_WANTED = {
    "prefix": "a string",
    "suffix": "a string",
    "exists": "either true or false",
    "numeric": "an array of comparisons and numbers",
}
_SIGNS = {"=", "<", "<=", ">", ">="}
_MOST_BYTES = 1_048_576  # EventBridge quotas: of all entries of a request
_MOST_TARGETS = 5  # EventBridge quotas: targets of a rule
_PLACEHOLDER = re.compile(r"<([\w.-]+)>")
_INVALID, _PATTERN = "ValidationException", "InvalidEventPatternException"


def _rule(caller: Caller, params: Params) -> None:
    pattern, expression = params.get("EventPattern"), params.get("ScheduleExpression")
    message = "Parameter(s) EventPattern or ScheduleExpression must be specified."
    require(pattern or expression, _INVALID, message)
    if expression:
        valid = is_schedule(expression, plural=True) and not expression.startswith("at(")
        require(valid, _INVALID, "Parameter ScheduleExpression is not valid.")
    if pattern:
        _check_pattern(_json(pattern))


def _check_pattern(pattern: Any) -> None:
    require(isinstance(pattern, dict), _PATTERN, "Event pattern is not valid. Reason: Filter is not an object")
    for name, value in pattern.items():
        message = f'Event pattern is not valid. Reason: "{name}" must be an object or an array'
        require(isinstance(value, dict | list), _PATTERN, message)
        require(value, _PATTERN, f'Event pattern is not valid. Reason: Empty arrays are not allowed: "{name}"')
        if isinstance(value, dict) and not name.startswith("$"):
            _check_pattern(value)
        for one in value if isinstance(value, list) and not name.startswith("$") else ():
            unknown = sorted(one.keys() - _MATCHES) if isinstance(one, dict) else []
            message = f"Event pattern is not valid. Reason: Unrecognized match type {', '.join(unknown)}"
            require(not unknown, _PATTERN, message)
            for kind, given in one.items() if isinstance(one, dict) else ():
                _check_match(kind, given)


def _check_match(kind: str, given: Any) -> None:
    message = f"Event pattern is not valid. Reason: {kind} match pattern must be {_WANTED.get(kind)}"
    if kind in ("prefix", "suffix"):
        require(isinstance(given, str | dict), _PATTERN, message)
    elif kind == "exists":
        require(isinstance(given, bool), _PATTERN, message)
    elif kind == "numeric":
        signs = given[::2] if isinstance(given, list) else [None]
        require(set(signs) <= _SIGNS and given[1::2], _PATTERN, message)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _targets(caller: Caller, params: Params) -> None:
    buses = moto_of("events", caller).event_buses
    bus = buses.get(params.get("EventBusName", "default").rpartition("/")[2])
    rule = bus.rules.get(params["Rule"]) if bus is not None else None
    ids = {one["Id"] for one in (*(rule.targets if rule is not None else ()), *params["Targets"])}
    message = "The requested resource exceeds the maximum number allowed."
    require(len(ids) <= _MOST_TARGETS, "LimitExceededException", message)
    for target in params["Targets"]:
        arn = target["Arn"]
        message = f"Parameter {arn} is not valid. Reason: Provided Arn is not in correct format."
        require(arn.startswith("arn:") and arn.count(":") > 4, _INVALID, message)
        message = f"Only one of Input, InputPath, or InputTransformer must be provided for target {target['Id']}."
        inputs = [one for one in ("Input", "InputPath", "InputTransformer") if target.get(one) is not None]
        require(len(inputs) <= 1, _INVALID, message)
        _check_transformer(target)
        given = target.get("Input")
        message = f"JSON syntax error in input for target {target['Id']}."
        require(given is None or _json(given) is not None or given == "null", _INVALID, message)


def _check_transformer(target: Document) -> None:
    """EventBridge user guide, "Input transformation": paths begin at the event, and what a template names is there."""
    given = target.get("InputTransformer") or {}
    paths = given.get("InputPathsMap") or {}
    for path in (*paths.values(), *([target["InputPath"]] if target.get("InputPath") else ())):
        require(path.startswith("$"), _INVALID, f"Invalid JSON path {path} for target {target['Id']}.")
    named = set(_PLACEHOLDER.findall(given.get("InputTemplate") or ""))
    unknown = sorted(one for one in named - paths.keys() if not one.startswith("aws.events."))
    message = (
        f"InputTemplate for target {target['Id']} contains placeholder {', '.join(unknown)} that is not in its map."
    )
    require(not unknown, _INVALID, message)
    require(
        not given, "UnsupportedOperation", "The local cloud does not provide input transformers."
    )  # moto breaks at them


def _events(caller: Caller, params: Params) -> None:
    size = sum(len(str(value).encode()) for entry in params["Entries"] for value in entry.values())
    require(size <= _MOST_BYTES, _INVALID, "Total size of the entries in the request is over the limit.")


def _delete_bus(caller: Caller, params: Params) -> None:
    """DeleteEventBus; the words are AWS's: https://github.com/hashicorp/terraform-provider-aws/issues/22131"""
    bus = moto_of("events", caller).event_buses.get(params["Name"].rpartition("/")[2])
    rules = bus.rules if bus is not None else ()
    require(not rules, _INVALID, "EventBus can't be deleted since it has rules.")


RULES: dict[str, Rule] = {
    "PutRule": _rule,
    "PutTargets": _targets,
    "PutEvents": _events,
    "DeleteEventBus": _delete_bus,
}
