"""CPU of the client per 100,000 streamed tokens, and what it reports against what the server sent.

    .venv/bin/python tests/perf/invocation_cpu.py [--streams 64,256] [--seconds 5] [--protocol sagemaker|openai] [--tls]

A server in a process of its own streams 64 tokens a request with a first token after 50 ms and a gap of 20 ms. The
client keeps N streams busy. Figures are of this machine in this minute: client CPU is user + system of the client
process during the load, TTFT and ITL are what the records say (the server's truth: 50 and 20 ms, as far as its own
process got the CPU).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import platform
import resource
import ssl
import subprocess
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import orjson
import uvloop

from invocation import GenerationRequest, HttpTransport, Invocation, Invoker, SageMakerTransport, codec_for
from invocation.credentials import fixed
from invocation.eventstream import encode_payload_part
from invocation.sigv4 import Credentials

TOKENS, TTFT_S, GAP_S = 64, 0.050, 0.020
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _tgi_chunks() -> list[bytes]:
    chunks = []
    for index in range(1, TOKENS + 1):
        last = index == TOKENS
        event = {
            "index": index,
            "token": {"id": 5000 + index, "text": " word", "logprob": -0.25, "special": False},
            "generated_text": " word" * TOKENS if last else None,
            "details": {"finish_reason": "length", "generated_tokens": TOKENS, "seed": None, "input_length": 9}
            if last
            else None,
        }
        frame = encode_payload_part(b"data:" + orjson.dumps(event) + b"\n\n")
        chunks.append(b"%x\r\n%s\r\n" % (len(frame), frame))
    return chunks


def _chat_chunks() -> list[bytes]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = []
    for index in range(1, TOKENS + 1):
        choice = {"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}
        data = b"data: " + orjson.dumps({**base, "choices": [choice]}) + b"\n\n"
        if index == TOKENS:
            usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
            end = {"index": 0, "delta": {}, "finish_reason": "length"}
            data += b"data: " + orjson.dumps({**base, "choices": [end]}) + b"\n\n"
            data += b"data: " + orjson.dumps({**base, "choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n"
        chunks.append(b"%x\r\n%s\r\n" % (len(data), data))
    return chunks


class _Stream(asyncio.Protocol):
    """Answers any whole request by the clock; requests here are small enough to come in one read."""

    chunks: list[bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.due_s, self.index = loop.time() + TTFT_S, 0
        loop.call_at(self.due_s, self.send)

    def send(self) -> None:
        chunk = self.chunks[self.index]
        self.index += 1
        if self.index == 1:
            chunk = HEAD + chunk
        if self.index < TOKENS:
            self.due_s += GAP_S
            asyncio.get_running_loop().call_at(self.due_s, self.send)
        else:
            chunk += b"0\r\n\r\n"
        self.transport.write(chunk)  # type: ignore[attr-defined]


def _serve(protocol: str, certificate: str | None, port: Connection) -> None:
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)

    async def main() -> None:
        _Stream.chunks = _tgi_chunks() if protocol == "sagemaker" else _chat_chunks()
        server = await asyncio.get_running_loop().create_server(_Stream, "127.0.0.1", 0, backlog=2048, ssl=tls)
        port.send(server.sockets[0].getsockname()[1])
        await asyncio.get_running_loop().run_in_executor(None, port.recv)  # until the parent closes or asks

    uvloop.run(main())


async def _load(invoker: Invoker, streams: int, seconds: float) -> tuple[list[Invocation], float, float]:
    """Records, client CPU seconds and wall seconds of a closed loop that starts after a warm-up."""
    request = GenerationRequest("word " * 64, TOKENS)
    await invoker.warm(streams)
    await asyncio.gather(*(invoker.invoke(request) for _ in range(streams)))
    gc.collect()
    gc.freeze()
    records: list[Invocation] = []
    began, cpu = time.perf_counter(), _cpu_s()

    async def worker() -> None:
        while time.perf_counter() - began < seconds:
            records.append(await invoker.invoke(request))

    await asyncio.gather(*(worker() for _ in range(streams)))
    return records, _cpu_s() - cpu, time.perf_counter() - began


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _report(streams: int, records: list[Invocation], cpu_s: float, wall_s: float) -> str:
    good = [record for record in records if record.outcome.ok]
    tokens = sum(record.output_tokens or 0 for record in good)
    ttft_ms = [(record.first_token_ns - record.sent_ns) / 1e6 for record in good]  # type: ignore[operator]
    gaps_ms = np.concatenate([np.diff(np.frombuffer(record.arrival_ns, dtype=np.int64)) for record in good]) / 1e6
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"| {streams} | {len(good) / wall_s:.0f} | {len(records) - len(good)} | {cpu_s / tokens * 1e5:.2f} | "
        f"{cpu_s / wall_s * 100:.0f}% | {np.percentile(ttft_ms, 50):.1f} / {np.percentile(ttft_ms, 99):.1f} | "
        f"{np.percentile(gaps_ms, 50):.1f} / {np.percentile(gaps_ms, 99):.1f} | {memory_mb:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="64,256")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--protocol", choices=["sagemaker", "openai"], default="sagemaker")
    parser.add_argument("--tls", action="store_true")
    arguments = parser.parse_args()
    wire = f"{arguments.protocol} over TLS" if arguments.tls else arguments.protocol
    print(f"{wire}, {platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print("| streams | requests/s | failed | CPU-s per 100k tokens | CPU | TTFT p50/p99 ms | ITL p50/p99 ms | RSS MB |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        _run(arguments, _certificate(Path(folder)) if arguments.tls else None)


def _run(arguments: argparse.Namespace, certificate: str | None) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(arguments.protocol, certificate, theirs), daemon=True)
    server.start()
    tls = ssl.create_default_context(cafile=certificate) if certificate else None
    url = f"{'https' if tls else 'http'}://localhost:{ours.recv()}"
    try:
        for streams in map(int, arguments.streams.split(",")):
            invoker = _invoker(arguments.protocol, url, tls)
            print(_report(streams, *uvloop.run(_load(invoker, streams, arguments.seconds))))
    finally:
        server.terminate()
        server.join()


def _invoker(protocol: str, url: str, tls: ssl.SSLContext | None) -> Invoker:
    if protocol == "openai":
        return Invoker(HttpTransport(f"{url}/v1/chat/completions", tls=tls), codec_for("openai-chat", model="m"))
    keys = fixed(Credentials("AKID", "secret", "token"))
    transport = SageMakerTransport(
        "ep", component="ep-main", region="us-east-1", credentials=keys, endpoint_url=url, tls=tls
    )
    return Invoker(transport, codec_for("tgi"))


def _certificate(folder: Path) -> str:
    """A certificate for localhost with its key, in one file."""
    file = str(folder / "both.pem")
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    command = [*request.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", file, "-out", file + ".crt"]
    subprocess.run(command, check=True, capture_output=True)
    with Path(file).open("a") as both:
        both.write(Path(file + ".crt").read_text())
    return file


if __name__ == "__main__":
    main()
