"""Recorded traffic that is no table of requests: agents' conversations with their blocks, and clients to draw from.

Agents (WEKA's kv-cache-tester): a JSON file a conversation, its requests at seconds from its begin, with ids of blocks.
Sub-agents are requests of their own inside. Ids are of one conversation unless it says `hash_id_scope: global`.

ServeGen's clients: `chunk-N-trace.csv` has a window a line (its begin, requests/s, coefficient of variation of the
gaps, Gamma or Weibull with shape and scale), `chunk-N-dataset.json` the shares of token counts from a second on.
"""

from __future__ import annotations

import ast
import heapq
import math
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import orjson

from loadproof.bench.workload.lines import MOST_LINE_BYTES, lines_of
from loadproof.bench.workload.trace_formats import TraceError
from loadproof.bench.workload.trace_parts import UNREADABLE, opened, parts_of, plain_suffix, unreadable

_MOST_PROBLEMS: Final = 20
_IDS_APART: Final = 1 << 40  # of two conversations
SERVEGEN: Final = "chunk-*-trace.csv"
_BEGIN_BYTES: Final = 64 * 1024  # of a file: enough to see what it is
_LONGEST_WINDOW_S: Final = 600.0  # of a client's last one, which no other ends


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request: `at_s` on the trace's own clock."""

    at_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    session: int | None = None
    block_tokens: int = 0
    took_s: float | None = None


def is_folder_trace(path: Path) -> bool:
    """Agents' conversations or ServeGen's clients: a folder of them, as its first file tells, or a file that is one
    conversation, or has one a line."""
    if path.is_dir() and any(path.glob(SERVEGEN)):
        return True
    first = next(iter(parts_of(path)), None)
    if first is None or plain_suffix(first) not in (".json", ".jsonl"):
        return False
    try:
        with opened(first) as file:
            begin = file.read(_BEGIN_BYTES)
            if b'"requests"' not in begin and b'"block_size"' not in begin:
                return False  # of any size: it is not read to find out
            line, end, _ = begin.partition(b"\n")
            read = orjson.loads(line if end else line + file.readline(MOST_LINE_BYTES))
    except orjson.JSONDecodeError:
        return plain_suffix(first) == ".json"  # over several lines, if it is JSON
    except UNREADABLE:
        return False  # told by who reads it
    return isinstance(read, dict) and isinstance(read.get("requests"), list)


def folder_rows(path: Path, most: int) -> list[Recorded]:
    """By time, one more than `most` at most. Raises TraceError with every problem (up to 20)."""
    if path.is_dir() and any(path.glob(SERVEGEN)):
        return _drawn_from_clients(path, most)
    problems, rows = list[tuple[str, str]](), list[Recorded]()
    for number, (place, read) in enumerate(_conversations(parts_of(path))):
        if isinstance(read, TraceError):
            problems += read.problems
        else:
            rows += _conversation(place, read, number, problems)
        if len(problems) >= _MOST_PROBLEMS:
            break
    if problems:
        raise TraceError(*problems[:_MOST_PROBLEMS])
    rows.sort(key=lambda row: row.at_s)
    return rows[: most + 1]


# ---------------------------------------------------------------------------------------------------------- agents


def _conversations(files: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, object] | TraceError]]:
    """(place, conversation) of files that hold one each, or one a line; what is wrong with one in its place."""
    for file in files:
        if plain_suffix(file) == ".json":
            try:
                yield str(file), _json(file)
            except TraceError as error:
                yield str(file), error
            continue
        try:
            with opened(file) as binary:
                for number, line in lines_of(str(file), binary):
                    try:
                        yield f"{file}:{number}", _object(line, f"{file}:{number}")
                    except TraceError as error:
                        yield f"{file}:{number}", error
        except UNREADABLE as error:
            yield str(file), unreadable(file, error)


def _conversation(
    file: str, read: Mapping[str, object], number: int, problems: list[tuple[str, str]]
) -> Iterator[Recorded]:
    requests = read.get("requests")
    if not isinstance(requests, list):
        problems.append((file, "no list `requests`; expected an agent's conversation"))
        return
    size = read.get("block_size")
    if not _whole(size):
        problems.append((file, f"block_size {size!r}: expected a whole number from 1"))
        return
    first = 0 if read.get("hash_id_scope") == "global" else number * _IDS_APART
    for place, row in _requests(requests, f"{file}: request"):
        try:
            yield _request(row, first, number, int(str(size)))
        except ValueError as error:
            problems.append((place, str(error)))


def _requests(rows: list[object], place: str) -> Iterator[tuple[str, object]]:
    """With those of sub-agents, whose times count from the conversation's begin, too."""
    for number, row in enumerate(rows, start=1):
        here = f"{place} {number}"
        if isinstance(row, dict) and isinstance(row.get("requests"), list):
            yield from _requests(row["requests"], f"{here}, request")
        else:
            yield here, row


def _request(row: object, first_id: int, session: int, block_tokens: int) -> Recorded:
    if not isinstance(row, dict):
        raise ValueError("expected an object with t, in, out, hash_ids")
    at_s = row.get("t")
    if isinstance(at_s, bool) or not isinstance(at_s, int | float) or not (math.isfinite(at_s) and at_s >= 0):
        raise ValueError(f"t {at_s!r}: expected seconds from the conversation's begin")
    for name in ("in", "out"):
        if not _whole(row.get(name)):
            raise ValueError(f"{name} {row.get(name)!r}: expected a whole number from 1")
    ids = row.get("hash_ids", [])
    if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
        raise ValueError(f"hash_ids {str(ids)[:40]!r}: expected a list of whole numbers")
    blocks = tuple(first_id + one for one in ids)
    told = row.get("api_time")
    took_s = float(told) if isinstance(told, int | float) and 0 <= told < math.inf else None
    return Recorded(float(at_s), row["in"], row["out"], blocks, session, block_tokens, took_s)


# -------------------------------------------------------------------------------------------------------- ServeGen


@dataclass(slots=True)
class _Client:
    """One of ServeGen's clients: its windows, and from when on which token counts are as likely as what."""

    number: int
    windows: list[tuple[float, float, str, float]] = field(default_factory=list)  # begin, rate, pattern, shape
    lengths: list[tuple[float, list[list[tuple[int, float]]]]] = field(default_factory=list)

    def requests(self) -> Iterator[Recorded]:
        """By time, always the same."""
        chance, begins = Random(f"client {self.number}"), [begin for begin, _ in self.lengths]
        for place, (begin_s, rate, pattern, shape) in enumerate(self.windows):
            last = place + 1 == len(self.windows)
            end_s = begin_s + _LONGEST_WINDOW_S if last else self.windows[place + 1][0]
            at = bisect_right(begins, begin_s) - 1
            if not rate or at < 0:
                continue
            sides = [list(zip(*pairs, strict=True)) for pairs in self.lengths[at][1]]
            now_s = begin_s
            while (now_s := now_s + _gap_s(chance, rate, pattern, shape)) < end_s:
                prompt, answer = (chance.choices(counts, shares)[0] for counts, shares in sides)
                yield Recorded(now_s, int(prompt), int(answer))


def _gap_s(chance: Random, rate: float, pattern: str, shape: float) -> float:
    """Of mean 1/rate, in the client's shape."""
    if pattern == "Gamma":
        return chance.gammavariate(shape, 1 / (rate * shape))
    return chance.weibullvariate(1 / (rate * math.gamma(1 + 1 / shape)), shape)


def _drawn_from_clients(folder: Path, most: int) -> list[Recorded]:
    problems = list[tuple[str, str]]()
    clients = [_client(file, problems) for file in sorted(folder.glob(SERVEGEN))]
    if problems:
        raise TraceError(*problems[:_MOST_PROBLEMS])
    merged = heapq.merge(*(client.requests() for client in clients), key=lambda row: row.at_s)
    return [row for row, _ in zip(merged, range(most + 1), strict=False)]


def _client(file: Path, problems: list[tuple[str, str]]) -> _Client:
    client = _Client(int(file.name.split("-")[1]) if file.name.split("-")[1].isdigit() else 0)
    before_s = -math.inf
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            window = _window(line)
            if window[0] <= before_s:
                raise ValueError(f"begin {window[0]:g} after {before_s:g}; sort the windows by time")
        except ValueError as error:
            problems.append((f"{file}:{number}", str(error)))
            continue
        before_s = window[0]
        client.windows.append(window)
    counts = file.with_name(file.name.replace("-trace.csv", "-dataset.json"))
    try:
        for begin, sides in _json(counts).items():
            pairs = [_shares(counts, begin, sides, name) for name in ("input_tokens", "output_tokens")]
            if all(pairs):
                client.lengths.append((float(begin), pairs))
    except TraceError as error:
        problems += error.problems
    client.lengths.sort(key=lambda row: row[0])
    return client


def _window(line: str) -> tuple[float, float, str, float]:
    parts = line.split(",")
    if len(parts) != 6:
        raise ValueError(f"{len(parts)} values; expected begin, rate, variation, pattern, shape, scale")
    begin_s, rate, _, shape = (float(parts[place]) for place in (0, 1, 2, 4))
    if not (math.isfinite(begin_s) and math.isfinite(rate) and rate >= 0):
        raise ValueError(f"begin {parts[0]}, rate {parts[1]}: expected seconds, and requests/s of 0 or more")
    if rate and (parts[3] not in ("Gamma", "Weibull") or not shape > 0):
        raise ValueError(f"pattern {parts[3]!r} of shape {parts[4]}: expected Gamma or Weibull, and a shape above 0")
    return begin_s, rate, parts[3], shape


def _shares(file: Path, begin: str, sides: object, name: str) -> list[tuple[int, float]]:
    """`"{808: 0.5, 874: 0.5}"` as pairs; none where the client was silent."""
    text = sides.get(name) if isinstance(sides, dict) else None
    try:
        float(begin)
        found = ast.literal_eval(str(text))
        pairs = [(int(count), float(share)) for count, share in found.items() if int(count) >= 1]
    except (ValueError, SyntaxError, AttributeError, TypeError, OverflowError, RecursionError, MemoryError):
        raise TraceError((str(file), f"{begin!r}: {name}: expected token counts and their shares")) from None
    if any(not 0 <= share < math.inf for _, share in pairs) or (pairs and not any(share for _, share in pairs)):
        raise TraceError((str(file), f"{begin!r}: {name}: a share below 0, or none above it"))
    return pairs


# ------------------------------------------------------------------------------------------------------------ both


def _json(file: Path) -> Mapping[str, object]:
    try:
        with opened(file) as binary:
            read = binary.read()
    except UNREADABLE as error:
        raise unreadable(file, error) from None
    return _object(read, str(file))


def _object(text: bytes, place: str) -> Mapping[str, object]:
    try:
        read = orjson.loads(text.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as error:
        raise TraceError((place, f"not JSON ({error})")) from None
    if not isinstance(read, dict):
        raise TraceError((place, "expected an object"))
    return read


def _whole(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 1
