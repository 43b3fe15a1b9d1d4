"""Sending to a buffer, and waiting for the results: each item ends in one line of the output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any, Final

import orjson

from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.invocation.buffer import DeadLetter, Message, Producer
from loadproof.invocation.buffer.calls import Calls

_LOOKERS: Final = 16
_LOOKED_AT_ONCE: Final = 256  # each look is a request to S3, and those sent first are answered first
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_FIRST_LETTERS_S, _LONGEST_LETTERS_S = 2.0, 16.0  # looking at dead letters hides them from others for a moment
_REPORT_EVERY_S: Final = 5.0


@dataclass(slots=True)
class Tally:
    """What became of the items. Several of one key are one result, so `keys` may be fewer than `sent`."""

    sent: int = 0
    failed: int = 0
    keys: int = 0
    answered: int = 0
    dead_lettered: int = 0
    waiting: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def exit_code(self, waited: bool) -> ExitCode:
        if self.failed and not self.sent:
            return ExitCode.COULD_NOT_RUN
        return ExitCode.MISSED if self.failed or (waited and self.answered < self.keys) else ExitCode.OK


class Rows:
    """The output: `{"key", "error", "result"}` a line, written as items end. `last` serves who sent one."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self.last: dict[str, object] = {}

    def write(self, key: str, error: str | None, result: dict[str, object] | None) -> None:
        self.last = {"key": key, "error": error, "result": result}
        if self._file is None:
            return
        line = json_line(self.last)
        try:
            while line:  # a disk that fills up takes a part, and says so at the next write
                line = line[self._file.write(line) :]
        except OSError as full:
            raise CouldNotRunError(
                f"{self._file.name}: cannot be written ({full.strerror}); what its rows say is queued, and up to "
                "ten messages more: make room, then send again; what has a key is answered once"
            ) from None


def json_line(row: dict[str, object]) -> bytes:
    """Models have written half a surrogate pair, which only escapes can carry."""
    try:
        return orjson.dumps(row) + b"\n"
    except TypeError:
        return json.dumps(row).encode() + b"\n"


def queue_now_ms(sqs: Any, url: str) -> float:
    """The queue's own time, by which letters are dated, to the second; where it says none, ours. Unix ms.

    Raises CouldNotRunError.
    """
    answer = Calls()("the queue", lambda: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"]))
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return (time.time() if said is None else parsedate_to_datetime(said).timestamp()) * 1000


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[bytes] | None]:
    """A new file for rows; taken away again where none was written. Raises InputError."""
    if path is None:
        yield None
        return
    try:
        file = path.open("xb", buffering=0)  # a row is on the disk once it is written
    except OSError as error:
        raise InputError(f"--output {path}: cannot be made ({error.strerror}); give another file") from None
    with file:
        try:
            yield file
        finally:
            if not file.tell():
                path.unlink(missing_ok=True)


def send_all(producer: Producer, messages: Iterable[Message], rows: Rows, tally: Tally, *, waits: bool) -> list[str]:
    """Queue all; the keys whose results are to come, each once. Rows of what is not waited for are written at once.

    Raises CouldNotRunError.
    """
    keys = dict[str, None]()
    for sent in producer.send_many(messages):
        if sent.error is not None:
            tally.failed += 1
            tally.errors[sent.error] = tally.errors.get(sent.error, 0) + 1
            rows.write(sent.key, sent.error, None)
            continue
        tally.sent += 1
        if not waits and sent.key not in keys:
            rows.write(sent.key, None, None)
        keys[sent.key] = None
    tally.keys = len(keys)
    return list(keys)


def wait_for(
    producer: Producer,
    letters: Callable[[], Sequence[DeadLetter]],
    keys: Sequence[str],
    rows: Rows,
    tally: Tally,
    wait_s: float,
) -> None:
    """Until every key has a result or is among the dead `letters`, or `wait_s` is over."""
    pending, pause_s = list(keys), _FIRST_PAUSE_S
    end_s = time.monotonic() + wait_s
    letters_s = _FIRST_LETTERS_S
    next_letters_s = time.monotonic() + letters_s
    reported_s = time.monotonic()
    with ThreadPoolExecutor(_LOOKERS) as pool:
        while pending:
            now_s = time.monotonic()
            looked = pending if now_s >= end_s else pending[:_LOOKED_AT_ONCE]
            missing = []
            for key, result in zip(looked, pool.map(producer.result, looked), strict=True):
                if result is None:
                    missing.append(key)
                    continue
                tally.answered += 1
                rows.write(key, None, result)
            pending = pending[len(looked) :] + missing
            if pending and (now_s >= next_letters_s or now_s >= end_s):
                pending = _without_dead(letters(), pending, rows, tally)
                letters_s = min(_LONGEST_LETTERS_S, 2 * letters_s)
                next_letters_s = time.monotonic() + letters_s
            if not pending or now_s >= end_s:
                break
            if now_s - reported_s >= _REPORT_EVERY_S:
                reported_s = now_s
                print(f"{tally.answered:,}/{len(keys):,} answered", file=sys.stderr)
            if len(missing) > len(looked) / 2:
                time.sleep(min(pause_s, max(0.0, end_s - now_s)))
                pause_s = min(_LONGEST_PAUSE_S, 1.5 * pause_s)
    tally.waiting = len(pending)
    for key in pending:
        rows.write(key, f"no result after {wait_s:g} s; it may still come", None)


def _without_dead(letters: Sequence[DeadLetter], pending: list[str], rows: Rows, tally: Tally) -> list[str]:
    """The keys that are not among the dead letters."""
    reasons = {letter.key: letter.reason for letter in letters}
    for key in pending:
        if key in reasons:
            tally.dead_lettered += 1
            rows.write(key, f"dead-lettered: {reasons[key]}", None)
    return [key for key in pending if key not in reasons]
