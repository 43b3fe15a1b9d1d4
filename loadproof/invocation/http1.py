"""HTTP/1.1 responses, sans-IO (RFC 9112): content-length, chunked with trailers, until close, interim answers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import lru_cache

from loadproof.invocation.faults import HttpProtocolFault, TruncatedStreamError

MAX_HEAD_BYTES = 64 * 1024
MAX_LINE_BYTES = 8 * 1024
MAX_HEADERS = 256
MAX_INTERIM = 16  # answers before the answer
MAX_EXTRA_BYTES = 64 * 1024  # of chunk extensions and trailers, which nobody reads
_USUAL_SIZE_LINE_BYTES = 10
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    UNTIL_CLOSE = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    DONE = auto()


_AT_CHUNK = _State.CHUNK_SIZE  # an enumeration's own lookup costs as much as finding a chunk's size


class ResponseReader:
    """Reads one response to a request that is not HEAD. `feed` bytes as they come; it returns body bytes at once.

    `status` and `headers` (names in lower case, repeated values joined with `, `) are set once the head is whole,
    `done` once the body is. After `done` the bytes in `surplus` belong to no request of ours.
    """

    __slots__ = (
        "_extra_bytes",
        "_interim",
        "_left",
        "_rest",
        "_state",
        "done",
        "headers",
        "reusable",
        "status",
        "surplus",
    )

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.reusable = False  # may the connection carry another request?
        self.done = False
        self.surplus = b""
        self._state = _State.HEAD
        self._rest = b""
        self._left = 0
        self._interim = self._extra_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Body bytes in `data`, without any framing. Raises HttpProtocolFault."""
        if self.between_chunks and (body := _whole_chunks(data)) is not None:
            return body
        if self._rest:
            data, self._rest = self._rest + data, b""
        position, size = 0, len(data)
        pieces: list[bytes] = []
        while position < size:
            state = self._state
            if state is _State.CHUNK_DATA or state is _State.LENGTH:
                piece = data[position : position + self._left]
                pieces.append(piece)
                position += len(piece)
                self._left -= len(piece)
                if not self._left:
                    if state is _State.LENGTH:
                        self._finish()
                    else:
                        self._state = _State.CHUNK_END
            elif state is _State.UNTIL_CLOSE:
                pieces.append(data[position:])
                position = size
            elif state is _State.DONE:
                self.surplus += data[position:]
                break
            else:
                advanced = self._framing(data, position)
                if advanced is None:
                    self._rest = data[position:]
                    break
                position = advanced
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def between_chunks(self) -> bool:
        """Then no read of 4 bytes and more ends the body, but one that ends with an empty line."""
        return self._state is _AT_CHUNK and not self._rest

    def usual_bodies(self, reads: Sequence[bytes]) -> list[bytes]:
        """A short cut: body bytes of the first reads, as many as are whole chunks; `feed` the next one."""
        bodies: list[bytes] = []
        if self.between_chunks:
            with suppress(HttpProtocolFault):  # which is for `feed` to find
                for data in reads:
                    body = _whole_chunks(data)
                    if body is None:
                        break
                    bodies.append(body)
        return bodies

    def end_of_input(self) -> None:
        """The peer closed in order. Raises TruncatedStreamError unless that is how this body ends."""
        if self._state is _State.UNTIL_CLOSE:
            self._finish()
        elif not self.done:
            raise TruncatedStreamError("the connection closed before the end of the answer")

    def _framing(self, data: bytes, position: int) -> int | None:
        """Consume one piece of framing at `position`: the new position, or None if more bytes are needed."""
        if self._state is _State.HEAD:
            return self._head(data, position)
        if self._state is _State.CHUNK_END:
            if len(data) - position < 2:
                return None
            if data[position : position + 2] != b"\r\n":
                raise HttpProtocolFault("a chunk does not end with a line end")
            self._state = _State.CHUNK_SIZE
            return position + 2
        end = data.find(b"\r\n", position, position + MAX_LINE_BYTES)
        if end < 0:
            if len(data) - position >= MAX_LINE_BYTES:
                raise HttpProtocolFault(f"a line of chunk framing is longer than {MAX_LINE_BYTES} bytes")
            return None
        if self._state is _State.TRAILERS or end - position > _USUAL_SIZE_LINE_BYTES:
            self._extra_bytes += end + 2 - position
            if self._extra_bytes > MAX_EXTRA_BYTES:
                raise HttpProtocolFault(f"chunk extensions and trailers are longer than {MAX_EXTRA_BYTES} bytes")
        if self._state is _State.CHUNK_SIZE:
            self._left = _chunk_size(data[position:end])
            self._state = _State.CHUNK_DATA if self._left else _State.TRAILERS
        elif end == position:  # the empty line after the trailers, which we do not use
            self._finish()
        return end + 2

    def _head(self, data: bytes, position: int) -> int | None:
        end = data.find(b"\r\n\r\n", position)
        if end < 0 or end - position > MAX_HEAD_BYTES:
            if len(data) - position > MAX_HEAD_BYTES:
                raise HttpProtocolFault(f"the response head is longer than {MAX_HEAD_BYTES} bytes")
            if len(data) - position >= 5 and data[position : position + 5] != b"HTTP/":
                raise HttpProtocolFault(f"not an HTTP response: {data[position : position + 40]!r}")
            return None
        version, status, headers = _parse_head(data[position:end])
        if 100 <= status < 200:
            if status == 101:
                raise HttpProtocolFault("the server switched protocols unasked")
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise HttpProtocolFault(f"more than {MAX_INTERIM} interim answers")
            return end + 4  # interim: the answer follows
        self.status, self.headers = status, headers
        tokens = {token.strip() for token in headers.get("connection", "").lower().split(",")}
        self.reusable = "close" not in tokens and (version == b"1.1" or "keep-alive" in tokens)
        self._choose_body(status, headers)
        return end + 4

    def _choose_body(self, status: int, headers: dict[str, str]) -> None:
        encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if status in (204, 304):
            self._finish()
        elif encoding is not None:
            if encoding.strip().lower() != "chunked":
                raise HttpProtocolFault(f"transfer-encoding `{encoding[:40]}` is not understood")
            self.reusable = self.reusable and length is None  # both: a smuggling attempt or a broken proxy
            self._state = _State.CHUNK_SIZE
        elif length is not None:
            self._left = _content_length(length)
            self._state = _State.LENGTH
            if not self._left:
                self._finish()
        else:
            self.reusable = False
            self._state = _State.UNTIL_CLOSE

    def _finish(self) -> None:
        self._state = _State.DONE
        self.done = True


def _parse_head(head: bytes) -> tuple[bytes, int, dict[str, str]]:
    lines = head.split(b"\r\n")
    parts = lines[0].split(b" ", 2)
    if len(parts) < 2 or parts[0] not in (b"HTTP/1.1", b"HTTP/1.0") or len(parts[1]) != 3 or not parts[1].isdigit():
        raise HttpProtocolFault(f"not an HTTP/1 response: {lines[0][:40]!r}")
    if len(lines) > MAX_HEADERS + 1:
        raise HttpProtocolFault(f"more than {MAX_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.strip() != name:
            raise HttpProtocolFault(f"malformed response header: {line[:40]!r}")
        key, text = name.decode("latin-1").lower(), value.strip().decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return parts[0][5:], int(parts[1]), headers


def _whole_chunks(data: bytes) -> bytes | None:
    """The body in `data` where it is whole chunks with something in them, as nearly every read is; else None."""
    end = data.find(b"\r\n", 0, _USUAL_SIZE_LINE_BYTES)  # of a token's: one chunk
    if end > 0 and data.endswith(b"\r\n") and 0 < _usual_size(data[:end]) == len(data) - end - 4:
        return data[end + 2 : -2]
    pieces, position, size = [], 0, len(data)
    while position < size:
        end = data.find(b"\r\n", position, position + _USUAL_SIZE_LINE_BYTES)
        length = _chunk_size(data[position:end]) if end > position else 0
        after = end + 2 + length
        if not length or data[after : after + 2] != b"\r\n":
            return None
        pieces.append(data[end + 2 : after])
        position = after + 2
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _chunk_size(line: bytes) -> int:
    return _usual_size(line) if len(line) <= _USUAL_SIZE_LINE_BYTES else _size_of(line)


def _size_of(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15 or not _HEX_DIGITS.issuperset(digits):
        raise HttpProtocolFault(f"malformed chunk size: {line[:40]!r}")
    return int(digits, 16)


_usual_size = lru_cache(maxsize=1024)(_size_of)  # sizes repeat from token to token


def _content_length(value: str) -> int:
    lengths = {part.strip() for part in value.split(",")}  # a proxy may repeat the same value
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit()) or len(length) > 15:
        raise HttpProtocolFault(f"malformed content-length: {value[:40]!r}")
    return int(length)
