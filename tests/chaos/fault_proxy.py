"""A proxy that breaks what passes: delays, stalls, swallowed requests, resets, cuts, flipped bits, answers of its own.

Faults apply to the bytes that come back. Byte N is counted from the first byte of a connection's first answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to each connection from now on. Nothing by default."""

    delay_s: float = 0.0  # before an answer's first byte
    swallow: bool = False  # half-open: it takes all that is sent, and never says anything
    stall_after: int | None = None  # bytes pass, then silence
    reset_after: int | None = None  # bytes pass, then a TCP reset
    cut_after: int | None = None  # bytes pass, then an orderly end
    flip_bit: int | None = None  # bit 0 is the lowest of byte 0
    status: int | None = None  # no upstream: this answer to every request


class FaultProxy:
    """`fault` may be changed at any time; `connections` and `requests` count what arrived."""

    def __init__(self, upstream_port: int) -> None:
        self.fault = Fault()
        self.connections = 0
        self.requests = 0
        self.url = ""
        self._upstream_port = upstream_port
        self._ended = asyncio.Event()

    def change(self, **fault: object) -> None:
        """Start over with these faults alone."""
        self.fault = replace(Fault(), **fault)  # type: ignore[arg-type]

    async def serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await self._ended.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        fault = self.fault
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if fault.swallow or fault.status is not None:
                await self._answer(reader, writer, fault)
            else:
                await self._pass_on(reader, writer, fault)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault) -> None:
        """Instead of upstream: one answer, or none."""
        while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower():
            self.requests += 1
            if "expect: 100-continue" in head and not fault.swallow:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = head.partition("content-length:")[2].partition("\r\n")[0].strip()
            await reader.readexactly(int(length or 0))
            if not fault.swallow:
                writer.write(f"HTTP/1.1 {fault.status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
                await writer.drain()
                return

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault) -> None:
        upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        there = asyncio.create_task(_copy(reader, to_upstream))
        back = asyncio.create_task(_break(upstream, writer, fault))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            to_upstream.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def _break(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault) -> None:
    passed = 0
    while data := await reader.read(65536):
        await asyncio.sleep(fault.delay_s if passed == 0 else 0)
        data, ends = _damaged(data, passed, fault)
        writer.write(data)
        await writer.drain()
        passed += len(data)
        if not ends:
            continue
        if fault.stall_after is not None:
            await asyncio.sleep(3600)
        if fault.reset_after is not None:
            # Closed with a linger time of zero, a socket sends a reset instead of its end.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return


def _damaged(data: bytes, passed: int, fault: Fault) -> tuple[bytes, bool]:
    """What is let through of the next bytes, and whether nothing follows."""
    if fault.flip_bit is not None and passed <= fault.flip_bit // 8 < passed + len(data):
        changed = bytearray(data)
        changed[fault.flip_bit // 8 - passed] ^= 1 << (fault.flip_bit % 8)
        data = bytes(changed)
    lasts = [one for one in (fault.stall_after, fault.reset_after, fault.cut_after) if one is not None]
    if lasts and passed + len(data) >= min(lasts):
        return data[: min(lasts) - passed], True
    return data, False


@contextlib.contextmanager
def proxy(upstream_url: str) -> Iterator[FaultProxy]:
    """Runs in a thread of its own, in front of a URL of this machine."""
    ready, made = threading.Event(), []

    async def run() -> None:
        made.append((FaultProxy(int(upstream_url.rpartition(":")[2])), asyncio.get_running_loop()))
        await made[0][0].serve(ready)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert ready.wait(60)
    running, loop = made[0]
    try:
        yield running
    finally:
        loop.call_soon_threadsafe(running._ended.set)
        thread.join(10)
