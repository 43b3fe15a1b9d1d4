"""A program on a terminal of our own: what it writes, and what a screen then shows.

The screen understands the few movements that Loadproof's live view makes, and refuses every other.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_PARTS = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|\x1b|[\r\n]|[^\x1b\r\n]+")


@dataclass
class Seen:
    """A screen of `columns` x `rows`, its second page, its cursor."""

    columns: int
    rows: int
    second: bool = False
    cursor: bool = True
    pages: dict[bool, list[list[str]]] = field(default_factory=dict)
    at: tuple[int, int] = (0, 0)
    coloured: bool = False

    def __post_init__(self) -> None:
        self.pages = {page: [self._blank() for _ in range(self.rows)] for page in (False, True)}

    def _blank(self) -> list[str]:
        return [" "] * self.columns

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.pages[self.second]]

    def take(self, text: str) -> None:
        for found in _PARTS.finditer(text):
            private, numbers, what = found.groups()
            if what is not None:
                self._move(private, numbers, what)
            elif found[0] in "\r\n":
                self._new_line(found[0])
            else:
                assert found[0] != "\x1b", "a movement that nobody knows"
                self._put(found[0])

    def _new_line(self, letter: str) -> None:
        row, column = self.at
        if letter == "\r":
            self.at = (row, 0)
        elif row + 1 < self.rows:
            self.at = (row + 1, column)
        else:
            page = self.pages[self.second]
            page[:] = [*page[1:], self._blank()]

    def _move(self, private: str, numbers: str, what: str) -> None:
        match private, numbers, what:
            case "?", "1049", "h" | "l":
                self.second = what == "h"
            case "?", "25", "h" | "l":
                self.cursor = what == "h"
            case "", "2", "J":
                self.pages[self.second] = [self._blank() for _ in range(self.rows)]
            case "", "2", "K":
                self.pages[self.second][self.at[0]] = self._blank()
            case "", _, "H":
                row, column = (int(number) for number in numbers.split(";"))
                assert row <= self.rows, "below the screen"
                self.at = (row - 1, column - 1)
            case "", _, "m":
                self.coloured = self.coloured or bool(re.search(r"\b3[0-7]\b", numbers))
            case _:
                raise AssertionError(f"a movement that nobody knows: {private}{numbers}{what}")

    def _put(self, text: str) -> None:
        row, column = self.at
        if self.second:
            assert column + len(text) <= self.columns, f"wraps: {text!r}"
        for letter in text:
            if column < self.columns:
                self.pages[self.second][row][column] = letter
                column += 1
        self.at = (row, column)


class Terminal:
    """Runs a program with a pseudo-terminal as its stdin, stdout and stderr."""

    def __init__(
        self, command: Sequence[str], columns: int = 80, rows: int = 24, environment: Mapping[str, str] | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.screen = Seen(columns, rows)
        self.text = ""
        self.resize(columns, rows)
        more = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""} | dict(environment or {})
        known = {name: value for name, value in (os.environ | more).items() if value}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=known, start_new_session=True
        )
        os.close(theirs)

    def resize(self, columns: int, rows: int) -> None:
        """As the terminal's window does; the screen is then another."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        second, cursor = self.screen.second, self.screen.cursor
        self.screen = Seen(columns, rows, second, cursor)

    def read(self, until: Callable[[], bool], within_s: float = 60.0) -> None:
        """Take what the program writes until that holds, or it has ended."""
        end_s = time.monotonic() + within_s
        while not until() and time.monotonic() < end_s:
            if select.select([self._ours], [], [], 0.05)[0]:
                try:
                    data = os.read(self._ours, 65536)
                except OSError:  # Linux says so when the other side is closed
                    return
                self._take(data)

    def _take(self, data: bytes) -> None:
        # A frame may be torn anywhere: what is no whole movement or letter waits for its rest.
        self._rest = getattr(self, "_rest", b"") + data
        whole = self._rest
        for cut in range(12):
            part = whole[: len(whole) - cut]
            try:
                text = part.decode()
            except UnicodeDecodeError:
                continue
            if not re.search(r"\x1b(\[[?\d;]*)?$", text):
                self._rest = whole[len(part) :]
                self.text += text
                self.screen.take(text)
                return

    def end(self) -> int:
        """Its exit code, everything read."""
        self.read(lambda: False, 60.0)
        code = self.process.wait(30)
        os.close(self._ours)
        return code
