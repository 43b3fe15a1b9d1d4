"""What EventBridge Scheduler refuses beyond its service model."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from moto.backends import get_backend

from loadproof.localcloud.account.roles import role_problem
from loadproof.localcloud.controlplane.schedule_expressions import NOT_SIMULATED, is_schedule, is_simulated
from loadproof.localcloud.refusals.rules import Rule, require
from loadproof.localcloud.wire import Caller, Params

_INVALID = "ValidationException"


def _schedule(caller: Caller, params: Params) -> None:
    expression = params["ScheduleExpression"]
    require(is_schedule(expression), _INVALID, f"Invalid Schedule Expression {expression}.")
    zone = params.get("ScheduleExpressionTimezone", "UTC")
    _check_zone(zone)
    require(is_simulated(expression, zone), "UnsupportedOperation", NOT_SIMULATED)
    window = params["FlexibleTimeWindow"]
    flexible = window.get("Mode") == "FLEXIBLE"
    message = "MaximumWindowInMinutes must be provided when Mode is set as FLEXIBLE."
    require(not flexible or "MaximumWindowInMinutes" in window, _INVALID, message)
    message = "MaximumWindowInMinutes must not be provided when Mode is set as OFF."
    require(flexible or "MaximumWindowInMinutes" not in window, _INVALID, message)
    start, end = params.get("StartDate"), params.get("EndDate")
    message = "The EndDate must be after the StartDate."
    require(start is None or end is None or float(start) < float(end), _INVALID, message)
    target = params["Target"]
    require(str(target["Arn"]).startswith("arn:"), _INVALID, f"Provided Arn is not in correct format: {target['Arn']}")
    _check_role(caller, target["RoleArn"])
    name = params.get("GroupName", "default")
    require(name in _groups(caller), "ResourceNotFoundException", f"Schedule group {name} does not exist.", 404)


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        require(False, _INVALID, f"The ScheduleExpressionTimezone {name} is not valid.")


def _check_role(caller: Caller, arn: str) -> None:
    trusted = role_problem(caller.account, arn, "scheduler.amazonaws.com") is None
    message = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
    require(trusted, _INVALID, message)


def _groups(caller: Caller) -> Any:
    return get_backend("scheduler")[caller.account][caller.region].schedule_groups


RULES: dict[str, Rule] = {"CreateSchedule": _schedule, "UpdateSchedule": _schedule}
