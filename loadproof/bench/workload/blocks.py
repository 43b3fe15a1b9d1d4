"""Blocks of a trace's prompts: prompts which begin with the same ids begin with the same tokens.

Of rows that only name their conversation, prompts are taken as ever longer beginnings of one text, told in blocks of
the size that servers look for.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from loadproof.bench.workload.conversations import Conversations
from loadproof.bench.workload.traces import TraceRow

NAMED_BLOCK_TOKENS: Final = 16  # vLLM's
_IDS_APART: Final = 1 << 24  # of two conversations
_ID_MASK: Final = (1 << 64) - 1


class Blocks(NamedTuple):
    """Ids of the blocks that a prompt begins with, of `block_tokens` each; the last one may not be full."""

    ids: Sequence[int]
    block_tokens: int


def blocks_of(rows: Sequence[TraceRow]) -> tuple[Blocks, ...]:
    """Of each row, 8 bytes an id; empty where the trace tells neither blocks nor conversations."""
    if any(row.blocks for row in rows):
        return tuple(Blocks(array("Q", (one & _ID_MASK for one in row.blocks)), row.block_tokens) for row in rows)
    if all(row.session is None for row in rows):
        return ()
    conversations = Conversations()
    return tuple(
        Blocks(of_conversation(conversations.turn_of(row).conversation, row.input_tokens), NAMED_BLOCK_TOKENS)
        for row in rows
    )


def of_conversation(conversation: int, tokens: int) -> Sequence[int]:
    """Whole blocks of the beginning of a conversation's text; none where it is nobody's (0)."""
    first = conversation * _IDS_APART
    return range(first, first + tokens // NAMED_BLOCK_TOKENS) if conversation else ()
