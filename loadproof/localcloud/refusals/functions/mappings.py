"""What Lambda refuses of event source mappings."""

from __future__ import annotations

import json
from typing import Any

from loadproof.localcloud.refusals.functions.lookup import INVALID, MISSING, function
from loadproof.localcloud.refusals.rules import Rule, check_tags, moto_of, require
from loadproof.localcloud.wire import Caller, Params

# https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html
_MOST_FILTERS = 5
_SOLE_BATCH = 10  # larger batches need a window


def _map(caller: Caller, params: Params) -> None:
    source = params.get("EventSourceArn")
    require(source or params.get("SelfManagedEventSource"), INVALID, "Unrecognized event source.")
    require(function(caller, params["FunctionName"]) is not None, INVALID, "Function does not exist")
    _check_source(caller, str(source or ""))
    _check_queue(caller, params, str(source or ""))
    _check_batch(params, 0)
    _check_filters(params)
    check_tags(params.get("Tags") or {}, INVALID)
    for known in _mappings(caller):
        same = known.event_source_arn == source and known.function_arn.endswith(
            f":{params['FunctionName'].split(':')[-1]}"
        )
        message = (
            f'An event source mapping with SQS arn (" {source} ") and function (" {params["FunctionName"]} ") already '
            f"exists. Please update or delete the existing mapping with UUID {known.uuid}"
        )
        require(not same, "ResourceConflictException", message, 409)


def _check_source(caller: Caller, arn: str) -> None:
    if ":sqs:" not in arn:
        require(arn.startswith("arn:"), INVALID, "Unrecognized event source.")
        return
    queues = moto_of("sqs", caller).queues
    message = (
        "Error occurred while ReceiveMessage. SQS Error Code: AWS.SimpleQueueService.NonExistentQueue. "
        "SQS Error Message: The specified queue does not exist."
    )
    require(arn.rpartition(":")[2] in queues, INVALID, message)


# What the API reference of CreateEventSourceMapping marks as of streams, Kafka or documents only.
_NOT_OF_QUEUES = (
    "StartingPosition", "StartingPositionTimestamp", "BisectBatchOnFunctionError", "MaximumRetryAttempts",
    "MaximumRecordAgeInSeconds", "ParallelizationFactor", "TumblingWindowInSeconds", "Topics", "Queues",
    "DestinationConfig", "DocumentDBEventSourceConfig",
)  # fmt: skip


def _check_queue(caller: Caller, params: Params, arn: str) -> None:
    if ":sqs:" not in arn:
        return
    for field in _NOT_OF_QUEUES:
        require(not params.get(field), INVALID, f"{field} is not valid for SQS event sources.")
    both = params.get("ScalingConfig") and params.get("ProvisionedPollerConfig")
    require(not both, INVALID, "ScalingConfig and ProvisionedPollerConfig cannot be used together.")
    timeout_s = int(getattr(function(caller, params["FunctionName"]), "timeout", 0))
    queues: Any = moto_of("sqs", caller).queues
    visibility_s = int(queues[arn.rpartition(":")[2]].visibility_timeout)
    message = f"Queue visibility timeout: {visibility_s} seconds is less than Function timeout: {timeout_s} seconds"
    require(visibility_s >= timeout_s, INVALID, message)


def _check_batch(params: Params, window_s: int) -> None:
    message = "Maximum batch window in seconds must be greater than 0 if maximum batch size is greater than 10"
    window_s = params.get("MaximumBatchingWindowInSeconds", window_s)
    require(params.get("BatchSize", 1) <= _SOLE_BATCH or window_s, INVALID, message)


def _check_filters(params: Params) -> None:
    filters = (params.get("FilterCriteria") or {}).get("Filters") or []
    require(len(filters) <= _MOST_FILTERS, INVALID, f"An event source mapping has at most {_MOST_FILTERS} filters.")
    for one in filters:
        try:
            pattern = json.loads(one.get("Pattern") or "")
        except ValueError:
            pattern = None
        require(isinstance(pattern, dict), INVALID, "Invalid filter pattern definition.")


def _mapping(caller: Caller, params: Params) -> None:
    known = [one for one in _mappings(caller) if one.uuid == params["UUID"]]
    require(known, MISSING, "The resource you requested does not exist.", 404)


def _update_mapping(caller: Caller, params: Params) -> None:
    _mapping(caller, params)
    _check_batch(params, 0)
    _check_filters(params)


def _mappings(caller: Caller) -> list[Any]:
    return list(moto_of("lambda", caller)._event_source_mappings.values())


RULES: dict[str, Rule] = {
    "CreateEventSourceMapping": _map,
    "UpdateEventSourceMapping": _update_mapping,
    "DeleteEventSourceMapping": _mapping,
    "GetEventSourceMapping": _mapping,
}
