"""A world for the consumer in one process: S3, DynamoDB and SQS by moto, SageMaker on loopback."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from http_servers import Quiet, serving_http

LAST = {
    "token": {"text": " you", "special": False},
    "generated_text": "hello you",
    "details": {"finish_reason": "eos_token", "generated_tokens": 2, "input_length": 1},
}
STREAM = b"data:" + json.dumps({"token": {"text": "hello"}}).encode() + b"\n\ndata:" + json.dumps(LAST).encode()


def frame(payload: bytes, **headers: str) -> bytes:
    """One event-stream message as AWS defines it: lengths, CRC of both, headers, payload, CRC of all."""
    coded = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in ((f":{name.replace('_', '-')}", value) for name, value in headers.items())
    )
    prelude = struct.pack(">II", 16 + len(coded) + len(payload), len(coded))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + coded + payload
    return head + struct.pack(">I", zlib.crc32(head))


def part(payload: bytes) -> bytes:
    return frame(payload, message_type="event", event_type="PayloadPart", content_type="application/octet-stream")


@dataclass
class Endpoint:
    """What the fake endpoint answers, and what it was asked. `before` runs in the request, ahead of the answer."""

    status: int = 200
    error: str | None = None
    body: bytes = part(STREAM[:30]) + part(STREAM[30:])
    before: Callable[[], None] = lambda: None
    asked: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    url: str = ""


@contextmanager
def sagemaker() -> Iterator[Endpoint]:
    """SageMaker's runtime on loopback, answering what the yielded endpoint says."""
    state = Endpoint()

    class Answering(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            state.asked.append(
                (self.path, self.headers.get("X-Amzn-SageMaker-Inference-Component"), json.loads(content))
            )
            state.before()
            self.send_response(state.status)
            if state.error:
                self.send_header("x-amzn-ErrorType", state.error)
            self.send_header("Content-Type", "application/vnd.amazon.eventstream")
            self.send_header("Content-Length", str(len(state.body)))
            self.end_headers()
            self.wfile.write(state.body)

    with serving_http(Answering) as state.url:
        yield state
