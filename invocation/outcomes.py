"""How a request ended, in one closed list, and what a caller that may try again should do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson

from invocation import faults

MESSAGE_LIMIT = 300
_PAGE_TITLE, _PAGE_BYTES = re.compile(rb"<title[^>]*>([^<]+)</title>", re.IGNORECASE), 8192
_QUOTAS = frozenset({"ThrottlingException", "TooManyRequestsException", "ServiceQuotaExceededException"})
_STALE_CREDENTIALS = frozenset({"ExpiredTokenException", "ExpiredToken", "RequestExpired"})  # renewed behind requests
# Limits that passed while a model may have worked: ours, SageMaker's and Bedrock's in mid-stream.
_TIME_OUTS = frozenset({"first_byte", "idle", "total", "ModelInvocationTimeExceeded", "modelTimeoutException"})
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
    a whole generation.
    """

    kind: OutcomeKind
    http_status: int | None = None
    code: str = ""
    message: str = ""
    retry: RetryClass | None = None
    retry_once: bool = False

    @property
    def ok(self) -> bool:
        return self.kind is OutcomeKind.OK


def outcome_of_fault(fault: faults.InvocationFault, http_status: int | None) -> Outcome:
    """The outcome of a fault met on the way, after `http_status` (None: before any answer)."""
    kind, code, retry = _class_of_fault(fault)
    return Outcome(kind, http_status, code, _trim(str(fault)), retry, code in _TIME_OUTS)


def _class_of_fault(fault: faults.InvocationFault) -> tuple[OutcomeKind, str, RetryClass | None]:
    again = RetryClass.TRY_AGAIN
    match fault:
        case faults.TruncatedStreamError():
            return OutcomeKind.TRUNCATED, "Truncated", again
        case faults.TimeoutFault(phase=phase):
            return OutcomeKind.TIMEOUT, phase, again
        case faults.ConnectionFault(code=code):
            return OutcomeKind.CONNECTION, code, again
        case faults.CanceledFault():
            return OutcomeKind.CANCELED, "Canceled", None
        case faults.InBandError(code=code):
            return OutcomeKind.IN_BAND_ERROR, code, _in_band_retry(code)
        case faults.ModelStreamError(code=code, original_status=original_status):
            return OutcomeKind.STREAM_ERROR, code, _retry_in_stream(code, original_status)
        case _:  # InternalStreamFailure, FrameError, PayloadError, HttpProtocolFault: the type's name says it
            return OutcomeKind.STREAM_ERROR, type(fault).__name__, again


def _retry_in_stream(code: str, original_status: int | None) -> RetryClass:
    """After a 200: SageMaker's `ErrorCode`s, and Bedrock's exceptions as their events are named."""
    match code.lower():
        case "throttlingexception" | "serviceunavailableexception":
            return RetryClass.SLOW_DOWN
        case "validationexception":
            return RetryClass.POISON
        case _:
            return _retry_of_model_error(original_status)


def _in_band_retry(code: str) -> RetryClass:
    lowered = code.lower()
    if "overloaded" in lowered or lowered in ("429", "503", "rate_limit_error"):
        return RetryClass.SLOW_DOWN
    if "validation" in lowered or "invalid_request" in lowered or "badrequest" in lowered or lowered in ("400", "422"):
        return RetryClass.POISON
    return RetryClass.TRY_AGAIN


def outcome_of_status(http_status: int, error_type: str, body: bytes, location: str = "") -> Outcome:
    """The outcome of an answer with a status other than 2xx.

    `error_type` is the `x-amzn-ErrorType` header or empty, `location` where a redirect points, which is not followed.
    Understands SageMaker's `{"Message"}` and Bedrock's `{"message"}`, TGI's `{"error", "error_type"}`, OpenAI's
    `{"error": {...}}` and FastAPI's `{"detail"}`.
    """
    fields = _object(body)
    code, message = _code_and_message(fields, error_type, body)
    code = code or f"HTTP {http_status}"
    original_status = _original_status(fields)
    kind, retry = _class_of_status(http_status, code, message, original_status)
    timed_out = http_status in (408, 504)
    if kind is OutcomeKind.MODEL_ERROR:
        original = str(fields.get("OriginalMessage") or fields.get("originalMessage") or "")
        message = f"{message} [{original}]" if message and original else message or original
        # SageMaker gives no status of a container that was too slow, only these words.
        timed_out = original_status in (408, 504) or "timed out" in message.lower()
    if 300 <= http_status < 400 and location:
        message = f"points to {location}, which is not followed: make that the target"
    return Outcome(kind, http_status, code, _trim(message), retry, timed_out and retry is RetryClass.TRY_AGAIN)


def _class_of_status(
    status: int, code: str, message: str, original_status: int | None
) -> tuple[OutcomeKind, RetryClass]:
    if code == "ModelNotReadyException":
        return OutcomeKind.NOT_READY, RetryClass.SLOW_DOWN
    if code in _QUOTAS or status == 429:
        return OutcomeKind.THROTTLED, RetryClass.SLOW_DOWN
    if status == 400 and "has no capacity" in message.lower():
        return OutcomeKind.NO_CAPACITY, RetryClass.NO_CAPACITY_YET
    if status == 503:
        return OutcomeKind.UNAVAILABLE, RetryClass.SLOW_DOWN
    if status == 424:
        return OutcomeKind.MODEL_ERROR, _retry_of_model_error(original_status)
    if status == 408:
        return OutcomeKind.TIMEOUT, RetryClass.TRY_AGAIN
    if code in _STALE_CREDENTIALS:
        return OutcomeKind.VALIDATION, RetryClass.SLOW_DOWN
    if status < 500:  # a redirect or an odd 1xx..3xx will not change by repeating it either
        return OutcomeKind.VALIDATION, RetryClass.POISON
    return OutcomeKind.INTERNAL, RetryClass.TRY_AGAIN


def _retry_of_model_error(original_status: int | None) -> RetryClass:
    """A container's 424 means a failed generation in TGI and bad input in LMI, so it may be tried again within the
    budget; its other 4xx are the request's own fault."""
    if original_status in (429, 503):
        return RetryClass.SLOW_DOWN
    if original_status is not None and 400 <= original_status < 500 and original_status not in (408, 424):
        return RetryClass.POISON
    return RetryClass.TRY_AGAIN


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


def _original_status(fields: dict[str, object]) -> int | None:
    value = fields.get("OriginalStatusCode", fields.get("originalStatusCode"))
    return value if isinstance(value, int) else None


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


def _trim(message: str) -> str:
    flat = " ".join(message.split())
    return flat if len(flat) <= MESSAGE_LIMIT else flat[: MESSAGE_LIMIT - 1] + "…"
