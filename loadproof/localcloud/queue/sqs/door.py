"""SQS over HTTP: AWS JSON 1.0, and the Query protocol of older clients (form in, XML out)."""

from __future__ import annotations

import base64
import json
import logging
import uuid
from collections.abc import Mapping
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from aiohttp import web
from moto.core.parse import QueryParser
from moto.core.serialize import SqsQuerySerializer
from moto.core.utils import get_service_model

from loadproof.localcloud.queue.sqs.errors import older_code
from loadproof.localcloud.queue.sqs.service import Result, SqsService
from loadproof.localcloud.wire import AwsError, Caller, Params, caller_of, json_object

log = logging.getLogger(__name__)
_TARGET = "AmazonSQS."
_JSON = "application/x-amz-json-1.0"
_NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"


class SqsDoor:
    """Answers the requests that are SQS's."""

    def __init__(self, service: SqsService, home_region: str) -> None:
        self._service = service
        self._home_region = home_region

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Whether a request is SQS's: by its target, else by the service that it is signed for."""
        if headers.get("X-Amz-Target", "").startswith(_TARGET):
            return True
        return "/sqs/aws4_request" in headers.get("Authorization", "")

    async def answer(self, request: web.Request, body: bytes) -> web.Response:
        """The reply to one request; a receive may take its 20 s, and holds nobody up."""
        caller, _ = caller_of(request.headers.get("Authorization", ""), self._home_region)
        target = request.headers.get("X-Amz-Target", "")
        if target.startswith(_TARGET):
            return await self._answer_json(request, caller, target.removeprefix(_TARGET), body)
        return await self._answer_query(request, caller, body)

    async def _answer_json(self, request: web.Request, caller: Caller, action: str, body: bytes) -> web.Response:
        try:
            result = await self._run(request, caller, action, json_object(body))
        except AwsError as error:
            fault = "Sender" if error.status < 500 else "Receiver"
            text = json.dumps({"__type": f"com.amazonaws.sqs#{error.code}", "message": error.message})
            headers = _headers(_JSON) | {"x-amzn-query-error": f"{older_code(error.code)};{fault}"}
            return web.Response(status=error.status, headers=headers, body=text.encode())
        text = json.dumps(result, default=_base64) if result else "{}"
        return web.Response(headers=_headers(_JSON), body=text.encode())

    async def _answer_query(self, request: web.Request, caller: Caller, body: bytes) -> web.Response:
        form = dict(request.query) | dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        # Older clients post to the queue's own address and leave the parameter away.
        form.setdefault("QueueUrl", str(request.url.with_query(None)))
        action, model = form.get("Action", ""), get_service_model("sqs")
        try:
            if action not in model.operation_names:
                raise AwsError("InvalidAction", f"The action {action or '(none)'} is not valid for this endpoint.")
            operation = model.operation_model(action)
            try:
                params = QueryParser(operation).parse({"values": form})  # type: ignore[typeddict-item]
            except ValueError as error:
                raise AwsError("MalformedInput", f"The request cannot be read: {error}") from None
            result = await self._run(request, caller, action, params)
        except AwsError as error:
            return web.Response(status=error.status, headers=_headers("text/xml"), body=_query_error(error))
        text = SqsQuerySerializer(operation).serialize(result)["body"]
        return web.Response(headers=_headers("text/xml"), body=text.encode() if isinstance(text, str) else text)

    async def _run(self, request: web.Request, caller: Caller, action: str, params: Params) -> Result:
        """A fault of ours reaches the client as AWS's own faults do, and the log with its trace."""

        def connected() -> bool:
            return request.transport is not None and not request.transport.is_closing()

        try:
            return await self._service.answer(caller, action, params, connected)
        except AwsError as error:
            log.info("refused sqs:%s: %.500s", action, error.message)
            raise
        except Exception as error:
            log.exception("sqs:%s broke", action)
            raise AwsError("InternalFailure", f"{type(error).__name__}: {error}", 500) from error


def _query_error(error: AwsError) -> bytes:
    code = older_code(error.code)
    fault = "Sender" if error.status < 500 else "Receiver"
    return (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>{fault}</Type>'
        f"<Code>{escape(code)}</Code><Message>{escape(error.message)}</Message><Detail/></Error>"
        f"<RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"
    ).encode()


def _headers(content_type: str) -> dict[str, str]:
    return {"x-amzn-RequestId": str(uuid.uuid4()), "Content-Type": content_type}


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not JSON")
