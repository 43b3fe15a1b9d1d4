"""`--live FILE`: what is told of a run as JSON lines, each written whole and at once, for a page or another program.

A FIFO may have no reader yet, or a slow one: the load waits for neither. What does not fit is left out, a whole line at
a time, and the numbers of the lines show the gap.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import orjson

from loadproof.bench.live.lines import End, Line
from loadproof.errors import InputError

LAST_WORDS_S = 1.0  # what a reader has to make room for the last line
STDOUT = "-"


class Stream:
    """Opened when it is made, so that a place that cannot be written is refused before any load. Raises InputError."""

    def __init__(self, place: str, unix_s: Callable[[], float] = time.time) -> None:
        self._unix_s = unix_s
        self._number = 0
        self._gone = False
        self._rest = b""  # of a line that had too little room
        self._descriptor = _opened(place)
        mode = os.fstat(self._descriptor).st_mode
        self._waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, line: Line) -> None:
        """The line with its number and time; nothing where it cannot be written now."""
        text = b'{"seq":%d,"unix_s":%.3f,' % (self._number, self._unix_s()) + orjson.dumps(line)[1:] + b"\n"
        self._number += 1
        until_s = time.monotonic() + (LAST_WORDS_S if isinstance(line, End) else 0.0)
        self._flush(until_s)
        if not self._rest:
            self._rest = text
            self._flush(until_s)
            if len(self._rest) == len(text):
                self._rest = b""

    def _flush(self, until_s: float) -> None:
        """Write what is left of the last line, as far as there is room."""
        while self._rest and not self._gone and self._room(max(0.0, until_s - time.monotonic())):
            try:
                self._rest = self._rest[os.write(self._descriptor, self._rest) :]
            except BlockingIOError:
                return
            except OSError:  # its reader left, or its disk is full: the run is worth more than its picture
                self._gone = True

    def _room(self, patience_s: float) -> bool:
        return not self._waits or bool(select.select([], [self._descriptor], [], patience_s)[1])


def _opened(place: str) -> int:
    if place == STDOUT:
        sys.stdout.flush()
        return os.dup(sys.stdout.fileno())
    path = Path(place)
    try:
        if path.is_fifo():
            # Also to read: so it opens without a reader, and outlives one that leaves.
            return os.open(path, os.O_RDWR | os.O_NONBLOCK)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise InputError(f"--live {place}: cannot be written ({error.strerror}); name another place") from None
