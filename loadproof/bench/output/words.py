"""A run's figures in words, for whoever shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadproof.bench.objectives import NOTICED, figure

if TYPE_CHECKING:
    from loadproof.bench.document import Level
    from loadproof.bench.judge.judgement import Judgement


def answer_length(level: Level) -> str:
    """`2 of 64 asked for`: mean tokens of a level's answers."""
    return f"{figure(level.answered_output_tokens)} of {figure(level.asked_output_tokens)} asked for"


def client_shares(level: Level) -> str:
    """`12 of TTFT p95, 13.1 of E2E p95 ms`: what the client may have added, where that is worth a word."""
    said = []
    for metric, statistic in (("ttft", "p95"), ("itl", "p99"), ("tpot", "p95"), ("e2e", "p95")):
        counted, share = (getattr(getattr(one, f"{metric}_ms"), statistic) for one in (level, level.client_share))
        if share and share >= NOTICED * counted:
            said.append(f"{figure(share)} of {metric.upper()} {statistic}")
    return f"{', '.join(said)} ms" if said else ""


def more_of(row: Judgement) -> str:
    """` (about 1,200 more requests)`: what would settle an objective; empty where nothing would, or nothing is open."""
    return f" (about {row.more_requests:,} more requests)" if row.more_requests else ""


def interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "–"
    return f"{'unknown' if low is None else figure(low)} to {'unknown' if high is None else figure(high)}"
