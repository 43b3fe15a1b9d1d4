"""Bedrock's runtime on loopback: Converse, ConverseStream and both ways of InvokeModel, as boto3 speaks them."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from loadproof.localcloud.bedrock.errors import MAX_BODY_BYTES, BedrockError, invalid
from loadproof.localcloud.bedrock.faults import Fault, FaultOf
from loadproof.localcloud.bedrock.metrics import Metrics
from loadproof.localcloud.bedrock.models import Target, resolve
from loadproof.localcloud.bedrock.payloads import converse, native
from loadproof.localcloud.bedrock.payloads.parsed import ParsedRequest, Timing, Writer
from loadproof.localcloud.bedrock.quotas import Admission
from loadproof.localcloud.bedrock.stand_ins import Pools
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.model_server.clock import WallClock
from loadproof.localcloud.model_server.engine import Generation
from loadproof.localcloud.runtime.answer import ClientGoneError, while_connected
from loadproof.localcloud.wire import Caller, caller_of

_TIER_HEADER = "X-Amzn-Bedrock-Service-Tier"
Read = Callable[[Target, bytes], tuple[ParsedRequest, Writer]]


@dataclass(frozen=True, slots=True)
class Call:
    """One request that is going to be answered."""

    caller: Caller
    target: Target
    parsed: ParsedRequest
    writer: Writer
    fault: Fault | None
    begun_s: float
    headers: dict[str, str]

    def since_ms(self) -> float:
        return (time.perf_counter() - self.begun_s) * 1000.0


class BedrockRuntime:
    """All of the runtime's service. `fault_of` gives the fault that somebody asked for, if any."""

    def __init__(self, store: BedrockStore, metrics: Metrics, *, region: str, fault_of: FaultOf) -> None:
        self._store = store
        self._metrics = metrics
        self._region = region
        self._fault_of = fault_of
        self._pools = Pools(WallClock())
        self._admission = Admission(store)
        self._ready = False

    def setup(self, app: web.Application) -> None:
        """Add the routes, and stop with the application."""
        app.add_routes(
            [
                web.post("/model/{model:.+}/converse", self.converse),
                web.post("/model/{model:.+}/converse-stream", self.converse_stream),
                web.post("/model/{model:.+}/invoke", self.invoke),
                web.post("/model/{model:.+}/invoke-with-response-stream", self.invoke_stream),
            ]
        )
        app.on_cleanup.append(self._close)

    async def converse(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _read_converse(request, stream=False), stream=False)

    async def converse_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _read_converse(request, stream=True), stream=True)

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _read_native(request), stream=False)

    async def invoke_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _read_native(request), stream=True)

    def _get_ready(self) -> None:
        """What the first request needs and takes a second to load; the event loop must not wait for it."""
        caller, _ = caller_of("", self._region)
        self._fault_of(caller, "")
        converse.input_shape()
        self._ready = True

    async def _close(self, app: web.Application) -> None:
        await self._pools.close()

    async def _serve(self, request: web.Request, read: Read, *, stream: bool) -> web.StreamResponse:
        if not self._ready:
            await asyncio.to_thread(self._get_ready)
        begun_s = time.perf_counter()
        caller, _ = caller_of(request.headers.get("Authorization", ""), self._region)
        target: Target | None = None
        try:
            target = resolve(self._store, caller, _model_id(request))
            fault = self._fault_of(caller, target.model.model_id)
            if fault is not None and not fault.midway:
                raise BedrockError(fault.error, "The local cloud was told to fail this request.")
            parsed, writer = read(target, await _body(request))
            headers = {"x-amzn-RequestId": str(uuid.uuid4())}
            if _TIER_HEADER in request.headers:
                headers[_TIER_HEADER] = request.headers[_TIER_HEADER]
            call = Call(caller, target, parsed, writer, fault, begun_s, headers)
            async with while_connected(request):
                return await (self._stream(request, call) if stream else self._unary(call))
        except BedrockError as error:
            if target is not None:
                self._metrics.failed(caller, target.metric_id, error.metric)
            return error.response()
        except (ClientGoneError, ConnectionResetError):
            return web.Response(status=499)  # never seen: the connection is closed

    async def _unary(self, call: Call) -> web.StreamResponse:
        async with self._admitted(call) as generation:
            async for _ in generation:
                pass
            if call.fault is not None:
                raise BedrockError(call.fault.error, "The local cloud was told to fail this request.")
            timing = Timing(call.since_ms(), call.since_ms())
            self._metrics.answered(call.caller, call.target.metric_id, call.parsed, timing, streamed=False)
            counts = {
                "X-Amzn-Bedrock-Input-Token-Count": str(call.parsed.input_tokens),
                "X-Amzn-Bedrock-Output-Token-Count": str(call.parsed.output_tokens),
                "X-Amzn-Bedrock-Invocation-Latency": str(round(timing.last_token_ms)),
            }
            return web.Response(
                body=call.writer.unary(timing), content_type="application/json", headers=call.headers | counts
            )

    async def _stream(self, request: web.Request, call: Call) -> web.StreamResponse:
        answer: web.StreamResponse | None = None
        try:
            async with self._admitted(call) as generation:
                answer = web.StreamResponse(headers=call.headers | _STREAM_HEADERS)
                await answer.prepare(request)
                timing = await self._write(answer, call, generation)
                self._metrics.answered(call.caller, call.target.metric_id, call.parsed, timing, streamed=True)
        except BedrockError as error:
            if answer is None:
                raise
            self._metrics.failed(call.caller, call.target.metric_id, error.metric)
            await answer.write(error.frame())
        await answer.write_eof()
        return answer

    async def _write(self, answer: web.StreamResponse, call: Call, generation: Generation) -> Timing:
        """Every token as it comes. Raises BedrockError where a fault was asked for in the midst of it."""
        first_ms: float | None = None
        head = call.writer.opening()
        pieces = call.parsed.pieces()
        async for index in generation:
            if call.fault is not None and 2 * index >= call.parsed.output_tokens:
                raise BedrockError(call.fault.error, "The local cloud was told to break this stream.")
            first_ms = call.since_ms() if first_ms is None else first_ms
            frames = head + call.writer.token(next(pieces), index)
            head = b""
            if frames:
                await answer.write(frames)
        last_ms = call.since_ms()
        timing = Timing(last_ms if first_ms is None else first_ms, last_ms)
        await answer.write(call.writer.closing(timing))
        return timing

    @contextlib.asynccontextmanager
    async def _admitted(self, call: Call) -> AsyncIterator[Generation]:
        """A generation within the quotas, which are settled when it ends, however it ends."""
        parsed = call.parsed
        reserved = self._admission.reserve(call.caller, call.target, parsed.input_tokens + parsed.reserved_tokens)
        written = 0
        try:
            async with self._pools.generating(call.target, parsed.input_tokens, parsed.output_tokens) as generation:
                try:
                    yield generation
                finally:
                    written = generation.taken
        finally:
            used = reserved.settle(parsed.input_tokens if written else 0, written)
            if written:
                self._metrics.quota_used(call.caller, call.target.metric_id, used)


_GUARDRAIL_HEADER = "X-Amzn-Bedrock-GuardrailIdentifier"
_STREAM_HEADERS = {
    "Content-Type": "application/vnd.amazon.eventstream",
    "X-Amzn-Bedrock-Content-Type": "application/json",
}


def _read_converse(request: web.Request, *, stream: bool) -> Read:
    return lambda target, body: converse.read(target.model, body, _model_id(request), stream=stream)


def _read_native(request: web.Request) -> Read:
    def read(target: Target, body: bytes) -> tuple[ParsedRequest, Writer]:
        converse.check_tier(target.model, request.headers.get(_TIER_HEADER))
        if _GUARDRAIL_HEADER in request.headers:
            raise converse.no_guardrail()
        if request.content_type not in ("application/json", "application/octet-stream"):
            raise invalid(f"Content type {request.content_type} is not supported: use application/json.")
        return native.read(target.model, body)

    return read


def _model_id(request: web.Request) -> str:
    """As it was meant: an ARN's slash comes encoded."""
    return unquote(request.match_info["model"])


async def _body(request: web.Request) -> bytes:
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise invalid(f"Value at 'body' failed to satisfy constraint: Member must have length at most {MAX_BODY_BYTES}")
    return await request.read()
