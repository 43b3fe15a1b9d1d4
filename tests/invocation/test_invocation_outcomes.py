"""Which outcome an error answer is, and what a retry policy may do about it."""

from __future__ import annotations

import orjson
import pytest

from invocation.faults import InBandError
from invocation.outcomes import Outcome, OutcomeKind, RetryClass, outcome_of_fault, outcome_of_status, without_prompt

POISON, SLOW_DOWN, TRY_AGAIN = RetryClass.POISON, RetryClass.SLOW_DOWN, RetryClass.TRY_AGAIN


@pytest.mark.parametrize(
    ("status", "error_type", "fields", "kind", "retry"),
    [
        (400, "ThrottlingException", {}, OutcomeKind.THROTTLED, SLOW_DOWN),
        (429, "", {"error": "Model is overloaded", "error_type": "overloaded"}, OutcomeKind.THROTTLED, SLOW_DOWN),
        (429, "ModelNotReadyException", {}, OutcomeKind.NOT_READY, SLOW_DOWN),
        (503, "ServiceUnavailable", {}, OutcomeKind.UNAVAILABLE, SLOW_DOWN),
        (500, "InternalFailure", {}, OutcomeKind.INTERNAL, TRY_AGAIN),
        (530, "InternalDependencyException", {}, OutcomeKind.INTERNAL, TRY_AGAIN),
        (408, "ModelTimeoutException", {}, OutcomeKind.TIMEOUT, TRY_AGAIN),
        (400, "ValidationError", {"Message": "bad"}, OutcomeKind.VALIDATION, POISON),
        (302, "", {}, OutcomeKind.VALIDATION, POISON),
        (403, "ExpiredTokenException", {}, OutcomeKind.VALIDATION, SLOW_DOWN),
        (424, "ModelError", {"OriginalStatusCode": 400}, OutcomeKind.MODEL_ERROR, POISON),
        (424, "ModelError", {"OriginalStatusCode": 408}, OutcomeKind.MODEL_ERROR, TRY_AGAIN),
        (424, "ModelError", {"OriginalStatusCode": 422}, OutcomeKind.MODEL_ERROR, POISON),
        (424, "ModelError", {"OriginalStatusCode": 424}, OutcomeKind.MODEL_ERROR, TRY_AGAIN),
        (424, "ModelError", {"OriginalStatusCode": 503}, OutcomeKind.MODEL_ERROR, SLOW_DOWN),
        (424, "ModelError", {"OriginalStatusCode": 500}, OutcomeKind.MODEL_ERROR, TRY_AGAIN),
        (424, "ModelError", {}, OutcomeKind.MODEL_ERROR, TRY_AGAIN),
    ],
)
def test_every_documented_error(
    status: int, error_type: str, fields: dict[str, object], kind: OutcomeKind, retry: RetryClass
) -> None:
    """SageMaker's errors, a container's own statuses behind its 424, and bare servers' answers."""
    outcome = outcome_of_status(status, error_type, orjson.dumps(fields))
    assert (outcome.kind, outcome.retry, outcome.http_status) == (kind, retry, status)


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
