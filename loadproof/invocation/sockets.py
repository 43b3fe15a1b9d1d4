"""TCP and TLS read by ourselves, so that every read says when the kernel got its bytes, not when our turn came.

`SO_TIMESTAMPNS` makes `recvmsg` report when the last segment it hands over arrived (CLOCK_REALTIME). Read time minus
that is what the event loop, the interpreter and the scheduler added: it leaves the latency and becomes an error bar.
What it cannot undo: tokens that arrived while we were away come in one read and share the last one's time.

Linux on 64 bits, event loops with `add_reader`. Elsewhere connections run on asyncio's transports, whose reads are
stamped when their turn comes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from typing import Protocol

# Numbers of asm-generic, which these machines use; Python has no name for them.
SO_TIMESTAMPNS = SCM_TIMESTAMPNS = 35
_MACHINES = ("x86_64", "aarch64")
_READ_BYTES = 16 * 1024  # many times a token; what is larger comes in several reads
_ANCILLARY_BYTES = socket.CMSG_SPACE(16) if hasattr(socket, "CMSG_SPACE") else 0
_timespec = struct.Struct("=qq")
# From so many connections on there is always one that has something to say. One look at all of them every PAUSE_S costs
# a fraction of waking up for each; the kernel's stamps lose nothing by it.
MANY, PAUSE_S = 32, 0.002
READS_A_CLOCK = 32  # of one look: a third of a millisecond
# AWS's NAT gateways and load balancers forget a connection that was silent for 350 s; a queued answer may take longer.
_PROBE_AFTER_S, _PROBE_EVERY_S = 60, 15

ClockNs = Callable[[], int]


class Listener(Protocol):
    """What a socket tells; `Connection` is one."""

    def received(self, data: bytes, arrived_ns: int, read_ns: int) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...


def stamps_reads() -> bool:
    """Can this system and the running loop do it?"""
    if sys.platform != "linux" or platform.machine() not in _MACHINES or sys.maxsize < 2**32:
        return False
    return not isinstance(asyncio.get_running_loop(), getattr(asyncio, "ProactorEventLoop", ()))


class Watch:
    """Readable sockets of the running loop, all found by one look; with `MANY` of them, a look every `PAUSE_S`."""

    def __init__(self, *, clock_ns: ClockNs = time.perf_counter_ns, wall_ns: ClockNs = time.time_ns) -> None:
        """Times given are `clock_ns`."""
        self._clock_ns, self._wall_ns = clock_ns, wall_ns
        self.now_ns = self.wall_ahead_ns = 0  # as last looked at: our clock, and what the wall's has more
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, fd: int, on_readable: Callable[[], None]) -> None:
        self._watched[fd] = on_readable
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        self._watched.clear()
        if self._pause is not None:
            self._pause.cancel()
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _look(self) -> None:
        """Woken by a socket, while nobody looks by time."""
        if len(self._watched) >= MANY:
            self._loop.remove_reader(self._epoll.fileno())
            self._pause = self._loop.call_later(PAUSE_S, self._look_again)
        self._read_all()

    def _look_again(self) -> None:
        self._pause = self._loop.call_later(PAUSE_S, self._look_again)
        if not self._read_all():
            self._pause.cancel()
            self._pause = None
            self._loop.add_reader(self._epoll.fileno(), self._look)

    def _read_all(self) -> bool:
        """Was there anything to read?"""
        found = self._epoll.poll(0)
        watched = self._watched
        for start in range(0, len(found), READS_A_CLOCK):
            self.look_at_clock()
            for fd, _ in found[start : start + READS_A_CLOCK]:
                on_readable = watched.get(fd)  # None: one before it in this look ended it
                if on_readable is not None:
                    on_readable()
        return bool(found)

    def look_at_clock(self) -> int:
        self.now_ns = now_ns = self._clock_ns()
        self.wall_ahead_ns = self._wall_ns() - now_ns
        return now_ns


class StampedSocket:
    """A connected socket on the running loop: `write` and `abort` as of an asyncio transport.

    The listener hears nothing more after `abort` or `connection_lost`. Bytes that cannot leave at once are kept; the
    one request under way bounds them.
    """

    __slots__ = (
        "_fd",
        "_floor_ns",
        "_listener",
        "_loop",
        "_socket",
        "_tls",
        "_unsent",
        "_watch",
        "_write_error",
    )

    def __init__(
        self,
        sock: socket.socket,
        listener: Listener,
        watch: Watch,
        tls: TlsSession | None = None,
    ) -> None:
        """`sock` is connected and non-blocking, `tls` past its handshake. Times given are those of `watch`."""
        self._loop = asyncio.get_running_loop()
        self._socket, self._fd, self._listener, self._watch, self._tls = sock, sock.fileno(), listener, watch, tls
        self._floor_ns = 0  # nothing read can have arrived before this
        self._unsent = b""
        self._write_error: OSError | None = None
        watch.add(self._fd, self._on_readable)

    def write(self, data: bytes) -> None:
        self._floor_ns = self._watch.look_at_clock()
        if self._tls is not None:
            data = self._tls.encrypt(data)
        self._send(data)

    def abort(self) -> None:
        if self._fd < 0:
            return
        self._watch.remove(self._fd)
        self._loop.remove_writer(self._fd)
        self._fd = -1
        self._socket.close()

    def _send(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:  # reading goes on: a server that refuses a request early has said why
            self._write_error = error
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        data, self._unsent = self._unsent, b""
        self._loop.remove_writer(self._fd)
        self._send(data)

    def _on_readable(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if not data:
            self._lose(self._write_error)
            return
        watch = self._watch
        arrived_ns = read_ns = watch.now_ns
        # A read without a stamp (none was asked for yet when it arrived) counts as just arrived.
        if ancillary and ancillary[0][1] == SCM_TIMESTAMPNS:
            seconds, nanoseconds = _timespec.unpack(ancillary[0][2])
            arrived_ns = seconds * 1_000_000_000 + nanoseconds - watch.wall_ahead_ns
        # Here the wall clock may have been set since the look began, or these bytes have come since then; what we know
        # for certain bounds the damage.
        if arrived_ns >= read_ns:
            read_ns = watch.look_at_clock()
            arrived_ns = min(arrived_ns, read_ns)
        arrived_ns = max(arrived_ns, self._floor_ns)
        self._floor_ns = arrived_ns
        if self._tls is None:
            self._listener.received(data, arrived_ns, read_ns)
        else:
            self._on_encrypted(self._tls, data, arrived_ns, read_ns)

    def _on_encrypted(self, tls: TlsSession, data: bytes, arrived_ns: int, read_ns: int) -> None:
        try:
            plain = tls.decrypt(data)
        except ssl.SSLError as error:
            self._lose(error)
            return
        if reply := tls.pending():
            self._send(reply)
        if plain:
            self._listener.received(plain, arrived_ns, read_ns)
        if tls.closed and self._fd >= 0:
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        self.abort()
        self._listener.connection_lost(error)


class TlsSession:
    """TLS over memory: the caller moves the bytes."""

    __slots__ = ("_incoming", "_object", "_outgoing", "closed")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.closed = False  # did the peer say that nothing more comes?

    async def shake_hands(self, sock: socket.socket) -> None:
        """Raises ssl.SSLError, OSError."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._object.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            finally:  # after a failure too: the peer is told why
                if reply := self.pending():
                    await loop.sock_sendall(sock, reply)
            if done:
                return
            data = await loop.sock_recv(sock, _READ_BYTES)
            if not data:
                raise ssl.SSLError("the peer closed during the handshake")
            self._incoming.write(data)

    def encrypt(self, data: bytes) -> bytes:
        self._object.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """All of the plain text that `data` completes. Raises ssl.SSLError."""
        self._incoming.write(data)
        pieces = []
        # Enough for all but the end of a long record; to ask for 16 KB costs more than a token's decryption.
        room = len(data) or _READ_BYTES
        try:
            while piece := self._object.read(room):
                pieces.append(piece)
                if not self._incoming.pending and not self._object.pending():
                    break  # to be told by an exception that there is no more costs as much as all the rest
                room = _READ_BYTES
            else:
                self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pending(self) -> bytes:
        """What TLS itself wants to say."""
        return self._outgoing.read() if self._outgoing.pending else b""


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel probe the connection while it is silent."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    after = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)  # Linux's name, macOS's
    for option, seconds in ((after, _PROBE_AFTER_S), (getattr(socket, "TCP_KEEPINTVL", None), _PROBE_EVERY_S)):
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, seconds)


def is_shortage(error: OSError) -> bool:
    """Whether this machine had nothing left to connect with: no fault of the other side, and none of the request."""
    if not isinstance(error, socket.gaierror):
        return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL)
    try:  # a resolver that can open nothing says that there is no such name
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return True
    return False


async def connect(host: str, port: int, context: ssl.SSLContext | None) -> tuple[socket.socket, TlsSession | None]:
    """A connected socket whose reads the kernel stamps; every address of `host` is tried in turn.

    Raises ssl.SSLError, OSError.
    """
    loop = asyncio.get_running_loop()
    error = OSError(f"no address for {host}")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            keep_alive(sock)
            await loop.sock_connect(sock, address)
        except OSError as failed:
            sock.close()
            # A host without IPv6 says so of its second address by the word for "no port left".
            error = error if error.errno and is_shortage(failed) else failed
            continue
        except BaseException:
            sock.close()
            raise
        return sock, await _secured(sock, context, host) if context is not None else None
    raise error


async def _secured(sock: socket.socket, context: ssl.SSLContext, host: str) -> TlsSession:
    session = TlsSession(context, host)
    try:
        await session.shake_hands(sock)
    except BaseException:
        sock.close()
        raise
    return session
