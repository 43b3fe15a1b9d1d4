"""Bedrock runtime's errors: before the answer as an HTTP status, inside a stream as an exception frame."""

from __future__ import annotations

import uuid

import orjson
from aiohttp import web

from loadproof.invocation.eventstream import encode_frame

# Statuses are those of botocore's service model.
STATUS = {
    "ValidationException": 400,
    "AccessDeniedException": 403,
    "ResourceNotFoundException": 404,
    "ModelTimeoutException": 408,
    "ModelErrorException": 424,
    "ModelNotReadyException": 429,
    "ThrottlingException": 429,
    "InternalServerException": 500,
    "ServiceUnavailableException": 503,
}
_IN_STREAM = {
    "InternalServerException", "ValidationException", "ThrottlingException", "ServiceUnavailableException",
}  # fmt: skip
MAX_BODY_BYTES = 25_000_000


class BedrockError(Exception):
    """One modelled error of the runtime."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def metric(self) -> str:
        """The metric it counts in; throttled requests are neither invocations nor errors."""
        if self.code == "ThrottlingException":
            return "InvocationThrottles"
        return "InvocationClientErrors" if STATUS[self.code] < 500 else "InvocationServerErrors"

    def response(self) -> web.Response:
        return web.Response(
            status=STATUS[self.code],
            body=orjson.dumps({"message": self.message}),
            content_type="application/json",
            headers={"x-amzn-ErrorType": self.code, "x-amzn-RequestId": str(uuid.uuid4())},
        )

    def frame(self) -> bytes:
        """The same inside a stream that has begun, where fewer kinds are modelled."""
        code = self.code if self.code in _IN_STREAM else "ModelStreamErrorException"
        kind = code[0].lower() + code[1:]
        headers = {":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"}
        return encode_frame(headers, orjson.dumps({"message": self.message}))


def invalid(message: str) -> BedrockError:
    return BedrockError("ValidationException", message)
