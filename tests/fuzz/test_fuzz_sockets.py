"""Servers that never stop, over real sockets: the client's memory stays where it was, and each request ends typed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat

import pytest

from loadproof.invocation.eventstream import encode_frame, encode_payload_part

MOST_MB = 150
AT_ONCE = 32
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\n\r\n"
TOKEN = b'data: {"token": {"id": 1, "text": "x"}, "generated_text": null, "details": null}\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


BLOCK = 1 << 16
READ_TO_THE_END = ("comments", "empty_events", "frames_of_pings")  # megabytes of small pieces each: seconds of work
HOSTILE: dict[str, tuple[bytes, bytes, str]] = {
    # name: what comes first, what comes then without end, the outcome's code
    "data_lines": (CHUNKED, chunk(b"data: x\n" * (BLOCK // 8)), "EventTooLong"),
    "empty_data_lines": (CHUNKED, chunk(b"data:\n" * (BLOCK // 6)), "EventTooLong"),
    "one_line": (CHUNKED, chunk(b"x" * BLOCK), "EventTooLong"),
    "comments": (CHUNKED, chunk(b": ping\n" * (BLOCK // 7)), "AnswerTooLong"),
    "tokens": (CHUNKED, chunk(TOKEN * 700), "TooManyTokens"),
    "empty_events": (CHUNKED, chunk(b"data: {}\n\n" * 6000), "AnswerTooLong"),
    "values": (CHUNKED, chunk(b"data: [" + b"{}," * 20_000 + b"\n"), "EventTooLong"),
    "head": (b"HTTP/1.1 200 OK\r\n", b"h: v\r\n" * 10_000, "HttpProtocolFault"),
    "one_header": (b"HTTP/1.1 200 OK\r\nh: ", b"v" * BLOCK, "HttpProtocolFault"),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2000, "HttpProtocolFault"),
    "chunk_extensions": (CHUNKED, b"1;" + b"e" * 4000 + b"\r\nx\r\n", "HttpProtocolFault"),
    "trailers": (CHUNKED + b"0\r\n", b"t: v\r\n" * 10_000, "HttpProtocolFault"),
    "until_close": (PLAIN, b"data: x\n" * 8192, "EventTooLong"),
    "an_error_body": (b"HTTP/1.1 503 No\r\n\r\n", b"e" * BLOCK, "HTTP 503"),
    "frames_of_pings": (CHUNKED, chunk(encode_payload_part(b": ping\n" * 5000)), "AnswerTooLong"),
    "a_frame_in_drips": (CHUNKED + chunk(encode_payload_part(b"p" * 4_000_000)[:-9]), chunk(b"p" * 3), "FrameError"),
    "unknown_frames": (CHUNKED, chunk(encode_frame({":message-type": "event"}, b"p" * BLOCK)), "AnswerTooLong"),
}


@contextmanager
def flooding(first: bytes, then: bytes) -> Iterator[int]:
    """The port of a server that answers every connection with `first` and `then` without end."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def flood(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(1 << 16)
                for block in chain([first], repeat(then)):
                    connection.sendall(block)
            except OSError:
                pass  # the client had enough

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=flood, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


CLIENT = """
import asyncio, json, resource, sys
from loadproof.invocation import GenerationRequest, HttpTransport, Invoker, SageMakerTransport, codec_for
from loadproof.invocation.credentials import fixed
from loadproof.invocation.sigv4 import Credentials

async def main(port, framed, stream):
    url = f"http://127.0.0.1:{port}"
    keys = fixed(Credentials("AKID", "secret", "token"))
    transport = HttpTransport(url + "/invocations")
    if framed:
        transport = SageMakerTransport("ep", region="eu-west-1", credentials=keys, endpoint_url=url)
    invoker = Invoker(transport, codec_for("tgi"))
    request = GenerationRequest("Once", 64, stream=stream)
    done = await asyncio.gather(*(invoker.invoke(request) for _ in range(int(sys.argv[4]))))
    await invoker.close()
    print(json.dumps([peak_mb(), sorted({one.outcome.code for one in done})]))

def peak_mb():
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with open("/proc/self/status") as status:  # ru_maxrss knows the peak of whoever started us, too
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

asyncio.run(main(int(sys.argv[1]), sys.argv[2] == "framed", sys.argv[3] == "stream"))
"""


def taken(port: int, *, framed: bool, stream: bool = True, at_once: int = AT_ONCE) -> tuple[float, list[str]]:
    """Peak memory in MB of a client with so many requests in flight, and the codes they ended with."""
    how = ["framed" if framed else "bare", "stream" if stream else "whole", str(at_once)]
    command = [sys.executable, "-c", CLIENT, str(port), *how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    peak_mb, codes = json.loads(done.stdout)
    return peak_mb, codes


@pytest.mark.parametrize("name", HOSTILE)
def test_a_server_that_never_stops(name: str) -> None:
    """32 such answers at once (of those that are read to the end of their budget four): the client takes no more than
    150 MB, and every one ends with its budget's name.

    Where all of them together are too much before one alone is, that is said of those that came last.
    """
    first, then, code = HOSTILE[name]
    with flooding(first, then) as port:
        peak_mb, codes = taken(port, framed="frame" in name, at_once=4 if name in READ_TO_THE_END else AT_ONCE)
    assert peak_mb <= MOST_MB
    assert codes in ([code], sorted([code, "ClientMemory"]), ["ClientMemory"])


def test_a_whole_answer_that_never_ends() -> None:
    """The same for a request that does not stream."""
    with flooding(PLAIN, b'{"generated_text": "' + b"x" * BLOCK) as port:
        peak_mb, codes = taken(port, framed=False, stream=False)
    assert peak_mb <= MOST_MB and set(codes) <= {"AnswerTooLong", "ClientMemory"}
