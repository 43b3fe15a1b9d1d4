"""A queued request: `{"request": {…the model's own payload…}, "key": "…optional…"}`, and the key of its result."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ALLOWED: Final = ("request", "key")


class MalformedMessageError(Exception):
    """This body can never be served. The text says why, and never quotes what the sender wrote."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request and the name of its result."""

    key: str
    request: dict[str, Any]


def read_message(body: str, *, revision: str) -> Message:
    """Parse one body. Without a key of the sender's own the result is named by what decides it.

    That is SHA-256 over the request as canonical JSON and the model's revision: the same question asked twice is
    one result. The queue's message id never names a result, because a re-sent request gets a new one.
    Raises MalformedMessageError.
    """
    content = _parsed(body)
    unknown = sorted(set(content) - set(_ALLOWED))
    if unknown:
        raise MalformedMessageError(f"{len(unknown)} unknown field(s); allowed: request, key")
    request = content.get("request")
    if not isinstance(request, dict) or not request:
        raise MalformedMessageError("`request` must be an object that holds the model's payload")
    key = content.get("key")
    if key is None:
        canonical = json.dumps([revision, request], sort_keys=True, separators=(",", ":"))
        return Message(hashlib.sha256(canonical.encode()).hexdigest(), request)
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise MalformedMessageError("`key` must be 1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit")
    return Message(key, request)


def _parsed(body: str) -> dict[str, Any]:
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
