"""Files that somebody else may have written: no link of a run's folder is followed, none is read without a bound."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from gzip import GzipFile
from pathlib import Path
from typing import IO

from loadproof.errors import CouldNotRunError

MOST_BYTES = 16 * 2**20  # of a run's file that is read whole
MOST_LOG_BYTES = 2**30  # of another program's results
_LONGEST_LINE_BYTES = 64 * 2**20  # of requests.jsonl: some millions of tokens
_MOST_UNPACKED = 100  # bytes of a packed one; requests pack to a twentieth at best


def is_plain(path: Path) -> bool:
    """A file and no link: what one leads to may have no end, and is no part of a run."""
    return path.is_file() and not path.is_symlink()


def read_plain(path: Path, most_bytes: int = MOST_BYTES, *, may_be_link: bool = False) -> bytes:
    """The bytes of a plain file. Raises OSError, for a link, a device or a pipe and for a larger one, too."""
    if path.is_symlink() and not may_be_link:
        raise OSError(errno.ELOOP, "is a link: put the file itself there", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no file", str(path))
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, f"is larger than {most_bytes / 2**20:g} MiB", str(path))
        return file.read()


def lines_in(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Line by line, its newline included. Raises CouldNotRunError for one that no client writes."""
    while line := file.readline(_LONGEST_LINE_BYTES + 1):
        if len(line) > _LONGEST_LINE_BYTES:
            raise CouldNotRunError(f"{path}: damaged (a line of more than {_LONGEST_LINE_BYTES >> 20} MiB); restore it")
        yield line


class Unpacked(io.RawIOBase):
    """What a packed file holds, as long as it is not far more than requests pack to. Else CouldNotRunError."""

    def __init__(self, file: IO[bytes] | GzipFile, packed_bytes: int, path: Path) -> None:
        self._file, self._path, self._left_bytes = file, path, _MOST_UNPACKED * packed_bytes + MOST_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        body = self._file.read(min(size, 2**20) if size >= 0 else 2**20)
        self._left_bytes -= len(body)
        if self._left_bytes < 0:
            raise CouldNotRunError(
                f"{self._path}: damaged (it unpacks to more than {_MOST_UNPACKED} times its size); restore it"
            )
        return body

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        body = self.read(len(buffer))
        buffer[: len(body)] = body
        return len(body)
