"""One invocation on one copy: the container's bytes to the caller within SageMaker's limits, or SageMaker's error."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass

from aiohttp import web

from loadproof.invocation.eventstream import encode_exception, encode_payload_part
from loadproof.localcloud.model_server.container import ContainerDiedError, ContainerRequest, ContainerResponse
from loadproof.localcloud.runtime import errors
from loadproof.localcloud.runtime.errors import MAX_BODY_BYTES
from loadproof.localcloud.runtime.fleet import Copy
from loadproof.localcloud.runtime.target import Target
from loadproof.localcloud.seal.gate import BODY

CUSTOM_ATTRIBUTES_HEADER = "X-Amzn-SageMaker-Custom-Attributes"
_VARIANT_HEADER = "x-Amzn-Invoked-Production-Variant"
# What is read past the limit before refusing: a client that is still sending cannot hear the refusal.
_DISCARD_BYTES = 64 * 1024 * 1024
_GONE_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """SageMaker's limits of one invocation."""

    unary_s: float = 60.0
    stream_s: float = 480.0


class ClientGoneError(Exception):
    """The caller hung up: nothing is left to answer."""


class Answerer:
    """Answers with a container's response. `cuts` chooses where payload parts are cut; None leaves them whole.

    `logs_arn` is the ARN of the region's log groups, up to the group's name.
    """

    def __init__(self, limits: Limits, cuts: random.Random | None, logs_arn: str) -> None:
        self._limits = limits
        self._cuts = cuts
        self._logs_arn = logs_arn

    def log_arn(self, found: Target) -> str:
        """Where the container's logs would be."""
        return f"{self._logs_arn}{found.log_group}"

    async def unary(self, found: Target, copy: Copy, call: ContainerRequest) -> web.StreamResponse:
        log_arn = self.log_arn(found)
        with _answering(log_arn):
            async with asyncio.timeout(self._limits.unary_s):
                response, body = await _collect(copy, call)
        _check_status(response, body, log_arn)
        headers = _answer_headers(found, call) | {"Content-Type": response.content_type}
        return web.Response(body=body, headers=headers)

    async def stream(
        self, request: web.Request, found: Target, copy: Copy, call: ContainerRequest
    ) -> web.StreamResponse:
        """In SageMaker's frames."""
        deadline_s = asyncio.get_running_loop().time() + self._limits.stream_s
        response = await self._begun(found, copy, call, deadline_s)
        async with contextlib.aclosing(response.parts) as parts:
            headers = _answer_headers(found, call) | {
                "Content-Type": "application/vnd.amazon.eventstream",
                "X-Amzn-SageMaker-Content-Type": response.content_type,
            }
            answer = web.StreamResponse(headers=headers)
            await answer.prepare(request)
            await self._send_parts(answer, parts, deadline_s)
        return answer

    async def bare_stream(
        self, request: web.Request, found: Target, copy: Copy, call: ContainerRequest
    ) -> web.StreamResponse:
        """The container's bytes as they are. A stream that breaks has no frame to say so in: it is cut off."""
        deadline_s = asyncio.get_running_loop().time() + self._limits.stream_s
        response = await self._begun(found, copy, call, deadline_s)
        async with contextlib.aclosing(response.parts) as parts:
            answer = web.StreamResponse(headers=_answer_headers(found, call) | {"Content-Type": response.content_type})
            await answer.prepare(request)
            try:
                async with asyncio.timeout_at(deadline_s):
                    async for part in parts:
                        await answer.write(part)
                await answer.write_eof()
            except ConnectionResetError:
                raise ClientGoneError from None
            except (TimeoutError, ContainerDiedError):
                if request.transport is not None:
                    request.transport.abort()
                raise MidStreamError(answer) from None
        return answer

    async def _begun(self, found: Target, copy: Copy, call: ContainerRequest, deadline_s: float) -> ContainerResponse:
        """The container's response once it has begun well. Raises InvokeError: until then there is a status to send."""
        log_arn = self.log_arn(found)
        with _answering(log_arn):
            async with asyncio.timeout_at(deadline_s):
                response = await copy.container.invoke(call)
                if response.status >= 300:
                    _check_status(response, await _whole(response), log_arn)
        return response

    async def _send_parts(
        self, answer: web.StreamResponse, parts: AsyncGenerator[bytes, None], deadline_s: float
    ) -> None:
        try:
            broken: bytes | None = None
            try:
                async with asyncio.timeout_at(deadline_s):
                    async for part in parts:
                        await answer.write(b"".join(map(encode_payload_part, self._cut(part))))
            except TimeoutError:
                broken = _stream_error("ModelInvocationTimeExceeded", "The model did not finish within the time limit.")
            except ContainerDiedError as died:
                broken = _stream_error("StreamBroken", f"The model container broke the stream: {died}")
            if broken is not None:
                await answer.write(broken)
            await answer.write_eof()
        except ConnectionResetError:
            raise ClientGoneError from None
        if broken is not None:
            raise MidStreamError(answer)

    def _cut(self, part: bytes) -> Iterable[bytes]:
        """Half of the parts in two at an arbitrary byte, both sent at once: borders move, times do not."""
        if self._cuts is None or len(part) < 2 or self._cuts.random() < 0.5:
            return (part,)
        at = self._cuts.randrange(1, len(part))
        return part[:at], part[at:]


@contextlib.contextmanager
def _answering(log_arn: str) -> Iterator[None]:
    """A container that is too slow or dies is SageMaker's ModelError."""
    try:
        yield
    except TimeoutError:
        raise errors.model_error(0, errors.TIMED_OUT, log_arn) from None
    except ContainerDiedError as died:
        raise errors.model_error(0, str(died), log_arn) from None


def _check_status(response: ContainerResponse, body: bytes, log_arn: str) -> None:
    if not 200 <= response.status < 300:
        message = body.decode("utf-8", "replace")
        raise errors.model_error(response.status, message, log_arn)


class MidStreamError(Exception):
    """The stream ended with an exception frame: answered, and counted as an error."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__()
        self.response = response


def _answer_headers(found: Target, call: ContainerRequest) -> dict[str, str]:
    headers = {_VARIANT_HEADER: found.variant_name, "x-amzn-RequestId": str(uuid.uuid4())}
    if call.custom_attributes is not None:
        headers[CUSTOM_ATTRIBUTES_HEADER] = call.custom_attributes
    return headers


def _stream_error(code: str, message: str) -> bytes:
    return encode_exception("ModelStreamError", message, ErrorCode=code)


async def _collect(copy: Copy, call: ContainerRequest) -> tuple[ContainerResponse, bytes]:
    response = await copy.container.invoke(call)
    return response, await _whole(response)


async def _whole(response: ContainerResponse) -> bytes:
    async with contextlib.aclosing(response.parts) as parts:
        return b"".join([part async for part in parts])


async def read_body(request: web.Request) -> bytes:
    """The whole body. Raises InvokeError past 6,291,456 bytes, after the client had a chance to finish sending."""
    known: bytes | None = request.get(BODY)
    if known is not None:  # read at the gate already
        if len(known) > MAX_BODY_BYTES:
            raise errors.body_too_large()
        return known
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
        elif size > _DISCARD_BYTES:
            break
    if size > MAX_BODY_BYTES:
        raise errors.body_too_large()
    return b"".join(parts)


@contextlib.asynccontextmanager
async def while_connected(request: web.Request) -> AsyncGenerator[None, None]:
    """Cancel what runs inside when the client hangs up. Raises ClientGoneError then."""
    try:
        async with asyncio.timeout(None) as scope:
            watch = asyncio.get_running_loop().create_task(_expire_when_gone(request, scope))
            try:
                yield
            finally:
                watch.cancel()
    except TimeoutError:
        raise ClientGoneError from None


async def _expire_when_gone(request: web.Request, scope: asyncio.Timeout) -> None:
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(_GONE_POLL_S)
    scope.reschedule(asyncio.get_running_loop().time())
