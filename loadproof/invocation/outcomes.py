"""How a request ended, in one closed list, and what a caller that may try again should do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import orjson

from loadproof.addresses import shown_url
from loadproof.invocation import faults
from loadproof.wire.answers import Cause, cause_in_band, cause_of

Hide = Callable[[str], str]
MESSAGE_LIMIT, CODE_LIMIT = 300, 80
_PAGE_TITLE, _PAGE_BYTES = re.compile(rb"<title[^>]*>([^<]+)</title>", re.IGNORECASE), 8192
_QUOTE_CHARACTERS, _SHORTEST_QUOTE = 24, 8  # a prompt's beginning long enough to be no accident


class OutcomeKind(StrEnum):
    """Every way a request ends; each request has exactly one."""

    OK = "ok"
    THROTTLED = "throttled"  # 429, ThrottlingException whatever its status, a service quota passed
    NO_CAPACITY = "no_capacity"  # 400 ValidationError of a component at zero copies
    NOT_READY = "not_ready"  # 429 ModelNotReadyException
    UNAVAILABLE = "unavailable"  # 503
    MODEL_ERROR = "model_error"  # 424: the container, or Bedrock's model, answered with an error
    STREAM_ERROR = "stream_error"  # error event, damaged frame or unreadable payload after a 200
    IN_BAND_ERROR = "in_band_error"  # the model's own error object after a 200, or an answer without any token
    TRUNCATED = "truncated"  # ended in order, but without its end marker
    TIMEOUT = "timeout"
    CONNECTION = "connection"  # refused, reset, closed before any answer, TLS
    VALIDATION = "validation"  # any other 4xx: input, rights or target are wrong
    INTERNAL = "internal"  # any other 5xx
    CANCELED = "canceled"  # ended by us


class RetryClass(StrEnum):
    """What the one retry policy may do. The invoker itself never retries."""

    POISON = "poison"  # never: it would fail again, by its own fault or by a target or right that is wrong
    SLOW_DOWN = "slow_down"  # later, with fewer in flight
    TRY_AGAIN = "try_again"  # soon, within a budget
    NO_CAPACITY_YET = "no_capacity_yet"  # probe rarely until the first copy is up


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code` is the server's or our own name for the cause, else its status: `HTTP 503`.

    `retry` is None for `ok` and `canceled`. `retry_once`: not more than one attempt more, for a time-out may have cost
    a whole generation. `retry_after_s`: how long the server asks to wait.
    """

    kind: OutcomeKind
    http_status: int | None = None
    code: str = ""
    message: str = ""
    retry: RetryClass | None = None
    retry_once: bool = False
    retry_after_s: float = 0.0

    @property
    def is_own_shortage(self) -> bool:
        """This machine could not connect: nothing was sent, and nothing is said of whom it was for."""
        return self.kind is OutcomeKind.CONNECTION and self.code == faults.SHORTAGE

    @property
    def ok(self) -> bool:
        return self.kind is OutcomeKind.OK


# What a cause allows to whoever has the item in hand: a target or a right that is wrong is told, not waited for.
_CLASSES: Final = {
    Cause.THROTTLED: (OutcomeKind.THROTTLED, RetryClass.SLOW_DOWN),
    Cause.NOT_READY: (OutcomeKind.NOT_READY, RetryClass.SLOW_DOWN),
    Cause.UNAVAILABLE: (OutcomeKind.UNAVAILABLE, RetryClass.SLOW_DOWN),
    Cause.NO_CAPACITY: (OutcomeKind.NO_CAPACITY, RetryClass.NO_CAPACITY_YET),
    Cause.STALE_CREDENTIALS: (OutcomeKind.VALIDATION, RetryClass.SLOW_DOWN),
    Cause.NO_RIGHT: (OutcomeKind.VALIDATION, RetryClass.POISON),
    Cause.NO_TARGET: (OutcomeKind.VALIDATION, RetryClass.POISON),
    Cause.REFUSED: (OutcomeKind.VALIDATION, RetryClass.POISON),
    Cause.TIMED_OUT: (OutcomeKind.TIMEOUT, RetryClass.TRY_AGAIN),
    Cause.BROKEN: (OutcomeKind.INTERNAL, RetryClass.TRY_AGAIN),
}


def outcome_of_fault(fault: faults.InvocationFault, http_status: int | None, hide: Hide = str) -> Outcome:
    """The outcome of a fault met on the way, after `http_status` (None: before any answer)."""
    kind, code, cause = _class_of_fault(fault)
    retry = None if cause is None else _CLASSES[cause][1]
    code, message = _trim(hide(code), CODE_LIMIT), _trim(hide(str(fault)))
    return Outcome(kind, http_status, code, message, retry, cause is Cause.TIMED_OUT)


def _class_of_fault(fault: faults.InvocationFault) -> tuple[OutcomeKind, str, Cause | None]:
    match fault:
        case faults.TruncatedStreamError():
            return OutcomeKind.TRUNCATED, "Truncated", Cause.BROKEN
        case faults.TimeoutFault(phase=phase):
            return OutcomeKind.TIMEOUT, phase, Cause.BROKEN if phase == "connect" else Cause.TIMED_OUT
        case faults.ConnectionFault(code=faults.SHORTAGE):  # fewer at once, and it is no attempt
            return OutcomeKind.CONNECTION, faults.SHORTAGE, Cause.UNAVAILABLE
        case faults.ConnectionFault(code=code):
            return OutcomeKind.CONNECTION, code, Cause.BROKEN
        case faults.CanceledFault():
            return OutcomeKind.CANCELED, "Canceled", None
        case faults.InBandError(code=code):
            return OutcomeKind.IN_BAND_ERROR, code, cause_in_band(code)
        case faults.BudgetFault(code=code):
            return OutcomeKind.STREAM_ERROR, code, Cause.BROKEN
        case faults.ModelStreamError(code=code, original_status=original_status):
            return OutcomeKind.STREAM_ERROR, code, cause_of(0, code, original_status=original_status)
        case _:  # InternalStreamFailure, FrameError, PayloadError, HttpProtocolFault: the type's name says it
            return OutcomeKind.STREAM_ERROR, type(fault).__name__, Cause.BROKEN


def outcome_of_status(http_status: int, error_type: str, body: bytes, location: str = "", hide: Hide = str) -> Outcome:
    """The outcome of an answer with a status other than 2xx.

    `error_type` is the `x-amzn-ErrorType` header or empty, `location` where a redirect points, which is not followed;
    `hide` cuts out of a text what must not be told. Understands SageMaker's `{"Message"}` and Bedrock's `{"message"}`,
    TGI's `{"error", "error_type"}`, OpenAI's `{"error": {...}}` and FastAPI's `{"detail"}`.
    """
    fields = _object(body)
    code, message = _code_and_message(fields, error_type, body)
    code = code or f"HTTP {http_status}"
    original_status = fields.get("OriginalStatusCode", fields.get("originalStatusCode"))
    original = str(fields.get("OriginalMessage") or fields.get("originalMessage") or "")
    cause = cause_of(http_status, code, f"{message} {original}", original_status)
    kind, retry = _CLASSES[cause]
    if http_status == 424:
        kind = OutcomeKind.MODEL_ERROR
        message = f"{message} [{original}]" if message and original else message or original
    elif http_status >= 500 and cause is Cause.TIMED_OUT:
        kind = OutcomeKind.INTERNAL
    if 300 <= http_status < 400 and location:
        message = f"points to {shown_url(location)}, which is not followed: make that the target"
    code, message = _trim(hide(code), CODE_LIMIT), _trim(hide(message))
    return Outcome(kind, http_status, code, message, retry, cause is Cause.TIMED_OUT)


def _code_and_message(fields: dict[str, object], error_type: str, body: bytes) -> tuple[str, str]:
    """AWS writes `Name:http://...` in the header and `prefix#Name` in `__type`."""
    name = (error_type or str(fields.get("__type") or "")).split(":")[0].split("#")[-1].strip()
    error = fields.get("error")
    if isinstance(error, dict):
        code, message = error.get("type") or error.get("code"), error.get("message")
    else:
        code = fields.get("error_type") or fields.get("type") or fields.get("ErrorCode") or fields.get("code")
        message = error or fields.get("Message") or fields.get("message") or fields.get("detail")
    if message is None:
        message = "" if fields else _plain_text(body)
    return name or str(code or ""), str(message)


def _plain_text(body: bytes) -> str:
    """A body that is no JSON object. Of a web page its title, since that is what a proxy has to say."""
    title = _PAGE_TITLE.search(body[:_PAGE_BYTES])
    if title is not None:
        return f"a web page titled `{title[1].decode('utf-8', 'replace')}`"
    return body[:MESSAGE_LIMIT].decode("utf-8", "replace") or "an answer without a body"


def _object(body: bytes) -> dict[str, object]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def without_prompt(outcome: Outcome, prompt: str) -> Outcome:
    """The outcome with its message cut where a server's error quotes the prompt: records and logs must not hold it."""
    start = prompt[:_QUOTE_CHARACTERS]
    if len(start) < _SHORTEST_QUOTE:
        return outcome
    for quoted in (start, " ".join(start.split()), orjson.dumps(start)[1:-1].decode()):
        place = outcome.message.find(quoted)
        if quoted and place >= 0:
            return replace(outcome, message=f"{outcome.message[:place]}… (prompt left out)")
    return outcome


def empty_answer(http_status: int, finish_reason: str) -> Outcome:
    """Of an answer with neither a token nor the server's word that none was generated."""
    message = _trim(f"an answer without text or token count (finish reason `{finish_reason}`)")
    return Outcome(OutcomeKind.IN_BAND_ERROR, http_status, "EmptyAnswer", message, RetryClass.TRY_AGAIN)


# Servers quote the request that they refuse, headers and all: records and logs must not hold what opened the door.
_CREDENTIAL: Final = re.compile(
    r"(?i:bearer |(?:authorization|security-token|api-key|cookie)[\"']*\s?[:=]\s?[\"']?"
    r"(?:aws4-hmac-sha256 |bearer |basic )?"
    r"|\b(?:credential|signature)=)[^\s,;\"']{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bhf_[A-Za-z0-9]{8,}"
)


def without_credentials(words: str) -> str:
    """What a server said, without the signatures, tokens and keys that it quotes."""
    return _CREDENTIAL.sub("(hidden)", words)


def _trim(words: str, limit: int = MESSAGE_LIMIT) -> str:
    """On one line, credentials hidden. Of what is far too long only the beginning is looked at."""
    flat = without_credentials(" ".join(words[: 8 * limit].split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
