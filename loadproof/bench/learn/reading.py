"""Files, folders and buckets of recorded traffic, read row by row into the columns of `recorded`."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from loadproof.bench.learn.captures import read_json, request_of
from loadproof.bench.learn.recorded import COLUMNS, Recorded
from loadproof.bench.learn.sources import CAPTURES, File, NothingRecordedError, files_of, lines_of
from loadproof.bench.learn.trace_columns import TOLD_EVERY, read_trace
from loadproof.bench.workload.access_logs import UncountedError, access_log_of_line
from loadproof.bench.workload.trace_folders import is_folder_trace
from loadproof.bench.workload.trace_formats import is_capture
from loadproof.bench.workload.trace_parts import parts_of
from loadproof.bench.workload.traces import MOST_PROBLEMS
from loadproof.errors import CouldNotRunError, InputError

_BEGIN_BYTES: Final = 4096  # of a line: enough to see what it is
KEPT_EVERY: Final = 200_000
_BESIDE: Final = ("captured", "share", "halved", "read", "estimated", "failed", "models")  # the columns and prefixes
_STATE: Final = "state.json"
_OWN: Final = re.compile(rf"{re.escape(_STATE)}(\.new)?|({'|'.join(COLUMNS)})\.\d+\.\d+")
_BODY: Final = re.compile(r"(^|/)\d\d/data/[^/]+$")  # of an hour of Bedrock's logs: prompts and answers over 100 KB


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reading is: bytes as they lie, of which those of an unknown size count nothing."""

    requests: int
    read_bytes: int
    total_bytes: int

    @property
    def words(self) -> str:
        of = f", {self.read_bytes / 1e9:.2f} of {self.total_bytes / 1e9:.2f} GB" if self.total_bytes else ""
        return f"read {self.requests:,} requests{of}"


@dataclass(slots=True)
class Checkpoint:
    """What a reading has so far, and where it is; in a folder, if there is one, to go on from after a kill.

    The folder holds numbers, and the key of this reading's hashes, which goes with it when all is read.
    """

    folder: Path | None
    sizes: dict[str, int]
    """of each file, in bytes, by its name"""
    key: bytes
    found: Recorded = field(default_factory=Recorded)
    file: int = 0
    line: int = 0

    @classmethod
    def of(cls, folder: Path | None, sizes: dict[str, int]) -> Checkpoint:
        """Raises InputError for a folder of another reading, or of other things."""
        fresh = cls(folder, sizes, secrets.token_bytes(32))
        if folder is None:
            return fresh
        other = next((one.name for one in folder.glob("*") if not _OWN.fullmatch(one.name)), None)
        if other is not None:
            raise InputError(f"{folder}: holds `{other}`, which no reading writes; name a folder of its own")
        if not (folder / _STATE).is_file():
            return fresh
        try:
            return cls._read(fresh, folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{folder}: damaged, nothing can go on from it; delete it and read again") from None

    @classmethod
    def _read(cls, fresh: Checkpoint, folder: Path) -> Checkpoint:
        said, sizes = json.loads((folder / _STATE).read_text(encoding="utf-8")), fresh.sizes
        if [*said["sizes"]] != [*sizes]:
            raise InputError(
                f"{folder}: of another reading, of {len(said['sizes'])} other files; delete it, or name one"
            )
        read = [*sizes][: said["file"]]
        if changed := next((name for name in read if said["sizes"][name] != sizes[name]), None):
            raise InputError(f"{folder}: {changed} has changed since it was read; delete the folder and read again")
        found = fresh.found
        found.prefixes = {int(prefix): seen for prefix, seen in said["prefixes"].items()}
        for name in _BESIDE:
            setattr(found, name, said[name])
        for name in COLUMNS:
            getattr(found, name).frombytes((folder / f"{name}.{said['file']}.{said['line']}").read_bytes())
        return cls(folder, sizes, bytes.fromhex(said["key"]), found, said["file"], said["line"])

    def keep(self, file: int, line: int) -> None:
        """Write all down, whole or not at all: the old state stands until the new one is there.

        Raises CouldNotRunError for a full disk, or a folder that may not be written.
        """
        if self.folder is None:
            return
        try:
            self._keep(self.folder, file, line)
        except OSError as error:
            raise CouldNotRunError(
                f"{self.folder}: cannot be written ({error.strerror}); what it held stays: make room, then give the "
                "same command, or leave --resume out"
            ) from None

    def _keep(self, folder: Path, file: int, line: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name in COLUMNS:
            (folder / f"{name}.{file}.{line}").write_bytes(getattr(self.found, name).tobytes())
        said = {"sizes": self.sizes, "key": self.key.hex(), "file": file, "line": line, "prefixes": self.found.prefixes}
        said |= {name: getattr(self.found, name) for name in _BESIDE}
        fresh = folder / f"{_STATE}.new"
        fresh.write_text(json.dumps(said), encoding="utf-8")
        fresh.replace(folder / _STATE)
        self._forget(but=f".{file}.{line}")

    def over(self) -> None:
        """The state goes first: without its columns it would be damaged."""
        if self.folder is not None and (self.folder / _STATE).is_file():
            (self.folder / _STATE).unlink()
            self._forget()
            with suppress(OSError):  # somebody put something into it meanwhile
                self.folder.rmdir()

    def _forget(self, but: str | None = None) -> None:
        assert self.folder is not None
        for old in self.folder.glob("*.*.*"):
            if _OWN.fullmatch(old.name) and (but is None or not old.name.endswith(but)):
                old.unlink()


def read_recorded(
    sources: Sequence[str], tell: Callable[[Progress], None] = lambda progress: None, state: Path | None = None
) -> Recorded:
    """Everything recorded in these files, folders and prefixes of S3: captures and logs, in any order, or one trace.

    `tell` hears every 20,000 requests how far it is. `state` is a folder that keeps what was read, so that a reading
    that was killed goes on where it was; it is gone when all is read. Raises InputError with every bad line (up to 20),
    none of which is quoted, NothingRecordedError for fewer than two answered requests, CouldNotRunError for what S3
    refuses.
    """
    problems, bodies = list[str](), 0
    if len(sources) == 1 and _is_trace(Path(sources[0])):
        files = [File(sources[0], Path(sources[0]))]
    else:
        files = [file for source in sources for file in files_of(source)]
    checkpoint = Checkpoint.of(state, {file.name: file.size for file in files})
    found, total = checkpoint.found, sum(file.size for file in files)
    for place, file in enumerate(files[checkpoint.file :], start=checkpoint.file):
        try:
            holds = _holds_captures(file)
            if holds or (holds is None and len(files) > 1):
                before = sum(one.size for one in files[:place])
                _read_captures(file, place, checkpoint, problems, partial(_tell, tell, found, before, total))
            elif len(files) > 1 and _BODY.search(file.name):
                bodies += 1
            elif len(files) > 1:
                number, line = next(lines_of(file), (1, b""))
                _refuse_access_log(file, number, line)
                problems.append(
                    f"{file.name}:{number}: no data capture or invocation log, and a trace is learned from alone: put "
                    "its parts into a folder of their own, and name that"
                )
            else:
                read_trace(file, found, lambda: tell(Progress(found.read, 0, 0)))
        except InputError as error:
            problems.append(str(error))
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise InputError("\n".join(problems))
    if len(found) < 2:
        raise NothingRecordedError(f"{', '.join(sources)}: {len(found)} answered requests; learning takes 2 at least")
    if found.halved:
        found.notes.append(f"{len(found):,} of {found.read:,} requests are held, drawn by chance, and stand for all")
    if bodies:
        found.notes.append(f"{bodies:,} objects of prompts and answers beside Bedrock's log are not opened")
    if len(found.models) > 1:
        each = ", ".join(f"{name} ({count:,})" for name, count in sorted(found.models.items(), key=lambda one: -one[1]))
        found.notes.append(f"requests of {len(found.models)} models are learned as one: {each}; keep one's lines alone")
    checkpoint.over()
    found.sort()
    return found


def _tell(tell: Callable[[Progress], None], found: Recorded, before: int, total: int, read: int) -> None:
    tell(Progress(found.read, before + read, total))


def _is_trace(folder: Path) -> bool:
    """Whether a folder is one trace, in parts or not, as its first file tells."""
    first = next(iter(parts_of(folder)), None) if folder.is_dir() else None
    return first is not None and (is_folder_trace(folder) or _holds_captures(File(str(first), first)) is False)


def _holds_captures(file: File) -> bool | None:
    """By its first line that is JSON, one cut off being told by its place later; None where no line is."""
    if not file.name.endswith(CAPTURES) or file.name.endswith(".csv.gz"):
        return False
    for number, line in lines_of(file):
        with suppress(ValueError):
            return is_capture(read_json(line))
        _refuse_access_log(file, number, line)
    return None


def _refuse_access_log(file: File, number: int, line: bytes) -> None:
    if whose := access_log_of_line(line[:_BEGIN_BYTES].decode(errors="replace")):
        raise UncountedError(f"{file.name}:{number}", whose)


def _read_captures(
    file: File, place: int, checkpoint: Checkpoint, problems: list[str], tell: Callable[[int], None]
) -> None:
    found, read_bytes = checkpoint.found, 0
    for number, line in lines_of(file):
        read_bytes += len(line)
        if place == checkpoint.file and number <= checkpoint.line:  # read before it was killed
            continue
        try:
            document = read_json(line)
            if not is_capture(document):
                raise ValueError("neither a data capture nor an invocation log")
            request = request_of(document, checkpoint.key)
        except (json.JSONDecodeError, UnicodeDecodeError):
            problems.append(f"{file.name}:{number}: not JSON (cut off, or of another kind); one object a line")
        except ValueError as error:
            problems.append(f"{file.name}:{number}: {error}")
        else:
            if request is None:
                found.failed += 1
            else:
                found.add(request)
                found.captured = found.captured or "captureData" in document
                if found.read % TOLD_EVERY == 0:
                    tell(read_bytes)
                if found.read % KEPT_EVERY == 0 and not problems:  # a bad line is read again, mended or not
                    checkpoint.keep(place, number)
        if len(problems) >= MOST_PROBLEMS:
            return
