"""Lines of a model's text stream, out of bytes that are cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_LINE_BYTES: Final = 16 * 1024 * 1024  # an endless line must not fill the memory


class Lines:
    """Whole lines without their ends. LF, CRLF and CR end a line, also when CRLF falls between two reads.

    A line of more than MOST_LINE_BYTES raises `too_long` with what is wrong.
    """

    __slots__ = ("_after_cr", "_rest", "_too_long")

    def __init__(self, too_long: Callable[[str], Exception]) -> None:
        self._too_long = too_long
        self._rest = bytearray()  # of a line without its end
        self._after_cr = False

    def at_line_start(self) -> bool:
        return not self._rest and not self._after_cr

    @property
    def kept_bytes(self) -> int:
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        if self._after_cr and data:
            if data[0] == 0x0A:
                data = data[1:]
            self._after_cr = False
        if b"\r" in data:
            # A raw CR or LF cannot occur inside JSON text, so this rewrites line ends only.
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        last = lines.pop()
        if lines and self._rest:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        if last:
            self._rest += last
            if len(self._rest) > MOST_LINE_BYTES:
                raise self._too_long(f"a line of the stream is longer than {MOST_LINE_BYTES} bytes")
        return lines

    def flush(self) -> bytes:
        rest = bytes(self._rest)
        self._rest.clear()
        return rest
