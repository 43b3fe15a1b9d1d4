"""The one door of a local cloud: who is not asked in gets 403 before any service sees the request.

Any page in a browser can send requests to loopback. So nothing that a page sends is answered (a foreign Origin or Host,
a preflight, a websocket, what the browser marks as another site's), nothing says that a page may read an answer, and
every request must be signed with a key of this very cloud.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

from aiohttp import HttpVersion10, HttpVersion11, web
from multidict import CIMultiDict

from loadproof.localcloud.seal import calls
from loadproof.localcloud.seal.canonical import ALGORITHM, Request, Scope
from loadproof.localcloud.seal.errors import SealError, refusal
from loadproof.localcloud.seal.services import check_scope
from loadproof.localcloud.seal.signature import Verifier

log = logging.getLogger(__name__)
BODY = web.RequestKey("body", bytes)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_ONCE = ("Host", "Authorization", "Content-Length", "X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Security-Token")
# Buckets as subdomains: `localhost` and all below it are this machine by RFC 6761, whoever answers for a name.
_HOST = re.compile(r"(?:(?:[a-z0-9.-]+\.)?localhost|127\.0\.0\.1|\[::1\])(?::(\d+))?")
_RUNTIMES = {"endpoints": "sagemaker", "model": "bedrock"}  # by the first part of their routes' paths
_LARGE_BYTES = 1 << 20  # hashed in a thread


def page_fault(request: web.Request, port: int) -> str | None:
    """Why a request cannot be an honest client's: it is a page's, or was sent by another name than ours."""
    headers = request.headers
    if any(len(headers.getall(name, ())) > 1 for name in _ONCE):
        return "a header that may stand once stands twice"
    host = _HOST.fullmatch(headers.get("Host", "").lower())
    if host is None or int(host[1] or 80) != port:
        return "the Host is not this cloud's"
    for origin in headers.getall("Origin", ()):
        if origin not in (f"http://localhost:{port}", f"http://127.0.0.1:{port}", f"http://[::1]:{port}"):
            return "the Origin is not this cloud's"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "a browser sent it for another site"
    if "websocket" in headers.get("Upgrade", "").lower() or "Sec-WebSocket-Key" in headers:
        return "there are no websockets here"
    if request.method == "OPTIONS" or not request.raw_path.startswith("/"):
        return "neither OPTIONS nor absolute addresses are answered"
    return None


class Gate:
    """A middleware over everything that the cloud serves. `port` is known once it listens."""

    def __init__(self, verifier: Verifier, port: int, others: Handler) -> None:
        """`others` takes what has a runtime's path and is signed for another service."""
        self._verifier = verifier
        self._others = others
        self._port = port

    def setup(self, app: web.Application) -> None:
        app.middlewares.append(self.handle)
        app.on_response_prepare.append(keep_from_pages)

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Read the body, which the signature covers, and let the request through; or refuse it."""
        if request.version not in (HttpVersion10, HttpVersion11):  # the parser takes 0.9 and 2.0 in a line, too
            return web.Response(status=505, text="HTTP/1.1 is spoken here", headers={"Connection": "close"})
        try:
            why = page_fault(request, self._port)
            if why is not None:
                raise SealError("AccessDenied", f"The local cloud refuses this request: {why}.")
            path, _, query = request.raw_path.partition("?")
            claim = self._verifier.claim(Request(request.method, path, query, request.headers))
            ours = _RUNTIMES.get(_first_of_route(request))
            if claim.bearer and ours != claim.scope.service:
                raise SealError("InvalidSignatureException", "The bearer token is for something else")
            check_scope(claim.scope, request.headers.get("X-Amz-Target"))
            if ours not in (None, claim.scope.service):  # a bucket may be called `model`
                handler = self._others
            if claim.presigned and not claim.scope.s3:
                request = _addressed(request, claim.scope)
            body = request[BODY] = await request.read()
            if len(body) < _LARGE_BYTES:
                claim.settle(body)
            else:
                await asyncio.to_thread(claim.settle, body)
        except SealError as error:
            log.info("not let in: %s %.200s: %s: %s", request.method, request.raw_path, error.code, error.message)
            return refusal(request, error)
        if calls.WANTED:
            calls.note(request, body)
        return await handler(request)


def _first_of_route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical.split("/")[1] if resource is not None else ""


def _addressed(request: web.Request, scope: Scope) -> web.Request:
    """A presigned request with its credential where services are told apart by it; without one, it would be S3's."""
    credential = f"{ALGORITHM} Credential={scope.access_key}/{scope.text}, SignedHeaders=host, Signature=presigned"
    headers = CIMultiDict(request.headers)
    headers["Authorization"] = credential
    return request.clone(headers=headers)


async def keep_from_pages(request: web.Request, response: web.StreamResponse) -> None:
    """No answer tells a browser that a page of another origin may read it."""
    for name in [name for name in response.headers if name.lower().startswith("access-control-")]:
        del response.headers[name]
