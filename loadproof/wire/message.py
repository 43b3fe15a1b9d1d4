"""The buffer's message, strictly read, and the names of its places. The contract is docs/buffer.md."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

RESULTS_PREFIX: Final = "results/"
REQUESTS_PREFIX: Final = "requests/"
MOST_REQUEST_BYTES: Final = 6_291_456  # of a request in the bucket: what SageMaker takes as a payload
FIELDS: Final = ("request", "request_s3", "key", "deadline_ms", "priority", "tenant", "callback")
# What a consumer adds to a message that it sends on, as SQS attributes.
FIRST_SENT, POSTPONED, REASON, ATTEMPTS = "first_sent_ms", "postponed", "reason", "attempts"

# A function of 512 MiB holds ten messages; 6 MB of "[]," would be 128 MiB, and the crash its neighbours' too.
MOST_VALUES_BYTES: Final = 24 * 1024 * 1024
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)  # possessive: nothing is kept to go back to
_VALUE_BYTES: Final = {"{": 200, "[": 80, ",": 60, ":": 60}
_one_at_a_time = threading.Lock()

_TEXTS: Final = {
    "request_s3": (re.compile(r"requests/[A-Za-z0-9._-]{1,200}"), "requests/<name> of 1..200 of A-Z a-z 0-9 . _ -"),
    "key": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
        "1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
    ),
    "tenant": (re.compile(r"[!-~]{1,128}"), "1..128 visible ASCII characters"),
    "callback": (re.compile(r"arn:[!-~]{1,300}"), "the ARN of a queue or a topic"),
}


class MalformedError(Exception):
    """What can never be served. `problems` are all there are; none quotes what the sender wrote."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = [*problems]


@dataclass(frozen=True, slots=True)
class Message:
    """One request to a model. Exactly one of `request` and `request_s3` (the payload, left in the results bucket).

    `key` names the result; without one it is made of request and model revision, so that the same question is asked
    once. After `deadline_ms` (Unix time) it is not invoked any more. `low` priority waits while the endpoint is short
    of capacity; a `tenant` that sends much does not make the others wait; `callback` is an ARN of the profile's
    `buffer.callbacks`. Raises MalformedError with every problem.
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
            raise MalformedError(*problems)

    @property
    def body(self) -> str:
        """What goes into the queue: the fields that say something, as JSON."""
        content: dict[str, Any] = {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}
        if self.priority == "normal":
            del content["priority"]
        return request_json(content)

    def _problems(self) -> Iterator[str]:
        if (self.request is None) == (self.request_s3 is None):
            yield "one of `request` and `request_s3` must be there, and not both"
        if self.request is not None and (not isinstance(self.request, Mapping) or not self.request):
            yield "`request` must be an object that holds the model's payload"
        if self.deadline_ms is not None and (type(self.deadline_ms) is not int or not 0 < self.deadline_ms < 1 << 53):
            yield "`deadline_ms` must be a whole number of milliseconds since 1970"
        if self.priority not in ("normal", "low"):
            yield "`priority` must be normal or low"
        for name, (pattern, allowed) in _TEXTS.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not pattern.fullmatch(value)):
                yield f"`{name}` must be {allowed}"


def read_message(body: str) -> Message:
    """A message out of its JSON. Raises MalformedError."""
    return Message(**read_fields(body))


def read_fields(body: str) -> dict[str, Any]:
    """The fields of a message, not yet held to its rules. Raises MalformedError."""
    content = read_object(body)
    unknown = len(set(content) - set(FIELDS))
    if unknown:
        raise MalformedError(f"{unknown} unknown field(s); allowed: {', '.join(FIELDS)}")
    return content


def read_request(text: str) -> dict[str, Any]:
    """A model's payload that was left in the bucket. Raises MalformedError."""
    request = read_object(text)
    if not request:
        raise MalformedError("the payload in the bucket is an empty object")
    return request


def read_object(text: str) -> dict[str, Any]:
    """A JSON object, read strictly: no NaN, no name twice, nothing that UTF-8 cannot carry. Raises MalformedError."""
    if _too_many_values(text):
        raise MalformedError("so many values in it that reading it would take too much memory")
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedError("text with half a surrogate pair is not Unicode") from None
    except RecursionError:
        raise MalformedError("nested too deeply") from None
    except ValueError as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise MalformedError(f"not strict JSON{place}") from None
    if not isinstance(content, dict):
        raise MalformedError("expected a JSON object")
    return content


def key_of(request: Mapping[str, Any], revision: str) -> str:
    """The key where the sender gave none: SHA-256 over the canonical `[model revision, request]`.

    The same question asked twice is one result. The queue's message id never names a result, because a re-sent request
    gets a new one.
    """
    canonical = json.dumps([revision, request], sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()


def request_json(request: Mapping[str, Any]) -> str:
    """The payload as JSON. Names stay in their order: some models answer in the order of a schema's.

    Raises TypeError, ValueError and RecursionError for what JSON cannot carry.
    """
    text = json.dumps(request, ensure_ascii=False, allow_nan=False, default=dict)
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")  # the two that SQS refuses


def _too_many_values(text: str) -> bool:
    """Whether a JSON text would take too much memory once it is read. What stands in its strings is no value."""
    if _weight(text) <= MOST_VALUES_BYTES:
        return False
    with _one_at_a_time:  # it takes ten times the text for a moment
        return _weight(_STRING.sub("", text)) > MOST_VALUES_BYTES


def _weight(text: str) -> int:
    return sum(each * text.count(mark) for mark, each in _VALUE_BYTES.items())


def _no_constant(name: str) -> float:
    raise ValueError(name)  # NaN and the infinities are not JSON


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("duplicate name")
    return content
