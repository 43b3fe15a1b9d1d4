"""What functions print: on into the log, and to whoever listens for metrics in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import IO

_LONGEST_LINE_BYTES = 1 << 20
_LOG = 2  # this process's standard error, which is the local cloud's log

Heard = Callable[[bytes], None]


def follow(stream: IO[bytes], heard: Heard) -> None:
    """Read `stream` to its end in a thread of its own; `heard` gets every line."""
    threading.Thread(target=_read, args=(stream, heard), name="output", daemon=True).start()


def _read(stream: IO[bytes], heard: Heard) -> None:
    with stream:
        for line in iter(partial(stream.readline, _LONGEST_LINE_BYTES), b""):
            os.write(_LOG, line)
            heard(line)
