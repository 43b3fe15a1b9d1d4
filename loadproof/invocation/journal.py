"""The results file of a run: one JSON object a line, appended as items end, so that a killed run has lost none of them.

It is the journal and the result in one. In memory are only the keys and where their lines lie.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson

from loadproof.errors import CouldNotRunError, InputError

_BEGINNING = b'{"key":"'


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the last line of a key lies, whether it holds an answer, what request it answers, and who was asked (empty:
    the line does not say)."""

    offset: int
    length: int
    answered: bool
    request: str
    target: str = ""


class Journal:
    """An open results file. One process at a time may have it open; each line is written by one system call."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Raises InputError for a file that exists (without `resume`), is no results file, or is in use."""
        if not resume and path.exists():
            raise InputError(f"{path}: exists already; continue that run with --resume, or give another --output")
        self.path = path
        self.stored: dict[str, Stored] = {}
        self._superseded = False
        self._end = 0
        self._real = Path(os.path.realpath(path))  # a link stays a link, to what was written
        self._made = not path.exists()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}); give another --output") from None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):  # a device may be read for ever
            os.close(self._file)
            raise InputError(f"{path}: is no file for results; give another --output")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise InputError(
                f"{path}: another run is writing to it; wait for its end, or give another --output"
            ) from None
        try:
            self._read()
        except InputError:
            os.close(self._file)
            raise
        except OSError as error:
            os.close(self._file)
            raise InputError(f"{path}: cannot be read ({error.strerror}); give another --output") from None
        self._began = self._end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._end and self._made:  # nothing came of it: the same command may be given again
            self._real.unlink(missing_ok=True)
        os.close(self._file)

    def append(self, row: dict[str, object]) -> None:
        """Store how an item ended; `row` has `key`, `error` (None: answered), `request_sha256`, and may have `target`.

        Raises CouldNotRunError when the disk takes no more.
        """
        line = orjson.dumps(row) + b"\n"
        self._remember(row, self._end, len(line))
        self._end += len(line)
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a disk that fills up says so at the next write
                written += os.write(self._file, line[written:])
        except OSError as error:
            raise CouldNotRunError(
                f"{self.path}: cannot be written ({error.strerror}); all before is stored: make room, then go on with "
                "the same command and --resume"
            ) from None

    def forget(self) -> None:
        """Take back what was appended since this was opened: it is no result of its items. Nothing may follow."""
        os.ftruncate(self._file, self._began)
        self._end = self._began

    def row(self, key: str) -> dict[str, object]:
        """The last line of a key, read back. Raises KeyError without one."""
        place = self.stored[key]
        row: dict[str, object] = orjson.loads(os.pread(self._file, place.length, place.offset))
        return row

    def finish(self, order: Iterable[str] | None = None) -> None:
        """Leave one line a key, as they ended; with `order` those keys first, which may have no line.

        The file is replaced whole or not at all, its rights kept; no key is left out: its answer is paid for. Raises
        CouldNotRunError when the disk takes no second file.
        """
        if order is None and not self._superseded:
            return
        as_ended = sorted(self.stored, key=lambda key: self.stored[key].offset)
        keys = dict.fromkeys([*(order or ()), *as_ended])
        beside: Path | None = None
        try:
            number, name = tempfile.mkstemp(prefix=f".{self._real.name}.", dir=self._real.parent)
            beside = Path(name)
            with os.fdopen(number, "wb") as file:
                os.fchmod(number, stat.S_IMODE(os.fstat(self._file).st_mode))
                for key in keys:
                    if (place := self.stored.get(key)) is not None:
                        file.write(os.pread(self._file, place.length, place.offset))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._real)
            beside = None
        except OSError as error:
            raise CouldNotRunError(
                f"{self.path}: all results are stored, but not put in order ({error.strerror}); make room for as much "
                "again, then give the same command with --resume"
            ) from None
        finally:
            if beside is not None:
                beside.unlink(missing_ok=True)

    def _read(self) -> None:
        """Learn what is stored; half a last line, from a run that was killed, is cut off."""
        for number, line in enumerate(self._lines(), start=1):
            try:
                row = orjson.loads(line)
                self._remember(row, self._end, len(line))
            except (orjson.JSONDecodeError, KeyError, TypeError):
                raise InputError(
                    f"{self.path}:{number}: not a result of `loadproof run`; give the --output of the run to continue"
                ) from None
            self._end += len(line)
        os.ftruncate(self._file, self._end)

    def _lines(self) -> Iterator[bytes]:
        """Whole lines. A last one that is neither whole nor the beginning of a result is whole too: to be refused."""
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n") or line[: len(_BEGINNING)] != _BEGINNING[: len(line)]:
                    yield line

    def _remember(self, row: dict[str, object], offset: int, length: int) -> None:
        key = row["key"]
        if not isinstance(key, str):
            raise TypeError
        target = sys.intern(str(row.get("target", "")))  # the same on all lines
        self._superseded = self._superseded or key in self.stored
        self.stored[key] = Stored(offset, length, row["error"] is None, str(row["request_sha256"]), target)
