"""Reads stamped by the kernel: the client's own lag is in no latency, and is known."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invocation_fakes import END, STREAM_HEAD, TOKENS, chunked, chunkings

from loadproof.invocation import GenerationRequest, HttpTransport, Invocation, Invoker, OutcomeKind, codec_for
from loadproof.invocation.sockets import MANY, SO_TIMESTAMPNS, StampedSocket, TlsSession, Watch, stamps_reads

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="SO_TIMESTAMPNS on TCP is Linux's")
BLOCKED_S = 0.3


@contextmanager
def sends_while_blocked() -> Iterator[tuple[int, list[int]]]:
    """A server in a thread: the first token after 50 ms, the rest after 150. Gives its port and its sending times."""
    times: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            for pause_s, piece in (
                (0.05, STREAM_HEAD + chunked(TOKENS[0])),
                (0.1, chunked(*TOKENS[1:]) + END),
            ):
                time.sleep(pause_s)
                times.append(time.perf_counter_ns())
                peer.sendall(piece)
            peer.recv(1)  # until the client closes

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield listener.getsockname()[1], times
    thread.join(10)


def _invoke_while_blocked(kernel_times: bool) -> tuple[Invocation, list[int]]:
    """The client's loop stands still from 20 ms after the request left until after all of the answer arrived."""

    async def main(port: int) -> Invocation:
        transport = HttpTransport(f"http://127.0.0.1:{port}/generate_stream", kernel_times=kernel_times)
        invoker = Invoker(transport, codec_for("tgi"))
        await invoker.warm(1)
        asyncio.get_running_loop().call_later(0.02, time.sleep, BLOCKED_S)
        found = await invoker.invoke(GenerationRequest("Once", 3))
        await invoker.close()
        return found

    with sends_while_blocked() as (port, times):
        return asyncio.run(main(port)), times


@linux_only
def test_the_kernel_says_when_an_answer_arrived_while_the_client_was_away() -> None:
    """Read together at 320 ms, all three tokens carry the time the last of them was sent, 150 ms."""
    found, sent_ns = _invoke_while_blocked(True)
    assert found.outcome.ok
    assert all(0 <= arrived_ns - sent_ns[1] < 50e6 for arrived_ns in found.arrival_ns)
    assert found.end_ns == found.arrival_ns[-1]
    assert all(lag_ns > 50e6 for lag_ns in found.read_lag_ns)


def test_without_stamps_a_read_counts_as_an_arrival() -> None:
    """The portable way stamps what it reads when it reads it, and knows no lag."""
    found, sent_ns = _invoke_while_blocked(False)
    assert found.outcome.ok
    assert all(arrived_ns - sent_ns[1] > 50e6 for arrived_ns in found.arrival_ns)
    assert list(found.read_lag_ns) == [0, 0, 0]


@dataclass
class Heard:
    """A listener that keeps what it hears."""

    reads: list[tuple[bytes, int, int]] = field(default_factory=list)
    lost: list[Exception | None] = field(default_factory=list)

    def received(self, data: bytes, arrived_ns: int, read_ns: int) -> None:
        self.reads.append((data, arrived_ns, read_ns))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of one TCP connection; the first is as `connect` would make it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    with ours, theirs:
        yield ours, theirs


@linux_only
@pytest.mark.parametrize("set_by_s", [-3600, 3600])
def test_a_wall_clock_that_is_set_cannot_move_an_arrival_out_of_its_bounds(set_by_s: int) -> None:
    """Kernel stamps are wall time: set by an hour, an arrival still lies between our last write and our read."""

    async def main() -> None:
        heard = Heard()
        with connected() as (ours, theirs):
            link = StampedSocket(ours, heard, Watch(wall_ns=lambda: time.time_ns() + set_by_s * 10**9))
            before_ns = time.perf_counter_ns()
            link.write(b"?")
            for letter in (b"a", b"b"):
                theirs.sendall(letter)
                while not heard.reads or heard.reads[-1][0] != letter:
                    await asyncio.sleep(0.001)
            link.abort()
        (_, first_ns, first_read_ns), (_, second_ns, second_read_ns) = heard.reads
        assert before_ns <= first_ns <= first_read_ns
        assert first_ns <= second_ns <= second_read_ns

    asyncio.run(main())


@linux_only
def test_a_request_larger_than_the_socket_takes_leaves_in_pieces_and_in_order() -> None:
    """3 MB through a peer that reads late, a second write queued behind the first."""

    async def main() -> bytes:
        with connected() as (ours, theirs):
            link = StampedSocket(ours, Heard(), Watch())
            link.write(bytes(range(250)) * 12_000)
            link.write(b"end")
            loop, got = asyncio.get_running_loop(), bytearray()
            theirs.setblocking(False)
            while not got.endswith(b"end"):
                got += await loop.sock_recv(theirs, 1 << 20)
            link.abort()
            return bytes(got)

    assert asyncio.run(main()) == bytes(range(250)) * 12_000 + b"end"


@linux_only
def test_nothing_is_heard_after_abort() -> None:
    """Neither bytes that had arrived nor the end of the connection; a second abort does nothing."""

    async def main() -> Heard:
        heard = Heard()
        with connected() as (ours, theirs):
            link = StampedSocket(ours, heard, Watch())
            theirs.sendall(b"late")
            link.abort()
            link.abort()
            await asyncio.sleep(0.01)
        return heard

    heard = asyncio.run(main())
    assert (heard.reads, heard.lost) == ([], [])


@linux_only
@pytest.mark.parametrize("loop_name", ["asyncio", "uvloop"])
def test_many_connections_are_heard_though_nobody_wakes_for_each(loop_name: str) -> None:
    """Past MANY they are looked at by time: each is heard, also after a silence, and the first ends by itself."""

    async def main() -> list[Heard]:
        watch, heard = Watch(), [Heard() for _ in range(MANY + 1)]
        with ExitStack() as stack:
            pairs = [stack.enter_context(connected()) for _ in heard]
            links = [StampedSocket(ours, one, watch) for (ours, _), one in zip(pairs, heard, strict=True)]
            for word in (b"one", b"two"):
                for _, theirs in pairs:
                    theirs.sendall(word)
                while not all(len(one.reads) and one.reads[-1][0] == word for one in heard):
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.02)
            pairs[0][1].close()
            while not heard[0].lost:
                await asyncio.sleep(0.001)
            for link in links:
                link.abort()
            watch.close()
        return heard

    run: Callable[[Awaitable[list[Heard]]], list[Heard]] = pytest.importorskip(loop_name).run
    heard = run(main())
    assert [[data for data, _, _ in one.reads] for one in heard] == [[b"one", b"two"]] * (MANY + 1)
    assert [one.lost for one in heard] == [[None]] + [[]] * MANY


@linux_only
@pytest.mark.parametrize("loop_name", ["asyncio", "uvloop"])
def test_common_loops_on_linux_stamp_reads(loop_name: str) -> None:
    """On both loops, where the machine has the option's usual number."""

    async def main() -> bool:
        return stamps_reads()

    run: Callable[[Awaitable[bool]], bool] = pytest.importorskip(loop_name).run
    assert run(main())


@linux_only
def test_every_address_of_a_host_is_tried() -> None:
    """One where nobody listens does not hide one where somebody does."""

    async def main() -> Invocation:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = closed.getsockname()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        stream = (socket.AF_INET, socket.SOCK_STREAM, 0, "")

        async def two_addresses(*_: object, **__: object) -> list[tuple[object, ...]]:
            return [(*stream, nobody), (*stream, ("127.0.0.1", port))]

        loop.getaddrinfo = two_addresses  # type: ignore[method-assign]
        invoker = Invoker(HttpTransport("http://two.example/"), codec_for("tgi"))
        async with server:
            found = await invoker.invoke(GenerationRequest("Once", 3))
            await invoker.close()
            return found

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(STREAM_HEAD + chunked(*TOKENS) + END)
        await reader.read()
        writer.close()

    assert asyncio.run(main()).outcome.kind is OutcomeKind.OK


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["closes", "speaks no TLS"])
@pytest.mark.usefixtures("either_way")
def test_a_handshake_that_fails_is_a_connection_fault(answer: bytes) -> None:
    """A peer that closes, or that answers in plain HTTP; the request is never written."""

    async def main() -> Invocation:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(65536)
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            return await Invoker(HttpTransport(url), codec_for("tgi")).invoke(GenerationRequest("Once", 3))

    found = asyncio.run(main())
    assert (found.outcome.kind, found.sent_ns) == (OutcomeKind.CONNECTION, None)


def _tls_pair(certificate: Path) -> tuple[TlsSession, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Our session past its handshake with a server in memory, and that server with what goes in and out of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(into, out, server_side=True)
    session = TlsSession(ssl.create_default_context(cafile=str(certificate)), "localhost")
    for _ in range(3):
        with suppress(ssl.SSLWantReadError):
            session.decrypt(out.read())
        into.write(session.pending())
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
    session.decrypt(out.read())
    return session, server, into, out


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=40_000), min_size=1, max_size=4),
    st.lists(st.integers(0, 99_999), max_size=8),
)
def test_any_cut_of_encrypted_bytes_gives_the_same_plain_text(
    certificate: Path, payloads: list[bytes], cuts: list[int]
) -> None:
    """Records of up to 16 KB, several in a read or one over several reads; then the peer says that it is over."""
    session, server, _, out = _tls_pair(certificate)
    for payload in payloads:
        server.write(payload)
    encrypted = out.read()
    plain = b"".join(session.decrypt(piece) for piece in chunkings(encrypted, cuts) if piece)
    assert plain == b"".join(payloads) and not session.closed
    with suppress(ssl.SSLWantReadError):
        server.unwrap()
    assert session.decrypt(out.read()) == b"" and session.closed


def test_the_last_bytes_and_the_end_may_come_in_one_read(certificate: Path) -> None:
    """Neither is lost."""
    session, server, _, out = _tls_pair(certificate)
    server.write(b"last")
    with suppress(ssl.SSLWantReadError):
        server.unwrap()
    assert (session.decrypt(out.read()), session.closed) == (b"last", True)
