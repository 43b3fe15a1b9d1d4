"""Files, folders and buckets of recorded traffic as columns of numbers: 34 bytes a request are all that is held."""

from __future__ import annotations

import re
import secrets
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import orjson

from loadproof.bench.learn.captures import Request, is_capture, request_of
from loadproof.bench.learn.sources import CAPTURES, File, files_of, lines_of
from loadproof.bench.workload.traces import MOST_PROBLEMS, read_trace, trace_notes
from loadproof.errors import InputError

_MOST_TURNS: Final = 65_535
_MOST_PREFIXES: Final = 10_000  # system prompts that are told apart; who has more shares none
_TOLD_EVERY: Final = 20_000
_PLACE: Final = re.compile(r"[^\n]*?:\d+:(?= )")


@dataclass(slots=True)
class Recorded:
    """Requests by time, the first at 0, which is `began_s` of the epoch where a source says so.

    `estimated` of them have lengths reckoned from characters. `captured`: by SageMaker, which may take a `share` only.
    `prefixes`: how often a system prompt was seen, and the tokens of all of these, by its keyed hash.
    """

    began_s: float = 0.0
    at_s: array[float] = field(default_factory=lambda: array("d"))
    input_tokens: array[int] = field(default_factory=lambda: array("q"))
    output_tokens: array[int] = field(default_factory=lambda: array("q"))
    new_tokens: array[int] = field(default_factory=lambda: array("q"))
    turns: array[int] = field(default_factory=lambda: array("H"))
    prefixes: dict[int, list[int]] = field(default_factory=dict)
    captured: bool = False
    share: float = 1.0
    estimated: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.at_s)

    def add(self, request: Request) -> None:
        self.at_s.append(request.at_s)
        self.input_tokens.append(request.input_tokens)
        self.output_tokens.append(request.output_tokens)
        self.new_tokens.append(request.new_tokens)
        self.turns.append(min(request.turn, _MOST_TURNS))
        self.estimated += request.estimated
        if request.prefix and (request.prefix in self.prefixes or len(self.prefixes) < _MOST_PREFIXES):
            seen = self.prefixes.setdefault(request.prefix, [0, 0])
            seen[0] += 1
            seen[1] += request.prefix_tokens


def read_recorded(sources: Sequence[str], tell: Callable[[int], None] = lambda count: None) -> Recorded:
    """Everything recorded in these files, folders and prefixes of S3: captures and logs, in any order, or one trace.

    `tell` hears every 20,000 requests how many there were. Raises InputError with every bad line (up to 20), none of
    which is quoted, CouldNotRunError for what S3 refuses.
    """
    found, problems = Recorded(), list[str]()
    key = secrets.token_bytes(32)  # of this reading alone
    files = [file for source in sources for file in files_of(source)]
    for file in files:
        if not _holds_captures(file):
            if len(files) > 1:
                raise InputError(f"{file.name}: no data capture or invocation log, and a trace is learned from alone")
            _read_trace(file, found)
        else:
            _read_captures(file, found, key, problems, tell)
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise InputError("\n".join(problems))
    if len(found) < 2:
        raise InputError(f"{', '.join(sources)}: {len(found)} answered requests; learning takes 2 at least")
    return _by_time(found)


def _holds_captures(file: File) -> bool:
    if not file.name.endswith(CAPTURES):
        return False
    first = next((line for _, line in lines_of(file)), b"")
    try:
        return is_capture(orjson.loads(first))
    except orjson.JSONDecodeError:
        return False


def _read_captures(file: File, found: Recorded, key: bytes, problems: list[str], tell: Callable[[int], None]) -> None:
    for number, line in lines_of(file):
        try:
            document = orjson.loads(line)
            if not is_capture(document):
                raise ValueError("neither a data capture nor an invocation log")
            request = request_of(document, key)
        except orjson.JSONDecodeError:
            problems.append(f"{file.name}:{number}: not JSON; one object a line")
        except ValueError as error:
            problems.append(f"{file.name}:{number}: {error}")
        else:
            if request is None:
                found.failed += 1
            else:
                found.add(request)
                found.captured = found.captured or "captureData" in document
                if len(found) % _TOLD_EVERY == 0:
                    tell(len(found))
        if len(problems) >= MOST_PROBLEMS:
            return


def _read_trace(file: File, found: Recorded) -> None:
    """What is wrong with a trace is said without what it holds: it may be no trace, but somebody's prompts."""
    if file.path is None:
        raise InputError(f"{file.name}: no data capture or invocation log; fetch a trace to learn from it")
    try:
        rows = read_trace(file.path)
    except InputError as error:
        places = [place[0] for line in str(error).splitlines() if (place := _PLACE.match(line))]
        raise InputError(
            "\n".join(f"{place} neither a data capture, an invocation log nor a row of a trace" for place in places)
            or f"{file.name}: no data capture, invocation log or trace; docs/learn.md names those that are read"
        ) from None
    for row in rows:
        found.add(Request(row.due_s, row.input_tokens, row.output_tokens, new_tokens=row.input_tokens))
    found.notes += trace_notes(file.path, rows, blocks_used=False)


def _by_time(found: Recorded) -> Recorded:
    times = np.asarray(found.at_s)
    order = np.argsort(times, kind="stable")
    found.began_s = float(times[order[0]])
    found.at_s = array("d", times[order] - found.began_s)
    for name in ("input_tokens", "output_tokens", "new_tokens", "turns"):
        column = getattr(found, name)
        setattr(found, name, array(column.typecode, np.asarray(column)[order]))
    return found
