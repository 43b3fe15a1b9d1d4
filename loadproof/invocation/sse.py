"""Splitting of text streams: server-sent events (WHATWG HTML §9.2) and JSON lines. Bytes in, payloads out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import orjson

from loadproof.invocation.budgets import LINE_OVERHEAD_BYTES, parsed_json, refuse_long_event
from loadproof.invocation.faults import InBandError, PayloadError
from loadproof.wire.lines import Lines


class Splitter(Protocol):
    """Cuts a stream into the payloads it carries; how the stream is chunked makes no difference."""

    def usual_payloads(self, parts: Sequence[bytes], at: int) -> tuple[list[bytes], list[int]]:
        """A short cut: the payloads of the parts from `at` on, and of which part each is.

        It ends before the first part whose payloads do not all come whole and as nearly every token does: `feed` it.
        """
        ...

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The payloads that `data` completes; take them all. Raises InvocationFault, after those before the fault."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Of an event that has not ended."""
        ...

    def flush(self) -> Iterator[bytes]:
        """What the end of the stream completes: a last line that lacks only its line end."""
        ...


class ServerSentEvents:
    """The `data` of each event; comments and all other fields are skipped. A bare line of JSON counts as an event.

    Raises InBandError for an event whose type is `error`, with its data as the message.
    """

    __slots__ = ("_data", "_data_bytes", "_error", "_first", "_lines", "framed")

    def __init__(self) -> None:
        self._lines = Lines(PayloadError)
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._error = False
        self._first = True
        self.framed = False  # was there any `data:` field, or bare lines only?

    def usual_payloads(self, parts: Sequence[bytes], at: int) -> tuple[list[bytes], list[int]]:
        """Of events that are `data:…` and an empty line each, from the start of a line."""
        payloads: list[bytes] = []
        of: list[int] = []
        if self._data or self._error or not self._lines.at_line_start():
            return payloads, of
        field = b"data: " if parts[at][5:6] == b" " else b"data:"
        start = len(field)
        for number in range(at, len(parts)):
            part = parts[number]
            if not part.startswith(field) or part.find(b"\r") >= 0 or (start == 5 and part[5:6] == b" "):
                break
            end = len(part) - 2
            if part.find(b"\n") == end and part[-1] == 0x0A:
                payloads.append(part[start:end])
                of.append(number)
                continue
            several = part[start:end].split(b"\n\n" + field)
            if not part.endswith(b"\n\n") or part.count(b"\n") != 2 * len(several):
                break
            payloads += several
            of += [number] * len(several)
        if payloads:
            self._first, self.framed = False, True
        return payloads, of

    def feed(self, data: bytes) -> Iterator[bytes]:
        for line in self._lines.feed(data):
            yield from self._take(line)
        refuse_long_event(self.kept_bytes)

    @property
    def kept_bytes(self) -> int:
        return self._lines.kept_bytes + self._data_bytes

    def flush(self) -> Iterator[bytes]:
        yield from self._take(self._lines.flush())
        yield from self._take(b"")

    def _take(self, line: bytes) -> Iterator[bytes]:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._error and self._data:
                raise InBandError("error", _message_of(b"\n".join(self._data)))
            self._error = False
            if self._data:
                event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                self._data, self._data_bytes = [], 0
                yield event
        elif line.startswith(b"data:"):
            self.framed = True
            self._data_bytes += len(line) + LINE_OVERHEAD_BYTES
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line in (b"event: error", b"event:error"):
            self._error = True
        elif line.startswith(b"{"):
            yield line  # no SSE field: a bare JSON error where a stream was expected


def _message_of(data: bytes) -> str:
    """What an error event says: a message in its JSON, else its words."""
    try:
        row = parsed_json(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace")
    inner = row.get("error", row) if isinstance(row, dict) else row
    said = inner.get("message") if isinstance(inner, dict) else inner
    return str(said or data.decode("utf-8", "replace"))


class JsonLines:
    """One payload a line; blank lines are skipped. A `data:` prefix is tolerated, since some servers leave it in."""

    def __init__(self) -> None:
        self._lines = Lines(PayloadError)

    def usual_payloads(self, parts: Sequence[bytes], at: int) -> tuple[list[bytes], list[int]]:
        """Of whole lines that begin as objects do."""
        payloads: list[bytes] = []
        of: list[int] = []
        if not self._lines.at_line_start():
            return payloads, of
        for number in range(at, len(parts)):
            part = parts[number]
            if part[:1] != b"{" or part[-1:] != b"\n" or part.find(b"\r") >= 0:
                break
            lines = part[:-1].split(b"\n")
            if not all(line[:1] == b"{" for line in lines):
                break
            payloads += [line.strip() for line in lines]
            of += [number] * len(lines)
        return payloads, of

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield from filter(None, map(_bare, self._lines.feed(data)))
        refuse_long_event(self.kept_bytes)

    @property
    def kept_bytes(self) -> int:
        return self._lines.kept_bytes

    def flush(self) -> Iterator[bytes]:
        yield from filter(None, [_bare(self._lines.flush())])


def _bare(line: bytes) -> bytes:
    return line.removeprefix(b"data:").strip()
