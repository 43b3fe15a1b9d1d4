"""The HTTP/1.1 response reader, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invocation_fakes import chunked, chunkings

from loadproof.invocation.faults import HttpProtocolFault, InvocationFault, TruncatedStreamError
from loadproof.invocation.http1 import ResponseReader

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CUTS = st.lists(st.integers(0, 10_000), max_size=15)


def _read(pieces: list[bytes]) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader()
    return reader, b"".join(reader.feed(piece) for piece in pieces)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), CUTS, st.sampled_from([b"", b"X-Sum: 1\r\nA: b\r\n"]))
def test_any_cut_of_a_chunked_answer_gives_the_same_body(body: list[bytes], cuts: list[int], trailers: bytes) -> None:
    """Chunk sizes, chunk ends and trailers may fall between any two reads."""
    raw = CHUNKED + chunked(*body) + b"0\r\n" + trailers + b"\r\n"
    reader, read = _read(chunkings(raw, cuts))
    assert (read, reader.done, reader.reusable, reader.surplus) == (b"".join(body), True, True, b"")


@given(st.lists(st.sampled_from([b"\r\n", b"a\r\n", b"0\r\n\r\n", b"x" * 300]), max_size=6))
def test_one_whole_chunk_a_read_gives_the_same_body(body: list[bytes]) -> None:
    """The short cut for the usual read takes no line end inside a chunk for its own."""
    reader, read = _read([CHUNKED, *(chunked(piece) for piece in body), b"0\r\n\r\n"])
    assert (read, reader.done, reader.surplus) == (b"".join(body), True, b"")


def test_a_whole_chunk_of_another_size_than_it_says_is_refused() -> None:
    """Said 5, came 6: the byte too many is where the chunk's end should be."""
    with pytest.raises(HttpProtocolFault, match="does not end with a line end"):
        _read([CHUNKED, b"5\r\nabcdef\r\n"])


@given(st.binary(max_size=200), CUTS)
def test_any_cut_of_an_answer_with_a_length_gives_the_same_body(body: bytes, cuts: list[int]) -> None:
    """Content-length bodies end exactly where they say."""
    raw = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\nX-A: 1\r\nX-A: 2\r\n\r\n" % len(body) + body
    reader, read = _read(chunkings(raw, cuts))
    assert (read, reader.done, reader.status) == (body, True, 201)
    assert reader.headers["x-a"] == "1, 2"


@given(st.binary(max_size=300), CUTS)
def test_arbitrary_bytes_give_typed_errors_only(data: bytes, cuts: list[int]) -> None:
    """Noise never leaks another exception, also behind a valid head."""
    for raw in (data, CHUNKED + data, b"HTTP/1.1 200 OK\r\n" + data):
        reader = ResponseReader()
        try:
            for piece in chunkings(raw, cuts):
                reader.feed(piece)
            reader.end_of_input()
        except InvocationFault:
            continue
        assert reader.done


def test_every_truncation_is_found() -> None:
    """A chunked answer cut anywhere before its last byte is truncated when the connection closes."""
    raw = CHUNKED + chunked(b"hello", b"world") + b"0\r\n\r\n"
    for cut in range(len(raw)):
        reader = ResponseReader()
        reader.feed(raw[:cut])
        with pytest.raises(TruncatedStreamError):
            reader.end_of_input()


def test_without_length_the_body_ends_with_the_connection() -> None:
    """HTTP/1.0 style: closing is the end, and the connection cannot be used again."""
    reader, body = _read([b"HTTP/1.0 200 OK\r\n\r\nab", b"cd"])
    assert (body, reader.done) == (b"abcd", False)
    reader.end_of_input()
    assert (reader.done, reader.reusable) == (True, False)


def test_interim_answers_are_skipped() -> None:
    """100 Continue and 103 Early Hints precede the answer proper."""
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    for size in (1, len(raw)):
        reader, _ = _read([raw[i : i + size] for i in range(0, len(raw), size)])
        assert (reader.status, reader.done, reader.reusable) == (204, True, True)
        assert "link" not in reader.headers


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nabcde", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", False),
    ],
)
def test_when_a_connection_may_be_used_again(head: bytes, reusable: bool) -> None:
    """As RFC 9112 §9.3 says; an answer with two framings is read as chunked and its connection dropped (§6.3)."""
    reader, _ = _read([head])
    assert (reader.done, reader.reusable) == (True, reusable)


def test_bytes_after_the_answer_are_kept_apart() -> None:
    """They belong to no request of ours."""
    reader, body = _read([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200"])
    assert (body, reader.surplus) == (b"ok", b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : space before colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        CHUNKED + b"+5\r\nhello\r\n",
        CHUNKED + b"0x5\r\nhello\r\n",
        CHUNKED + b"5_0\r\nhello\r\n",
        CHUNKED + b"\r\nhello\r\n",
        CHUNKED + b"5\r\nhelloXX",
        CHUNKED + b"5" * 9000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
    ],
)
def test_malformed_answers_are_refused(raw: bytes) -> None:
    """Each is a protocol fault, not a guess."""
    with pytest.raises(HttpProtocolFault):
        _read([raw])
