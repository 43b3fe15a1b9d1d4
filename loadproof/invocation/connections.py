"""Connections and their pool: one request at a time on each, kept alive, every read stamped as it arrives.

They run on sockets of our own where the kernel stamps reads (`sockets`), else on asyncio's transports.

Proxies of the environment are ignored on purpose: a load generator must know what it measures.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from loadproof.errors import mend_of
from loadproof.invocation.faults import SHORTAGE, CanceledFault, ConnectionFault, TimeoutFault, TruncatedStreamError
from loadproof.invocation.http1 import ResponseReader
from loadproof.invocation.sockets import ClockNs, StampedSocket, Watch, connect, is_shortage, keep_alive, stamps_reads

# Reads of one answer that wait to be decoded together: a second of a usual stream, and 32 KB at most.
MOST_WAITING, MOST_WAITING_BYTES = 64, 512


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds: for the connection, for the first byte after sending, between bytes, and in all."""

    connect_s: float = 10.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 600.0

    @classmethod
    def within(cls, total_s: float) -> Timeouts:
        """One limit for the whole request; a first token may take all of it, a gap between tokens a minute."""
        return cls(min(10.0, total_s), total_s, min(60.0, total_s), total_s)


class Receiver(Protocol):
    """Hears of an answer while it arrives, in the same turn of the event loop. Times: `perf_counter_ns`."""

    def on_sent(self, now_ns: int) -> None: ...

    def on_head(self, status: int, headers: dict[str, str]) -> None: ...

    def on_bodies(self, arrived_ns: Sequence[int], read_ns: Sequence[int], bodies: Sequence[bytes]) -> bool:
        """What was in reads, one after another. True: those to come may wait and be given together.

        `arrived_ns`: when the kernel had the last of each; `read_ns`: when we did. Equal where it does not say.
        """
        ...


class _Transport(Protocol):
    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


class Connection(asyncio.Protocol):
    """One TCP or TLS connection, over an asyncio transport or a `StampedSocket`."""

    __slots__ = (
        "_arrived_ns",
        "_clock_ns",
        "_done",
        "_last_byte_ns",
        "_may_wait",
        "_read_ns",
        "_reader",
        "_reads",
        "_receiver",
        "_sent_ns",
        "_started_ns",
        "_timeouts",
        "_timer",
        "_transport",
        "idle_since_ns",
        "open",
        "used",
    )

    def __init__(self, clock_ns: ClockNs) -> None:
        self._clock_ns = clock_ns
        self._transport: _Transport | None = None
        self._reader = ResponseReader()
        self._receiver: Receiver | None = None
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeouts = Timeouts()
        self._started_ns = self._sent_ns = self._last_byte_ns = 0
        self._may_wait = False
        self._reads: list[bytes] = []  # that wait to be decoded together, and their times
        self._arrived_ns: list[int] = []
        self._read_ns: list[int] = []
        self.idle_since_ns = 0
        self.open = False
        self.used = False  # has it had an exchange before?

    async def exchange(self, request: bytes, receiver: Receiver, timeouts: Timeouts, started_ns: int) -> None:
        """Send one request and drain its whole answer into `receiver`. Raises InvocationFault.

        `started_ns` is where `total_s` counts from. Whatever the receiver raises ends the exchange and comes out here.
        """
        if self._transport is None or not self.open:
            raise ConnectionFault("closed", "the connection is closed")
        loop = asyncio.get_running_loop()
        self._reader, self._receiver, self._timeouts = ResponseReader(), receiver, timeouts
        self._done = loop.create_future()
        self._started_ns, self._last_byte_ns, self._may_wait = started_ns, 0, False
        self._sent_ns = self._clock_ns()
        receiver.on_sent(self._sent_ns)
        self._transport.write(request)
        self._watch()
        try:
            await self._done
        except BaseException:
            self.abort()
            raise
        finally:
            self._receiver = self._done = None
            self._reads, self._arrived_ns, self._read_ns = [], [], []
            if self._timer is not None:
                self._timer.cancel()
            self.idle_since_ns = self._clock_ns()
            self.used = True

    @property
    def answered(self) -> bool:
        """Has a byte of the last request's answer come?"""
        return self._last_byte_ns > 0

    def reusable(self) -> bool:
        return self.open and self._reader.done and self._reader.reusable and not self._reader.surplus

    def abort(self) -> None:
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def cancel(self) -> None:
        """End the exchange under way with CanceledFault."""
        self._cut_off(CanceledFault("ended by us before the answer was complete"))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.attach(cast(asyncio.Transport, transport))  # uvloop's own is no subclass

    def attach(self, transport: _Transport) -> None:
        self._transport = transport
        self.open = True

    def data_received(self, data: bytes) -> None:
        now_ns = self._clock_ns()
        self.received(data, now_ns, now_ns)

    def received(self, data: bytes, arrived_ns: int, read_ns: int) -> None:
        """What nobody waits for is kept, and decoded together with what follows.

        Going through one answer's state once for many reads, not once for each, is what lets one core keep up with a
        thousand streams. What may be an answer's end or an error does not wait.
        """
        reads = self._reads
        reads.append(data)
        self._arrived_ns.append(arrived_ns)
        self._read_ns.append(read_ns)
        if not (
            self._may_wait
            and 4 <= len(data) <= MOST_WAITING_BYTES
            and len(reads) < MOST_WAITING
            and data.find(b"\r\n\r\n") < 0
            and data.find(b"rror") < 0  # `in` costs bytes an exception inside
            and data.find(b"xception") < 0
        ):
            self.hand_over()

    def hand_over(self) -> None:
        """Decode what waits, and end the exchange if that ends it."""
        reads, arrived_ns, read_ns = self._reads, self._arrived_ns, self._read_ns
        if not reads:
            return
        self._reads, self._arrived_ns, self._read_ns, self._may_wait = [], [], [], False
        receiver, reader = self._receiver, self._reader
        if receiver is None or reader.done:
            self.abort()  # nobody asked: a late answer or a broken peer
            return
        self._last_byte_ns = read_ns[-1]
        try:
            bodies = reader.usual_bodies(reads)
            usual, may_wait = len(bodies), False
            if bodies:
                may_wait = receiver.on_bodies(arrived_ns[:usual], read_ns[:usual], bodies)
            for data, arrived, read in zip(reads[usual:], arrived_ns[usual:], read_ns[usual:], strict=True):
                may_wait = self._take(receiver, data, arrived, read)
        except Exception as error:  # the receiver's faults belong to the caller of `exchange`, not to the event loop
            self._fail(error)
            return
        if reader.done:
            self._succeed()
        else:
            self._may_wait = may_wait and reader.between_chunks

    def _take(self, receiver: Receiver, data: bytes, arrived_ns: int, read_ns: int) -> bool:
        """One read, whatever is in it."""
        reader = self._reader
        head_known = reader.status is not None
        body = reader.feed(data)
        if not head_known and reader.status is not None:
            receiver.on_head(reader.status, reader.headers)
        return bool(body) and receiver.on_bodies((arrived_ns,), (read_ns,), (body,))

    def eof_received(self) -> bool:
        return False  # close our side too; connection_lost follows

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self.hand_over()
        if self._done is None or self._done.done():
            return
        if isinstance(error, ssl.SSLError):
            self._fail(ConnectionFault("tls", f"TLS failed: {error}"))
        elif error is not None:
            self._fail(ConnectionFault("reset", f"the connection broke: {error}"))
        elif self._reader.status is None:
            self._fail(ConnectionFault("closed", "the connection closed before any answer"))
        else:
            try:
                self._reader.end_of_input()
            except TruncatedStreamError as fault:
                self._fail(fault)
            else:
                self._succeed()

    def _succeed(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _cut_off(self, fault: Exception) -> None:
        """End it unless what was read before has: with what that says, or with a fault of its own."""
        self.hand_over()
        self._fail(fault)

    def _fail(self, fault: Exception) -> None:
        self._receiver = None  # it hears nothing more, whatever still arrives
        if self._done is not None and not self._done.done():
            self._done.set_exception(fault)

    def _watch(self) -> None:
        """One timer an exchange, re-armed when it fires, so that no byte pays for it."""
        limits = self._timeouts
        phase, limit_s, since_ns = "first_byte", limits.first_byte_s, self._sent_ns
        if self._last_byte_ns:
            phase, limit_s, since_ns = "idle", limits.idle_s, self._read_ns[-1] if self._reads else self._last_byte_ns
        now_ns = self._clock_ns()
        left_s = limit_s - (now_ns - since_ns) / 1e9
        total_left_s = limits.total_s - (now_ns - self._started_ns) / 1e9
        if total_left_s < left_s:
            phase, limit_s, left_s = "total", limits.total_s, total_left_s
        if left_s <= 0:
            self._cut_off(TimeoutFault(phase, limit_s))
            return
        self._timer = asyncio.get_running_loop().call_later(left_s, self._watch)


class ConnectionPool:
    """Connections to one host. Takes the most recently used idle one; opens another when there is none.

    An idle connection older than `max_idle_s` is dropped rather than used: common servers close theirs after 5 s, and a
    request written into that race would be lost through no fault of the endpoint.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        max_idle_s: float = 4.0,
        kernel_times: bool = True,
        clock_ns: ClockNs = time.perf_counter_ns,
    ) -> None:
        """`kernel_times`: have reads stamped by the kernel, where it can be had."""
        self._kernel_times = kernel_times
        self._host, self._port, self._tls = host, port, tls
        self._max_idle_ns = int(max_idle_s * 1e9)
        self._clock_ns = clock_ns
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._watch: Watch | None = None

    async def exchange(self, request: bytes, receiver: Receiver, timeouts: Timeouts) -> None:
        """One request and its answer over a connection of this pool. Raises InvocationFault; retries nothing.

        A kept connection that turns out to be closed is no answer: the request goes out on a new one (RFC 9112, section
        9.3.1). Some servers (llama.cpp's) announce keep-alive and close after each streamed answer all the same.
        """
        started_ns = self._clock_ns()
        kept = self._take_idle()
        if kept is not None and kept.used:
            try:
                await self._exchange(kept, request, receiver, timeouts, started_ns)
                return
            except ConnectionFault as fault:
                if fault.code != "closed" or kept.answered:
                    raise
            kept = None
        await self._exchange(kept or await self._open(timeouts), request, receiver, timeouts, started_ns)

    async def _exchange(
        self, connection: Connection, request: bytes, receiver: Receiver, timeouts: Timeouts, started_ns: int
    ) -> None:
        self._busy.add(connection)
        try:
            await connection.exchange(request, receiver, timeouts, started_ns)
        finally:
            self._busy.discard(connection)
            if connection.reusable():
                self._idle.append(connection)
            else:
                connection.abort()

    async def warm(self, count: int, timeouts: Timeouts) -> None:
        """Have `count` connections open now, so that no request pays for its handshake. Raises InvocationFault."""
        self._drop_stale()
        missing = max(0, count - len(self._idle))
        opened = await asyncio.gather(*(self._open(timeouts) for _ in range(missing)), return_exceptions=True)
        self._idle += [result for result in opened if isinstance(result, Connection)]
        for result in opened:
            if isinstance(result, BaseException):
                raise result

    def hand_over(self) -> None:
        """Have all that was read decoded: of every exchange under way."""
        for connection in list(self._busy):
            connection.hand_over()

    def cancel_all(self) -> None:
        """End every exchange under way; each raises CanceledFault to its own caller."""
        for connection in list(self._busy):
            connection.cancel()

    def close(self) -> None:
        self.cancel_all()
        while self._idle:
            self._idle.pop().abort()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _drop_stale(self) -> None:
        fresh_ns = self._clock_ns() - self._max_idle_ns
        fresh = [one for one in self._idle if one.open and one.idle_since_ns >= fresh_ns]
        for connection in set(self._idle).difference(fresh):
            connection.abort()
        self._idle = fresh

    def _take_idle(self) -> Connection | None:
        now_ns = self._clock_ns()
        while self._idle:
            connection = self._idle.pop()
            if connection.open and now_ns - connection.idle_since_ns <= self._max_idle_ns:
                return connection
            connection.abort()
        return None

    async def _open(self, timeouts: Timeouts) -> Connection:
        connection = Connection(self._clock_ns)
        try:
            async with asyncio.timeout(timeouts.connect_s):
                if self._kernel_times and stamps_reads():
                    sock, session = await connect(self._host, self._port, self._tls)
                    self._watch = self._watch or Watch(clock_ns=self._clock_ns)
                    connection.attach(StampedSocket(sock, connection, self._watch, session))
                else:
                    transport, _ = await asyncio.get_running_loop().create_connection(
                        lambda: connection, self._host, self._port, ssl=self._tls
                    )
                    keep_alive(transport.get_extra_info("socket"))
        except TimeoutError as error:
            raise TimeoutFault("connect", timeouts.connect_s) from error
        except ssl.SSLError as error:
            raise ConnectionFault("tls", f"TLS to {self._host}:{self._port} failed: {error}") from error
        except OSError as error:
            said = f"no connection to {self._host}:{self._port}: {error}{mend_of(error)}"
            raise ConnectionFault(SHORTAGE if is_shortage(error) else "refused", said) from error
        connection.idle_since_ns = self._clock_ns()
        return connection
