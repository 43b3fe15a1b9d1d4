"""Recorded traffic: when each request came and how long it was, read from any of the formats of `trace_formats`."""

from __future__ import annotations

import csv
import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from loadproof.bench.workload.access_logs import UncountedError, access_log_of_fields, access_log_of_line
from loadproof.bench.workload.lines import lines_of
from loadproof.bench.workload.trace_folders import folder_rows, is_folder_trace
from loadproof.bench.workload.trace_formats import (
    BLOCK_TOKENS,
    FORMATS,
    OWN,
    BadRowError,
    Row,
    TraceError,
    TraceFormat,
    bad_field,
    format_of,
    is_capture,
    spans_of,
)
from loadproof.bench.workload.trace_parts import SUFFIXES, UNREADABLE, opened, parts_of, plain_suffix, unreadable
from loadproof.loads import MOST_REQUESTS

MOST_TOKENS: Final = 10_000_000
MOST_PROBLEMS: Final = 20
_NO_PARENT: Final = -1
_BEYOND: Final = "beyond the columns"
_OF_A_LIST: Final = "one object a line; `jq -c '.[]' FILE` makes them of a list"
_EPOCH_FROM_S: Final = 1e9  # of our own traces: from 2001 on seconds are the epoch's, below they count from anywhere
_OTHERS: Final = ", ".join(one.name for one in FORMATS if one is not OWN)
_KNOWN: Final = f"{', '.join(OWN.fields)}, or those of {_OTHERS} (docs/twin.md)"


class TooManyError(TraceError):
    """More requests than are held at once."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request; `due_s` counts from the first one. `blocks` are the ids of its prompt's blocks, if told, of
    `block_tokens` each; `session`: its conversation, and `took_s`: until its whole answer was there, if told."""

    due_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    session: int | None = None
    block_tokens: int = BLOCK_TOKENS
    took_s: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The rows of a trace, the first at 0, which is `began_s` of the epoch if its times tell (else None).

    `format` names it. `left_out` rows are requests that failed. So many rows are `named` as of a conversation,
    and `shared` have blocks.
    """

    rows: tuple[TraceRow, ...]
    format: str
    began_s: float | None = None
    left_out: int = 0
    named: int = 0
    shared: int = 0


def read_trace(path: Path, speed: float = 1.0, until_s: float = math.inf) -> tuple[TraceRow, ...]:
    """The rows of a trace, its first request at 0, `speed` times as fast as they came. Raises as `trace_of` does."""
    return trace_of(path, speed, until_s).rows


def trace_of(path: Path, speed: float = 1.0, until_s: float = math.inf) -> Trace:
    """What a trace holds, its first request at 0, `speed` times as fast as it came.

    What would be sent from `until_s` on is left out, and not read where rows are by time. Raises TraceError with every
    bad row (up to 20), TooManyError for more than MOST_REQUESTS.
    """
    if is_folder_trace(path):
        rows = folder_rows(path, MOST_REQUESTS)
        if len(rows) > MOST_REQUESTS:
            raise TooManyError((str(path), f"more than {MOST_REQUESTS:,} requests; take fewer of its files"))
        first_s = rows[0].at_s if rows else 0.0
        read_rows = (
            TraceRow(
                (row.at_s - first_s) / speed,
                row.input_tokens,
                row.output_tokens,
                row.blocks,
                row.session,
                row.block_tokens or BLOCK_TOKENS,
                row.took_s,
            )
            for row in rows
        )
        agents = bool(rows) and rows[0].session is not None
        within = tuple(row for row in read_rows if row.due_s < until_s)
        shared = sum(1 for row in within if row.blocks)
        return Trace(within, "agents'" if agents else "ServeGen's", shared=shared)
    read, held = _Reading(path, speed), list[TraceRow]()
    for place, row in _rows(path):
        found = read.row_of(place, row)
        if len(read.problems) >= MOST_PROBLEMS or len(held) > MOST_REQUESTS:
            break
        if found is not None and found.due_s >= until_s and not read.sorted_later:
            break
        if found is not None:
            held.append(found)
    if len(held) > MOST_REQUESTS:
        many = f"more than {MOST_REQUESTS:,} rows; play less of it (`simulate --minutes`, `benchmark.duration_s`)"
        raise TooManyError((str(path), many))
    return read.result(held, until_s)


def each_row(path: Path, take: Callable[[TraceRow], None]) -> Trace:
    """Every row of a table by `take`, however many, as they stand in it; what is returned holds none of them.

    Raises TraceError with every bad row (up to 20).
    """
    read = _Reading(path, 1.0)
    for place, row in _rows(path):
        found = read.row_of(place, row)
        if len(read.problems) >= MOST_PROBLEMS:
            break
        if found is not None:
            take(found)
    return read.result([])


def trace_notes(path: Path, trace: Trace, *, blocks_used: bool) -> list[str]:
    """What a trace lacks, what of it was left out, and what it has and is not used, in words."""
    shared, found = trace.shared, list[str]()
    if is_folder_trace(path):
        found = [
            f"{path.name}: nothing tells when its conversations began: all begin together"
            if shared
            else f"{path.name}: drawn from its clients' windows and shares, always the same; lengths go by themselves"
        ]
    if trace.left_out:
        found.append(f"{path.name}: {trace.left_out:,} rows without tokens are left out: requests that failed")
    if trace.named:
        used = "are not used"
        if blocks_used:
            used = "are used" if shared else "are used: a prompt goes on from the longest it has room for"
        found.append(f"{path.name}: the conversations that {trace.named:,} rows name {used}")
    if not shared and not (trace.named and blocks_used):
        told = any(row.session is not None for row in trace.rows)
        lacks = "no prefixes" if told or trace.named else "neither prefixes nor conversations"
        found.append(
            f"{path.name}: {trace.format} traces tell {lacks}: each prompt is by itself, and no cache finds any of it"
        )
    elif not blocks_used:
        found.append(f"{path.name}: hash_ids of {shared:,} requests are not used: prompts are sent that share nothing")
    return found


@dataclass(slots=True)
class _Reading:
    """A trace while it is read."""

    path: Path
    speed: float
    problems: list[tuple[str, str]] = field(default_factory=list)
    unquoted: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    named: int = 0
    shared: int = 0
    _roots: OrderedDict[int, int] = field(default_factory=OrderedDict)
    _format: TraceFormat | None = None
    _first_s: float | None = None
    _before_s: float = -math.inf
    _before: object = None

    @property
    def sorted_later(self) -> bool:
        return self._format is not None and self._format.as_they_end

    def row_of(self, place: str, row: Row) -> TraceRow | None:
        """None for a request that failed, and for one that is noted among the problems."""
        self._format = self._format or format_of(list(row))
        if self._format is None:
            if whose := access_log_of_fields(row):
                raise UncountedError(place, whose)
            if is_capture(row):
                raise TraceError(
                    (place, "a data capture or invocation log; `loadproof learn` reads it, and no other verb")
                )
            named = ", ".join(list(row)[:8])
            raise _of_no_trace(place, f"fields of no known trace: {named}")
        time, prompt, answer = self._format.fields
        try:
            if beyond := row.get(_BEYOND):
                why = "more values than columns"
                raise BadRowError(f"{why}: {beyond}; quote what has a comma", f"{why}; quote what has a comma")
            stamp_s = _time(row, time, self._format)
            if self._format.failed and _failed(row, prompt, answer):
                self.left_out += 1
                return None
            counts = [_count(row, name) for name in (prompt, answer)]
            blocks = _blocks(row, self._format, counts[0])
            session = self._session(row, self._format)
            self.shared += bool(blocks)
        except BadRowError as error:
            self._note(place, error)
            return None
        if stamp_s < self._before_s and not self._format.as_they_end:
            how = "sort the rows by time" + (", and the parts by their names" if self.path.is_dir() else "")
            why = f"{time} {row[time]} after {self._before}; {how}"
            self._note(place, BadRowError(why, f"{time}: before that of the row before; {how}"))
        self._first_s = stamp_s if self._first_s is None else self._first_s
        self._before_s, self._before = stamp_s, row[time]
        due_s = (stamp_s - self._first_s) / self.speed
        took_s = _took_s(row, self._format, stamp_s)
        return TraceRow(due_s, counts[0], counts[1], blocks, session, self._format.block_tokens, took_s)

    def _note(self, place: str, error: BadRowError) -> None:
        self.problems.append((place, str(error)))
        self.unquoted.setdefault(place, error.unquoted)

    def _session(self, row: Row, format: TraceFormat) -> int | None:
        """Of the conversation that a row names, by a hash: names may be long, and are not needed."""
        own = _hash(row.get(format.conversation)) if format.conversation else None
        if own is None:
            return None
        self.named += 1
        if format.parent is None:
            return own
        parent = row.get(format.parent)
        before = None if parent == _NO_PARENT else _hash(parent)
        root = self._roots[own] = own if before is None else self._roots.get(before, before)
        if len(self._roots) > MOST_REQUESTS:  # the oldest is over
            self._roots.popitem(last=False)
        return root

    def result(self, rows: list[TraceRow], until_s: float = math.inf) -> Trace:
        """What is written when requests end is sorted by when they began."""
        began_s = self._began_s()
        if self.sorted_later and rows:
            rows.sort(key=lambda row: row.due_s)
            first_s = rows[0].due_s
            began_s += first_s * self.speed
            rows = [replace(row, due_s=row.due_s - first_s) if first_s else row for row in rows]
            rows = [row for row in rows if row.due_s < until_s]
        assert self._format is not None
        dated = self._format.dated or (self._format is OWN and began_s >= _EPOCH_FROM_S)
        began = began_s if dated else None
        return Trace(tuple(rows), self._format.name, began, self.left_out, self.named, self.shared)

    def _began_s(self) -> float:
        """When the first row came. Raises TraceError for problems, and where there are no rows."""
        if self._first_s is None and not self.problems:
            self.problems.append((str(self.path), f"no rows; expected {', '.join(OWN.fields)}"))
        if self.problems or self._first_s is None:
            raise TraceError(*self.problems, unquoted=self.unquoted)
        return self._first_s


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    """(place, row) of either kind of file, gzipped or not, or of all in a folder, one after another."""
    parts = parts_of(path)
    if not parts:
        raise TraceError((str(path), _no_parts(path)))
    for part in parts:
        try:
            with opened(part) as binary:
                read = _csv_rows if plain_suffix(part) not in (".jsonl", ".ndjson", ".json") else _json_rows
                for number, row in read(part, binary):
                    yield f"{part}:{number}", row
        except (*UNREADABLE, UnicodeDecodeError, csv.Error) as error:
            raise unreadable(part, error) from None


def _of_no_trace(place: str, said: str) -> TraceError:
    return TraceError(
        (place, f"{said}; expected {_KNOWN}"), unquoted={place: f"{said.partition(':')[0]}; expected {_KNOWN}"}
    )


def _no_parts(folder: Path) -> str:
    below = ", ".join([one.name for one in sorted(folder.glob("*")) if one.is_dir()][:5])
    return (
        f"no trace in this folder: expected parts of one that end in {', '.join(SUFFIXES)}, gzipped or not, agents' "
        f"conversations or ServeGen's clients{f'; perhaps in {below}' if below else ''}"
    )


def _csv_rows(path: Path, binary: BinaryIO) -> Iterator[tuple[int, Row]]:
    texts = (line.decode() for _, line in lines_of(str(path), binary))
    reader = csv.DictReader(texts, restkey=_BEYOND, skipinitialspace=True)
    if format_of(reader.fieldnames or ()) is None:
        names = reader.fieldnames or ()
        if whose := access_log_of_line(",".join(names)) or access_log_of_fields(names):
            raise UncountedError(f"{path}:1", whose)
        found = ", ".join(names) or "nothing"
        raise _of_no_trace(f"{path}:1", f"columns of no known trace: {found}")
    for row in reader:
        yield reader.line_num, row


def _json_rows(path: Path, binary: BinaryIO) -> Iterator[tuple[int, Row]]:
    for number, line in lines_of(str(path), binary):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            place = f"{path}:{number}"
            how = {b"[": _OF_A_LIST, b"{": "one object a line; `jq -c . FILE` makes them"}.get(line.strip())
            how = how or "one object a line"
            raise TraceError((place, f"not JSON ({error}); {how}"), unquoted={place: f"not JSON; {how}"}) from None
        if not isinstance(row, dict):
            place = f"{path}:{number}"
            how = _OF_A_LIST if isinstance(row, list) else f"expected an object with {', '.join(OWN.fields)}"
            raise TraceError((place, how), unquoted={place: how})
        for one in spans_of(row):
            yield number, one


def _time(row: Row, name: str, format: TraceFormat) -> float:
    try:
        return format.seconds(row.get(name))
    except (ValueError, OverflowError):
        raise bad_field(name, row.get(name), format.allowed) from None


def _took_s(row: Row, format: TraceFormat, began_s: float) -> float | None:
    """Until the answer was there; None where a row does not tell it."""
    if format.ended is None and format.took is None:
        return None
    try:
        if format.ended is not None:
            took_s = format.seconds(row.get(format.ended)) - began_s
        else:
            took_s = float(str(row.get(format.took or "")))
    except (ValueError, OverflowError):
        return None
    return took_s if 0 <= took_s < math.inf else None


def _count(row: Row, name: str) -> int:
    found = row.get(name)
    if type(found) is int and 1 <= found <= MOST_TOKENS:
        return found
    try:
        value = float(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else math.nan
    except ValueError:
        value = math.nan
    if not (1 <= value <= MOST_TOKENS and value == value // 1):
        raise bad_field(name, found, "a whole number from 1")
    return int(value)


def _failed(row: Row, *names: str) -> bool:
    """BurstGPT writes a request that failed as one without tokens, so do spans."""
    return any(str(row.get(name)).strip() in ("0", "0.0") for name in names)


def _hash(name: object) -> int | None:
    """Of a conversation's name; None for none."""
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        return None
    text = str(name).encode()
    return zlib.crc32(text) << 32 | zlib.adler32(text)


def _blocks(row: Row, format: TraceFormat, prompt_tokens: int) -> tuple[int, ...]:
    name, size = format.blocks, format.block_tokens
    found = row.get(name) if name else None
    if found is None:
        return ()
    if not isinstance(found, list) or not {*map(type, found)} <= {int}:  # of millions of ids
        raise bad_field(str(name), str(found)[:40], "a list of whole numbers")
    needed = -(-prompt_tokens // size)
    if len(found) != needed:
        why = (
            f"{name}: {len(found)} ids, but {prompt_tokens:,} tokens are {needed} blocks of {size}; expected "
            "an id of each, or none of the field"
        )
        raise BadRowError(why, why)
    return tuple(found)
