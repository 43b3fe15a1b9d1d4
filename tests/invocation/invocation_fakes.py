"""A scripted HTTP server on raw sockets and builders of payloads, for the tests of `invocation`."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import struct
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import botocore.session
import orjson
from botocore.eventstream import EventStream
from botocore.parsers import EventStreamJSONParser

from loadproof.invocation import (
    GenerationRequest,
    HttpTransport,
    Invocation,
    Invoker,
    SageMakerTransport,
    Timeouts,
    codec_for,
)
from loadproof.invocation.connections import Connection, Receiver
from loadproof.invocation.credentials import fixed
from loadproof.invocation.eventstream import encode_frame, encode_payload_part
from loadproof.invocation.sigv4 import Credentials
from loadproof.invocation.transports import Unwrapper


@dataclass
class Exchange:
    """One request as the server read it, and the connection to answer on."""

    target: str
    headers: dict[str, str]
    body: bytes
    connection_number: int
    _writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes, gap_s: float = 0.0) -> None:
        """Write each piece as a segment of its own."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(gap_s)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class Server:
    port: int
    requests: list[Exchange] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Run `script` for every request until the block ends; every connection and task is gone then."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        number = server.connections
        try:
            while exchange := await _read(reader, writer, number):
                server.requests.append(exchange)
                await script(exchange)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server = Server(listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()
        running = list(tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> Exchange | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Exchange(first.split(" ")[1], headers, body, number, writer)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def answer(status: int, body: bytes, **headers: str) -> bytes:
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Status\r\n{extra}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def token_event(text: str, index: int, details: dict[str, object] | None = None, whole: str | None = None) -> bytes:
    """One TGI event without framing."""
    token = {"id": 100 + index, "text": text, "logprob": -0.5, "special": False}
    return orjson.dumps({"index": index, "token": token, "generated_text": whole, "details": details})


def token_events(texts: Sequence[str], generated_tokens: int | None = None, input_length: int = 7) -> list[bytes]:
    """All events of one generation; the last carries `details` with `generated_tokens` (default: the true count)."""
    reported = len(texts) if generated_tokens is None else generated_tokens
    details: dict[str, object] = {"finish_reason": "length", "generated_tokens": reported, "seed": None}
    details["input_length"] = input_length
    last = len(texts)
    return [
        token_event(text, i, details if i == last else None, "".join(texts) if i == last else None)
        for i, text in enumerate(texts, start=1)
    ]


def sse(*events: bytes) -> bytes:
    return b"".join(b"data: " + event + b"\n\n" for event in events)


def chat_event(delta: dict[str, object] | None = None, finish_reason: str | None = None, **more: object) -> bytes:
    """One chat completion chunk."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return orjson.dumps({"id": "c", "object": "chat.completion.chunk", "choices": choices, **more})


def chunkings(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """`data` cut at `cuts` (any integers; taken modulo the length)."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


BEDROCK = botocore.session.get_session().get_service_model("bedrock-runtime")


def bedrock_frame(name: str, event: dict[str, object]) -> bytes:
    """One event of a stream of Bedrock's runtime. `p` is the padding that AWS adds to hide how long a token is."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, orjson.dumps({**event, "p": "abcd"}))


def converse_frames(
    texts: Sequence[str], stop_reason: str = "max_tokens", output_tokens: int | None = None
) -> list[bytes]:
    """ConverseStream's events of one answer, which took a prompt of 7 tokens."""
    tokens = len(texts) if output_tokens is None else output_tokens
    usage = {"inputTokens": 7, "outputTokens": tokens, "totalTokens": 7 + tokens}
    return [
        bedrock_frame("messageStart", {"role": "assistant"}),
        *(bedrock_frame("contentBlockDelta", {"delta": {"text": text}, "contentBlockIndex": 0}) for text in texts),
        bedrock_frame("contentBlockStop", {"contentBlockIndex": 0}),
        bedrock_frame("messageStop", {"stopReason": stop_reason}),
        bedrock_frame("metadata", {"usage": usage, "metrics": {"latencyMs": 12}}),
    ]


class _Raw:
    """What botocore reads a stream from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> Iterator[bytes]:
        yield self._data

    def close(self) -> None: ...


def botocore_events(operation: str, member: str, data: bytes) -> list[dict[str, Any]]:
    """What botocore's own parser makes of a stream, the `member` of an operation's answer."""
    shape = BEDROCK.operation_model(operation).output_shape.members[member]
    return list(EventStream(_Raw(data), shape, EventStreamJSONParser(), operation))


def invoke_chunk(event: dict[str, object]) -> bytes:
    """One event of InvokeModelWithResponseStream: a model's own JSON, in base64."""
    return bedrock_frame("chunk", {"bytes": b64encode(orjson.dumps(event)).decode()})


# One request against a script

REQUEST = GenerationRequest("Once", 3)
TOKENS = [sse(event) for event in token_events(["a", "b", "c"])]
PATIENT = Timeouts(connect_s=10.0, first_byte_s=20.0, idle_s=20.0, total_s=30.0)
QUICK = Timeouts(connect_s=10.0, first_byte_s=0.3, idle_s=0.3, total_s=30.0)  # for what is meant to stall
KEYS = fixed(Credentials("AKID", "secret", "session"))


def parts(*payloads: bytes) -> bytes:
    """SageMaker's stream of these payload parts, chunked as HTTP."""
    return chunked(*(encode_payload_part(payload) for payload in payloads))


def sagemaker(server: Server, protocol: str = "tgi", timeouts: Timeouts = PATIENT) -> Invoker:
    transport = SageMakerTransport(
        "ep", component="ep-main", region="eu-west-1", credentials=KEYS, endpoint_url=server.url
    )
    return Invoker(transport, codec_for(protocol), timeouts=timeouts)


def invoke(
    script: Script,
    request: GenerationRequest = REQUEST,
    protocol: str = "tgi",
    http: bool = False,
    timeouts: Timeouts = PATIENT,
) -> tuple[Invocation, Server]:
    """One request against `script`, over SageMaker's protocol or bare."""

    async def main() -> tuple[Invocation, Server]:
        async with serving(script) as server:
            invoker = sagemaker(server, protocol, timeouts)
            if http:
                invoker = Invoker(HttpTransport(f"{server.url}/v1/x?y=1"), codec_for(protocol), timeouts=timeouts)
            try:
                return await invoker.invoke(request), server
            finally:
                await invoker.close()

    return asyncio.run(main())


def sends(*pieces: bytes, close: bool = False, reset: bool = False) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(*pieces)
        if close:
            exchange.close()
        if reset:
            await asyncio.sleep(0.02)  # let the pieces arrive before the RST discards them
            exchange.reset()

    return script


# One recorded answer, without a server


class _Deaf:
    """An asyncio transport that sends nothing."""

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


class _Canned:
    """A transport that plays one recorded answer into a real connection and closes it."""

    def __init__(self, raw: bytes, unwrapper: Callable[[], Unwrapper | None]) -> None:
        self._raw = raw
        self._unwrapper = unwrapper

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        connection = Connection(time.perf_counter_ns)
        connection.connection_made(cast(asyncio.BaseTransport, _Deaf()))
        loop = asyncio.get_running_loop()
        if self._raw:
            loop.call_soon(connection.data_received, self._raw)
        loop.call_soon(connection.connection_lost, None)
        await connection.exchange(b"", receiver, timeouts, time.perf_counter_ns())

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return self._unwrapper()

    async def warm(self, count: int, timeouts: Timeouts) -> None: ...

    def cancel_all(self) -> None: ...

    async def close(self) -> None: ...


def played(
    answers: Sequence[bytes], protocol: str, unwrapper: Callable[[], Unwrapper | None] = lambda: None
) -> list[Invocation]:
    """What each of these answers, from the status line to the last chunk, amounts to."""

    async def main() -> list[Invocation]:
        request, codec = GenerationRequest("x", 2), codec_for(protocol)
        return [await Invoker(_Canned(raw, unwrapper), codec).invoke(request) for raw in answers]

    return asyncio.run(main())
