"""Which turn of its conversation a recorded request is, told by the blocks of its prompt or by its conversation's name.

With blocks a request goes on from the one whose prompt it repeats: all its blocks but the last, which may not be full.
In a trace of one conversation's blocks each (agents') that is enough. Where all share their blocks (Mooncake's, whose
ids stand for all before them, too), the last full one has to be of one request alone: what several end with is a system
prompt. With a name and no blocks a request goes on from the one of its conversation with the longest prompt that,
with its answer, is no longer than its own.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from loadproof.bench.workload.traces import TraceRow

_MOST_HELD: Final = 32  # conversations of one session that may go on: it may be everybody's
_MOST_SESSIONS: Final = 200_000  # that may go on, and last blocks that others may begin with; the oldest are over

_Held = TypeVar("_Held")


class Turn(NamedTuple):
    """`turn` counts from 1, 0 where nothing tells; `new_tokens` of the prompt came since the answer before.

    `pause_s` is from that answer's end on, or from its request's start where nothing tells the end; None of a first
    turn. `ended_s`: when its own answer ended, or it began.
    """

    conversation: int
    turn: int
    new_tokens: int
    ended_s: float
    pause_s: float | None = None


@dataclass(slots=True)
class Conversations:
    """Of a trace's rows by time. A session may be several conversations: an agent's and its sub-agents'."""

    # Ordered: a dict looks for its first key past all that went before it, which were a million.
    _latest: OrderedDict[int, list[tuple[TraceRow, Turn]]] = field(default_factory=OrderedDict)
    """of each session"""
    _ends: OrderedDict[int, tuple[int, int, Turn] | None] = field(default_factory=OrderedDict)
    """of each last full block its request"""
    _count: int = 0

    def turn_of(self, row: TraceRow) -> Turn:
        if row.session is not None:
            return self._in_session(row, row.session)
        if row.blocks:
            return self._by_ends(row)
        return Turn(0, 0, row.input_tokens, row.due_s)

    def _in_session(self, row: TraceRow, session: int) -> Turn:
        latest = self._latest[session] = self._latest.pop(session, [])  # the last one now
        _forget_oldest(self._latest)
        goes_on = [place for place, (before, _) in enumerate(latest) if _continues(row, before)]
        if not goes_on:
            turn = self._first(row)
            latest.append((row, turn))
            if len(latest) > _MOST_HELD:
                latest.pop(0)
            return turn
        place = max(goes_on, key=lambda one: (len(latest[one][0].blocks), latest[one][0].input_tokens))
        before, turn_before = latest[place]
        turn = _next(row, turn_before, before.input_tokens, before.output_tokens)
        latest[place] = row, turn
        return turn

    def _by_ends(self, row: TraceRow) -> Turn:
        found = next((self._ends[one] for one in reversed(row.blocks[:-1]) if self._ends.get(one)), None)
        if found is None or found[0] >= row.input_tokens:
            turn = self._first(row)
        else:
            turn = _next(row, found[2], found[0], found[1])
        if len(row.blocks) > 1:
            end = row.blocks[-2]
            known = self._ends.get(end)
            alone = end not in self._ends or (known is not None and known is found and turn.turn > 1)
            self._ends.pop(end, None)
            self._ends[end] = (row.input_tokens, row.output_tokens, turn) if alone else None
            _forget_oldest(self._ends)
        return turn

    def _first(self, row: TraceRow) -> Turn:
        self._count += 1
        return Turn(self._count, 1, row.input_tokens, _ended_s(row))


def _forget_oldest(held: OrderedDict[int, _Held]) -> None:
    if len(held) > _MOST_SESSIONS:
        held.popitem(last=False)


def _next(row: TraceRow, before: Turn, input_tokens: int, output_tokens: int) -> Turn:
    new_tokens = max(1, row.input_tokens - input_tokens - output_tokens)
    return Turn(before.conversation, before.turn + 1, new_tokens, _ended_s(row), max(0.0, row.due_s - before.ended_s))


def _ended_s(row: TraceRow) -> float:
    return row.due_s + (row.took_s or 0.0)


def _continues(row: TraceRow, before: TraceRow) -> bool:
    if not row.blocks and not before.blocks:
        return before.input_tokens + before.output_tokens <= row.input_tokens
    whole = len(before.blocks) - 1
    return 0 < whole < len(row.blocks) and row.blocks[:whole] == before.blocks[:whole]
