"""What an answer of AWS's means is one table; what a program and a queue do about it are two.

Where the two tables that stood here before differed, a test holds what is right (docs/decisions, one wire).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from loadproof.constructs.buffer.runtime.consumer.failures import Kind, failure_of, in_band
from loadproof.invocation.faults import InBandError
from loadproof.invocation.outcomes import Outcome, RetryClass, outcome_of_fault, outcome_of_status
from loadproof.wire.answers import Cause, cause_of, passes


def queued(code: str, status: int, message: str = "", **more: Any) -> Kind:
    """What the buffer's consumer makes of it."""
    error = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return failure_of(ClientError(error | more, "Invoke")).kind  # type: ignore[arg-type]


def in_hand(code: str, status: int, message: str = "", **more: Any) -> Outcome:
    """What the invoker makes of it."""
    return outcome_of_status(status, code, json.dumps({"Message": message, **more}).encode())


@pytest.mark.parametrize("status", [409, 425])
def test_a_containers_conflict_is_its_state_and_not_the_request(status: int) -> None:
    """The invoker gave up for good; RFC 9110 and 8470 have both as states that pass."""
    assert queued("ModelError", 424, OriginalStatusCode=status) is Kind.TRY_AGAIN
    assert in_hand("ModelError", 424, OriginalStatusCode=status).retry is RetryClass.TRY_AGAIN


def test_a_container_that_was_too_slow_is_told_by_words_alone() -> None:
    """The consumer took it for an accident, and would have paid for up to `max_attempts` whole generations."""
    told = {"OriginalStatusCode": 0, "OriginalMessage": "Your invocation timed out while waiting for a response"}
    assert queued("ModelError", 424, **told) is Kind.TIMED_OUT
    assert in_hand("ModelError", 424, **told).retry_once


def test_a_gateways_time_out_may_have_cost_a_generation() -> None:
    """The consumer took a 504 for an accident."""
    assert queued("GatewayTimeout", 504) is Kind.TIMED_OUT
    assert in_hand("GatewayTimeout", 504).retry_once


def test_a_424_is_the_models_whatever_its_code() -> None:
    """The consumer knew it by its code, and without one would have made a dead letter of a failed generation."""
    assert queued("Unknown", 424) is Kind.TRY_AGAIN
    assert in_hand("", 424).retry is RetryClass.TRY_AGAIN


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_a_wrong_target(status: int) -> None:
    """The consumer spent all attempts on it, and then the message: the address is ours to mend, so it waits."""
    assert queued("301", status) is Kind.UNAVAILABLE
    assert in_hand("", status).retry is RetryClass.POISON


def test_unavailable_is_known_by_its_name_too() -> None:
    """The invoker went by the status alone."""
    assert queued("ServiceUnavailableException", 500) is Kind.UNAVAILABLE
    assert in_hand("ServiceUnavailableException", 500).retry is RetryClass.SLOW_DOWN


@pytest.mark.parametrize("code", ["ModelTimeoutException", "ModelInvocationTimeExceeded"])
def test_a_models_time_out_is_known_by_its_name_too(code: str) -> None:
    """The invoker went by the status 408 alone."""
    assert queued(code, 500) is Kind.TIMED_OUT
    assert in_hand(code, 500).retry_once


def test_a_refused_request_may_speak_of_time_outs() -> None:
    """A 400 quotes what was sent: the consumer read its words for the name of a time-out."""
    assert queued("ValidationError", 400, "`stop` holds ModelTimeoutException, which is too long") is Kind.POISON


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "throttled"])
def test_a_limit_in_band_asks_to_slow_down(code: str) -> None:
    """The invoker knew `rate_limit_error` only; `rate_limit_exceeded` is OpenAI's own name."""
    assert in_band(code).kind is Kind.SLOW_DOWN
    assert outcome_of_fault(InBandError(code, "m"), 200).retry is RetryClass.SLOW_DOWN


def test_a_bad_request_in_band_is_poison() -> None:
    """The invoker did not know `bad_request`."""
    assert in_band("bad_request_error").kind is Kind.POISON
    assert outcome_of_fault(InBandError("bad_request_error", "m"), 200).retry is RetryClass.POISON


@pytest.mark.parametrize(
    ("code", "status", "kind", "retry"),
    [
        ("AccessDeniedException", 403, Kind.NO_RIGHT, RetryClass.POISON),
        ("ResourceNotFoundException", 404, Kind.UNAVAILABLE, RetryClass.POISON),
        ("ExpiredTokenException", 403, Kind.NO_RIGHT, RetryClass.SLOW_DOWN),
        ("ModelNotReadyException", 429, Kind.UNAVAILABLE, RetryClass.SLOW_DOWN),
    ],
)
def test_a_queue_waits_where_a_program_is_told(code: str, status: int, kind: Kind, retry: RetryClass) -> None:
    """One meaning, two policies, both meant: messages are not lost to a right or a target that is ours to mend."""
    assert (queued(code, status), in_hand(code, status).retry) == (kind, retry)


@pytest.mark.parametrize(
    ("status", "code", "heals"),
    [(403, "OverLimit", True), (408, "RequestTimeout", True), (409, "x", True), (500, "x", True), (404, "x", False)],
)
def test_what_passes_at_a_store(status: int, code: str, heals: bool) -> None:
    """SQS's `OverLimit` and S3's 408 stopped the consumer, and only the producer waited."""
    assert passes(status, code) is heals


def test_a_code_is_one_in_any_case() -> None:
    """Events of a stream write it with a small letter."""
    assert cause_of(0, "throttlingException") is cause_of(400, "ThrottlingException") is Cause.THROTTLED
