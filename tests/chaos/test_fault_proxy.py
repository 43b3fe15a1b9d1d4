"""The proxy does what it is told, byte for byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from fault_proxy import FaultProxy, proxy

ANSWER = bytes(range(200))


@pytest.fixture
def between() -> Iterator[FaultProxy]:
    """In front of a server that answers anything with 200 bytes and closes."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(ANSWER)

    threading.Thread(target=serve, daemon=True).start()
    with proxy(f"http://127.0.0.1:{server.getsockname()[1]}") as running:
        yield running
    server.close()


def asked(running: FaultProxy, timeout_s: float = 5.0) -> bytes:
    """All that comes back on a connection. Raises OSError: reset, or silent for too long."""
    with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2])), timeout=timeout_s) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        received = b""
        while data := connection.recv(1000):
            received += data
        return received


def test_without_a_fault_all_passes(between: FaultProxy) -> None:
    """Every byte, unchanged."""
    assert asked(between) == ANSWER


def test_a_flipped_bit_is_the_only_change(between: FaultProxy) -> None:
    """Bit 3 of byte 100: 100 ^ 8 = 108."""
    between.change(flip_bit=803)
    assert asked(between) == ANSWER[:100] + bytes([108]) + ANSWER[101:]


def test_a_cut_ends_in_order_after_that_many_bytes(between: FaultProxy) -> None:
    """Seven bytes, then the end of the stream."""
    between.change(cut_after=7)
    assert asked(between) == ANSWER[:7]


def test_a_reset_is_an_error_to_the_client(between: FaultProxy) -> None:
    """Not the orderly end that a cut is."""
    between.change(reset_after=7)
    with pytest.raises(ConnectionResetError):
        asked(between)


def test_a_stall_is_silence(between: FaultProxy) -> None:
    """The connection stays open and nothing more comes."""
    between.change(stall_after=7)
    with pytest.raises(TimeoutError):
        asked(between, timeout_s=0.2)


def test_half_open_takes_requests_and_says_nothing(between: FaultProxy) -> None:
    """The request arrived, and was counted."""
    between.change(swallow=True)
    with pytest.raises(TimeoutError):
        asked(between, timeout_s=0.2)
    assert between.requests == 1


def test_an_error_of_its_own(between: FaultProxy) -> None:
    """Upstream is not asked."""
    between.change(status=503)
    assert asked(between).startswith(b"HTTP/1.1 503 ")
