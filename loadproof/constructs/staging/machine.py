"""The state machine of staging: list the files, copy each until it is whole, answer CloudFormation."""

from __future__ import annotations

import json
from typing import Final

from loadproof.wire.documents import Document

_AT_ONCE: Final = 16  # files in flight
_TEMPORARY: Final = [
    {"ErrorEquals": ["RefusedError"], "MaxAttempts": 0},
    {"ErrorEquals": ["ChecksumError"], "MaxAttempts": 1, "IntervalSeconds": 1},
    {"ErrorEquals": ["States.ALL"], "MaxAttempts": 6, "IntervalSeconds": 5, "BackoffRate": 2},
]
_OTHERWISE: Final = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Tell failure"}]


def definition() -> str:
    """Amazon States Language with `${Fetch}` and `${Begin}` for the functions' ARNs."""
    copy = {
        "Copy": _task("${Fetch}", {"step": "copy", "source.$": "$.source", "file.$": "$.file"}, "$.copied")
        | {"Retry": _TEMPORARY, "Next": "Whole?"},
        "Whole?": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.copied.done", "BooleanEquals": True, "Next": "Copied"}],
            "Default": "Copy",
        },
        "Copied": {"Type": "Pass", "Result": {}, "End": True},
    }
    states = {
        "List": _task("${Fetch}", {"step": "list", "source.$": "$.source"}, "$.files")
        | {"Retry": _TEMPORARY, "Catch": _OTHERWISE, "Next": "Files"},
        "Files": {
            "Type": "Map",
            "ItemsPath": "$.files",
            "ItemSelector": {"source.$": "$.source", "file.$": "$$.Map.Item.Value"},
            "MaxConcurrency": _AT_ONCE,
            "ItemProcessor": {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": "Copy", "States": copy},
            "ResultPath": None,
            "Catch": _OTHERWISE,
            "Next": "Tell success",
        },
        "Tell success": _task("${Begin}", {"request.$": "$.request"}, None) | {"Next": "Staged"},
        "Staged": {"Type": "Succeed"},
        "Tell failure": _task("${Begin}", {"request.$": "$.request", "error.$": "$.error"}, None)
        | {"Next": "Not staged"},
        "Not staged": {"Type": "Fail", "Error": "NotStaged", "Cause": "The failed state says why"},
    }
    return json.dumps({"StartAt": "List", "States": states})


def _task(function: str, parameters: Document, result_path: str | None) -> Document:
    return {"Type": "Task", "Resource": function, "Parameters": parameters, "ResultPath": result_path}
