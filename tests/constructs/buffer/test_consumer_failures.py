"""Every answer of SageMaker, Bedrock and botocore has its class (facts: SageMaker runtime errors, Bedrock errors)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    EventStreamError,
    ParamValidationError,
    ReadTimeoutError,
)

from loadproof.constructs.buffer.runtime.consumer.failures import Kind, failure_of, in_band


def answer(code: str, status: int, message: str = "secret prompt", **more: Any) -> ClientError:
    error = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error | more, "InvokeEndpointWithResponseStream")


CASES: list[tuple[Exception, Kind]] = [
    (answer("ThrottlingException", 400), Kind.SLOW_DOWN),
    (answer("ThrottlingException", 429), Kind.SLOW_DOWN),
    (answer("ValidationError", 400, "Inference Component has no capacity to process this"), Kind.NO_CAPACITY_YET),
    (answer("ValidationError", 400), Kind.POISON),
    (answer("ValidationError", 400, "Endpoint chat of account 1 not found."), Kind.UNAVAILABLE),
    (answer("ValidationException", 400, "Tool result for secret not found."), Kind.POISON),
    (answer("AccessDeniedException", 403), Kind.NO_RIGHT),
    (answer("ValidationException", 400, "The provided model identifier is invalid."), Kind.UNAVAILABLE),
    (answer("RequestExpired", 400), Kind.NO_RIGHT),
    (answer("ExpiredTokenException", 400), Kind.NO_RIGHT),
    (answer("ServiceQuotaExceededException", 400), Kind.SLOW_DOWN),
    (answer("ResourceNotFoundException", 404), Kind.UNAVAILABLE),
    (answer("ModelNotReadyException", 429), Kind.UNAVAILABLE),
    (answer("ServiceUnavailable", 503), Kind.UNAVAILABLE),
    (answer("InternalFailure", 500), Kind.TRY_AGAIN),
    (answer("InternalDependencyException", 530), Kind.TRY_AGAIN),
    (answer("ModelTimeoutException", 408), Kind.TIMED_OUT),
    (answer("ModelErrorException", 424, originalStatusCode=500), Kind.TRY_AGAIN),
    (answer("ModelError", 424, OriginalStatusCode=400), Kind.POISON),
    (answer("ModelError", 424, OriginalStatusCode=422), Kind.POISON),
    (answer("ModelError", 424, OriginalStatusCode=424), Kind.TRY_AGAIN),
    (answer("ModelError", 424, OriginalStatusCode=429), Kind.SLOW_DOWN),
    (answer("ModelError", 424, OriginalStatusCode=503), Kind.SLOW_DOWN),
    (answer("ModelError", 424, OriginalStatusCode=408), Kind.TIMED_OUT),
    (answer("ModelError", 424, OriginalStatusCode=500), Kind.TRY_AGAIN),
    (answer("ModelError", 424), Kind.TRY_AGAIN),
    (EventStreamError({"Error": {"Code": "ModelStreamError", "Message": "x"}}, "Stream"), Kind.TRY_AGAIN),
    (EventStreamError({"Error": {"Code": "throttlingException"}}, "ConverseStream"), Kind.SLOW_DOWN),
    (EventStreamError({"Error": {"Code": "validationException"}}, "ConverseStream"), Kind.POISON),
    (EventStreamError({"Error": {"Code": "serviceUnavailableException"}}, "ConverseStream"), Kind.UNAVAILABLE),
    (ReadTimeoutError(endpoint_url="https://x"), Kind.TIMED_OUT),
    (ConnectTimeoutError(endpoint_url="https://x"), Kind.UNAVAILABLE),
    (EndpointConnectionError(endpoint_url="https://x"), Kind.UNAVAILABLE),
    (ParamValidationError(report="secret prompt"), Kind.POISON),
    (struct.error("secret prompt"), Kind.TRY_AGAIN),
    (KeyError("secret prompt"), Kind.TRY_AGAIN),
]


@pytest.mark.parametrize(("error", "kind"), CASES, ids=lambda value: str(value)[:60])
def test_every_error_has_its_class_and_quotes_nothing(error: Exception, kind: Kind) -> None:
    """What may be done about it, in words that hold nothing of what was sent."""
    failure = failure_of(error)
    assert failure.kind is kind
    assert "secret" not in failure.reason


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ("overloaded", Kind.SLOW_DOWN),
        ("rate_limit_error", Kind.SLOW_DOWN),
        ("429", Kind.SLOW_DOWN),
        ("BadRequestError 400", Kind.POISON),
        ("validation", Kind.POISON),
        ("generation", Kind.TRY_AGAIN),
        ("", Kind.TRY_AGAIN),
    ],
)
def test_errors_inside_a_stream(codes: str, kind: Kind) -> None:
    """TGI's, OpenAI's and vLLM's own names and numbers."""
    assert in_band(codes).kind is kind
