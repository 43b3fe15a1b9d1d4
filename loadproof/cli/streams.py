"""Standard streams that can be relied upon: there, whatever the shell closed, and without a reader that went away."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from loadproof.errors import CouldNotRunError, mend_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def hold_streams() -> None:
    """Put /dev/null where one of the three is closed, for this process and those it starts; guard what is written.

    To be called before anything is opened: a file that gets the number 1 or 2 would be written over by the next line.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _put_null(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  it stays
    sys.stdout = _guarded(1, sys.stdout)
    sys.stderr = _guarded(2, sys.stderr)


def said_of(error: OSError) -> str:
    """What the system refused, of what, and what mends it; no verb knew better."""
    what = f"{error.filename}: " if error.filename is not None else ""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{what or 'a file '}cannot be written ({reason}): make room, then give the same command"
    return f"{what}{reason}{mend_of(error)}"


class _Output(io.FileIO):
    """One of the two. What nobody reads is dropped; what has no room is told once, of standard error to nobody."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._number = number
        self._terminal = self.isatty()

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            _put_null(self._number)
            left = error.errno == errno.EPIPE or (error.errno == errno.EIO and self._terminal)
            if not left and self._number == 1:
                raise CouldNotRunError(
                    f"standard output: cannot be written ({error.strerror}); make room, or send it to another place"
                ) from None
        return memoryview(data).nbytes


def _guarded(number: int, stream: TextIO | None) -> TextIO:
    """A terminal that cannot show a character gets a `?` in its place, or an escape where errors go."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    output = _Output(number)
    errors = "replace" if number == 1 else "backslashreplace"
    lines = number == 2 or output.isatty()
    through = bool(getattr(stream, "write_through", False))  # as PYTHONUNBUFFERED asks
    return io.TextIOWrapper(io.BufferedWriter(output), encoding, errors, line_buffering=lines, write_through=through)


def _put_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)
