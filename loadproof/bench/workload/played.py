"""A trace as the twin plays it: each request when it came, with its blocks where these are told, or its conversation's
where that is."""

from __future__ import annotations

from collections.abc import Sequence

from loadproof.bench.workload.blocks import NAMED_BLOCK_TOKENS, of_conversation
from loadproof.bench.workload.conversations import Conversations
from loadproof.bench.workload.traces import TraceRow
from loadproof.simulation import OpenLoop, Traffic
from loadproof.simulation.fleet import Size


def played(rows: Sequence[TraceRow], words: str) -> Traffic:
    """`words` name it.

    Where a conversation is only named, its prompts and answers are taken as ever longer beginnings of one text.
    """
    times, told = OpenLoop([row.due_s * 1000 for row in rows]), any(row.blocks for row in rows)
    if not told and all(row.session is None for row in rows):
        return Traffic(times, [(row.input_tokens, row.output_tokens) for row in rows], words)
    conversations, sizes = Conversations(), list[Size]()
    for row in rows:
        conversation = conversations.turn_of(row).conversation
        blocks = row.blocks if told else of_conversation(conversation, row.input_tokens + row.output_tokens)
        sizes.append((row.input_tokens, row.output_tokens, blocks, conversation or None))
    return Traffic(times, sizes, words, rows[0].block_tokens if told else NAMED_BLOCK_TOKENS)
