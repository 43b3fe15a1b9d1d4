"""What a failed invocation allows: docs/decisions/0012's classes, out of what SageMaker, Bedrock and botocore say."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, ParamValidationError

from loadproof.wire.answers import Cause, cause_in_band, cause_of, code_of, status_of


class Kind(StrEnum):
    """What to do about it."""

    POISON = "poison"  # never again: it would fail again
    TRY_AGAIN = "try_again"  # an accident; counts as an attempt
    TIMED_OUT = "timed_out"  # an attempt too, unless others time out as well: the model may have worked all that time
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


# What a cause allows to a queue that must lose nothing: a target or a right that is wrong is waited for.
_KINDS: Final = {
    Cause.THROTTLED: Kind.SLOW_DOWN,
    Cause.NOT_READY: Kind.UNAVAILABLE,
    Cause.UNAVAILABLE: Kind.UNAVAILABLE,
    Cause.NO_CAPACITY: Kind.NO_CAPACITY_YET,
    Cause.STALE_CREDENTIALS: Kind.NO_RIGHT,
    Cause.NO_RIGHT: Kind.NO_RIGHT,  # most likely ours; but a request may name what only it may not use, as a guardrail
    Cause.NO_TARGET: Kind.UNAVAILABLE,
    Cause.REFUSED: Kind.POISON,
    Cause.TIMED_OUT: Kind.TIMED_OUT,
    Cause.BROKEN: Kind.TRY_AGAIN,
}


def failure_of(error: Exception) -> ModelFailure:
    """The class of whatever an invocation raised. Never raises."""
    if isinstance(error, ModelFailure):
        return error
    if isinstance(error, ClientError):
        return _of_answer(error)
    name = type(error).__name__
    if isinstance(error, (EndpointConnectionError, ConnectTimeoutError)):
        return ModelFailure(Kind.UNAVAILABLE, f"the endpoint cannot be reached ({name})")
    if isinstance(error, ParamValidationError):
        return ModelFailure(Kind.POISON, "the payload has not the shape that the model's API takes", sent=False)
    if "Timeout" in name:
        return ModelFailure(Kind.TIMED_OUT, "nothing came for the idle timeout")
    # botocore lets struct.error, KeyError and urllib3's own errors through on damaged streams.
    return ModelFailure(Kind.TRY_AGAIN, f"the invocation broke ({name})")


def _of_answer(error: ClientError) -> ModelFailure:
    response: Any = error.response
    code, status = code_of(error) or "unknown", status_of(error)
    words = f"{response.get('Error', {}).get('Message', '')} {response.get('OriginalMessage', '')}"
    original = response.get("OriginalStatusCode", response.get("originalStatusCode"))
    kind = _KINDS[cause_of(status, code, words, original)]
    if original is not None:
        told = f"the model answered {original}"
    elif status == 424:
        told = "the model failed"
    else:
        told = f"the endpoint {'has no capacity yet' if kind is Kind.NO_CAPACITY_YET else f'answered {code}'}"
    return ModelFailure(kind, told)


def in_band(codes: str) -> ModelFailure:
    """An error that the model reports inside a stream that began well. `codes`: its names and numbers for it."""
    return ModelFailure(_KINDS[cause_in_band(codes)], "the model reported an error in its stream")
