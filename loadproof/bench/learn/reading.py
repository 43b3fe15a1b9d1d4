"""Files and folders of recorded traffic as columns of numbers: 24 bytes a request are all that is held of it."""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from loadproof.bench.learn.captures import is_capture, request_of
from loadproof.bench.workload.traces import MOST_PROBLEMS, read_trace, trace_notes
from loadproof.errors import InputError

_CAPTURES: Final = (".jsonl", ".json", ".ndjson", ".gz")


@dataclass(slots=True)
class Recorded:
    """Requests by time, the first at 0. `estimated` of them have lengths reckoned from characters."""

    at_s: array[float] = field(default_factory=lambda: array("d"))
    input_tokens: array[int] = field(default_factory=lambda: array("q"))
    output_tokens: array[int] = field(default_factory=lambda: array("q"))
    estimated: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.at_s)

    def add(self, at_s: float, input_tokens: int, output_tokens: int) -> None:
        self.at_s.append(at_s)
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)


def read_recorded(sources: Sequence[Path]) -> Recorded:
    """Everything recorded in these files and folders: captures and logs, in any order, or one trace.

    Raises InputError with every bad line (up to 20), none of which is quoted.
    """
    found, problems = Recorded(), list[str]()
    files = [file for source in sources for file in _files(source)]
    for file in files:
        if not _holds_captures(file):
            if len(files) > 1:
                raise InputError(f"{file}: no data capture or invocation log, and a trace is learned from alone")
            _read_trace(file, found)
        else:
            _read_captures(file, found, problems)
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise InputError("\n".join(problems))
    if len(found) < 2:
        raise InputError(f"{', '.join(map(str, sources))}: {len(found)} answered requests; learning takes 2 at least")
    return _by_time(found)


def _files(source: Path) -> Iterator[Path]:
    if str(source).startswith("s3:"):
        raise InputError(f"{source}: a folder is read; fetch it first (aws s3 sync) and give that")
    if not source.is_dir():
        yield source
        return
    files = sorted(file for file in source.rglob("*") if file.suffix in _CAPTURES and file.is_file())
    if not files:
        raise InputError(f"{source}: no file ending in {', '.join(_CAPTURES)}")
    yield from files


def _holds_captures(file: Path) -> bool:
    if file.suffix not in _CAPTURES:
        return False
    first = next((line for _, line in _lines(file)), b"")
    try:
        return is_capture(orjson.loads(first))
    except orjson.JSONDecodeError:
        return False


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _read_captures(file: Path, found: Recorded, problems: list[str]) -> None:
    for number, line in _lines(file):
        try:
            document = orjson.loads(line)
            if not is_capture(document):
                raise ValueError("neither a data capture nor an invocation log")
            request = request_of(document)
        except orjson.JSONDecodeError:
            problems.append(f"{file}:{number}: not JSON; one object a line")
        except ValueError as error:
            problems.append(f"{file}:{number}: {error}")
        else:
            if request is None:
                found.failed += 1
            else:
                found.add(request.at_s, request.input_tokens, request.output_tokens)
                found.estimated += request.estimated
        if len(problems) >= MOST_PROBLEMS:
            return


def _read_trace(file: Path, found: Recorded) -> None:
    rows = read_trace(file)
    for row in rows:
        found.add(row.due_s, row.input_tokens, row.output_tokens)
    found.notes += trace_notes(file, rows, blocks_used=False)


def _by_time(found: Recorded) -> Recorded:
    times = np.asarray(found.at_s)
    order = np.argsort(times, kind="stable")
    found.at_s = array("d", times[order] - times[order[0]])
    found.input_tokens = array("q", np.asarray(found.input_tokens)[order])
    found.output_tokens = array("q", np.asarray(found.output_tokens)[order])
    return found
