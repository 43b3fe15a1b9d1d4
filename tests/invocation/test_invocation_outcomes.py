"""Which outcome an error answer is, and what a retry policy may do about it."""

from __future__ import annotations

import orjson
import pytest

from loadproof.invocation.eventstream import PayloadPartDecoder, encode_frame
from loadproof.invocation.faults import InBandError, InvocationFault, TimeoutFault
from loadproof.invocation.outcomes import (
    Outcome,
    OutcomeKind,
    RetryClass,
    outcome_of_fault,
    outcome_of_status,
    without_prompt,
)

POISON, SLOW_DOWN, TRY_AGAIN = RetryClass.POISON, RetryClass.SLOW_DOWN, RetryClass.TRY_AGAIN


ORIGINAL = "OriginalStatusCode"
THROTTLED, MODEL_ERROR, VALIDATION = OutcomeKind.THROTTLED, OutcomeKind.MODEL_ERROR, OutcomeKind.VALIDATION
NO_CAPACITY = {"Message": "Inference Component has no capacity to process this request."}
TIMED_OUT = {ORIGINAL: 0, "OriginalMessage": "Your invocation timed out while waiting for a response from container"}


@pytest.mark.parametrize(
    ("status", "error_type", "fields", "kind", "retry", "once"),
    [
        # SageMaker
        (400, "ThrottlingException", {}, THROTTLED, SLOW_DOWN, False),
        (400, "ValidationError", {"Message": "bad"}, VALIDATION, POISON, False),
        (400, "ValidationError", {"Message": "Endpoint e of account 1 not found."}, VALIDATION, POISON, False),
        (400, "ValidationError", NO_CAPACITY, OutcomeKind.NO_CAPACITY, RetryClass.NO_CAPACITY_YET, False),
        (403, "AccessDeniedException", {}, VALIDATION, POISON, False),
        (403, "ExpiredTokenException", {}, VALIDATION, SLOW_DOWN, False),
        (424, "ModelError", {}, MODEL_ERROR, TRY_AGAIN, False),
        (424, "ModelError", {ORIGINAL: 0, "Message": "connection refused"}, MODEL_ERROR, TRY_AGAIN, False),
        (424, "ModelError", {ORIGINAL: 400}, MODEL_ERROR, POISON, False),
        (424, "ModelError", {ORIGINAL: 404}, MODEL_ERROR, POISON, False),
        (424, "ModelError", {ORIGINAL: 422}, MODEL_ERROR, POISON, False),
        (424, "ModelError", {ORIGINAL: 424}, MODEL_ERROR, TRY_AGAIN, False),
        (424, "ModelError", {ORIGINAL: 429}, MODEL_ERROR, SLOW_DOWN, False),
        (424, "ModelError", {ORIGINAL: 500}, MODEL_ERROR, TRY_AGAIN, False),
        (424, "ModelError", {ORIGINAL: 503}, MODEL_ERROR, SLOW_DOWN, False),
        (424, "ModelError", {ORIGINAL: 408}, MODEL_ERROR, TRY_AGAIN, True),
        (424, "ModelError", {ORIGINAL: 504}, MODEL_ERROR, TRY_AGAIN, True),
        (424, "ModelError", TIMED_OUT, MODEL_ERROR, TRY_AGAIN, True),
        (429, "ModelNotReadyException", {}, OutcomeKind.NOT_READY, SLOW_DOWN, False),
        (500, "InternalFailure", {}, OutcomeKind.INTERNAL, TRY_AGAIN, False),
        (503, "ServiceUnavailable", {}, OutcomeKind.UNAVAILABLE, SLOW_DOWN, False),
        (530, "InternalDependencyException", {}, OutcomeKind.INTERNAL, TRY_AGAIN, False),
        # Bedrock
        (400, "ServiceQuotaExceededException", {}, THROTTLED, SLOW_DOWN, False),
        (
            400,
            "ValidationException",
            {"message": "The provided model identifier is invalid."},
            VALIDATION,
            POISON,
            False,
        ),
        (403, "AccessDeniedException", {"message": "no access to the model"}, VALIDATION, POISON, False),
        (404, "ResourceNotFoundException", {}, VALIDATION, POISON, False),
        (408, "ModelTimeoutException", {}, OutcomeKind.TIMEOUT, TRY_AGAIN, True),
        (424, "ModelErrorException", {"originalStatusCode": 400}, MODEL_ERROR, POISON, False),
        (424, "ModelErrorException", {"originalStatusCode": 503}, MODEL_ERROR, SLOW_DOWN, False),
        (424, "ModelErrorException", {}, MODEL_ERROR, TRY_AGAIN, False),
        (424, "ModelStreamErrorException", {"originalStatusCode": 504}, MODEL_ERROR, TRY_AGAIN, True),
        (429, "ModelNotReadyException", {}, OutcomeKind.NOT_READY, SLOW_DOWN, False),
        (429, "ThrottlingException", {"message": "Too many tokens"}, THROTTLED, SLOW_DOWN, False),
        (500, "InternalServerException", {}, OutcomeKind.INTERNAL, TRY_AGAIN, False),
        (503, "ServiceUnavailableException", {}, OutcomeKind.UNAVAILABLE, SLOW_DOWN, False),
        # Bare servers and what stands before them
        (302, "", {}, VALIDATION, POISON, False),
        (401, "", {"error": "no key"}, VALIDATION, POISON, False),
        (404, "", {"detail": "Not Found"}, VALIDATION, POISON, False),
        (429, "", {"error": "Model is overloaded", "error_type": "overloaded"}, THROTTLED, SLOW_DOWN, False),
        (502, "", {}, OutcomeKind.INTERNAL, TRY_AGAIN, False),
        (504, "", {}, OutcomeKind.INTERNAL, TRY_AGAIN, True),
    ],
)
def test_every_documented_error(
    status: int, error_type: str, fields: dict[str, object], kind: OutcomeKind, retry: RetryClass, once: bool
) -> None:
    """SageMaker's and Bedrock's errors, a container's own statuses behind a 424, and bare servers' answers."""
    outcome = outcome_of_status(status, error_type, orjson.dumps(fields))
    assert (outcome.kind, outcome.retry, outcome.retry_once) == (kind, retry, once)
    assert (outcome.http_status, outcome.code) == (status, error_type or outcome.code)


@pytest.mark.parametrize(
    ("exception", "fields", "retry", "once"),
    [
        ("ModelStreamError", {"ErrorCode": "ModelInvocationTimeExceeded"}, TRY_AGAIN, True),
        ("ModelStreamError", {"ErrorCode": "StreamBroken"}, TRY_AGAIN, False),
        ("InternalStreamFailure", {}, TRY_AGAIN, False),
        ("internalServerException", {}, TRY_AGAIN, False),
        ("modelStreamErrorException", {}, TRY_AGAIN, False),
        ("modelStreamErrorException", {"originalStatusCode": 400}, POISON, False),
        ("modelStreamErrorException", {"originalStatusCode": 503}, SLOW_DOWN, False),
        ("modelTimeoutException", {}, TRY_AGAIN, True),
        ("serviceUnavailableException", {}, SLOW_DOWN, False),
        ("throttlingException", {}, SLOW_DOWN, False),
        ("validationException", {}, POISON, False),
    ],
)
def test_every_documented_exception_in_a_stream(
    exception: str, fields: dict[str, object], retry: RetryClass, once: bool
) -> None:
    """As their frames come after a 200: SageMaker's two, and the six of Bedrock's streams."""
    frame = encode_frame(
        {":message-type": "exception", ":exception-type": exception, ":content-type": "application/json"},
        orjson.dumps({"message": "why", **fields}),
    )
    with pytest.raises(InvocationFault) as caught:
        list(PayloadPartDecoder().feed(frame))
    outcome = outcome_of_fault(caught.value, 200)
    assert (outcome.kind, outcome.retry, outcome.retry_once) == (OutcomeKind.STREAM_ERROR, retry, once)
    assert (outcome.code, outcome.message) == (fields.get("ErrorCode", outcome.code), "why")


@pytest.mark.parametrize(("phase", "once"), [("connect", False), ("first_byte", True), ("idle", True), ("total", True)])
def test_a_limit_that_passed_is_tried_once_more(phase: str, once: bool) -> None:
    """The model may have worked all that time; a connection that never was cost nothing."""
    outcome = outcome_of_fault(TimeoutFault(phase, 60.0), None)
    assert (outcome.kind, outcome.retry, outcome.retry_once) == (OutcomeKind.TIMEOUT, TRY_AGAIN, once)


@pytest.mark.parametrize(
    ("error_type", "body", "code", "message"),
    [
        ("ValidationError:http://internal.amazon.com/", b'{"message":"no"}', "ValidationError", "no"),
        ("", b'{"__type":"com.amazon#ThrottlingException","Message":"slow"}', "ThrottlingException", "slow"),
        ("", b'{"error":{"message":"m","type":"t","code":400}}', "t", "m"),
        ("", b'{"error":"e","error_type":"validation"}', "validation", "e"),
        ("", b'{"object":"error","message":"m","type":"BadRequestError"}', "BadRequestError", "m"),
        ("", b'{"detail":"Not Found"}', "HTTP 400", "Not Found"),
        ("", b"<html>\n  busy </html>", "HTTP 400", "<html> busy </html>"),
        (
            "",
            b"<html><head><Title>502 Bad\n gateway</title></head></html>",
            "HTTP 400",
            "a web page titled `502 Bad gateway`",
        ),
        ("", b"", "HTTP 400", "an answer without a body"),
        ("", b"[1]", "HTTP 400", "[1]"),
        ("", b"\xff\xfe", "HTTP 400", "\ufffd\ufffd"),
    ],
)
def test_code_and_message_of_every_shape(error_type: str, body: bytes, code: str, message: str) -> None:
    """AWS's header and `__type`, OpenAI, TGI, vLLM, FastAPI, a proxy's page, nothing, noise."""
    outcome = outcome_of_status(400, error_type, body)
    assert (outcome.code, outcome.message) == (code, message)


def test_long_messages_are_trimmed() -> None:
    """300 characters at most, the cut shown."""
    message = outcome_of_status(500, "", orjson.dumps({"message": "x" * 1000})).message
    assert (len(message), message[-1]) == (300, "…")


@pytest.mark.parametrize(
    ("code", "retry"),
    [
        ("overloaded", SLOW_DOWN),
        ("429", SLOW_DOWN),
        ("validation", POISON),
        ("BadRequestError", POISON),
        ("x", TRY_AGAIN),
    ],
)
def test_errors_in_the_stream_tell_their_class_by_code(code: str, retry: RetryClass) -> None:
    """After a 200 only the code is left to go by."""
    outcome = outcome_of_fault(InBandError(code, "m"), 200)
    assert (outcome.kind, outcome.retry) == (OutcomeKind.IN_BAND_ERROR, retry)


@pytest.mark.parametrize(
    "prompt", ["My secret name is Ann, and", "line one\nline two and more", 'say "hello" to my friend']
)
def test_a_quoted_prompt_is_left_out(prompt: str) -> None:
    """Whether quoted as it is or as JSON, the message ends where the prompt would begin."""
    for body in (
        b"bad input: " + prompt.encode(),
        orjson.dumps({"message": f"bad input: {orjson.dumps(prompt).decode()}"}),
    ):
        outcome = without_prompt(outcome_of_status(400, "", body), prompt)
        assert outcome.message.startswith("bad input: ") and outcome.message.endswith("… (prompt left out)")
        assert "secret" not in outcome.message and "two" not in outcome.message and "hello" not in outcome.message


def test_a_redirect_says_where_it_points() -> None:
    """It is not followed: the figures would be of another place."""
    outcome = outcome_of_status(301, "", b"<html>moved</html>", "https://other.example/v1")
    assert (outcome.kind, outcome.code) == (OutcomeKind.VALIDATION, "HTTP 301")
    assert outcome.message == "points to https://other.example/v1, which is not followed: make that the target"


def test_a_short_prompt_does_not_spoil_messages() -> None:
    """`a` occurs in every message; that is no quotation."""
    outcome = Outcome(OutcomeKind.INTERNAL, 500, "X", "a failure")
    assert without_prompt(outcome, "a") is outcome
