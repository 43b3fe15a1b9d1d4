"""What a failed invocation allows: docs/decisions/0012's classes, out of what SageMaker, Bedrock and botocore say."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, ParamValidationError


class Kind(StrEnum):
    """What to do about it."""

    POISON = "poison"  # never again: it would fail again
    TRY_AGAIN = "try_again"  # an accident; counts as an attempt
    TIMED_OUT = "timed_out"  # an attempt too, repeated once at most: the model may have worked all that time
    SLOW_DOWN = "slow_down"  # too many in flight; no attempt is spent
    UNAVAILABLE = "unavailable"  # nothing is served just now; no attempt is spent
    NO_RIGHT = "no_right"  # as unavailable; unless others are served meanwhile, then it is the request's own
    NO_CAPACITY_YET = "no_capacity_yet"  # no copy is up, and the failed call is what wakes one


class ModelFailure(Exception):  # noqa: N818
    """One invocation that gave no answer. `reason` never quotes what was sent or generated.

    Not `sent`: it was refused before it left this process, and says nothing about the endpoint.
    """

    def __init__(self, kind: Kind, reason: str, *, sent: bool = True) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.sent = sent


_THROTTLES: Final = frozenset(
    {"ThrottlingException", "TooManyRequestsException", "ServiceQuotaExceededException", "throttlingException"}
)
# AWS's common errors that say who may call and when; some services answer them with 400.
_OUR_RIGHTS: Final = frozenset(
    {"AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidClientTokenId"}
    | {"InvalidSignatureException", "MissingAuthenticationToken", "NotAuthorized", "OptInRequired", "RequestExpired"}
    | {"UnrecognizedClientException"}
)
_NOT_UP: Final = frozenset({"ServiceUnavailable", "ServiceUnavailableException", "serviceUnavailableException"})
_NO_MODEL_WORDS: Final = ("model identifier is invalid", "with on-demand throughput")
_NOT_READY: Final = "ModelNotReadyException"
_TIMEOUTS: Final = frozenset({"ModelTimeoutException", "ModelInvocationTimeExceeded", "modelTimeoutException"})
_BUSY_WORDS: Final = ("overloaded", "rate_limit", "throttl")
_BAD_WORDS: Final = ("validation", "invalid_request", "badrequest", "bad_request")


def failure_of(error: Exception) -> ModelFailure:
    """The class of whatever an invocation raised. Never raises."""
    if isinstance(error, ModelFailure):
        return error
    if isinstance(error, ClientError):
        return _of_answer(error.response)
    name = type(error).__name__
    if isinstance(error, (EndpointConnectionError, ConnectTimeoutError)):
        return ModelFailure(Kind.UNAVAILABLE, f"the endpoint cannot be reached ({name})")
    if isinstance(error, ParamValidationError):
        return ModelFailure(Kind.POISON, "the payload has not the shape that the model's API takes", sent=False)
    if "Timeout" in name:
        return ModelFailure(Kind.TIMED_OUT, "nothing came for the idle timeout")
    # botocore lets struct.error, KeyError and urllib3's own errors through on damaged streams.
    return ModelFailure(Kind.TRY_AGAIN, f"the invocation broke ({name})")


def _of_answer(response: Any) -> ModelFailure:
    error = response.get("Error", {})
    code, words = str(error.get("Code", "unknown")), str(error.get("Message", "")).lower()
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code == "ModelError" or (status == 424 and code == "ModelErrorException"):
        return _of_container(response.get("OriginalStatusCode", response.get("originalStatusCode")))
    kind = _kind(code, words, status)
    told = "has no capacity yet" if kind is Kind.NO_CAPACITY_YET else f"answered {code}"
    return ModelFailure(kind, f"the endpoint {told}")


def _kind(code: str, words: str, status: int) -> Kind:
    if code in _THROTTLES:
        return Kind.SLOW_DOWN
    if status == 400 and "has no capacity" in words:
        return Kind.NO_CAPACITY_YET  # at zero copies SageMaker calls it a ValidationError
    if status == 503 or code in _NOT_UP or code == _NOT_READY:
        return Kind.UNAVAILABLE
    if status in (401, 403) or code in _OUR_RIGHTS:
        return Kind.NO_RIGHT  # most likely ours; but a request may name what only it may not use, as a guardrail
    # Of an endpoint or model that is not there; a ValidationException of Bedrock's may miss a part of the request.
    missing = (code == "ValidationError" and "not found" in words) or any(known in words for known in _NO_MODEL_WORDS)
    if status == 404 or missing:
        return Kind.UNAVAILABLE  # our target is wrong, not the request
    if status == 429:
        return Kind.SLOW_DOWN
    if status == 408 or code in _TIMEOUTS or any(known.lower() in words for known in _TIMEOUTS):
        return Kind.TIMED_OUT
    if 400 <= status < 500 or code == "validationException":
        return Kind.POISON
    return Kind.TRY_AGAIN  # 5xx, and exceptions in mid-stream


def _of_container(status: object) -> ModelFailure:
    """424 wraps what the container said. Its own 424 is a failed generation in TGI and bad input in LMI."""
    told = f"the model answered {status}" if status is not None else "the model failed"
    if status in (429, 503):
        return ModelFailure(Kind.SLOW_DOWN, told)
    if status in (408, 504):
        return ModelFailure(Kind.TIMED_OUT, told)
    if isinstance(status, int) and 400 <= status < 500 and status not in (409, 424, 425):
        return ModelFailure(Kind.POISON, told)
    return ModelFailure(Kind.TRY_AGAIN, told)


def in_band(codes: str) -> ModelFailure:
    """An error that the model reports inside a stream that began well. `codes`: its names and numbers for it."""
    lowered = codes.lower()
    told = "the model reported an error in its stream"
    if {"429", "503"} & set(lowered.split()) or any(word in lowered for word in _BUSY_WORDS):
        return ModelFailure(Kind.SLOW_DOWN, told)
    if {"400", "422"} & set(lowered.split()) or any(word in lowered for word in _BAD_WORDS):
        return ModelFailure(Kind.POISON, told)
    return ModelFailure(Kind.TRY_AGAIN, told)
