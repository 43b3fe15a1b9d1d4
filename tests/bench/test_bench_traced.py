"""A trace in figures, worked out by hand."""

from __future__ import annotations

import pytest

from loadproof.bench.learn.traced import seen_before
from loadproof.bench.workload.traces import TraceRow


def test_what_a_cache_without_an_end_finds() -> None:
    """Of 1,100 + 1,600 + 1,100 tokens: nothing, two blocks of 512, and all of the third's; an id after a new one is
    none, since what came before it differs."""
    prompts = [(1100, (1, 2, 3)), (1600, (1, 2, 9, 3)), (1100, (1, 2, 3))]
    rows = [TraceRow(float(at), tokens, 10, blocks) for at, (tokens, blocks) in enumerate(prompts)]
    assert seen_before(rows) == pytest.approx((2 * 512 + 1100) / 3800)
