"""The probe's ticks, on a clock that tests move."""

from __future__ import annotations

import asyncio

import pytest
from bench_records import MS, record

from benchmarks.loop_probe import LoopProbe
from benchmarks.metrics import measure_level
from benchmarks.verdict import invalid_reasons


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def test_a_freeze_counts_every_tick_that_fell_due_in_it() -> None:
    """Frozen from 0 to 22 ms: ticks due at 5, 10, 15 and 20 ms are 17, 12, 7 and 2 ms late; 2 is a timer's slack."""
    clock = Clock()
    probe = LoopProbe(clock)

    async def freeze() -> None:
        probe.start()
        clock.now_ns = 22 * MS
        probe.catch_up()
        probe.stop()

    asyncio.run(freeze())
    assert probe.stalls_between(0, 22 * MS) == (17 * MS, 12 * MS, 7 * MS)
    assert probe.stalls_between(6 * MS, 12 * MS) == (12 * MS,)
    assert probe.stalls_between(16 * MS, 99 * MS) == ()


@pytest.mark.parametrize(("stalled_ms", "valid"), [(0, True), (9, True), (150, False)])
def test_a_level_is_invalid_when_its_client_stood_still_too_long(stalled_ms: int, valid: bool) -> None:
    """In 5 s (1,000 ticks) a freeze of 150 ms makes 29 ticks late, most by more than 10 ms: p99 exceeds it."""
    stalls = tuple(late * MS for late in range(stalled_ms, 2, -5))
    level = measure_level(1, [record(end_ms=5000, token_ms=(10,), stalls_ns=stalls)])
    assert (invalid_reasons(level, []) == ()) is valid


def test_time_on_time_counts_as_no_lag() -> None:
    """100 ticks of which one was 50 ms late: p99 lies a hundredth of the way to it (rank 98.01 of 0..99)."""
    level = measure_level(1, [record(end_ms=500, stalls_ns=(50 * MS,))])
    assert level.loop_lag_ms.p50 == 0 and level.loop_lag_ms.max == 50
    assert level.loop_lag_ms.p99 == pytest.approx(0.5)
