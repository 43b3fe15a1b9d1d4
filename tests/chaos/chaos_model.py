"""A model behind SageMaker's streaming path that does what it is told and writes down every generation it begins.

`python chaos_model.py LOG` prints its port. The log is the truth of a chaos run: one line when a generation begins,
one when its last byte is written: `{"at": "begun|ended|refused|cut", "key", "number", "pid", "time_s"}`. The key is the
request's `inputs`; a generation's number is in its answer, so that a stored result names the generation it came from;
the pid is what the consumer's process said of itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from dataclasses import dataclass, fields
from typing import Any, TextIO

from loadproof.invocation.eventstream import encode_frame, encode_payload_part


@dataclass
class Script:
    """How it behaves; `POST /script` with a JSON object changes any of it while it runs."""

    generation_s: float = 0.02
    parts: int = 2
    error_rate: float = 0.0  # share of requests that end in a 500
    bad: bool = False  # everything is a 424 around a 400 of the container
    down: bool = False  # everything is a 503
    no_copies: bool = False  # everything is a 400 of a component at zero copies
    at_most: int = 1_000_000  # more in flight are refused with 400 ThrottlingException
    stalls: int = 0  # so many of the next generations send their head, and nothing after it
    ending: str = "whole"  # or "none": no end marker; "unknown": an event that nobody knows instead of it
    seed: int = 0


class Model:
    """The server; one instance a process."""

    def __init__(self, log: TextIO) -> None:
        self.script = Script()
        self._log = log
        self._in_flight = 0
        self._numbers = itertools.count()
        self._random = random.Random(0)

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=2**22)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                path, pid, body = await _request(reader)
                if path == "/script":
                    self._change(json.loads(body))
                    _answer(writer, 200, b"{}")
                else:
                    await self._invocation(writer, pid, json.loads(body))
                await writer.drain()
        writer.close()

    def _change(self, wanted: dict[str, Any]) -> None:
        assert set(wanted) <= {field.name for field in fields(Script)}, wanted
        for name, value in wanted.items():
            setattr(self.script, name, value)
        self._random = random.Random(self.script.seed)

    async def _invocation(self, writer: asyncio.StreamWriter, pid: int, request: dict[str, Any]) -> None:
        script, key = self.script, request["inputs"]
        about = {"key": key, "pid": pid, "number": next(self._numbers)}
        refusal = self._refusal(script)
        if refusal is not None:
            status, code, content = refusal
            self._note("refused", code=code, in_flight=self._in_flight, **about)
            _answer(writer, status, json.dumps(content).encode(), error=code)
            return
        self._in_flight += 1
        self._note("begun", in_flight=self._in_flight, **about)
        try:
            await self._generate(writer, script, f"answer {about['number']} to {key}")
            self._note("ended", **about)
        except ConnectionError:
            self._note("cut", **about)
            raise
        finally:
            self._in_flight -= 1

    def _refusal(self, script: Script) -> tuple[int, str, dict[str, Any]] | None:
        """Status, error type and content."""
        if script.no_copies:
            return 400, "ValidationError", {"message": "Inference Component has no capacity to process this request."}
        if script.down:
            return 503, "ServiceUnavailable", {"message": "The service is unavailable."}
        if script.bad:
            return 424, "ModelError", {"Message": "Received client error (400)", "OriginalStatusCode": 400}
        if self._in_flight >= script.at_most:
            return 400, "ThrottlingException", {"message": "Rate exceeded"}
        if self._random.random() < script.error_rate:
            return 500, "InternalFailure", {"message": "The request failed."}
        return None

    async def _generate(self, writer: asyncio.StreamWriter, script: Script, text: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        if script.stalls > 0:
            script.stalls -= 1
            await asyncio.sleep(3600)
        for number in range(script.parts):
            await asyncio.sleep(script.generation_s / script.parts)
            _chunk(writer, _frame(number, text, script, last=number == script.parts - 1))
            await writer.drain()
            if writer.is_closing():
                raise ConnectionResetError
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _note(self, at: str, **facts: object) -> None:
        self._log.write(json.dumps({"at": at, "time_s": time.time(), **facts}) + "\n")
        self._log.flush()


def _frame(number: int, text: str, script: Script, *, last: bool) -> bytes:
    ended = last and script.ending == "whole"
    if last and script.ending == "unknown":
        return encode_frame({":message-type": "event", ":event-type": "Novelty"}, b"{}")
    return encode_payload_part(_event(number, text, last=ended))


def _event(number: int, text: str, *, last: bool) -> bytes:
    """One of TGI's server-sent events; the last repeats the whole text, which names the generation and its key."""
    event: dict[str, Any] = {"index": number, "token": {"id": number, "text": f" {number}", "special": False}}
    if last:
        event |= {"generated_text": text}
        event["details"] = {"finish_reason": "length", "generated_tokens": number + 1, "input_length": 1}
    return b"data:" + json.dumps(event).encode() + b"\n\n"


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _answer(writer: asyncio.StreamWriter, status: int, body: bytes, *, error: str = "") -> None:
    more = f"x-amzn-errortype: {error}\r\n" if error else ""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def _request(reader: asyncio.StreamReader) -> tuple[str, int, bytes]:
    """Path, the sender's pid (0: not said), body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return first.split(" ")[1], int(headers.get("x-chaos-pid", 0)), body


if __name__ == "__main__":
    with open(sys.argv[1], "a", encoding="utf-8") as log_file:  # noqa: PTH123 (kept open as long as the process)
        asyncio.run(Model(log_file).serve())
