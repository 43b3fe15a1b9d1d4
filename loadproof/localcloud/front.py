"""One port for all services: the runtime's paths, our own APIs, and everything else on to moto."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from weakref import WeakValueDictionary

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from loadproof.localcloud.plane import ControlPlane
from loadproof.localcloud.refusals.asked import Request
from loadproof.localcloud.wire import Reply

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 1024**3  # asset archives are uploaded in one piece
SPEED_HEADER = "x-loadproof-clock-speed"  # whoever measures scaling on a faster clock can tell it from AWS's
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}


class Front:
    """Puts the catch-all route on an application; the runtime's routes must be there first."""

    def __init__(self, plane: ControlPlane, moto_socket: Path) -> None:
        self._plane = plane
        self._moto_socket = moto_socket
        self._session: aiohttp.ClientSession | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def setup(self, app: web.Application) -> None:
        app.router.add_route("*", "/{path:.*}", self.handle)
        app.on_startup.append(self._open)
        app.on_cleanup.append(self._close)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer by our own services, else by moto; a broken request never takes the server down."""
        body = await request.read()
        try:
            plain = _uncompressed(request, body)
        except zlib.error:
            raise web.HTTPBadRequest(text="the body is no gzip") from None
        if self._plane.sqs_door.wants(request.headers):
            return await self._plane.sqs_door.answer(request, plain)
        reply = await self._own_reply(request, plain)
        if reply is None:
            reply = await self._refusal(request, plain)
        if reply is None:
            async with self._turn(request):
                return await self._pass_on(request, body)
        if reply.status >= 400:
            log.info("refused: %.1000r", reply.body)
        headers = {"x-amzn-RequestId": reply.request_id, "Content-Type": reply.content_type, **reply.headers}
        if self._plane.clock.speed != 1:
            headers[SPEED_HEADER] = f"{self._plane.clock.speed:g}"
        return web.Response(status=reply.status, body=reply.body, headers=headers)

    async def _own_reply(self, request: web.Request, body: bytes) -> Reply | None:
        if request.path == "/" and (request.method == "POST" or "Action" in request.query):
            form = body or request.rel_url.raw_query_string.encode()
            return await asyncio.to_thread(self._plane.answer, request.headers, form)
        if self._plane.speaks_rest(request.headers):
            url = request.rel_url
            query = dict(url.query)
            return await asyncio.to_thread(
                self._plane.answer_rest, request.headers, request.method, url.raw_path, query, body
            )
        return None

    async def _refusal(self, request: web.Request, body: bytes) -> Reply | None:
        """What AWS refuses of moto's services and moto would take."""
        if not self._plane.gated(request.headers):
            return None
        url = request.rel_url
        asked = Request(request.method, url.raw_path, dict(url.query), request.headers, body)
        return await asyncio.to_thread(self._plane.refusal, asked)

    def _turn(self, request: web.Request) -> AbstractAsyncContextManager[None]:
        """moto looks and then writes, in a thread for each request: what AWS does in one step waits for its turn here.

        That is every request to DynamoDB, and writes to one S3 object, so that conditions let exactly one through.
        """
        if request.headers.get("X-Amz-Target", "").startswith("DynamoDB_"):
            place = "dynamodb"
        elif request.method in ("PUT", "DELETE"):
            place = f"{request.host}{request.raw_path.partition('?')[0]}"
        else:
            return contextlib.nullcontext()
        return self._turns.setdefault(place, asyncio.Lock())

    async def _pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Proxy to moto: Host kept (S3 reads buckets and URLs from it), body and path bytes untouched."""
        assert self._session is not None
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP
        )
        headers.pop("Expect", None)
        headers["Content-Length"] = str(len(body))
        url = URL(f"http://localhost{request.raw_path}", encoded=True)
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body, allow_redirects=False
            ) as answer:
                content = await answer.read()
                if answer.status == 404 and content.startswith(b"<!doctype html>"):  # moto has no such route
                    return _not_provided(request)
                if answer.status >= 400:
                    log.info("%s %s: %d %.200r", request.method, request.path_qs, answer.status, content)
                kept = CIMultiDict(
                    (name, value)
                    for name, value in answer.headers.items()
                    if name.lower() not in _HOP_BY_HOP and name.lower() != "content-length"
                )
                response = web.Response(status=answer.status, headers=kept, body=content)
                if request.method == "HEAD" and "Content-Length" in answer.headers:
                    response.headers["Content-Length"] = answer.headers["Content-Length"]
                return response
        except aiohttp.ClientError as error:
            log.warning("%s %s did not reach moto: %s", request.method, request.path, error)
            return web.Response(status=503, text="the local cloud is stopping")

    async def _open(self, app: web.Application) -> None:
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
            timeout=aiohttp.ClientTimeout(total=None),
            connector=aiohttp.UnixConnector(str(self._moto_socket), limit=64, force_close=True),
        )

    async def _close(self, app: web.Application) -> None:
        if self._session is not None:
            await self._session.close()


def _not_provided(request: web.Request) -> web.Response:
    """In REST's own form, where moto writes a page."""
    told = {"message": f"The local cloud does not provide this: {request.method} {request.path}"}
    return web.json_response(told, status=400, headers={"x-amzn-ErrorType": "NotImplemented"})


def _uncompressed(request: web.Request, body: bytes) -> bytes:
    """SDKs compress large requests of some services; S3's objects stay as they are, since moto gets what came."""
    if request.headers.get("Content-Encoding", "").lower() != "gzip" or request.method != "POST":
        return body
    return zlib.decompress(body, wbits=31)
