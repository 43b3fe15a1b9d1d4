"""Servers that announce keep-alive and close all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from loadproof.invocation.connections import ConnectionPool, Timeouts
from loadproof.invocation.faults import ConnectionFault, TruncatedStreamError

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"


class Heard:
    """What came of one exchange."""

    def __init__(self) -> None:
        self.sent = 0
        self.body = b""

    def on_sent(self, now_ns: int) -> None:
        self.sent += 1

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        assert status == 200

    def on_bodies(self, arrived_ns: Sequence[int], read_ns: Sequence[int], bodies: Sequence[bytes]) -> bool:
        self.body += b"".join(bodies)
        return True


class Server:
    """Says `answers[n]` to the n-th request of each connection, then closes; nothing stands for closing unsaid."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.requests, self.connections = answers, 0, 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for answer in self.answers:
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests += 1
            writer.write(answer)
        writer.close()


async def exchange(server: Server, times: int, kernel_times: bool) -> list[Heard]:
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = ConnectionPool("127.0.0.1", port, kernel_times=kernel_times)
    heard = []
    try:
        for _ in range(times):
            heard.append(Heard())
            await pool.exchange(REQUEST, heard[-1], Timeouts())
    finally:
        pool.close()
        listening.close()
    return heard


@pytest.mark.parametrize("kernel_times", [True, False])
def test_a_kept_connection_that_closes_unanswered_is_replaced(kernel_times: bool) -> None:
    """The second request of each connection finds it closed: it goes out again on a new one, and is answered."""
    server = Server(ANSWER, b"")
    heard = asyncio.run(exchange(server, 4, kernel_times))
    assert [one.body for one in heard] == [b"ok"] * 4
    assert [one.sent for one in heard] == [1, 2, 2, 2]
    assert server.connections == 4


def test_a_new_connection_that_closes_unanswered_is_the_endpoints_fault() -> None:
    """Nothing is tried again."""
    server = Server(b"")
    with pytest.raises(ConnectionFault, match="closed before any answer"):
        asyncio.run(exchange(server, 1, True))
    assert server.requests == 1


def test_an_answer_that_began_is_not_asked_for_again() -> None:
    """Cut on a kept connection: the model has worked, and the request failed."""
    server = Server(ANSWER, ANSWER[:-1])
    with pytest.raises(TruncatedStreamError):
        asyncio.run(exchange(server, 2, True))
    assert server.requests == 2


def test_a_head_cut_on_a_kept_connection_is_not_asked_for_again() -> None:
    """A byte of an answer is an answer that began."""
    server = Server(ANSWER, b"HTTP/1.1 2")
    with pytest.raises(ConnectionFault):
        asyncio.run(exchange(server, 2, True))
    assert server.requests == 2
