"""`requests.jsonl`: one line for each request, appended and flushed as it ends, readable after `kill -9`.

Times are nanoseconds since the run's zero, on one monotonic clock; `plan.json` says which wall time zero was.
"""

from __future__ import annotations

import dataclasses
import errno
import gzip
import io
import os
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate
from operator import sub
from pathlib import Path
from typing import IO, Literal, Self, cast, overload

import orjson

from loadproof.bench.measure.hash_tree import HashTree, TreeHead
from loadproof.bench.plain import Unpacked, is_plain, lines_in
from loadproof.errors import CouldNotRunError

SCHEMA_VERSION = 1
FILE_NAME = "requests.jsonl"
PACKED = ".gz"
Phase = Literal["warmup", "measured"]
CANCELED = "canceled"  # cut off because the run was stopped: sent again by --resume
UNFINISHED = "unfinished"  # cut off when the drain's time was over: that is the level's result
MISSING = "missing"  # its worker process or host was lost: nobody knows what became of it, --resume sends it again


class TokenTimes(Sequence[int]):
    """The instants of one answer in 4 bytes each: the first, and as unsigned integers the steps to the next."""

    __slots__ = ("first_ns", "steps_ns")

    def __init__(self, first_ns: int, steps_ns: bytes) -> None:
        self.first_ns, self.steps_ns = first_ns, steps_ns

    def __len__(self) -> int:
        return 1 + len(self.steps_ns) // 4

    def __iter__(self) -> Iterator[int]:
        return accumulate(memoryview(self.steps_ns).cast("I"), initial=self.first_ns)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        return [*self][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence | array) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


def token_times(times_ns: Sequence[int]) -> Sequence[int]:
    """The same instants in as few bytes as they go into: `TokenTimes`, unless two lie more than 4.29 s apart."""
    if not times_ns:
        return ()
    try:
        return TokenTimes(times_ns[0], array("I", map(sub, times_ns[1:], times_ns)).tobytes())
    except OverflowError:  # or one lies before another
        return array("q", times_ns)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, as sent and as answered.

    Between `dispatched_ns` and `sent_ns` lies only the opening of a connection, where none was open. Empty and None are
    no data.
    """

    phase: Phase
    """warm-up or measured"""
    session: int
    """0 for the first start, one more for each `--resume`"""
    level: int
    """index of its level"""
    concurrency: int
    """of its level; 0 in an open loop"""
    index: int
    """within level and phase"""
    intended_ns: int
    """when it should have left: its slot became free, or it was due. Latencies count from here"""
    dispatched_ns: int
    """when the generator let it go"""
    sent_ns: int | None
    """when it was written to a connection; null: there never was one"""
    first_token_ns: int | None
    """arrival of the first token"""
    last_token_ns: int | None
    """arrival of the last"""
    end_ns: int
    """end of the answer; of an unfinished one a lower bound"""
    token_times_ns: Sequence[int]
    """instants at which tokens came"""
    tokens_at: Sequence[int]
    """how many came at each"""
    planned_input_tokens: int
    """asked for"""
    planned_output_tokens: int
    """asked for"""
    input_tokens: int | None
    """as the server counted"""
    output_tokens: int | None
    """as counted by `token_source`"""
    token_source: str
    """`server`, `chunks` or `none`"""
    stalls_ns: Sequence[int]
    """by how much the client's event loop was late meanwhile, a figure for each late tick"""
    outcome: str
    """`ok`, `canceled`, `unfinished`, `missing`, or [a kind of error](benchmark.md#figures)"""
    http_status: int | None = None
    """of a failed request"""
    error_code: str | None = None
    """of a failed request"""
    error_message: str | None = None
    """what the endpoint said"""
    read_lag_max_ns: int | None = None
    """how much later than it arrived a token was read, at worst; in none of the times; null: the system does not say"""
    first_token_early_max_ns: int | None = None
    """read together with later ones, the first token may have come earlier by this; null: it came alone"""
    turn: int = 0
    """of its conversation: which step of its session"""
    part: str = ""
    """the class of its session; empty: of none"""
    counted_by: str = "words"
    """who counted the planned prompt: `words` (an estimate) or `tokenizer`"""
    disbelieved_output_tokens: int | None = None
    """the server's count where it cannot be true"""
    schema_version: int = SCHEMA_VERSION
    """1"""

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def ttft_ms(self) -> float | None:
        """First token − intended send, of a successful request that streamed."""
        if not self.ok or self.first_token_ns is None:
            return None
        return (self.first_token_ns - self.intended_ns) / 1e6

    @property
    def finished(self) -> bool:
        """The endpoint had its full chance to answer, well or badly."""
        return self.outcome not in (CANCELED, UNFINISHED, MISSING)


def bare_record(index: int, start_ns: int, end_ns: int, outcome: str) -> RequestRecord:
    """A measured request of which no more is known: what is, `dataclasses.replace` puts in."""
    return RequestRecord(
        phase="measured", session=0, level=0, concurrency=0, index=index, intended_ns=start_ns, dispatched_ns=start_ns,
        sent_ns=None, first_token_ns=None, last_token_ns=None, end_ns=end_ns, token_times_ns=(), tokens_at=(),
        planned_input_tokens=0, planned_output_tokens=0, input_tokens=None, output_tokens=None, token_source="none",
        stalls_ns=(), outcome=outcome,
    )  # fmt: skip


_FIELDS = frozenset(field.name for field in fields(RequestRecord))
_FEW_VALUES = ("phase", "outcome", "token_source", "counted_by", "part")  # held once, not in every record
_REQUIRED = frozenset(field.name for field in fields(RequestRecord) if field.default is dataclasses.MISSING)


class RecordWriter:
    """Appends records to one file. Every line reaches the operating system before the next request is planned.

    `head`: of the hash tree over what this writer found and wrote, whatever becomes of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._tree = HashTree()

    @property
    def head(self) -> TreeHead:
        return self._tree.head

    def __enter__(self) -> Self:
        mend_torn_line(self._path)
        self._tree = tree_of(self._path)
        self._file = self._path.open("ab", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, record: RequestRecord) -> None:
        assert self._file is not None, "use RecordWriter as a context manager"
        line = line_of(record)
        self._tree.append(line)
        if self._file.write(line) < len(line):  # what is left of a disk takes a part of it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def line_of(record: RequestRecord) -> bytes:
    return orjson.dumps(record, default=list) + b"\n"


@dataclass(frozen=True, slots=True)
class RecordFile:
    """What a requests.jsonl held. `torn_lines` counts lines cut short by a killed run."""

    records: tuple[RequestRecord, ...]
    torn_lines: int


def read_records(path: Path) -> RecordFile:
    """Read a requests.jsonl; a torn line is counted, never fatal. A missing file holds no record.

    Raises CouldNotRunError when a complete line is of another schema version: its meaning may differ.
    """
    records, torn_lines = [], 0
    for record in _lines(path):
        if record is None:
            torn_lines += 1
        else:
            records.append(record)
    return RecordFile(tuple(records), torn_lines)


def each_record(path: Path) -> Iterator[RequestRecord]:
    """The whole records of a requests.jsonl one after another, for a pass that keeps little. Raises as read_records."""
    return (record for record in _lines(path) if record is not None)


@contextmanager
def opened_records(path: Path) -> Iterator[IO[bytes] | None]:
    """A requests.jsonl, or what a stored run has in its place: the same bytes as `requests.jsonl.gz`. None: neither.

    Raises CouldNotRunError for packed bytes that are damaged or far too many, and for links, devices and pipes.
    """
    packed = path.with_name(path.name + PACKED)
    for one in (path, packed):
        if (one.exists() or one.is_symlink()) and not is_plain(one):
            raise CouldNotRunError(f"{one}: is a link or no file; put the file itself there")
    if path.exists():
        with path.open("rb") as file:
            yield file
    elif packed.exists():
        try:
            with gzip.open(packed, "rb") as unpacked:
                counted = Unpacked(unpacked, packed.stat().st_size, packed)
                yield cast("IO[bytes]", io.BufferedReader(counted))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CouldNotRunError(f"{packed}: damaged ({error}); restore it") from None
    else:
        yield None


def tree_of(path: Path) -> HashTree:
    """The hash tree over the lines of a requests.jsonl, packed or not; empty where there is none."""
    with opened_records(path) as file:
        return HashTree(lines_in(file, path) if file else ())


def _lines(path: Path) -> Iterator[RequestRecord | None]:
    with opened_records(path) as file:
        for number, line in enumerate(lines_in(file, path) if file else (), start=1):
            if line.strip():
                yield parse_record(line, f"{path}:{number}")


def parse_record(line: bytes, place: str) -> RequestRecord | None:
    """The record of one line; None for a torn line. Raises CouldNotRunError for another schema version."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(row, dict) or not row.keys() >= _REQUIRED:
        return None
    if row.get("schema_version") != SCHEMA_VERSION:
        raise CouldNotRunError(
            f"{place}: schema_version {row.get('schema_version')!r}, this Loadproof reads {SCHEMA_VERSION}; "
            "read the file with the version that wrote it"
        )
    known = {name: value for name, value in row.items() if name in _FIELDS}
    known["token_times_ns"] = token_times(known["token_times_ns"])
    known["tokens_at"] = _counts(known["tokens_at"])
    known["stalls_ns"] = array("q", known["stalls_ns"]) if known["stalls_ns"] else ()
    for name in _FEW_VALUES:
        if name in known:
            known[name] = sys.intern(known[name])
    return RequestRecord(**known)


def _counts(tokens_at: list[int]) -> Sequence[int]:
    """One token at a time is the rule: all such answers of a length share their counts."""
    return _ones(len(tokens_at)) if tokens_at.count(1) == len(tokens_at) else array("q", tokens_at)


@lru_cache(maxsize=1024)
def _ones(count: int) -> Sequence[int]:
    return array("q", [1]) * count


def mend_torn_line(path: Path) -> None:
    """Close a last line that a killed run left open, so that the next line starts on its own."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            file.write(b"\n")


def latest(records: Iterable[RequestRecord]) -> tuple[RequestRecord, ...]:
    """One record for each planned request: of several (canceled, then resumed) the last, in file order."""
    chosen = {(record.phase, record.level, record.index): record for record in records}
    return tuple(chosen.values())
