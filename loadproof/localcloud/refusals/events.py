"""What EventBridge refuses beyond its service model."""

from __future__ import annotations

import json
from typing import Any

from moto.backends import get_backend

from loadproof.localcloud.controlplane.schedule_expressions import is_schedule
from loadproof.localcloud.refusals.rules import Rule, require
from loadproof.localcloud.wire import Caller, Params

# EventBridge user guide, "Comparison operators": what a value may be compared by.
_MATCHES = {"prefix", "suffix", "anything-but", "numeric", "cidr", "exists", "equals-ignore-case", "wildcard"}
_MOST_TARGETS = 5  # EventBridge quotas: targets of a rule
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


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _targets(caller: Caller, params: Params) -> None:
    buses = get_backend("events")[caller.account][caller.region].event_buses
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
        given = target.get("Input")
        message = f"JSON syntax error in input for target {target['Id']}."
        require(given is None or _json(given) is not None or given == "null", _INVALID, message)


RULES: dict[str, Rule] = {"PutRule": _rule, "PutTargets": _targets}
