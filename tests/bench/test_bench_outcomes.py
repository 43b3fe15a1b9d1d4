"""Every way an answer goes wrong, over a real socket: the class it lands in, counted once, and in no latency."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench_recompute import differences, recompute

from loadproof.bench.connect import parse_target
from loadproof.bench.job import run_benchmark
from loadproof.bench.measure.records import RequestRecord, read_records
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens

STEP_S = 0.04
TIMEOUT_S = 1.5
FINISHED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PAUSE, RESET, STALL = (
    object(),
    object(),
    object(),
)  # between writes: a step of time; instead of the rest: a reset, nothing


def chunk(delta: dict[str, Any] | None = None, **others: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": None}]
    return framed(json.dumps({"object": "chat.completion.chunk", "choices": choices} | others))


def framed(data: str) -> bytes:
    body = f"data: {data}\n\n".encode()
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


def end(tokens: int) -> list[bytes]:
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}}
    return [framed(json.dumps(FINISHED)), framed(json.dumps(usage)), framed("[DONE]"), b"0\r\n\r\n"]


def refusal(status: int, error: dict[str, Any]) -> list[bytes]:
    body = json.dumps(error).encode()
    return [
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode(),
        body,
    ]


def word(text: str = " word") -> bytes:
    return chunk({"content": text})


ANSWERS: dict[str, list[Any]] = {
    "whole": [HEAD, word(), PAUSE, word(), *end(2)],
    "cut before its end marker": [HEAD, word(), PAUSE, word(), b"0\r\n\r\n"],
    "cut inside the transfer": [HEAD, word(), PAUSE, word()],
    "an error in a 200's stream": [HEAD, word(), framed('{"error": {"message": "no memory", "type": "oom"}}'), *end(1)],
    "an empty role chunk first": [HEAD, chunk({"role": "assistant", "content": ""}), PAUSE, PAUSE, word(), *end(1)],
    "reasoning first": [HEAD, PAUSE, chunk({"reasoning_content": "Hm"}), PAUSE, PAUSE, word(), *end(2)],
    "several tokens a chunk": [HEAD, word(" a b c"), PAUSE, word(" d e f"), *end(6)],
    "throttled": refusal(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}),
    "the container's own error": refusal(424, {"ErrorCode": "MODEL", "Message": "no", "OriginalStatusCode": 500}),
    "reset": [HEAD, word(), PAUSE, RESET],
    "stalled before the first token": [HEAD, STALL],
    "stalled between tokens": [HEAD, word(), STALL],
    "no token and no count": [HEAD, framed(json.dumps(FINISHED)), framed("[DONE]"), b"0\r\n\r\n"],
}  # fmt: skip
CLASSES = {
    "whole": "ok",
    "cut before its end marker": "truncated",
    "cut inside the transfer": "truncated",
    "an error in a 200's stream": "in_band_error",
    "an empty role chunk first": "ok",
    "reasoning first": "ok",
    "several tokens a chunk": "ok",
    "throttled": "throttled",
    "the container's own error": "model_error",
    "reset": "connection",
    "stalled before the first token": "timeout",
    "stalled between tokens": "timeout",
    "no token and no count": "in_band_error",
}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, scripts: Iterator[list[Any]]) -> None:
    """Serve the next script on this connection; `cut` scripts and resets close it."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
            await reader.readexactly(int(length.split(":")[1]))
            script = next(scripts)
            for part in script:
                if part is PAUSE:
                    await asyncio.sleep(STEP_S)
                elif part is STALL:
                    await asyncio.sleep(60)
                elif part is RESET:
                    linger = struct.pack("ii", 1, 0)  # close with a reset instead of an orderly end
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                    return
                else:
                    writer.write(part)
                    await writer.drain()
            if script[0] == HEAD and script[-1] != b"0\r\n\r\n":
                return
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


@contextmanager
def scripted(scripts: list[list[Any]]) -> Iterator[str]:
    """A server that answers request after request by these scripts; its URL."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()
    following = iter(scripts)

    async def serve() -> None:
        server = await asyncio.start_server(lambda *ends: answer(*ends, following), "127.0.0.1", 0)
        stopped = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopped, server.sockets[0].getsockname()[1]))
        await stopped.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    loop, stopped, port = started.result(timeout=60)
    try:
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One request for each answer, one after another."""
    folder = tmp_path_factory.mktemp("run")
    with scripted(list(ANSWERS.values())) as url:
        spec = BenchmarkSpec(
            target=parse_target(url, "openai", streaming=True),
            workload=WorkloadSpec(fixed_tokens(7), fixed_tokens(6)),
            concurrency=(1,),
            requests_per_level=len(ANSWERS),
            warmup_requests=0,
            request_timeout_s=TIMEOUT_S,
        )
        run_benchmark(spec, lambda _: None, folder)
    return folder


@pytest.fixture(scope="module")
def records(run: Path) -> dict[str, RequestRecord]:
    found = sorted(read_records(run / "requests.jsonl").records, key=lambda record: record.index)
    assert [record.index for record in found] == list(range(len(ANSWERS)))
    return dict(zip(ANSWERS, found, strict=True))


@pytest.mark.parametrize("name", ANSWERS)
def test_each_answer_lands_in_its_class(records: dict[str, RequestRecord], name: str) -> None:
    """One record each, of the class that its name asks for, with the status that was on the wire."""
    found = records[name]
    assert found.outcome == CLASSES[name]
    status = {"throttled": 429, "the container's own error": 424}.get(name, 200)
    assert found.http_status in (status, None if found.ok else status)
    assert found.ok or found.error_code


def test_each_is_counted_once(run: Path) -> None:
    """13 requests of which 4 are well: 9 errors in their classes, and only the 4 in latencies and goodput."""
    [level] = json.loads((run / "summary.json").read_text())["levels"]
    wrong = [kind for kind in CLASSES.values() if kind != "ok"]
    assert (level["requests"], level["errors"], level["unfinished"]) == (13, len(wrong), 0)
    assert level["errors_by_kind"] == {kind: wrong.count(kind) for kind in sorted(set(wrong))}
    assert level["requests_per_s"] == pytest.approx(4 / level["duration_s"])
    assert level["goodput_per_s"] == level["requests_per_s"]
    assert level["output_tokens_per_s"] == pytest.approx((2 + 1 + 2 + 6) / level["duration_s"])
    assert differences(level, recompute(run)[0]) == []


def test_an_empty_role_chunk_is_no_token(records: dict[str, RequestRecord]) -> None:
    """The role came at once and the first word two steps later: that is its TTFT."""
    found = records["an empty role chunk first"]
    assert found.first_token_ns is not None
    assert found.first_token_ns - found.intended_ns >= 2 * STEP_S * 1e9
    assert len(found.token_times_ns) == 1 == found.output_tokens


def test_a_reasoning_token_is_the_first_token(records: dict[str, RequestRecord]) -> None:
    """It is generated like any other: TTFT ends with it, and two steps lie between it and the word."""
    found = records["reasoning first"]
    assert found.first_token_ns is not None and found.output_tokens == 2
    assert STEP_S <= (found.first_token_ns - found.intended_ns) / 1e9 < 3 * STEP_S + 0.5
    [first, second] = found.token_times_ns
    assert second - first >= 2 * STEP_S * 1e9


def test_a_chunk_of_several_tokens_is_one_gap(records: dict[str, RequestRecord]) -> None:
    """Six tokens by the server's count in two chunks: one gap of a step, and TPOT a fifth of what follows TTFT."""
    found = records["several tokens a chunk"]
    assert (found.output_tokens, found.token_source, len(found.token_times_ns)) == (6, "server", 2)


def test_a_stall_takes_as_long_as_the_time_out(records: dict[str, RequestRecord]) -> None:
    """Neither shorter nor much longer, with or without a token before it."""
    for name in ("stalled before the first token", "stalled between tokens"):
        found = records[name]
        assert TIMEOUT_S * 0.99 <= (found.end_ns - found.intended_ns) / 1e9 < TIMEOUT_S + 1
