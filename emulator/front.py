"""One port for all services: the runtime's paths, our own APIs, and everything else on to moto."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from emulator.controlplane.plane import ControlPlane

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 1024**3  # asset archives are uploaded in one piece
SPEED_HEADER = "x-loadproof-clock-speed"  # whoever measures scaling on a faster clock can tell it from AWS's
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}


class Front:
    """Puts the catch-all route on an application; the runtime's routes must be there first."""

    def __init__(self, plane: ControlPlane, moto_port: int) -> None:
        self._plane = plane
        self._moto = f"http://127.0.0.1:{moto_port}"
        self._session: aiohttp.ClientSession | None = None

    def setup(self, app: web.Application) -> None:
        app.router.add_route("*", "/{path:.*}", self.handle)
        app.on_startup.append(self._open)
        app.on_cleanup.append(self._close)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer by our own services, else by moto; a broken request never takes the server down."""
        if request.path.startswith("/moto-api"):
            raise web.HTTPNotFound(text="moto's own API is off: it would reset the local cloud")
        body = await request.read()
        if request.path == "/" and request.method == "POST":
            reply = await asyncio.to_thread(self._plane.answer, request.headers, body)
            if reply is not None:
                if reply.status >= 400:
                    log.info("refused: %.1000r", reply.body)
                headers = {"x-amzn-RequestId": reply.request_id, "Content-Type": reply.content_type}
                if self._plane.clock.speed != 1:
                    headers[SPEED_HEADER] = f"{self._plane.clock.speed:g}"
                return web.Response(status=reply.status, body=reply.body, headers=headers)
        return await self._pass_on(request, body)

    async def _pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Proxy to moto: Host kept (S3 reads buckets and URLs from it), body and path bytes untouched."""
        assert self._session is not None
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP
        )
        headers.pop("Expect", None)
        headers["Content-Length"] = str(len(body))
        from yarl import URL

        url = URL(self._moto + request.raw_path, encoded=True)
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body, allow_redirects=False
            ) as answer:
                content = await answer.read()
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
            connector=aiohttp.TCPConnector(limit=64, force_close=True),
        )

    async def _close(self, app: web.Application) -> None:
        if self._session is not None:
            await self._session.close()
