"""A queued request, read strictly, and the key of its result. The contract is docs/buffer.md."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass
from typing import Any, Final

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_REQUEST_S3: Final = re.compile(r"requests/[A-Za-z0-9._-]{1,200}")
_FIELDS: Final = ("request", "request_s3", "key", "deadline_ms", "priority", "tenant", "callback")

# A function of 512 MiB holds ten messages; 6 MB of "[]," would be 128 MiB, and the crash its neighbours' too.
MOST_VALUES_BYTES: Final = 24 * 1024 * 1024
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)  # possessive: nothing is kept to go back to
_VALUE_BYTES: Final = {"{": 200, "[": 80, ",": 60, ":": 60}
_one_at_a_time = threading.Lock()


class MalformedMessageError(Exception):
    """This body can never be served. The text says why, and never quotes what the sender wrote."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request. Exactly one of `request` and `request_s3` is there; `key` is None where it is to be derived."""

    request: dict[str, Any] | None
    request_s3: str | None
    key: str | None
    deadline_ms: int | None
    low_priority: bool
    tenant: str | None
    callback: str | None


def read_message(body: str) -> Message:
    """Parse one body. Raises MalformedMessageError."""
    content = _parsed(body)
    unknown = len(set(content) - set(_FIELDS))
    if unknown:
        raise MalformedMessageError(f"{unknown} unknown field(s); allowed: {', '.join(_FIELDS)}")
    request, place = content.get("request"), content.get("request_s3")
    if (request is None) == (place is None):
        raise MalformedMessageError("one of `request` and `request_s3` must be there, and not both")
    if request is not None and (not isinstance(request, dict) or not request):
        raise MalformedMessageError("`request` must be an object that holds the model's payload")
    deadline_ms = content.get("deadline_ms")
    if deadline_ms is not None and (type(deadline_ms) is not int or not 0 < deadline_ms < 1 << 53):
        raise MalformedMessageError("`deadline_ms` must be a whole number of milliseconds since 1970")
    if content.get("priority", "normal") not in ("normal", "low"):
        raise MalformedMessageError("`priority` must be normal or low")
    return Message(
        request=request,
        request_s3=_text(content, "request_s3", _REQUEST_S3, "requests/<name> of 1..200 of A-Z a-z 0-9 . _ -"),
        key=_text(content, "key", _KEY, "1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit"),
        deadline_ms=deadline_ms,
        low_priority=content.get("priority") == "low",
        tenant=_text(content, "tenant", re.compile(r"[!-~]{1,128}"), "1..128 visible ASCII characters"),
        callback=_text(content, "callback", re.compile(r"arn:[!-~]{1,300}"), "the ARN of a queue or a topic"),
    )


def read_request(body: str) -> dict[str, Any]:
    """A model's payload that was left in the bucket. Raises MalformedMessageError."""
    request = _parsed(body)
    if not request:
        raise MalformedMessageError("the payload in the bucket is an empty object")
    return request


def key_of(request: dict[str, Any], revision: str) -> str:
    """The key where the sender gave none: SHA-256 over the canonical `[model revision, request]`.

    The same question asked twice is one result. The queue's message id never names a result, because a re-sent request
    gets a new one.
    """
    canonical = json.dumps([revision, request], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _text(content: dict[str, Any], name: str, pattern: re.Pattern[str], allowed: str) -> str | None:
    value = content.get(name)
    if value is not None and (not isinstance(value, str) or not pattern.fullmatch(value)):
        raise MalformedMessageError(f"`{name}` must be {allowed}")
    return value


def _too_many_values(text: str) -> bool:
    """Whether a JSON text would take too much memory once it is read. What stands in its strings is no value."""
    if _weight(text) <= MOST_VALUES_BYTES:
        return False
    with _one_at_a_time:  # it takes ten times the text for a moment
        return _weight(_STRING.sub("", text)) > MOST_VALUES_BYTES


def _weight(text: str) -> int:
    return sum(each * text.count(mark) for mark, each in _VALUE_BYTES.items())


def _parsed(body: str) -> dict[str, Any]:
    if _too_many_values(body):
        raise MalformedMessageError("so many values in it that reading it would take too much memory")
    try:
        content = json.loads(body, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedMessageError("text with half a surrogate pair is not Unicode") from None
    except RecursionError:
        raise MalformedMessageError("nested too deeply") from None
    except ValueError as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise MalformedMessageError(f"not strict JSON{place}") from None
    if not isinstance(content, dict):
        raise MalformedMessageError("the body must be a JSON object")
    return content


def _no_constant(name: str) -> float:
    raise ValueError(name)  # NaN and the infinities are not JSON


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("duplicate name")
    return content
