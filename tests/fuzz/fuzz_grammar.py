"""Hostile answers, each from its seed alone: HTTP/1.1 around SSE, JSON lines or AWS event streams, all damaged."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from loadproof.invocation.bedrock import ChunkDecoder
from loadproof.invocation.eventstream import PayloadPartDecoder, encode_exception, encode_frame, encode_payload_part
from loadproof.invocation.transports import Unwrapper

Ending = Literal["closed", "reset", "timeout"]
Value = object
PROTOCOLS = ("tgi", "lmi", "openai", "openai-chat", "llama", "claude", "converse")
MARKERS = {"openai": b"data: [DONE]\n\n", "openai-chat": b"data: [DONE]\n\n"}


@dataclass(frozen=True, slots=True)
class Hostile:
    """One answer: what comes in which pieces, how the connection ends, and what reads it.

    `framed` False: the HTTP around it is itself as it should be, so that cuts must make no difference.
    """

    seed: int
    protocol: str
    wrapped: Literal["", "parts", "chunks"]
    stream: bool
    pieces: tuple[bytes, ...]
    ending: Ending
    well_framed: bool

    @property
    def raw(self) -> bytes:
        return b"".join(self.pieces)

    def unwrapper(self) -> Unwrapper | None:
        return {"": None, "parts": PayloadPartDecoder(), "chunks": ChunkDecoder()}[self.wrapped]


class Draw(Random):
    """Draws; `dirt` is how likely each part of this answer is damaged: not at all, now and then, often."""

    dirt = 0.0

    def damages(self) -> bool:
        return self.random() < self.dirt


def hostile(seed: int) -> Hostile:
    """The answer of that seed."""
    draw = Draw(seed)
    draw.dirt = draw.choice((0.0, 0.0, 0.002, 0.05, 0.3))
    protocol = draw.choice(PROTOCOLS)
    wrapped: Literal["", "parts", "chunks"] = ""
    if protocol != "converse":
        wrapped = draw.choice(("", "parts", "chunks") if protocol in {"llama", "claude"} else ("", "parts"))
    stream = draw.random() < 0.9
    body = _body(draw, protocol, wrapped) if stream else _whole(draw)
    well_framed = draw.random() < 0.5
    raw = _plain_http(draw, body) if well_framed else _http(draw, body)
    if not well_framed and draw.random() < 0.5:
        raw = _damaged(draw, raw)
    ending = draw.choice(("closed", "closed", "reset", "timeout"))
    return Hostile(seed, protocol, wrapped, stream, tuple(cut(draw, raw)), ending, well_framed)


_STATUSES = (
    *(b"204", b"304", b"101", b"199", b"301", b"400", b"401", b"424", b"429", b"500", b"503", b"600"),
    *(b"099", b"2 0", b"20", b"0200", b"-20", b"\xb2\xb2\xb2"),
)
_ENDS = re.compile(rb"\n\n|\r\n|\x0b:event-type|\x0d:message-type")


def cut(draw: Random, raw: bytes) -> list[bytes]:
    """Whole, in a few pieces, in segments, or (short ones) byte by byte."""
    kind = draw.randrange(5)
    if kind == 0 or not raw:
        return [raw]
    if kind == 4:  # one event, one frame or one chunk a piece, as nearly all servers send
        places = sorted({found.start() - 12 if found[0][0] < 14 and found[0] != b"\r\n" else found.end()
                         for found in _ENDS.finditer(raw)} & set(range(1, len(raw))))  # fmt: skip
    elif kind == 1:
        places = sorted(draw.randrange(len(raw)) for _ in range(draw.randint(1, 6)))
    else:
        size = 1 if kind == 3 and len(raw) < 2000 else draw.choice((7, 100, 1460, 16384))
        size = max(size, len(raw) // 3000 + 1)
        places = list(range(size, len(raw), size))
    return [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]


# JSON


def _scalar(draw: Draw) -> Value:
    return draw.choice(
        (
            None, True, 0, -1, 1e308, 2**63, 2**70, 0.5, "", "x", "é\u2028\U0001f600", "error", "a" * 6000,
            "\x1b[2J\u202e", [], {}, [None], {"message": None}, "stop", "abort",
        )
    )  # fmt: skip


def _events(draw: Draw, protocol: str) -> list[bytes]:
    """An answer's events as its server writes them, some with other values in them, some after the end."""
    tokens = draw.choice((0, 1, 3, 3, 3, 3, 3, 20, 60, 600 if draw.random() < 0.1 else 5))
    rows = [_event(protocol, f"w{index} ", last=index == tokens - 1, index=index) for index in range(tokens)]
    rows += _after(protocol, tokens)
    for _ in range(draw.choice((0, 0, 1, 3))):
        if rows and draw.dirt:
            place = draw.randrange(len(rows))
            rows[place] = _spoilt(draw, rows[place])
    if draw.dirt and draw.random() < 0.2:
        rows.insert(draw.randint(0, len(rows)), draw.choice((
            {"error": "boom", "error_type": "x" * 5000}, {"error": {"message": ["m"] * 9, "type": {"a": 1}}},
            {"object": "error", "message": "m" * 70_000, "code": 9}, {"error": {"type": "overloaded" * 900}},
        )))  # fmt: skip
    if draw.random() < 0.2:
        rows += [_event(protocol, "late ", last=False, index=99)] * draw.randint(1, 400)
    return [_text(draw, row) for row in rows]


def _event(protocol: str, text: str, *, last: bool, index: int) -> Value:
    if protocol in {"tgi", "lmi"}:
        details = {"finish_reason": "length", "generated_tokens": index + 1, "input_length": 7} if last else None
        return {"token": {"id": 1, "text": text}, "generated_text": text if last else None, "details": details}
    if protocol == "openai":
        return {"choices": [{"text": text, "finish_reason": "stop" if last else None}]}
    if protocol == "openai-chat":
        return {"choices": [{"delta": {"content": text}, "finish_reason": "stop" if last else None}]}
    if protocol == "llama":
        return {"generation": text, "generation_token_count": index + 1, "stop_reason": "stop" if last else None}
    if protocol == "claude":
        return {"type": "content_block_delta", "delta": {"text": text}}
    return {"delta": {"text": text}, "contentBlockIndex": 0}


def _after(protocol: str, tokens: int) -> list[Value]:
    if protocol.startswith("openai"):
        return [{"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": 7}}]
    if protocol == "claude":
        return [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": tokens}},
                {"type": "message_stop"}]  # fmt: skip
    return []


def _spoilt(draw: Draw, row: Value) -> Value:
    """With another value somewhere in it."""
    if isinstance(row, dict) and row and draw.random() < 0.8:
        name = draw.choice(list(row))
        return row | {name: _spoilt(draw, row[name])}
    if isinstance(row, list) and row and draw.random() < 0.8:
        return [_spoilt(draw, row[0]), *row[1:]] * draw.choice((1, 1, 50))
    return _scalar(draw)


def _text(draw: Draw, row: Value) -> bytes:
    text = json.dumps(row, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    if not draw.damages():
        return text
    match draw.randrange(5):
        case 0:
            return text[: draw.randrange(len(text) + 1)]
        case 1:
            return b"[" * draw.choice((10, 1023, 5000)) + text
        case 2:
            return text.replace(b"w", bytes([draw.randrange(128, 256)]))
        case 3:
            return text.replace(b"1", b"1" * 400) + draw.choice((b"", b"NaN", b"}", b"\x00"))
        case _:
            return draw.choice((b"", b"null", b"<html><title>Bad gateway</title>", b"Internal error", b"[]", b'"x"'))


# What carries events


def _body(draw: Draw, protocol: str, wrapped: str) -> bytes:
    events = _events(draw, protocol)
    if protocol == "converse":
        return _frames(draw, [_converse_frame(draw, event) for event in events] + _converse_end(draw))
    if wrapped == "chunks":
        return _frames(draw, [_bedrock_chunk(draw, event) for event in events])
    lines = _lines(draw, events) if protocol in {"lmi", "llama", "claude"} else _sse(draw, events)
    if not draw.damages():
        lines += MARKERS.get(protocol, b"") + (draw.choice((b"", b"data: {\n\n", b"data: 5\n\n")))
    if wrapped == "":
        return lines
    return _frames(draw, [encode_payload_part(piece) for piece in cut(draw, lines)])


def _sse(draw: Draw, events: Sequence[bytes]) -> bytes:
    parts = [b"\xef\xbb\xbf"] if draw.random() < 0.1 else []
    for event in events:
        end = draw.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r"))
        if draw.random() < 0.1:
            parts.append(draw.choice((b": ping" + end, b"event: message" + end, b"id: 1" + end + b"retry: 5" + end)))
        if draw.damages():
            parts.append(draw.choice((
                b"event: error" + end, b"data" + end + b"data:" + end, b"data:" + end + b"data: " + event[:3] + end,
                event + end, b"event:" + end, b"\x00" + end,
            )))  # fmt: skip
        parts.append(b"data: " + event + end + (b"" if draw.damages() else end))
    if draw.random() < 0.03:
        parts.append(
            draw.choice((b"data: x\n", b"data:\n", b"x", b": p\n", b"\n", b"{}\n")) * draw.choice((900, 40_000))
        )
    return b"".join(parts)


def _lines(draw: Draw, events: Sequence[bytes]) -> bytes:
    ends = (b"\n", b"\n", b"\r\n", b"\n\n")
    starts = (b"", b"", b"data:", b" ")
    return b"".join(draw.choice(starts) + event + (b"" if draw.damages() else draw.choice(ends)) for event in events)


def _converse_frame(draw: Draw, event: bytes) -> bytes:
    name = "contentBlockDelta" if not draw.damages() else draw.choice(("messageStart", "metadata", "other", ""))
    return encode_frame({":event-type": name, ":message-type": "event"}, event)


def _converse_end(draw: Draw) -> list[bytes]:
    usage = {"inputTokens": 7, "outputTokens": 3}
    ends: tuple[tuple[str, Value], ...] = (
        ("messageStop", {"stopReason": "z" * 4000 if draw.damages() else "end_turn"}),
        ("metadata", {"usage": _scalar(draw) if draw.damages() else usage}),
    )
    shown = ends[: draw.choice((2, 1, 0)) if draw.damages() else 2]
    return [
        encode_frame({":event-type": name, ":message-type": "event"}, json.dumps(row).encode()) for name, row in shown
    ]


def _bedrock_chunk(draw: Draw, event: bytes) -> bytes:
    text = b64encode(event).decode()
    row: Value = {"bytes": _scalar(draw) if draw.damages() else text, "p": "ab"}
    return encode_frame({":event-type": "chunk", ":message-type": "event"}, json.dumps(row).encode())


def _frames(draw: Draw, frames: list[bytes]) -> bytes:
    for _ in range(draw.choice((0, 1, 2)) if draw.dirt else 0):
        place = draw.randint(0, len(frames))
        frames.insert(place, _odd_frame(draw))
    return b"".join(frames)


def _odd_frame(draw: Draw) -> bytes:
    exceptions = ("ModelStreamError", "InternalStreamFailure", "throttlingException", "e" * 200)
    makers: tuple[Callable[[], bytes], ...] = (
        lambda: encode_exception(draw.choice(exceptions), "m" * draw.choice((3, 9000)), ErrorCode="c" * 5000),
        lambda: encode_frame({":message-type": "error", ":error-code": "k" * 3000, ":error-message": "\x1b[2J"}, b""),
        lambda: encode_frame({":message-type": draw.choice(("event", "?", ""))}, b"{"),
        lambda: _frame(draw, total=draw.choice((0, 15, 16, 17, 2**31, 2**32 - 1, 4 * 1024 * 1024 + 1, 4_000_000))),
        lambda: _frame(draw, headers_length=draw.choice((1, 3, 128 * 1024 + 1, 2**32 - 1))),
        lambda: _frame(draw, block=bytes(draw.randrange(256) for _ in range(draw.randint(1, 40)))),
        lambda: _frame(draw, block=b"".join(_header(draw) for _ in range(draw.choice((1, 4, 60))))),
        lambda: _frame(draw, crc=draw.randrange(2**32)),
    )
    return draw.choice(makers)()


def _header(draw: Draw) -> bytes:
    name = bytes(draw.choice(b"abc:-") for _ in range(draw.randint(0, 4)))
    kind = draw.randrange(11)
    value = {2: b"\x01", 3: b"\x01\x02", 4: b"1234", 5: b"12345678", 8: b"12345678", 9: b"0123456789abcdef"}.get(
        kind, b""
    )
    if kind in (6, 7):
        value = struct.pack("!H", draw.choice((0, 3, 65535))) + b"\xffbc"
    return bytes([len(name)]) + name + bytes([kind]) + value


def _frame(
    draw: Draw,
    *,
    total: int | None = None,
    headers_length: int | None = None,
    block: bytes = b"",
    crc: int | None = None,
) -> bytes:
    """A frame with lies in its lengths, headers or checksum; the prelude's own is right, else nobody would read on."""
    from binascii import crc32

    payload = b"p" * draw.choice((0, 5, 3000))
    lengths = struct.pack(
        "!II",
        16 + len(block) + len(payload) if total is None else total,
        len(block) if headers_length is None else headers_length,
    )
    body = lengths + struct.pack("!I", crc32(lengths)) + block + payload
    return body + struct.pack("!I", crc32(body) if crc is None else crc)


def _whole(draw: Draw) -> bytes:
    rows: tuple[Value, ...] = (
        {"generated_text": "abc", "details": {"finish_reason": "length", "generated_tokens": 3}},
        [{"generated_text": "abc"}],
        {"choices": [{"text": "a", "finish_reason": "stop"}], "usage": {"completion_tokens": 1}},
        {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]},
        {"generation": "a", "stop_reason": "stop", "generation_token_count": 1},
        {"content": [{"text": "a"}], "stop_reason": "end_turn", "usage": {"output_tokens": 1}},
        {"output": {"message": {"content": [{"text": "a"}]}}, "stopReason": "end_turn", "usage": {"outputTokens": 1}},
    )
    row = draw.choice(rows)
    return _text(draw, _spoilt(draw, row) if draw.random() < 0.5 else row)


# HTTP/1.1 around it


def _plain_http(draw: Draw, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\n"
    if draw.random() < 0.6:
        return head + b"transfer-encoding: chunked\r\n\r\n" + _chunks(draw, body) + b"0\r\n\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def _chunks(draw: Draw, body: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in cut(draw, body) if piece)


def _http(draw: Draw, body: bytes) -> bytes:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * draw.choice((0, 0, 0, 1, 3, 16, 17, 300))
    version = draw.choice((b"HTTP/1.1",) * 8 + (b"HTTP/1.0", b"HTTP/2", b"http/1.1", b"ICY", b"HTTP/1.1 "))
    status = b"200" if draw.random() < 0.4 else draw.choice(_STATUSES)
    reason = draw.choice((b" OK", b"", b" ", b" " + b"r" * draw.choice((5, 9000))))
    headers = [_odd_header(draw) for _ in range(draw.choice((0, 1, 1, 3)))]
    framed, carried = _framing(draw, body)
    end = draw.choice((b"\r\n",) * 12 + (b"\n", b"\r"))
    head = interim + version + b" " + status + reason + end
    return head + b"".join(header + end for header in [*framed, *headers]) + end + carried


def _odd_header(draw: Draw) -> bytes:
    return draw.choice((
        b"connection: close", b"connection: keep-alive, , close", b"content-encoding: gzip",
        b"content-encoding: identity",
        b"x-amzn-errortype: " + b"E" * draw.choice((8, 5000)) + b":http://x",
        b"location: http://evil/\x1b[2J" + b"l" * 3000,
        b"no colon", b": no name", b"name : space", b" folded: line", b"nul: \x00", b"\xff\xfe: \xff", b"a:",
        b"h: " + b"v" * draw.choice((100, 60_000, 70_000)),
        b"\r\n".join(b"k: v" for _ in range(draw.choice((20, 255, 300)))),
    ))  # fmt: skip


def _framing(draw: Draw, body: bytes) -> tuple[list[bytes], bytes]:
    """Headers that say how long the body is, and the body as they say, or not."""
    match draw.randrange(8):
        case 0 | 1:
            return [b"transfer-encoding: chunked"], _odd_chunks(draw, body)
        case 2:
            return [b"Transfer-Encoding: Chunked"], _chunks(draw, body) + b"0\r\n" + _trailers(draw) + b"\r\n"
        case 3:
            lies = (b"%d" % (len(body) + 1), b"%d" % max(0, len(body) - 1), b"-1", b"0", b"+5", b"1e3", b"5, 5",
                    b"5, 6", b"",
                    b"9" * 18, b"9" * 3000, b"\xb2", b"0x10", b"10000000000")  # fmt: skip
            return [b"content-length: " + draw.choice(lies)], body
        case 4:
            return [b"content-length: %d" % len(body), b"transfer-encoding: chunked"], _odd_chunks(draw, body)
        case 5:
            encoding = draw.choice((b"gzip", b"gzip, chunked", b"chunked, chunked", b"", b"x" * 5000))
            return [b"transfer-encoding: " + encoding], body
        case 6:
            return [], body
        case _:
            return [b"content-length: %d" % len(body)] * draw.choice((1, 2)), body + draw.choice((b"", b"HTTP/1.1 200"))


def _odd_chunks(draw: Draw, body: bytes) -> bytes:
    parts = []
    for piece in cut(draw, body):
        size = b"%x" % (len(piece) + (draw.choice((1, -1 if piece else 0, 1000)) if draw.damages() else 0))
        if draw.damages():
            size = draw.choice((
                b"0" * 12 + size, size.upper(), b"", b"g", b"-1", b"0x5", b" " + size, size + b" ",
                b"f" * 16, b"7fffffffffffff",
                size + b";" + b"e" * draw.choice((5, 8000, 9000)), size + b"\n", b"\xb2",
            ))  # fmt: skip
        parts.append(
            size + b"\r\n" + piece + (draw.choice((b"\n", b"", b"\r\r\n", b"xx")) if draw.damages() else b"\r\n")
        )
    end = b"0\r\n" if not draw.damages() else draw.choice((b"", b"0", b"00000\r\n", b"0;x=y\r\n", b"-0\r\n"))
    return b"".join(parts) + end + _trailers(draw) + (b"" if draw.damages() else b"\r\n")


def _trailers(draw: Draw) -> bytes:
    trailer = draw.choice((b"x: y\r\n", b"t: " + b"v" * 7000 + b"\r\n", b"no colon\r\n"))
    return trailer * draw.choice((0, 0, 0, 0, 1, 12))


def _damaged(draw: Draw, raw: bytes) -> bytes:
    """Bytes flipped, cut out, doubled or put in, a few times."""
    data = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 8))):
        place = draw.randrange(len(data) + 1)
        length = draw.choice((1, 1, 2, 30, 3000))
        match draw.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << draw.randrange(8)
            case 1:
                del data[place : place + length]
            case 2:
                data[place:place] = data[place : place + length]
            case 3:
                data[place:place] = bytes(draw.randrange(256) for _ in range(min(length, 30)))
            case _:
                del data[place:]
    return bytes(data)
