"""A trace's rows as columns: blocks and conversations' names tell which turn each is, blocks the system prompt."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from loadproof.bench.learn.captures import Request
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.learn.sources import File
from loadproof.bench.learn.turn_lengths import cut_out_s
from loadproof.bench.workload.access_logs import UncountedError
from loadproof.bench.workload.conversations import Conversations
from loadproof.bench.workload.trace_folders import is_folder_trace
from loadproof.bench.workload.trace_formats import TraceError
from loadproof.bench.workload.traces import TooManyError, Trace, TraceRow, each_row, trace_notes, trace_of
from loadproof.errors import InputError
from loadproof.loads import MOST_REQUESTS

TOLD_EVERY: Final = 20_000  # requests
_TELL: Final = 20_000  # requests that tell what most begin with


def read_trace(file: File, found: Recorded, tell: Callable[[], None]) -> None:
    """What is wrong with a trace is said without what it holds: it may be no trace, but somebody's prompts."""
    if file.path is None:
        raise InputError(f"{file.name}: no data capture or invocation log; fetch a trace to learn from it")
    try:
        try:
            trace = trace_of(file.path)
        except TooManyError:
            _read_long(file, file.path, found, tell)
            return
    except UncountedError:  # which quotes nothing
        raise
    except TraceError as error:
        places = [place for place in error.places if place != file.name]
        no_row = "neither a data capture, an invocation log nor a row of a trace"
        raise InputError(
            "\n".join(f"{place}: {error.unquoted.get(place, no_row)}" for place in places)
            or f"{file.name}: no data capture, invocation log or trace; docs/learn.md names those that are read"
        ) from None
    _add(trace, found)
    found.notes += trace_notes(file.path, trace, blocks_used=any(found.turns))  # a turn sends what was before it again


def _read_long(file: File, path: Path, found: Recorded, tell: Callable[[], None]) -> None:
    """One of more requests than are held at once, row by row: the twin does not play it."""
    if is_folder_trace(path):
        raise InputError(f"{file.name}: more than {MOST_REQUESTS:,} requests; take fewer of its files")
    rows = _Rows(found)

    def take(row: TraceRow) -> None:
        rows.add(row)
        if found.read % TOLD_EVERY == 0:
            tell()

    passed = each_row(path, take)
    rows.end(passed.began_s)
    found.notes += trace_notes(path, passed, blocks_used=any(found.turns))


def recorded_of(trace: Trace) -> Recorded:
    """A trace's rows as columns, by time."""
    found = Recorded()
    _add(trace, found)
    found.sort()
    return found


def _add(trace: Trace, found: Recorded) -> None:
    rows = _Rows(found)
    for row in trace.rows:
        rows.add(row)
    rows.end(trace.began_s)
    found.rows = trace.rows if any(row.blocks or row.session is not None for row in trace.rows) else ()


@dataclass(slots=True)
class _Rows:
    """Rows by time, on their way to columns. `_sample`: of all of them alike, each with its turn."""

    found: Recorded
    _conversations: Conversations = field(default_factory=Conversations)
    _sample: list[tuple[TraceRow, int]] = field(default_factory=list)
    _chance: Random = field(default_factory=partial(Random, 0))

    def add(self, row: TraceRow) -> None:
        turn = self._conversations.turn_of(row)
        self.found.ends_told = self.found.ends_told or row.took_s is not None
        self.found.add(
            Request(
                row.due_s,
                row.input_tokens,
                row.output_tokens,
                turn=turn.turn,
                new_tokens=turn.new_tokens,
                pause_s=turn.pause_s,
            )
        )
        if len(self._sample) < _TELL:
            self._sample.append((row, turn.turn))
        elif (place := int(self._chance.random() * self.found.read)) < _TELL:  # algorithm R (A. Waterman)
            self._sample[place] = row, turn.turn

    def end(self, began_s: float | None) -> None:
        """`began_s`: of the epoch, where the trace tells it."""
        self.found.dated = began_s is not None
        self.found.at_s = array("d", (np.asarray(self.found.at_s) + (began_s or 0.0)).tobytes())
        shared = shared_blocks([row.blocks for row, turn in self._sample if turn == 1])
        begin = [row for row, _ in self._sample if shared and row.blocks[: len(shared)] == shared]
        if begin:
            stands_for = self.found.read / len(self._sample)
            tokens = sum(len(shared) * row.block_tokens for row in begin)
            self.found.prefixes[0] = [round(len(begin) * stands_for), round(tokens * stands_for)]
        _forget_under_way(self.found)


def _forget_under_way(found: Recorded) -> None:
    """What was under way when a log begins has its history in what seems its first prompt: no turn is told there."""
    within_s = cut_out_s(found)
    if within_s > 0:
        times_s, turns = np.asarray(found.at_s), np.asarray(found.turns)
        early = times_s < times_s.min() + within_s
        found.turns = array("H", np.where(early, 0, turns).astype(np.uint16).tobytes())
        found.notes.append(
            f"conversations were under way when this log begins: turns of its first {within_s:.3g} s tell nothing of "
            f"lengths and of how many turns there are ({int(early.sum()):,} requests)"
        )


def shared_blocks(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The blocks that at least half of first prompts begin with, one after another: a system prompt's."""
    shared: list[int] = []
    alike = prompts
    while len(prompts) > 1 and (following := [blocks for blocks in alike if len(blocks) > len(shared) + 1]):
        # The last block of a prompt may not be full: it is no prefix of others.
        block, count = Counter(blocks[len(shared)] for blocks in following).most_common(1)[0]
        if 2 * count < len(prompts):
            break
        alike = [blocks for blocks in following if blocks[len(shared)] == block]
        shared.append(block)
    return tuple(shared)
