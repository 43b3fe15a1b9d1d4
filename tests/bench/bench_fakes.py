"""A small model server behind SageMaker's runtime protocol, for these tests: what it does is told, not modelled.

It streams its protocol's events in event-stream frames (or plain for an HTTP target), one every `itl_s`, and keeps a
log of the truth: when it got each request and when it sent each token. Faults are by request number, counted from 0.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from loadproof.invocation.eventstream import encode_payload_part

Fault = str  # "cut" | "refuse" | "reset" | "stall" | "missing" | "no_capacity"


@dataclass
class Served:
    """One request as the server saw it."""

    prompt: str
    received_ns: int
    path: str = ""
    model: str | None = None
    messages: list[dict] | None = None
    token_ns: list[int] = field(default_factory=list)


@dataclass
class FakeEndpoint:
    """`fault_of(number)` says what goes wrong with a request; None is nothing."""

    protocol: str = "tgi"
    ttft_s: float = 0.01
    itl_s: float = 0.002
    tokens_per_event: int = 1
    stops_after: int | None = None  # tokens, however many are asked for
    claims: int | None = None  # tokens, whatever was generated
    fault_of: Callable[[int], Fault | None] = lambda number: None
    endpoint_status: str = "InService"
    component_status: str = "InService"
    copies: int = 2
    served: list[Served] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    port: int = 0
    alone_s: float = 0  # every request has the server to itself for so long
    lock: asyncio.Lock | None = None
    describe_s: float = 0  # the control plane takes that long

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await _head(reader):
                body = json.loads(await reader.readexactly(head.length))
                if head.target:
                    await self._describe(head.target, body, writer)
                else:
                    await self._answer(head, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _describe(self, target: str, body: dict, writer: asyncio.StreamWriter) -> None:
        """SageMaker's control plane, as far as `describe_target` asks it: one endpoint, one component of two copies."""
        self.described.append(next(iter(body.values())))
        await asyncio.sleep(self.describe_s)
        answers = {
            "sagemaker.describeendpoint": {
                "EndpointName": body.get("EndpointName"),
                "EndpointArn": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/x",
                "EndpointConfigName": "x",
                "EndpointStatus": self.endpoint_status,
                "ProductionVariants": [{"VariantName": "AllTraffic"}],
                "CreationTime": 0,
                "LastModifiedTime": 0,
            },
            "sagemaker.describeinferencecomponent": {
                "InferenceComponentName": body.get("InferenceComponentName"),
                "InferenceComponentArn": "arn:aws:sagemaker:us-east-1:123456789012:inference-component/x",
                "EndpointName": body.get("InferenceComponentName", "").removesuffix("-main"),
                "EndpointArn": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/x",
                "InferenceComponentStatus": self.component_status,
                "FailureReason": "the image has no such tag",
                "RuntimeConfig": {"CurrentCopyCount": self.copies, "DesiredCopyCount": 2},
                "CreationTime": 0,
                "LastModifiedTime": 0,
            },
        }
        known = target in answers
        await _plain(writer, 200 if known else 400, answers.get(target, {"__type": "AccessDeniedException"}))

    async def _answer(self, head: _Head, body: dict, writer: asyncio.StreamWriter) -> None:
        now_ns = time.perf_counter_ns()
        number = len(self.served)
        prompt = body.get("prompt") or body.get("inputs") or json.dumps(body["messages"])
        served = Served(prompt, now_ns, path=head.path, model=body.get("model"), messages=body.get("messages"))
        self.served.append(served)
        fault = self.fault_of(number)
        if fault == "reset":
            writer.transport.abort()
            return
        if fault in ERRORS:
            status, document = ERRORS[fault]
            error = "ValidationError" if status == 400 else "ModelError"
            await _plain(writer, status, document, f"x-amzn-errortype: {error}\r\n")
            return
        if self.alone_s:
            self.lock = self.lock or asyncio.Lock()
            async with self.lock:  # waiters take it in the order they came
                await asyncio.sleep(self.alone_s)
        if fault == "stall":
            await asyncio.sleep(60)
        tokens = body["max_tokens"] if self.protocol == "openai" else body["parameters"]["max_new_tokens"]
        tokens = min(tokens, self.stops_after or tokens)
        if not body["stream"]:
            await asyncio.sleep(self.ttft_s + self.itl_s * (tokens - 1))
            details = {"finish_reason": "length", "generated_tokens": tokens}
            await _plain(writer, 200, {"generated_text": "word" * tokens, "details": details})
            return
        await self._stream(head, served, len(prompt.split()), tokens, fault, writer)

    async def _stream(self, head, served, input_tokens, tokens, fault, writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        start_s = time.perf_counter()
        framed = encode_payload_part if head.path.endswith("-response-stream") else bytes
        for first in range(0, tokens, self.tokens_per_event):
            due_s = start_s + self.ttft_s + self.itl_s * (first // self.tokens_per_event)
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            count = min(self.tokens_per_event, tokens - first)
            events = b"".join(
                EVENTS[self.protocol](index, tokens, input_tokens, self.claims) for index in range(first, first + count)
            )
            if fault == "cut" and first >= tokens // 2:
                writer.write(_chunk(b""))
                return
            served.token_ns += [time.perf_counter_ns()] * count
            writer.write(_chunk(framed(events)))
        writer.write(_chunk(b""))


ERRORS = {
    "refuse": (424, {"ErrorCode": "MODEL", "Message": "the model said no", "OriginalStatusCode": 500}),
    "missing": (400, {"Message": "Endpoint demo of account 123456789012 not found."}),
    "no_capacity": (400, {"Message": "Inference Component has no capacity to process this request."}),
}


@dataclass(frozen=True)
class _Head:
    path: str
    length: int
    target: str


async def _head(reader: asyncio.StreamReader) -> _Head | None:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return _Head(lines[0].split(" ")[1], int(headers["content-length"]), headers.get("x-amz-target", ""))


def _tgi_event(index: int, tokens: int, input_tokens: int, claims: int | None) -> bytes:
    last = index == tokens - 1
    event: dict[str, object] = {
        "index": index + 1,
        "token": {"id": index, "text": " word", "logprob": -0.1, "special": False},
        "generated_text": " word" * tokens if last else None,
        "details": {
            "finish_reason": "length",
            "generated_tokens": tokens if claims is None else claims,
            "input_length": input_tokens,
        }
        if last
        else None,
    }
    return b"data:" + json.dumps(event).encode() + b"\n\n"


def _lmi_event(index: int, tokens: int, input_tokens: int, claims: int | None) -> bytes:
    """JSON lines; its own count is one too high, as LMI's is."""
    event: dict[str, object] = {"token": {"id": [index], "text": " word", "log_prob": -0.1}}
    if index == tokens - 1:
        details = {"finish_reason": "length", "generated_tokens": tokens + 1 if claims is None else claims}
        event |= {"generated_text": " word" * tokens, "details": details}
    return json.dumps(event).encode() + b"\n"


def _openai_event(index: int, tokens: int, input_tokens: int, claims: int | None) -> bytes:
    last = index == tokens - 1
    events: list[dict] = [{"choices": [{"index": 0, "text": " word", "finish_reason": "length" if last else None}]}]
    if last:
        counted = tokens if claims is None else claims
        events.append({"choices": [], "usage": {"prompt_tokens": input_tokens, "completion_tokens": counted}})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"] * last
    return "".join(lines).encode()


EVENTS = {"tgi": _tgi_event, "lmi": _lmi_event, "openai": _openai_event}


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _plain(writer: asyncio.StreamWriter, status: int, document: dict, headers: str = "") -> None:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


@contextmanager
def serving(endpoint: FakeEndpoint) -> Iterator[FakeEndpoint]:
    """Serve on a free port from a thread of its own, so that the client's event loop is the client's alone."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        server = await asyncio.start_server(endpoint.handle, "127.0.0.1", 0)
        endpoint.port = server.sockets[0].getsockname()[1]
        stopped = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopped))
        await stopped.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    loop, stopped = started.result(timeout=60)
    try:
        yield endpoint
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
