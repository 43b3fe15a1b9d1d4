"""A real model server behind a component: `/invocations` passed through, or the OpenAI API where there is none.

Bytes are handed on as they come. The server is shared by all copies; it is its own scheduler.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import AsyncGenerator

import aiohttp
import orjson

from loadproof.localcloud.model_server.backend_adapters import adapter_headers, for_adapter
from loadproof.localcloud.model_server.container import ContainerDiedError, ContainerRequest, ContainerResponse

PING_TIMEOUT_S = 2.0
# A model server on this machine or network is never meant to be reached through a proxy.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def health_problem(url: str) -> str | None:
    """Why the server at `url` is not healthy, None when it is: `/ping`, or `/health` where that is 404."""
    problem = "no answer"
    for path in ("/ping", "/health"):
        try:
            with _DIRECT.open(f"{url}{path}", timeout=PING_TIMEOUT_S):
                return None
        except urllib.error.HTTPError as error:
            problem = f"GET {path} answered {error.code}"
            if error.code not in (404, 405):
                break
        except (OSError, ValueError) as error:
            problem = f"GET {path} failed: {getattr(error, 'reason', error)}"
            break
    return f"the container at {url} did not pass its health check: {problem}"


class HttpContainer:
    """One copy in front of an HTTP model server, whose answers are of an adapter where one is named."""

    def __init__(self, url: str, session: aiohttp.ClientSession, adapter: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._adapter = adapter
        self._session = session
        self._has_invocations = True

    async def invoke(self, request: ContainerRequest) -> ContainerResponse:
        path = "/invocations" if self._has_invocations else openai_path(request.body)
        response = await self._post(path, request)
        if path == "/invocations" and response.status == 404:
            other = await self._post(openai_path(request.body), request)
            if other.status == 404:  # a container's own 404, about this request
                other.release()
            else:  # not a SageMaker container: later requests go straight to the OpenAI API
                response.release()
                response, self._has_invocations = other, False
        content_type = response.headers.get("Content-Type", "application/octet-stream")
        return ContainerResponse(response.status, content_type, self._parts(response))

    async def close(self) -> None:
        """The server is not ours to stop, and the session is shared."""

    async def _post(self, path: str, request: ContainerRequest) -> aiohttp.ClientResponse:
        headers = {"Content-Type": request.content_type, "Accept": request.accept, **adapter_headers(self._adapter)}
        body = request.body if path == "/invocations" else for_adapter(request.body, self._adapter)
        if request.custom_attributes is not None:
            headers["X-Amzn-SageMaker-Custom-Attributes"] = request.custom_attributes
        try:
            return await self._session.post(f"{self._url}{path}", data=body, headers=headers)
        except aiohttp.ClientError as error:
            raise ContainerDiedError(f"POST {self._url}{path}: {error}") from error

    async def _parts(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        whole_answer = False
        try:
            async for part in response.content.iter_any():
                yield part
            whole_answer = True
        except aiohttp.ClientError as error:
            raise ContainerDiedError(f"the container broke off its answer: {error}") from error
        finally:
            # Closing the connection is how an HTTP server learns that nobody waits for the rest.
            if whole_answer:
                response.release()
            else:
                response.close()


def openai_path(body: bytes) -> str:
    """Chat for a body with `messages`, else completions (also for what is no JSON: the server words its error)."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        fields = None
    chat = isinstance(fields, dict) and "messages" in fields
    return "/v1/chat/completions" if chat else "/v1/completions"


def new_session() -> aiohttp.ClientSession:
    """No time-outs of its own: the runtime's limits rule. No proxies, no cap on connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None, connect=10), trust_env=False
    )
