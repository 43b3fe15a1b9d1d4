"""A message for the buffer, held to the rules by which the consumer reads it: what it would refuse is not sent."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from loadproof.errors import InputError

MOST_REQUEST_BYTES: Final = 6_291_456  # of a request in the bucket: what SageMaker takes as a payload
FIELDS: Final = ("request", "request_s3", "key", "deadline_ms", "priority", "tenant", "callback")
MOST_VALUES_BYTES: Final = 24 * 1024 * 1024  # what a message may become in memory, as the consumer reckons it
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)  # possessive: nothing is kept to go back to
_VALUE_BYTES: Final = {"{": 200, "[": 80, ",": 60, ":": 60}

_TEXTS: Final = {
    "request_s3": (re.compile(r"requests/[A-Za-z0-9._-]{1,200}"), "requests/<name> of 1..200 of A-Z a-z 0-9 . _ -"),
    "key": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
        "1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
    ),
    "tenant": (re.compile(r"[!-~]{1,128}"), "1..128 visible ASCII characters"),
    "callback": (re.compile(r"arn:[!-~]{1,300}"), "the ARN of a queue or a topic"),
}


class MessageError(InputError):
    """A message that no consumer would take. `problems` are all there are; none quotes what was to be sent."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Message:
    """One request to a model. Exactly one of `request` and `request_s3` (the payload, left in the results bucket).

    `key` names the result; without one it is made of request and model revision, so that the same question is asked
    once. After `deadline_ms` (Unix time) it is not invoked any more. `low` priority waits while the endpoint is short
    of capacity; a `tenant` that sends much does not make the others wait; `callback` is an ARN of the profile's
    `buffer.callbacks`. Raises MessageError with every problem.
    """

    request: Mapping[str, Any] | None = None
    key: str | None = None
    deadline_ms: int | None = None
    priority: Literal["normal", "low"] = "normal"
    tenant: str | None = None
    callback: str | None = None
    request_s3: str | None = None

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise MessageError(problems)

    @property
    def body(self) -> str:
        """What goes into the queue: the fields that say something, as JSON."""
        content: dict[str, Any] = {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}
        if self.priority == "normal":
            del content["priority"]
        return _json(content)

    def _problems(self) -> list[str]:
        problems = []
        if (self.request is None) == (self.request_s3 is None):
            problems.append("one of `request` and `request_s3` must be there, and not both")
        if self.request is not None and (not isinstance(self.request, Mapping) or not self.request):
            problems.append("`request` must be an object that holds the model's payload")
        elif self.request is not None and (refused := _unsendable(self.request)):
            problems.append(f"`request`: {refused}")
        if self.deadline_ms is not None and (type(self.deadline_ms) is not int or not 0 < self.deadline_ms < 1 << 53):
            problems.append("`deadline_ms` must be a whole number of milliseconds since 1970")
        if self.priority not in ("normal", "low"):
            problems.append("`priority` must be normal or low")
        for name, (pattern, allowed) in _TEXTS.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not pattern.fullmatch(value)):
                problems.append(f"`{name}` must be {allowed}")
        return problems


def read_message(body: str) -> Message:
    """A message out of its JSON. Raises MessageError."""
    content = read_object(body)
    unknown = sorted(set(content) - set(FIELDS))
    if unknown:
        raise MessageError([f"{len(unknown)} unknown field(s); allowed: {', '.join(FIELDS)}"])
    if content.get("priority", "") is None:
        raise MessageError(["`priority` must be normal or low"])
    return Message(**content)


def read_object(text: str) -> dict[str, Any]:
    """A JSON object, read as strictly as the consumer reads it: no NaN, no name twice. Raises MessageError."""
    if _too_many_values(text):
        raise MessageError(["so many values in it that reading it would take too much memory"])
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MessageError(["text with half a surrogate pair is not Unicode"]) from None
    except RecursionError:
        raise MessageError(["nested too deeply"]) from None
    except ValueError as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise MessageError([f"not strict JSON{place}"]) from None
    if not isinstance(content, dict):
        raise MessageError(["expected a JSON object"])
    return content


def key_of(request: Mapping[str, Any], revision: str) -> str:
    """The key where the sender gave none: SHA-256 over the canonical `[model revision, request]`.

    The consumer makes the same one (stacks/buffer/runtime/consumer/message.py).
    """
    canonical = json.dumps([revision, request], sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()


def request_json(request: Mapping[str, Any]) -> str:
    """The payload as JSON. Names stay in their order: some models answer in the order of a schema's."""
    return _json(request)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict)
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")  # the two that SQS refuses


def _unsendable(request: Mapping[str, Any]) -> str | None:
    """Why a payload made in Python is not what strict JSON can carry; None where it is."""
    try:
        read_object(_json(request))
    except MessageError as error:
        return error.problems[0]
    except RecursionError:
        return "nested too deeply"
    except (TypeError, ValueError) as error:
        # Names of types only: a value may be what somebody asked in confidence.
        return "NaN and infinities are not JSON" if isinstance(error, ValueError) else "holds what JSON has no form for"
    return None


def _too_many_values(text: str) -> bool:
    """Whether a JSON text would take too much memory once it is read. What stands in its strings is no value."""
    if _weight(text) <= MOST_VALUES_BYTES:
        return False
    return _weight(_STRING.sub("", text)) > MOST_VALUES_BYTES


def _weight(text: str) -> int:
    return sum(each * text.count(mark) for mark, each in _VALUE_BYTES.items())


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("duplicate name")
    return content
