"""A trace as the twin plays it: each request when it came, with its blocks where these are told, or its conversation's
where that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loadproof.bench.workload.conversations import Conversations
from loadproof.bench.workload.traces import TraceRow
from loadproof.simulation import OpenLoop, Traffic
from loadproof.simulation.chunked import BLOCK_TOKENS

_IDS_APART: Final = 1 << 24  # of two conversations


def played(rows: Sequence[TraceRow], words: str) -> Traffic:
    """`words` name it.

    Where a conversation is only named, its prompts and answers are taken as ever longer beginnings of one text.
    """
    times = OpenLoop([row.due_s * 1000 for row in rows])
    if any(row.blocks for row in rows):
        sizes = [(row.input_tokens, row.output_tokens, row.blocks, row.session) for row in rows]
        return Traffic(times, sizes, words, rows[0].block_tokens)
    if all(row.session is None for row in rows):
        return Traffic(times, [(row.input_tokens, row.output_tokens) for row in rows], words)
    conversations = Conversations()
    sized = [
        (row.input_tokens, row.output_tokens, _blocks(conversations.turn_of(row).conversation, row), row.session)
        for row in rows
    ]
    return Traffic(times, sized, words, BLOCK_TOKENS)


def _blocks(conversation: int, row: TraceRow) -> Sequence[int]:
    first = conversation * _IDS_APART
    return range(first, first + (row.input_tokens + row.output_tokens) // BLOCK_TOKENS) if conversation else ()
