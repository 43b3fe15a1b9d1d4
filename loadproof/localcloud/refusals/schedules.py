"""What EventBridge Scheduler refuses beyond its service model."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from botocore.exceptions import UnknownServiceError
from moto.core.utils import get_service_model

from loadproof.localcloud.account.roles import role_problem
from loadproof.localcloud.controlplane.schedule_expressions import NOT_SIMULATED, is_schedule, is_simulated
from loadproof.localcloud.refusals.rules import Moto, Rule, moto_of, require
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

_INVALID = "ValidationException"
_OLDEST_START_S = 300
_READING = r"(get|describe|list|poll|receive|search|scan|query|select|read|lookup|discover|validate|batchGet)[A-Z]"
# https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-templated.html
_TEMPLATED = {
    "codebuild", "codepipeline", "ecs", "events", "firehose", "inspector", "kinesis", "lambda", "sagemaker", "sns",
    "sqs", "states",
}  # fmt: skip
_JSON_INPUTS = {"events", "lambda", "states"}
_SDK_NAMES = {"sfn": "stepfunctions", "eventbridge": "events", "cloudwatchlogs": "logs", "cloudwatch": "cloudwatch"}


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
    # https://github.com/getmoto/moto/pull/8172: of recurring schedules
    message = "The StartDate you specify cannot be earlier than 5 minutes ago."
    once = expression.startswith("at(")
    require(once or start is None or float(start) >= time.time() - _OLDEST_START_S, _INVALID, message)
    target = params["Target"]
    require(str(target["Arn"]).startswith("arn:"), _INVALID, f"Provided Arn is not in correct format: {target['Arn']}")
    _check_target(target)
    _check_role(caller, target["RoleArn"])
    name = params.get("GroupName", "default")
    require(name in _groups(caller), "ResourceNotFoundException", f"Schedule group {name} does not exist.", 404)


def _check_target(target: Document) -> None:
    """A universal target names an operation that changes something; two kinds of targets need parameters of their own.

    Source: EventBridge Scheduler user guide, "Using universal targets" and "Using templated targets".
    """
    arn = str(target["Arn"])
    service, _, operation = arn.partition(":aws-sdk:")[2].partition(":")
    if service:
        reading = re.match(_READING, operation)
        require(not reading, _INVALID, f"Invalid RequestJson provided. Reason: {operation} is a read-only operation.")
        known = operation[:1].islower() and operation[:1].upper() + operation[1:] in _operations(service)
        require(known, _INVALID, f"Invalid RequestJson provided. Reason: {service}:{operation} is not supported.")
    parts = arn.split(":")
    kind = parts[2]
    message = f"Provided Arn is not in correct format: {arn} is neither a templated target nor a universal one."
    require(service or kind in _TEMPLATED, _INVALID, message)
    message = f"Invalid Input. Reason: it must be JSON for the target {arn}."
    require(kind not in _JSON_INPUTS or _is_json(target.get("Input") or "{}"), _INVALID, message)
    message = f"SqsParameters are not of the target {arn}."
    require(kind == "sqs" or not target.get("SqsParameters"), _INVALID, message)
    for kind, field in (
        ("ecs", "EcsParameters"),
        ("events", "EventBridgeParameters"),
        ("kinesis", "KinesisParameters"),
    ):
        needed = len(parts) > 2 and parts[2] == kind
        require(not needed or target.get(field), _INVALID, f"{field} must be provided for the target {arn}.")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _operations(service: str) -> list[str]:
    """Names as AWS's SDK for Java has them, less what only it abbreviates."""
    for name in (_SDK_NAMES.get(service, service), service):
        with suppress(UnknownServiceError):
            return list(get_service_model(name).operation_names)
    return []


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        require(False, _INVALID, f"The ScheduleExpressionTimezone {name} is not valid.")


def _check_role(caller: Caller, arn: str) -> None:
    trusted = role_problem(caller.account, arn, "scheduler.amazonaws.com") is None
    message = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
    require(trusted, _INVALID, message)


def _groups(caller: Caller) -> Moto:
    return moto_of("scheduler", caller).schedule_groups


def _group(caller: Caller, params: Params) -> None:
    taken = params["Name"] in _groups(caller) or params["Name"] == "default"
    require(not taken, "ConflictException", f"Schedule group {params['Name']} already exists.", 409)


def _delete_group(caller: Caller, params: Params) -> None:
    name = params["Name"]
    require(name != "default", _INVALID, "The default schedule group cannot be deleted.")
    require(name in _groups(caller), "ResourceNotFoundException", f"Schedule group {name} does not exist.", 404)


RULES: dict[str, Rule] = {
    "CreateSchedule": _schedule,
    "UpdateSchedule": _schedule,
    "CreateScheduleGroup": _group,
    "DeleteScheduleGroup": _delete_group,
}
