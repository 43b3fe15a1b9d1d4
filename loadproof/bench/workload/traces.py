"""Recorded traffic: a CSV or JSON Lines file with `timestamp_s`, `input_tokens`, `output_tokens` in each row."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadproof.errors import InputError
from loadproof.loads import MOST_REQUESTS

COLUMNS = ("timestamp_s", "input_tokens", "output_tokens")
MOST_TOKENS = 10_000_000
MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request; `due_s` counts from the first one."""

    due_s: float
    input_tokens: int
    output_tokens: int


def read_trace(path: Path) -> tuple[TraceRow, ...]:
    """The rows of a trace, its first request at 0. Raises InputError with every bad row (up to 20)."""
    rows: list[TraceRow] = []
    problems: list[str] = []
    first_s, before_s = 0.0, -math.inf
    for number, row in _rows(path):
        try:
            stamp_s = _number(row, "timestamp_s", -math.inf)
            counts = [int(_number(row, name, 1)) for name in COLUMNS[1:]]
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
        else:
            if stamp_s < before_s:
                problems.append(f"{path}:{number}: timestamp_s {stamp_s:g} after {before_s:g}; sort the rows by time")
            first_s = first_s if rows else stamp_s
            before_s = max(before_s, stamp_s)
            rows.append(TraceRow(stamp_s - first_s, counts[0], counts[1]))
        if len(problems) >= MOST_PROBLEMS or len(rows) > MOST_REQUESTS:
            break
    if len(rows) > MOST_REQUESTS:
        problems.append(f"{path}: more than {MOST_REQUESTS:,} rows; cut it into several phases")
    if not rows and not problems:
        problems.append(f"{path}: no rows; expected {', '.join(COLUMNS)}")
    if problems:
        raise InputError("\n".join(problems))
    return tuple(rows)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """(line number, row) of either format; `.jsonl` by its name, anything else is CSV."""
    try:
        if path.suffix in (".jsonl", ".ndjson"):
            yield from _json_rows(path)
            return
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path}:1: no column {', '.join(missing)}; the first line names {', '.join(COLUMNS)}")
            for row in reader:
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read as a trace ({why}); give a CSV or JSON Lines file") from None


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path}:{number}: not JSON ({error}); one object a line") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: expected an object with {', '.join(COLUMNS)}")
        yield number, row


def _number(row: Mapping[str, object], name: str, lowest: float) -> float:
    found = row.get(name)
    try:
        value = float(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else math.nan
    except ValueError:
        value = math.nan
    whole = name == "timestamp_s" or value == value // 1
    if not (math.isfinite(value) and value >= lowest and whole and value <= (1e18 if lowest < 0 else MOST_TOKENS)):
        raise ValueError(f"{name} {found!r}: expected {'seconds' if lowest < 0 else 'a whole number from 1'}")
    return value
