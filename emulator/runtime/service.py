"""The SageMaker runtime on loopback: InvokeEndpoint and InvokeEndpointWithResponseStream as boto3 speaks them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from emulator.directory import ComponentView, ContainerView, Directory, VariantView
from emulator.model_server import backend
from emulator.model_server.clock import Clock, WallClock
from emulator.model_server.container import (
    CannotStartError,
    Container,
    ContainerDiedError,
    ContainerRequest,
    ContainerResponse,
)
from emulator.model_server.start import Place, start_twin, twin_deployment
from emulator.runtime import errors, target
from emulator.runtime.errors import MAX_BODY_BYTES, InvokeError
from emulator.runtime.fleet import Copy, Fleet
from emulator.runtime.metrics import Metrics
from emulator.runtime.target import Target
from invocation.eventstream import encode_exception, encode_payload_part

log = logging.getLogger(__name__)

_CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
_VARIANT = "x-Amzn-Invoked-Production-Variant"
_SWEEP_S = 1.0
_FLUSH_EVERY_SWEEPS = 5
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


class Runtime:
    """All of the runtime service. `backend_url` puts one real HTTP model server behind every component.

    `unaligned` cuts payload parts at arbitrary offsets, as AWS does: parts never promise whole lines.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        account: str = "123456789012",
        region: str = "us-east-1",
        backend_url: str | None = None,
        clock: Clock | None = None,
        limits: Limits = Limits(),
        unaligned: bool = True,
        seed: int = 0,
    ) -> None:
        self._directory = directory
        self._account = account
        self._region = region
        self._backend_url = backend_url.rstrip("/") if backend_url else None
        self._clock = clock or WallClock()
        self._limits = limits
        self._cuts = random.Random(seed) if unaligned else None
        self._fleet = Fleet(self._start_container, seed)
        self._metrics = Metrics(directory)
        self._session: aiohttp.ClientSession | None = None
        self._sweeper: asyncio.Task[None] | None = None

    # -------------------------------------------------------------------------------------------------- server hooks

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/endpoints/{endpoint}/invocations", self.invoke),
            web.post("/endpoints/{endpoint}/invocations-response-stream", self.invoke_with_response_stream),
            web.post("/endpoints/{endpoint}/async-invocations", self.invoke_async),
        ]

    def setup(self, app: web.Application) -> None:
        """Add the routes, and start and stop with the application."""
        app.add_routes(self.routes())
        app.on_startup.append(self.start)
        app.on_cleanup.append(self.stop)

    async def start(self, app: web.Application | None = None) -> None:
        self._session = backend.new_session()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever())

    async def stop(self, app: web.Application | None = None) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._fleet.close()
        if self._session is not None:
            await self._session.close()

    def check_startable(self, view: ComponentView | VariantView) -> str | None:
        """Why the container behind this component or plain variant cannot start; None when it can. May take seconds.

        Callable from any thread. With a backend: its health check; else: whether the twin can stand for the image.
        """
        if view.container is None:
            return None
        if self._backend_url is not None:
            return backend.health_problem(self._backend_url)
        try:
            if isinstance(view, ComponentView):
                place = Place(view.instance_type, view.accelerators_per_copy)
            else:
                place = target.whole_instance(view.instance_type)
            twin_deployment(view.container, place)
        except CannotStartError as error:
            return str(error)
        return None

    @property
    def fleet(self) -> Fleet:
        return self._fleet

    def flush_metrics(self) -> None:
        """Hand the collected CloudWatch data to the directory now (it happens every few seconds anyway)."""
        self._metrics.hand_over(self._metrics.take())

    # ------------------------------------------------------------------------------------------------------ handlers

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        """POST /endpoints/{E}/invocations"""
        try:
            found, call = await self._accept(request)
            async with _while_connected(request):
                return await self._counted(found, lambda copy: self._unary(found, copy, call))
        except InvokeError as fault:
            return fault.response()
        except ClientGoneError:
            return web.Response(status=499)  # never seen: the connection is closed

    async def invoke_with_response_stream(self, request: web.Request) -> web.StreamResponse:
        """POST /endpoints/{E}/invocations-response-stream"""
        try:
            found, call = await self._accept(request)
            async with _while_connected(request):
                return await self._counted(found, lambda copy: self._stream(request, found, copy, call))
        except InvokeError as fault:
            return fault.response()
        except ClientGoneError:
            return web.Response(status=499)

    async def invoke_async(self, request: web.Request) -> web.Response:
        """POST /endpoints/{E}/async-invocations: refused; no asynchronous queue stands behind it here."""
        await _read_body(request)
        return InvokeError(
            "ValidationError",
            "The local cloud does not run asynchronous inference: use invoke_endpoint or "
            "invoke_endpoint_with_response_stream, or the request queue of the stack.",
        ).response()

    # ------------------------------------------------------------------------------------------------ one invocation

    async def _accept(self, request: web.Request) -> tuple[Target, ContainerRequest]:
        body = await _read_body(request)
        found = target.resolve(self._directory, self._account, request.match_info["endpoint"], request.headers)
        if found.wanted.copies < 1:
            if found.component_name is not None:
                self._metrics.no_capacity(found.component_name)
            raise errors.no_capacity()
        call = ContainerRequest(
            body=body,
            content_type=request.headers.get("Content-Type", "application/octet-stream"),
            accept=request.headers.get("X-Amzn-SageMaker-Accept", request.headers.get("Accept", "*/*")),
            custom_attributes=request.headers.get(_CUSTOM_ATTRIBUTES),
        )
        return found, call

    async def _counted(
        self, found: Target, answer: Callable[[Copy], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Run one invocation on a copy; keep the copy's outstanding count and the metrics right whatever happens."""
        begun_s = time.perf_counter()
        copy = self._pick(found)
        copy.outstanding += 1
        handed_s = time.perf_counter()
        error: str | None = None
        try:
            return await answer(copy)
        except InvokeError:
            error = "InvocationModelErrors"
            raise
        except _MidStreamError as broken:
            error = "MidStreamErrors"
            return broken.response
        finally:
            copy.outstanding -= 1
            ended_s = time.perf_counter()
            for where in found.dimensions:
                self._metrics.invoked(where, (ended_s - handed_s) * 1e6, (handed_s - begun_s) * 1e6, error)

    def _pick(self, found: Target) -> Copy:
        try:
            return self._fleet.pick(found.key, found.wanted)
        except CannotStartError as error:
            if found.component_name is not None:
                self._directory.fail_component(found.component_name, str(error))
            raise errors.model_error(0, str(error), self._log_arn(found)) from None

    async def _unary(self, found: Target, copy: Copy, call: ContainerRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._limits.unary_s):
                response, body = await _collect(copy, call)
        except TimeoutError:
            raise errors.model_error(0, errors.TIMED_OUT, self._log_arn(found)) from None
        except ContainerDiedError as died:
            raise errors.model_error(0, str(died), self._log_arn(found)) from None
        self._check_status(found, response, body)
        headers = _answer_headers(found, call) | {"Content-Type": response.content_type}
        return web.Response(body=body, headers=headers)

    async def _stream(
        self, request: web.Request, found: Target, copy: Copy, call: ContainerRequest
    ) -> web.StreamResponse:
        deadline_s = asyncio.get_running_loop().time() + self._limits.stream_s
        try:
            async with asyncio.timeout_at(deadline_s):
                response = await copy.container.invoke(call)
        except TimeoutError:
            raise errors.model_error(0, errors.TIMED_OUT, self._log_arn(found)) from None
        except ContainerDiedError as died:
            raise errors.model_error(0, str(died), self._log_arn(found)) from None
        async with contextlib.aclosing(response.parts) as parts:
            if response.status >= 300:
                self._check_status(found, response, b"".join([part async for part in parts]))
            headers = _answer_headers(found, call) | {
                "Content-Type": "application/vnd.amazon.eventstream",
                "X-Amzn-SageMaker-Content-Type": response.content_type,
            }
            answer = web.StreamResponse(headers=headers)
            await answer.prepare(request)
            await self._send_parts(answer, parts, deadline_s)
        return answer

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
            raise _MidStreamError(answer)

    def _cut(self, part: bytes) -> Iterable[bytes]:
        """Half of the parts in two at an arbitrary byte, both sent at once: borders move, times do not."""
        if self._cuts is None or len(part) < 2 or self._cuts.random() < 0.5:
            return (part,)
        at = self._cuts.randrange(1, len(part))
        return part[:at], part[at:]

    def _check_status(self, found: Target, response: ContainerResponse, body: bytes) -> None:
        if not 200 <= response.status < 300:
            message = body.decode("utf-8", "replace")
            raise errors.model_error(response.status, message, self._log_arn(found))

    def _log_arn(self, found: Target) -> str:
        return f"arn:aws:logs:{self._region}:{self._account}:log-group:{found.log_group}"

    # ---------------------------------------------------------------------------------------------------- containers

    def _start_container(self, view: ContainerView, place: Place) -> Container:
        if self._backend_url is None:
            return start_twin(view, place, self._clock)
        if self._session is None:
            raise CannotStartError("the runtime is not started")
        return backend.HttpContainer(self._backend_url, self._session)

    async def _sweep_forever(self) -> None:
        sweeps = 0
        while True:
            await asyncio.sleep(_SWEEP_S)
            sweeps += 1
            try:
                self._sweep()
                if sweeps % _FLUSH_EVERY_SWEEPS == 0:
                    await asyncio.to_thread(self._metrics.hand_over, self._metrics.take())
            except Exception:
                log.exception("the runtime's housekeeping failed; it goes on")

    def _sweep(self) -> None:
        """Let go of containers whose component or endpoint is gone, and of copies scaled in."""
        wanted: dict[str, Target] = {}
        for endpoint in self._directory.endpoints():
            for variant in endpoint.variants:
                if variant.container is not None:
                    found = target.variant_target(endpoint, variant)
                    wanted[found.key] = found
            for name in endpoint.component_names:
                if (component := self._directory.component(name)) is not None:
                    wanted[target.component_key(name)] = target.component_target(endpoint, component)
        for key, group in list(self._fleet.groups.items()):
            if key not in wanted:
                self._fleet.retire(key)
            elif wanted[key].wanted.generation == group.generation:  # a new one starts with its first request
                self._fleet.reconcile(key, wanted[key].wanted)


class _MidStreamError(Exception):
    """The stream ended with an exception frame: answered, and counted as an error."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__()
        self.response = response


def _answer_headers(found: Target, call: ContainerRequest) -> dict[str, str]:
    headers = {_VARIANT: found.variant_name, "x-amzn-RequestId": str(uuid.uuid4())}
    if call.custom_attributes is not None:
        headers[_CUSTOM_ATTRIBUTES] = call.custom_attributes
    return headers


def _stream_error(code: str, message: str) -> bytes:
    return encode_exception("ModelStreamError", message, ErrorCode=code)


async def _collect(copy: Copy, call: ContainerRequest) -> tuple[ContainerResponse, bytes]:
    response = await copy.container.invoke(call)
    async with contextlib.aclosing(response.parts) as parts:
        return response, b"".join([part async for part in parts])


async def _read_body(request: web.Request) -> bytes:
    """The whole body. Raises InvokeError past 6,291,456 bytes, after the client had a chance to finish sending."""
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
async def _while_connected(request: web.Request) -> AsyncGenerator[None, None]:
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
