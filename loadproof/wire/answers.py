"""What an answer of AWS's means, told by its status, its code and its words.

SageMaker's and Bedrock's runtimes, the container behind a 424, and the stores. What follows from a meaning is another
matter: a program that has its items in hand gives up where a queue that must lose nothing waits.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Why a request was not answered."""

    THROTTLED = "throttled"  # too many in flight, or a quota passed; a model's own 429 and 503 too
    NOT_READY = "not_ready"  # the model is loading
    UNAVAILABLE = "unavailable"
    NO_CAPACITY = "no_capacity"  # no copy is up, and the failed call is what wakes one
    STALE_CREDENTIALS = "stale_credentials"  # renewed behind requests
    NO_RIGHT = "no_right"
    NO_TARGET = "no_target"  # an endpoint, component or model that is not there, or an address that points elsewhere
    REFUSED = "refused"  # the request's own fault: it would be refused again
    TIMED_OUT = "timed_out"  # the model may have worked all that time
    BROKEN = "broken"  # an accident


# Codes without regard to case: as events of a stream they begin with a small letter.
_THROTTLES: Final = frozenset({"throttlingexception", "toomanyrequestsexception", "servicequotaexceededexception"})
_UNAVAILABLE: Final = frozenset({"serviceunavailable", "serviceunavailableexception"})
_STALE: Final = frozenset({"expiredtoken", "expiredtokenexception", "requestexpired"})
# AWS's common errors that say who may call; some services answer them with 400.
_RIGHTS: Final = frozenset(
    {"accessdeniedexception", "incompletesignature", "invalidclienttokenid", "invalidsignatureexception"}
    | {"missingauthenticationtoken", "notauthorized", "optinrequired", "unrecognizedclientexception"}
)
_TIME_OUTS: Final = ("modeltimeoutexception", "modelinvocationtimeexceeded")
_MODEL_ERRORS: Final = frozenset({"modelerror", "modelerrorexception", "modelstreamerrorexception"})
_NO_MODEL_WORDS: Final = ("model identifier is invalid", "with on-demand throughput")
_STORE_THROTTLES: Final = ("Throttl", "SlowDown", "OverLimit", "ThroughputExceeded", "RequestLimitExceeded")


def cause_of(status: int, code: str, message: str = "", original_status: object = None) -> Cause:
    """Of a runtime's answer. `status` 0: an exception in mid-stream. `original_status`: the model's own, if told."""
    code, words = code.lower(), message.lower()
    if status == 424 or code in _MODEL_ERRORS or original_status is not None:
        return _cause_of_model(original_status, words)
    if code == "modelnotreadyexception":
        return Cause.NOT_READY
    if code in _THROTTLES or status == 429:
        return Cause.THROTTLED
    if status == 400 and "has no capacity" in words:  # at zero copies SageMaker calls it a ValidationError
        return Cause.NO_CAPACITY
    if status == 503 or code in _UNAVAILABLE:
        return Cause.UNAVAILABLE
    if code in _STALE:
        return Cause.STALE_CREDENTIALS
    if status in (401, 403) or code in _RIGHTS:
        return Cause.NO_RIGHT
    ours = 400 <= status < 500  # then the words may quote what was sent
    if status in (408, 504) or code in _TIME_OUTS or (not ours and any(known in words for known in _TIME_OUTS)):
        return Cause.TIMED_OUT
    # A ValidationException of Bedrock's that finds something missing may mean a part of the request.
    missing = (code == "validationerror" and "not found" in words) or any(known in words for known in _NO_MODEL_WORDS)
    if status == 404 or missing or 100 <= status < 400:
        return Cause.NO_TARGET
    if 400 <= status < 500 or code == "validationexception":
        return Cause.REFUSED
    return Cause.BROKEN


def _cause_of_model(status: object, words: str) -> Cause:
    """What the container or Bedrock's model said. Its own 424 is a failed generation in TGI and bad input in LMI; 409
    and 425 tell of the server's state and not of the request."""
    if status in (429, 503):
        return Cause.THROTTLED
    if status in (408, 504):
        return Cause.TIMED_OUT
    if isinstance(status, int) and 400 <= status < 500 and status not in (409, 424, 425):
        return Cause.REFUSED
    # SageMaker gives no status of a container that was too slow, only these words.
    timed_out = "timed out" in words or any(known in words for known in _TIME_OUTS)
    return Cause.TIMED_OUT if timed_out else Cause.BROKEN


def cause_in_band(codes: str) -> Cause:
    """An error that the model reports in an answer that began well. `codes`: its names and numbers for it."""
    lowered = codes.lower()
    numbers = set(lowered.split())
    if numbers & {"429", "503"} or any(word in lowered for word in ("overloaded", "rate_limit", "throttl")):
        return Cause.THROTTLED
    bad = ("validation", "invalid_request", "badrequest", "bad_request")
    if numbers & {"400", "422"} or any(word in lowered for word in bad):
        return Cause.REFUSED
    return Cause.BROKEN


def throttled(code: str) -> bool:
    """Whether a store (S3, SQS, DynamoDB, Lambda) asks to be called less often."""
    return any(known in code for known in _STORE_THROTTLES)


def passes(status: int, code: str) -> bool:
    """Whether time may heal what a store answered. 409 is S3's answer to two conditional writes at once."""
    return throttled(code) or status >= 500 or status in (408, 409, 429)


def status_of(error: Exception) -> int:
    """The HTTP status that botocore's ClientError carries; 0 for any other error."""
    return int(getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: Exception) -> str:
    """Its code; empty for any other error."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
