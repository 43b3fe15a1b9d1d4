"""Why a request is refused, in the words of the protocol that its client reads."""

from __future__ import annotations

import json
import uuid
from xml.sax.saxutils import escape

from aiohttp import web


class SealError(Exception):
    """A refusal by AWS's code. `s3` says that S3 would word it."""

    def __init__(self, code: str, message: str, *, s3: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.s3 = code, message, s3


def refusal(request: web.Request, error: SealError) -> web.Response:
    """403 as S3, the Query protocol or the JSON protocols tell it; which one is guessed, nothing else depends on it."""
    request_id = str(uuid.uuid4())
    headers = {"x-amzn-RequestId": request_id, "Connection": "close"}  # what was sent and not read goes with it
    code, message = escape(error.code), escape(error.message)
    if error.s3:
        text = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>{request_id}</RequestId></Error>"
        return web.Response(status=403, text=text, content_type="application/xml", headers=headers)
    if request.content_type == "application/x-www-form-urlencoded":
        text = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return web.Response(status=403, text=text, content_type="text/xml", headers=headers)
    text = json.dumps({"__type": error.code, "message": error.message})
    headers["x-amzn-ErrorType"] = error.code
    return web.Response(status=403, text=text, content_type="application/json", headers=headers)
