"""Recorded requests that a profile's server refuses: they are longer than it takes."""

from __future__ import annotations

from collections.abc import Sequence

from loadproof.bench.workload.traces import TraceRow
from loadproof.capacity.workload import planned_deployment
from loadproof.errors import InputError
from loadproof.profiles.schema import Profile


def too_long(profile: Profile, rows: Sequence[TraceRow]) -> str:
    """How many, and the first of them, in words; empty for none, and where nothing is known of the server."""
    try:
        limits = planned_deployment(profile).limits
    except InputError:  # which has a message of its own
        return ""
    for most, whole in ((limits.max_request_tokens, True), (limits.max_input_tokens, False)):
        above = [row for row in rows if most is not None and _tokens(row, whole=whole) > most]
        if above:
            return (
                f"{len(above):,} of {len(rows):,} requests are longer than the server takes, the first at "
                f"{above[0].due_s:,.3g} s: {above[0].input_tokens:,} prompt and {above[0].output_tokens:,} answer "
                f"tokens, over {most:,} {'of both' if whole else 'of a prompt'}"
            )
    return ""


def _tokens(row: TraceRow, *, whole: bool) -> int:
    return row.input_tokens + row.output_tokens if whole else row.input_tokens
