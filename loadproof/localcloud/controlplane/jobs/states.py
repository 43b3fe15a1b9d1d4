"""What AWS refuses of single states: numbers out of their bounds, fields of the other language, arguments of services.

Sources: Amazon States Language specification (states-language.net/spec.html) and the Step Functions developer guide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from moto.core.utils import get_service_model
from moto.stepfunctions.parser.asl.parse.intrinsic.intrinsic_parser import IntrinsicParser

from loadproof.wire.documents import Document, Json

_LONGEST_S: Final = 99_999_999  # of waits and time-outs
_LONGEST_DELAY_S: Final = 31_622_400
_OF_JSONATA: Final = {"Arguments", "Output", "Items"}
_VARIABLE: Final = re.compile(r"[^\W\d]\w{0,79}(\.\$)?")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
# Optimised integrations whose arguments are those of one operation; what they take beside, and what AWS asks for.
_OPERATIONS: Final = {
    "lambda:invoke": ("lambda", "Invoke", {"FunctionName"}, set()),
    "sqs:sendMessage": ("sqs", "SendMessage", {"QueueUrl", "MessageBody"}, {"MessageAttribute"}),
    "sns:publish": ("sns", "Publish", {"Message"}, set()),
    "events:putEvents": ("events", "PutEvents", {"Entries"}, set()),
    "states:startExecution": ("stepfunctions", "StartExecution", {"StateMachineArn"}, set()),
}


def named_twice(machine: Json) -> list[str]:
    """States' names are unique in the whole machine, those inside of branches and maps among them."""
    return sorted(name for name, count in Counter(_names(machine)).items() if count > 1)


def _names(machine: Json) -> Iterator[str]:
    states = machine.get("States") if isinstance(machine, dict) else None
    for name, state in states.items() if isinstance(states, dict) else ():
        yield name
        if isinstance(state, dict):
            for inner in (state.get("Iterator"), state.get("ItemProcessor"), *(state.get("Branches") or ())):
                yield from _names(inner)


def state_problems(state: Document, language: str) -> Iterator[str]:
    """Each without the place."""
    if language == "JSONPath":
        foreign = sorted(state.keys() & _OF_JSONATA)
        yield from (f"{name} is not supported with JSONPath" for name in foreign)
        yield from (f"{text!r} is no intrinsic function" for text in _intrinsics(state) if not _is_intrinsic(text))
    for name in state.get("Assign", ()):
        if not _VARIABLE.fullmatch(name) or name.removesuffix(".$") == "states":
            yield f"{name!r} is no name of a variable"
    yield from _bound_problems(state)
    yield from (why for choice in state.get("Choices", ()) for why in _choice_problems(choice, top=True))
    config = (state.get("ItemProcessor") or {}).get("ProcessorConfig") or {}
    if config.get("Mode") == "DISTRIBUTED" and config.get("ExecutionType") not in ("STANDARD", "EXPRESS"):
        yield "ProcessorConfig of a distributed Map needs ExecutionType STANDARD or EXPRESS"
    if "ItemReader" in state and config.get("Mode") != "DISTRIBUTED":
        yield "ItemReader is of a Map whose ProcessorConfig has Mode DISTRIBUTED"
    yield from _argument_problems(state)


def _bound_problems(state: Document) -> Iterator[str]:
    for name in ("Seconds", "TimeoutSeconds", "HeartbeatSeconds"):
        value = state.get(name)
        if isinstance(value, int) and value > _LONGEST_S:
            yield f"{name} is at most {_LONGEST_S}, found {value}"
        if isinstance(value, int) and value < 1 and name != "Seconds":
            yield f"{name} is positive, found {value}"
    for retrier in state.get("Retry", ()):
        most, interval = retrier.get("MaxDelaySeconds"), retrier.get("IntervalSeconds", 1)
        if isinstance(most, int) and not interval < most < _LONGEST_DELAY_S:
            yield f"MaxDelaySeconds lies above IntervalSeconds ({interval}) and below {_LONGEST_DELAY_S}, found {most}"


def _choice_problems(choice: Json, *, top: bool) -> Iterator[str]:
    if not isinstance(choice, dict):
        return
    if not top and "Next" in choice:
        yield "Next stands in the outermost rule of a Choice only"
    for name, value in choice.items():
        told = name.startswith("Timestamp") and not name.endswith("Path") and isinstance(value, str)
        if told and not _is_timestamp(value):
            yield f"{name} compares a timestamp of RFC 3339, found {value!r}"
        inner = value if isinstance(value, list) else [value]
        if name in ("And", "Or", "Not"):
            yield from (why for one in inner for why in _choice_problems(one, top=False))


def _is_timestamp(text: str) -> bool:
    try:
        return bool(_TIMESTAMP.fullmatch(text) and datetime.fromisoformat(text))
    except ValueError:
        return False


def _argument_problems(state: Document) -> Iterator[str]:
    """Arguments that an optimised integration does not know, or lacks."""
    name = str(state.get("Resource")).partition(":states:::")[2].partition(".")[0]
    field = "Arguments" if "Arguments" in state else "Parameters"
    given = state.get(field, {})
    if name.startswith("aws-sdk:") and isinstance(
        given, dict
    ):  # its names are in PascalCase, whatever the service's are
        yield from (f"The field {one!r} is not supported by Step Functions" for one in given if one[:1].islower())
    if name not in _OPERATIONS or not isinstance(given, dict):
        return
    service, operation, required, more = _OPERATIONS[name]
    shape: Any = get_service_model(service).operation_model(operation).input_shape
    known = {one[0].upper() + one[1:] for one in shape.members} | more
    told = {one.removesuffix(".$") for one in given}
    yield from (f"The field {one!r} is not supported by Step Functions" for one in sorted(told - known))
    yield from (f"The field {one!r} is required but was missing in {field}" for one in sorted(required - told))


def _intrinsics(value: Json) -> Iterator[str]:
    """The calls of intrinsic functions in a state's templates; states inside have their own turn."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in rows:
        if isinstance(name, str) and name.endswith(".$") and isinstance(one, str) and one.startswith("States."):
            yield one
        elif name not in ("Result", "ItemProcessor", "Iterator", "Branches"):
            yield from _intrinsics(one)


def _is_intrinsic(text: str) -> bool:
    depth, quoted, before = 0, False, ""
    for sign in text:
        if sign == "'" and before != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (sign == "(") - (sign == ")")
        before = sign
    if depth or quoted or not text.endswith(")"):
        return False
    try:
        IntrinsicParser.parse(text)
    except Exception:  # whatever the parser calls it
        return False
    return True
