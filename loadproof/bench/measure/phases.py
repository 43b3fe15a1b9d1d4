"""Where a request's time went: queue, prefill, decode. Estimates, since a client sees only tokens.

- **decode** (ms) = E2E − TTFT: from the first token to the end, as the client saw it.
- **prefill** (ms) = the TTFT that the run's lightest level had for a prompt of this length: the median where its
  prompts are within 5% of each other, else the least-squares line TTFT = a + b · input tokens. It holds the network
  and whatever of queueing the lightest level has itself; with one request in flight that is none.
- **queue** (ms) = TTFT − prefill, at least 0: what load added before the first token, waiting and shared steps alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loadproof.bench.measure.latencies import e2e_ms, ttft_ms
from loadproof.bench.measure.levels import MeasuredLevel
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.statistics import Spread, spread

ALIKE = 0.05
FEWEST_BASELINE = 5
RULE = "prefill = TTFT at the lightest level for a prompt as long, queue = TTFT - prefill, decode = E2E - TTFT"


@dataclass(frozen=True, slots=True)
class Phases:
    """Spreads in ms over a level's successful streamed requests. `baseline`: the lightest level, in words."""

    baseline: str | None = None
    """the lightest level, which prefill is taken from"""
    rule: str | None = None
    """how they are told apart"""
    queue_ms: Spread = field(default_factory=Spread)
    """a [distribution](#a-distribution)"""
    prefill_ms: Spread = field(default_factory=Spread)
    """a [distribution](#a-distribution)"""
    decode_ms: Spread = field(default_factory=Spread)
    """a [distribution](#a-distribution)"""


def phases_of(levels: Mapping[int, MeasuredLevel]) -> dict[int, Phases]:
    """The phases of every level by its index. The lightest level is the first with FEWEST_BASELINE first tokens."""
    ordered = sorted(levels.values(), key=lambda level: (level.load.is_open, level.load.value, level.index))
    lightest = next((level for level in ordered if len(_streamed(level.records)) >= FEWEST_BASELINE), None)
    expected = _unloaded_ttft_ms(_streamed(lightest.records)) if lightest else None
    place = lightest.metrics.place if lightest else None
    return {index: _phases(level.records, expected, place) for index, level in levels.items()}


def _phases(records: Sequence[RequestRecord], expected: Callable[[int], float] | None, place: str | None) -> Phases:
    streamed = _streamed(records)
    first = np.asarray([ttft_ms(record) for record in streamed], dtype=np.float64)
    whole = np.asarray([e2e_ms(record) for record in streamed], dtype=np.float64)
    if expected is None:
        return Phases(None, RULE, Spread(), Spread(), spread(whole - first))
    prefill = np.minimum(first, [expected(_input_tokens(record)) for record in streamed])
    return Phases(place, RULE, spread(first - prefill), spread(prefill), spread(whole - first))


def _unloaded_ttft_ms(records: Sequence[RequestRecord]) -> Callable[[int], float]:
    """TTFT (ms) by input tokens, as the lightest level had it."""
    tokens = np.asarray([_input_tokens(record) for record in records], dtype=np.float64)
    first = np.asarray([ttft_ms(record) for record in records], dtype=np.float64)
    if tokens.max() <= (1 + ALIKE) * tokens.min():
        median = float(np.median(first))
        return lambda _: median
    slope, constant = np.polyfit(tokens, first, 1)
    return lambda count: max(0.0, float(constant + slope * count))


def _streamed(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [record for record in records if record.ok and record.first_token_ns is not None]


def _input_tokens(record: RequestRecord) -> int:
    return record.planned_input_tokens if record.input_tokens is None else record.input_tokens
