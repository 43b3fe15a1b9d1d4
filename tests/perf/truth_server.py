"""Builds and runs truth_server.c: a model server whose schedule is exact and whose log is the truth.

Python's own event loop is late by milliseconds at some hundred streams, so a server in Python measures itself. Needs a
C compiler; TLS needs OpenSSL's headers too.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from loadproof.invocation.eventstream import encode_payload_part

SOURCE = Path(__file__).with_name("truth_server.c")
TOKENS, TTFT_MS, ITL_MS = 64, 50.0, 20.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class NoCompilerError(Exception):
    """The server cannot be built here; the message says why."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """What the server did: `arrived_ns` [requests] and `sent_ns` [requests, pieces], CLOCK_MONOTONIC."""

    arrived_ns: np.ndarray
    sent_ns: np.ndarray

    def ttft_ms(self) -> np.ndarray:
        return (self.sent_ns[:, 0] - self.arrived_ns) / 1e6

    def gaps_ms(self) -> np.ndarray:
        return np.diff(self.sent_ns, axis=1).ravel() / 1e6


@dataclass(frozen=True, slots=True)
class TruthServer:
    """A running server. `stop` ends it and gives its log."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    pieces: int

    def stop(self) -> Boolean:
        self.process.terminate()
        self.process.wait(10)
        rows = np.fromfile(self.log, dtype=np.int64).reshape(-1, 1 + self.pieces)
        return Boolean(rows[:, 0], rows[:, 1:])


def build(folder: Path, *, tls: bool = False) -> Path:
    """Raises NoCompilerError with what is missing."""
    program = folder / ("truth_server_tls" if tls else "truth_server")
    command = ["cc", "-O2", "-o", str(program), str(SOURCE), *(["-DTLS", "-lssl", "-lcrypto"] if tls else [])]
    try:
        built = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoCompilerError("no C compiler `cc` on the path: the truth server cannot be built") from None
    if built.returncode:
        needed = "OpenSSL's headers (libssl-dev)" if tls else "a working C compiler"
        raise NoCompilerError(f"cc failed, {needed} needed: {built.stderr.strip()[-300:]}")
    return program


@contextmanager
def running(
    program: Path,
    folder: Path,
    pieces: list[bytes],
    *,
    ttft_ms: float = TTFT_MS,
    gap_ms: float = ITL_MS,
    certificate: Path | None = None,
    before: Callable[[], None] | None = None,
) -> Iterator[TruthServer]:
    """Serve `pieces` until the block ends (or `stop`). `before` is called in the child before the program starts."""
    answer, log = folder / "pieces", folder / "truth.log"
    answer.write_bytes(b"".join(struct.pack("=I", len(piece)) + piece for piece in pieces))
    command = [program, answer, log, str(round(ttft_ms * 1000)), str(round(gap_ms * 1000))]
    command += [certificate] if certificate else []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=before)
    try:
        assert process.stdout is not None
        yield TruthServer(process, int(process.stdout.readline()), log, len(pieces))
    finally:
        process.kill()
        process.wait()


def tgi_pieces(tokens: int = TOKENS) -> list[bytes]:
    """One answer of SageMaker's response stream: a TGI token event a frame, a frame an HTTP chunk."""
    frames = [encode_payload_part(b"data:" + orjson.dumps(event) + b"\n\n") for event in _tgi_events(tokens)]
    return _answer([b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames])


def chat_pieces(tokens: int = TOKENS) -> list[bytes]:
    """One answer of an OpenAI-compatible server in chat chunks, usage and end marker with the last token."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    word = {"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "length"}
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    events = [b"data: " + orjson.dumps({**base, "choices": [word]}) + b"\n\n"] * tokens
    events[-1] += b"data: " + orjson.dumps({**base, "choices": [end]}) + b"\n\n"
    events[-1] += b"data: " + orjson.dumps({**base, "choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n"
    return _answer([b"%x\r\n%s\r\n" % (len(event), event) for event in events])


def _answer(chunks: list[bytes]) -> list[bytes]:
    return [HEAD + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


def _tgi_events(tokens: int) -> Iterator[dict[str, object]]:
    for index in range(1, tokens + 1):
        last = index == tokens
        details = {"finish_reason": "length", "generated_tokens": tokens, "seed": None, "input_length": 9}
        yield {
            "index": index,
            "token": {"id": 5000 + index, "text": " word", "logprob": -0.25, "special": False},
            "generated_text": " word" * tokens if last else None,
            "details": details if last else None,
        }


def certificate(folder: Path) -> Path:
    """A certificate for localhost with its key, in one file."""
    file, key = folder / "both.pem", folder / "key.pem"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    command = [*request.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file
