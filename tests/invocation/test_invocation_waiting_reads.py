"""Reads that wait to be decoded together: which wait, and that none waits for what will not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.invocation.connections import MOST_WAITING, MOST_WAITING_BYTES, Connection, Timeouts
from loadproof.invocation.faults import TimeoutFault, TruncatedStreamError
from loadproof.invocation.http1 import ResponseReader

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ENDS = (b"0\r\n\r\n", b"0\r\nx: 1\r\n\r\n", b"0;a=b\r\n\r\n")


class Silent:
    """A transport that sends nothing."""

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


class Patient:
    """A receiver that lets all reads wait, and keeps what it is given: a row for each time."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[int], list[bytes]]] = []

    def on_sent(self, now_ns: int) -> None: ...

    def on_head(self, status: int, headers: dict[str, str]) -> None: ...

    def on_bodies(self, arrived_ns: Sequence[int], read_ns: Sequence[int], bodies: Sequence[bytes]) -> bool:
        self.rows.append(([*arrived_ns], [*bodies]))
        return True

    @property
    def body(self) -> bytes:
        return b"".join(body for _, bodies in self.rows for body in bodies)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def begun(receiver: Patient) -> tuple[Connection, asyncio.Task[None]]:
    connection = Connection(time.perf_counter_ns)
    connection.attach(Silent())
    task = asyncio.ensure_future(connection.exchange(b"?", receiver, Timeouts(), time.perf_counter_ns()))
    await asyncio.sleep(0)
    return connection, task


@given(
    st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8),
    st.sampled_from(ENDS),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_an_answer_ends_with_its_last_byte_however_it_is_cut(
    pieces: list[bytes], end: bytes, places: list[int]
) -> None:
    """Nobody has to ask for what waits: with the last read the exchange is over, and the body is whole."""
    raw = HEAD + b"".join(map(chunk, pieces)) + end
    cuts = sorted({place for place in places if 0 < place < len(raw)})
    reads = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    async def main() -> Patient:
        receiver = Patient()
        connection, task = await begun(receiver)
        for place, read in enumerate(reads):
            assert not task.done()
            connection.received(read, place, place)
        await asyncio.sleep(0)
        assert connection.reusable()
        await task
        return receiver

    assert asyncio.run(main()).body == b"".join(pieces)


def test_reads_wait_and_keep_their_times() -> None:
    """The first chunk is given at once, those after it when they are asked for, each with its own arrival."""

    async def main() -> Patient:
        receiver = Patient()
        connection, task = await begun(receiver)
        for place, read in enumerate((HEAD + chunk(b"a"), chunk(b"b"), chunk(b"c"))):
            connection.received(read, place, place)
        assert receiver.rows == [([0], [b"a"])]
        connection.hand_over()
        connection.abort()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return receiver

    assert asyncio.run(main()).rows == [([0], [b"a"]), ([1, 2], [b"b", b"c"])]


@pytest.mark.parametrize(
    "read",
    [
        chunk(b'{"error": "no"}'),
        chunk(b":exception-type"),
        chunk(b"x" * MOST_WAITING_BYTES),
        b"1\r",
        chunk(b"ends so\r\n"),
    ],
)
def test_what_may_be_an_error_or_an_end_or_is_large_does_not_wait(read: bytes) -> None:
    """Nor what was read before it."""

    async def main() -> Patient:
        receiver = Patient()
        connection, task = await begun(receiver)
        connection.received(HEAD + chunk(b"a"), 0, 0)
        connection.received(chunk(b"b"), 1, 1)
        connection.received(read, 2, 2)
        connection.abort()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return receiver

    assert asyncio.run(main()).rows[1][1][0] == b"b"


def test_no_more_than_so_many_reads_wait() -> None:
    """After the first come MOST_WAITING together, then those that are left."""

    async def main() -> Patient:
        receiver = Patient()
        connection, task = await begun(receiver)
        connection.received(HEAD + chunk(b"a"), 0, 0)
        for place in range(MOST_WAITING + 1):
            connection.received(chunk(b"b"), place, place)
        connection.received(ENDS[0], 99, 99)
        await task
        return receiver

    assert [len(bodies) for _, bodies in asyncio.run(main()).rows] == [1, MOST_WAITING, 1]


@pytest.mark.parametrize("fault", [TimeoutFault, TruncatedStreamError])
def test_what_waits_is_given_before_a_fault(fault: type[Exception]) -> None:
    """A connection that ends or falls silent in mid-answer: what had come is in the answer."""

    async def main() -> Patient:
        receiver = Patient()
        connection, task = await begun(receiver)
        connection.received(HEAD + chunk(b"a"), 0, 0)
        connection.received(chunk(b"b"), 1, 1)
        if fault is TimeoutFault:
            connection._cut_off(TimeoutFault("idle", 1.0))
        else:
            connection.connection_lost(None)
        with pytest.raises(fault):
            await task
        return receiver

    assert asyncio.run(main()).body == b"ab"


@given(st.lists(st.lists(st.binary(max_size=12), max_size=3), max_size=6))
def test_usual_bodies_are_what_feeding_gives(reads: list[list[bytes]]) -> None:
    """Of reads of whole chunks, as many as are so; an empty chunk (the end) stops them."""
    raw = [b"".join(map(chunk, pieces)) for pieces in reads]
    short, long = ResponseReader(), ResponseReader()
    for reader in (short, long):
        assert reader.feed(HEAD) == b""
    bodies = short.usual_bodies(raw)
    assert bodies == [long.feed(read) for read in raw[: len(bodies)]]
    if len(bodies) < len(raw):
        assert not raw[len(bodies)] or b"" in reads[len(bodies)]
