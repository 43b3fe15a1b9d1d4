"""A trace as the twin plays it: each request when it came, with its blocks where these are told."""

from __future__ import annotations

from collections.abc import Sequence

from loadproof.bench.workload.traces import TraceRow
from loadproof.simulation import OpenLoop, Traffic


def played(rows: Sequence[TraceRow], words: str) -> Traffic:
    """`words` name it."""
    times = OpenLoop([row.due_s * 1000 for row in rows])
    if not any(row.blocks for row in rows):
        return Traffic(times, [(row.input_tokens, row.output_tokens) for row in rows], words)
    sizes = [(row.input_tokens, row.output_tokens, row.blocks, row.session) for row in rows]
    return Traffic(times, sizes, words, rows[0].block_tokens)
