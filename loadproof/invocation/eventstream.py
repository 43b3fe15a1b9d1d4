"""AWS event stream: frames of `vnd.amazon.eventstream`, both ways.

A frame is `total_length:u32 headers_length:u32 prelude_crc:u32 headers payload message_crc:u32`, big-endian; both
checksums are CRC-32, the second over all that precedes it. SageMaker needs string headers only to be read, but every
documented header type is skipped correctly. Source: Amazon Transcribe's "Event stream encoding" page; botocore is the
oracle in the tests.
"""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import orjson

from loadproof.invocation.budgets import MOST_EVENT_BYTES, parsed_json
from loadproof.invocation.faults import FrameError, InternalStreamFailure, ModelStreamError, TruncatedStreamError

HeaderValue = bool | int | bytes | str

PRELUDE_BYTES = 12
OVERHEAD_BYTES = PRELUDE_BYTES + 4
MAX_HEADERS_BYTES = 128 * 1024
# Header blocks repeat for every part of a stream; a hostile peer must not grow the cache.
_CACHED_BLOCKS, _CACHED_BLOCK_BYTES = 64, 512

_prelude = struct.Struct("!III")
_u32 = struct.Struct("!I")
_PAYLOAD_PART = "PayloadPart"
_FIXED_WIDTH = {2: ("!b", 1), 3: ("!h", 2), 4: ("!i", 4), 5: ("!q", 8), 8: ("!q", 8)}


class Frame(NamedTuple):
    """One message. Header names as sent (`:event-type`, `:message-type`, ...)."""

    headers: Mapping[str, HeaderValue]
    payload: bytes


class FrameDecoder:
    """Bytes in, whole and verified frames out. After a fault the decoder is of no further use."""

    __slots__ = ("_head_bytes", "_header_blocks", "_max_frame_bytes", "_missing", "_rest")

    def __init__(self, max_frame_bytes: int = MOST_EVENT_BYTES) -> None:
        self._rest = bytearray()
        self._missing = 0  # bytes before anything can be decoded; until then reads are only collected
        self._head_bytes = 0  # prelude and headers of the last frame: nearly always of the next one too
        self._max_frame_bytes = max_frame_bytes
        self._header_blocks: dict[bytes, Mapping[str, HeaderValue]] = {}

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that `data` completes; take them all. Raises FrameError at the first damaged one."""
        if self._rest:
            self._rest += data
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = bytes(self._rest)
        start, size = 0, len(data)
        needed = PRELUDE_BYTES
        while size - start >= PRELUDE_BYTES:
            lengths = _lengths(data[start : start + PRELUDE_BYTES])
            if lengths is None:
                raise FrameError("event stream: prelude checksum mismatch")
            total, headers_length = lengths
            self._check_lengths(total, headers_length)
            end = start + total
            if end > size:
                needed = total
                break
            body_end = end - 4
            if crc32(data[start:body_end]) != _u32.unpack_from(data, body_end)[0]:
                raise FrameError("event stream: message checksum mismatch")
            headers_end = start + PRELUDE_BYTES + headers_length
            headers = self._headers(data[start + PRELUDE_BYTES : headers_end])
            self._head_bytes = headers_end - start
            yield Frame(headers, data[headers_end:body_end])
            start = end
        self._rest = bytearray(data[start:])
        self._missing = needed - (size - start)

    def usual_payloads(self, reads: Sequence[bytes], at: int, event_type: str) -> tuple[list[bytes], list[int]]:
        """Of the reads from `at` on, as many as are whole frames of this type: payloads, verified, and whose they are.

        A token's usual read is one frame with headers as before: this is `feed` without what only other reads need.
        """
        payloads: list[bytes] = []
        of: list[int] = []
        if self._rest:
            return payloads, of
        head_bytes = self._head_bytes
        for number in range(at, len(reads)):
            data = reads[number]
            start, size, whole = 0, len(data), len(payloads)
            while start < size:
                frame_bytes, kind = _usual_head(data[start : start + head_bytes])
                end = start + frame_bytes
                body_end = end - 4
                if (
                    kind != event_type
                    or end > size
                    or crc32(data[start:body_end]) != int.from_bytes(data[body_end:end], "big")
                ):
                    del payloads[whole:], of[whole:]
                    return payloads, of
                payloads.append(data[start + head_bytes : body_end])
                of.append(number)
                start = end
        return payloads, of

    def finish(self) -> None:
        """Raises TruncatedStreamError if the stream ended inside a frame."""
        if self._rest:
            raise TruncatedStreamError(f"event stream ended inside a frame ({len(self._rest)} bytes of it arrived)")

    @property
    def kept_bytes(self) -> int:
        return len(self._rest)

    def _check_lengths(self, total: int, headers_length: int) -> None:
        if total > self._max_frame_bytes:
            raise FrameError(f"event stream: frame of {total} bytes; at most {self._max_frame_bytes} are accepted")
        if headers_length > MAX_HEADERS_BYTES or total < OVERHEAD_BYTES + headers_length:
            raise FrameError(f"event stream: {headers_length} header bytes do not fit a frame of {total} bytes")

    def _headers(self, block: bytes) -> Mapping[str, HeaderValue]:
        headers = self._header_blocks.get(block)
        if headers is None:
            headers = parse_headers(block)
            if len(block) <= _CACHED_BLOCK_BYTES and len(self._header_blocks) < _CACHED_BLOCKS:
                self._header_blocks[block] = headers
        return headers


@lru_cache(maxsize=4096)  # lengths repeat from token to token
def _lengths(prelude: bytes) -> tuple[int, int] | None:
    """Of the frame and of its headers; None for a prelude that is cut off or damaged."""
    if len(prelude) < PRELUDE_BYTES:
        return None
    total, headers_length, checksum = _prelude.unpack(prelude)
    return (total, headers_length) if crc32(prelude[:8]) == checksum else None


@lru_cache(maxsize=4096)  # as above
def _usual_head(head: bytes) -> tuple[int, str]:
    """Bytes of the frame that begins so, and its event's type; the type is empty for a head that `feed` must judge."""
    lengths = _lengths(head[:PRELUDE_BYTES])
    unusual = (0, "")
    if lengths is None or lengths[1] != len(head) - PRELUDE_BYTES or lengths[0] < OVERHEAD_BYTES + lengths[1]:
        return unusual
    if lengths[0] > MOST_EVENT_BYTES or lengths[1] > _CACHED_BLOCK_BYTES:
        return unusual
    try:
        kind = parse_headers(head[PRELUDE_BYTES:]).get(":event-type")
    except FrameError:
        return unusual
    return (lengths[0], kind) if isinstance(kind, str) else unusual


def parse_headers(block: bytes) -> dict[str, HeaderValue]:
    """Headers of one frame. Raises FrameError for anything but a well-formed block without repeated names."""
    headers: dict[str, HeaderValue] = {}
    position = 0
    try:
        while position < len(block):
            name_length = block[position]
            name_end = position + 1 + name_length
            name = block[position + 1 : name_end].decode("utf-8")
            if len(block) <= name_end:
                raise FrameError("event stream: header without a value")
            value, position = _header_value(block, block[name_end], name_end + 1)
            if name in headers:
                raise FrameError(f"event stream: header {name!r} appears twice")
            headers[name] = value
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"event stream: malformed header ({error})") from error
    return headers


def _header_value(block: bytes, kind: int, start: int) -> tuple[HeaderValue, int]:
    if kind in (0, 1):
        return kind == 0, start
    if kind in _FIXED_WIDTH:
        layout, width = _FIXED_WIDTH[kind]
        return int(struct.unpack_from(layout, block, start)[0]), start + width
    if kind == 9:
        length = 16
    elif kind in (6, 7):
        (length,) = struct.unpack_from("!H", block, start)
        start += 2
    else:
        raise FrameError(f"event stream: unknown header type {kind}")
    end = start + length
    if end > len(block):
        raise FrameError("event stream: header value runs past its block")
    raw = block[start:end]
    return (raw.decode("utf-8") if kind == 7 else raw), end


def encode_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One frame with string headers, byte for byte as AWS sends it."""
    block = b"".join(_encode_header(name, value) for name, value in headers.items())
    lengths = struct.pack("!II", OVERHEAD_BYTES + len(block) + len(payload), len(block))
    body = lengths + _u32.pack(crc32(lengths)) + block + payload
    return body + _u32.pack(crc32(body))


def _encode_header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode("utf-8"), value.encode("utf-8")
    return struct.pack("!B", len(name_bytes)) + name_bytes + struct.pack("!BH", 7, len(value_bytes)) + value_bytes


def encode_payload_part(payload: bytes) -> bytes:
    """A `PayloadPart` event: one piece of the container's answer, cut anywhere."""
    return encode_frame(
        {":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"}, payload
    )


def encode_exception(exception_type: str, message: str, **fields: str) -> bytes:
    """A `ModelStreamError` (with `ErrorCode=`) or `InternalStreamFailure` in mid-stream."""
    headers = {
        ":message-type": "exception",
        ":exception-type": exception_type,
        ":content-type": "application/json",
    }
    return encode_frame(headers, orjson.dumps({"Message": message, **fields}))


class PayloadPartDecoder:
    """SageMaker's response stream: frames in, the container's own bytes out."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = FrameDecoder()

    def usual_parts(self, reads: Sequence[bytes], at: int) -> tuple[list[bytes], list[int]]:
        """The parts of whole reads from `at` on, and of which read each is; an unusual one ends them: `feed` it."""
        return self._frames.usual_payloads(reads, at, _PAYLOAD_PART)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The parts that `data` completes; take them all.

        Raises FrameError, ModelStreamError, InternalStreamFailure, after the parts before the fault.
        """
        for frame in self._frames.feed(data):
            if frame.headers.get(":event-type") == _PAYLOAD_PART:
                yield frame.payload
            else:
                refuse(frame)

    @property
    def kept_bytes(self) -> int:
        return self._frames.kept_bytes

    def finish(self) -> None:
        """Raises TruncatedStreamError if the stream ended inside a frame."""
        self._frames.finish()


def refuse(frame: Frame) -> None:
    """What is no event that is known: exceptions raise; unknown events are skipped, as AWS asks of its clients.

    Raises FrameError, ModelStreamError, InternalStreamFailure.
    """
    kind = frame.headers.get(":message-type")
    if kind == "event":
        return
    if kind == "error":  # an unmodeled error: code and message stand in the headers
        code, message = frame.headers.get(":error-code", ""), frame.headers.get(":error-message", "")
        raise ModelStreamError(str(code) or "UnmodeledError", str(message))
    if kind != "exception":
        raise FrameError(f"event stream: unknown message type {kind!r}")
    name = str(frame.headers.get(":exception-type", ""))
    fields = _json_object(frame.payload)
    message = str(fields.get("Message") or fields.get("message") or "")
    if name == "InternalStreamFailure":
        raise InternalStreamFailure(message)
    status = fields.get("originalStatusCode")
    raise ModelStreamError(str(fields.get("ErrorCode") or name), message, status if isinstance(status, int) else None)


def _json_object(payload: bytes) -> dict[str, object]:
    try:
        value = parsed_json(payload)
    except orjson.JSONDecodeError:
        return {"Message": payload[:200].decode("utf-8", "replace")}
    return value if isinstance(value, dict) else {}
