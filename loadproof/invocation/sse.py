"""Splitting of text streams: server-sent events (WHATWG HTML §9.2) and JSON lines. Bytes in, payloads out."""

from __future__ import annotations

from typing import Protocol

import orjson

from loadproof.invocation.faults import InBandError, PayloadError
from loadproof.wire.lines import Lines


class Splitter(Protocol):
    """Cuts a stream into the payloads it carries; how the stream is chunked makes no difference."""

    def sole_payload(self, data: bytes) -> bytes | None:
        """A short cut: the payload of `data` where it carries one as nearly every token comes; None: `feed` it."""
        ...

    def feed(self, data: bytes) -> list[bytes]: ...

    def flush(self) -> list[bytes]:
        """What the end of the stream completes: a last line that lacks only its line end."""
        ...


class ServerSentEvents:
    """The `data` of each event; comments and all other fields are skipped. A bare line of JSON counts as an event.

    Raises InBandError for an event whose type is `error`, with its data as the message.
    """

    __slots__ = ("_data", "_error", "_first", "_lines", "framed")

    def __init__(self) -> None:
        self._lines = Lines(PayloadError)
        self._data: list[bytes] = []
        self._error = False
        self._first = True
        self.framed = False  # was there any `data:` field, or bare lines only?

    def sole_payload(self, data: bytes) -> bytes | None:
        """Of `data:…` and an empty line, at the start of a line."""
        if (
            data[:5] != b"data:"
            or data[-1:] != b"\n"
            or data.find(b"\n") != len(data) - 2
            or b"\r" in data
            or self._data
            or self._error
            or not self._lines.at_line_start()
        ):
            return None
        self._first, self.framed = False, True
        return data[6:-2] if data[5] == 0x20 else data[5:-2]

    def feed(self, data: bytes) -> list[bytes]:
        events: list[bytes] = []
        for line in self._lines.feed(data):
            self._take(line, events)
        return events

    def flush(self) -> list[bytes]:
        events: list[bytes] = []
        self._take(self._lines.flush(), events)
        self._take(b"", events)
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._error and self._data:
                raise InBandError("error", _message_of(b"\n".join(self._data)))
            self._error = False
            if self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
        elif line.startswith(b"data:"):
            self.framed = True
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line in (b"event: error", b"event:error"):
            self._error = True
        elif line.startswith(b"{"):
            events.append(line)  # no SSE field: a bare JSON error where a stream was expected


def _message_of(data: bytes) -> str:
    """What an error event says: a message in its JSON, else its words."""
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace")
    inner = row.get("error", row) if isinstance(row, dict) else row
    said = inner.get("message") if isinstance(inner, dict) else inner
    return str(said or data.decode("utf-8", "replace"))


class JsonLines:
    """One payload a line; blank lines are skipped. A `data:` prefix is tolerated, since some servers leave it in."""

    def __init__(self) -> None:
        self._lines = Lines(PayloadError)

    def sole_payload(self, data: bytes) -> bytes | None:
        """Of one line that is an object, at the start of a line."""
        if data[:1] != b"{" or data.find(b"\n") != len(data) - 1 or b"\r" in data or not self._lines.at_line_start():
            return None
        return data.strip()

    def feed(self, data: bytes) -> list[bytes]:
        return [bare for line in self._lines.feed(data) if (bare := _bare(line))]

    def flush(self) -> list[bytes]:
        bare = _bare(self._lines.flush())
        return [bare] if bare else []


def _bare(line: bytes) -> bytes:
    return line.removeprefix(b"data:").strip()
