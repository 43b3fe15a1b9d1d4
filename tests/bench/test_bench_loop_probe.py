"""The probe's ticks, on a clock that tests move; and what they say of tokens that were read late and together."""

from __future__ import annotations

import asyncio
import time

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_records import MS, record

from loadproof.bench.batch import Batch
from loadproof.bench.connect import open_invoker, parse_target
from loadproof.bench.load.process import loop_factory
from loadproof.bench.load.runner import Runner
from loadproof.bench.measure.loop_probe import LoopProbe
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.spec import WorkloadSpec, fixed_tokens
from loadproof.bench.workload.arrivals import closed_loop
from loadproof.bench.workload.prompts import Prompts


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
    assert [*probe.stalls_between(0, 22 * MS)] == [17 * MS, 12 * MS, 7 * MS]
    assert [*probe.stalls_between(6 * MS, 12 * MS)] == [12 * MS]
    assert not probe.stalls_between(16 * MS, 99 * MS)


def test_time_on_time_counts_as_no_lag() -> None:
    """100 ticks of which one was 50 ms late: p99 lies a hundredth of the way to it (rank 98.01 of 0..99)."""
    level = measure_level(1, [record(end_ms=500, stalls_ns=(50 * MS,))])
    assert level.loop_lag_ms.p50 == 0 and level.loop_lag_ms.max == 50
    assert level.loop_lag_ms.p99 == pytest.approx(0.5)


def test_what_a_read_found_came_after_the_last_tick_but_two() -> None:
    """Ticks at about 5, 10 and 15 ms: a read at the end found nothing older than one of them, one at 0 is not known."""
    probe = LoopProbe()

    async def tick() -> tuple[int, int]:
        probe.start()
        began_ns = time.perf_counter_ns()
        await asyncio.sleep(0.05)
        probe.stop()
        return began_ns, time.perf_counter_ns()

    began_ns, ended_ns = asyncio.run(tick())
    since_ns = probe.waited_since(ended_ns)
    assert since_ns is not None and began_ns < since_ns < ended_ns - 2 * MS
    assert probe.waited_since(began_ns) is None


@pytest.mark.parametrize("frozen_s", [0.0, 0.15])
def test_a_first_token_read_with_later_ones_says_how_early_it_may_have_come(frozen_s: float) -> None:
    """A client frozen from 40 to 190 ms reads tokens sent at 100, 120, 140, … at once: the truth lies in the margin."""
    found: list[RequestRecord] = []
    with serving(FakeEndpoint(ttft_s=0.1, itl_s=0.02)) as endpoint:

        async def load() -> None:
            target = parse_target("sagemaker://demo", "tgi", streaming=True, endpoint_url=endpoint.url)
            invoker = open_invoker(target, 10.0)
            await invoker.warm(1)
            prompts = Prompts(WorkloadSpec(fixed_tokens(4), fixed_tokens(8)))
            runner = Runner(invoker, prompts, True, 0, 0, found.append)
            if frozen_s:
                asyncio.get_running_loop().call_later(0.04, time.sleep, frozen_s)
            await runner.run(Batch("measured", 0, 1, closed_loop(1, 1), iter([(0,)]), 0))
            await invoker.close()

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(load())
    [one], truth_ns = found, endpoint.served[0].token_ns[0]
    assert one.first_token_ns is not None and one.sent_ns is not None
    merged = one.token_times_ns[0] == one.token_times_ns[1]
    assert (one.first_token_early_max_ns is not None) is merged
    if frozen_s:
        assert merged and measure_level(1, found).merged_first_tokens == 1
        assert one.first_token_ns - truth_ns > 20 * MS
    early_ns = one.first_token_early_max_ns or 0
    assert one.sent_ns <= one.first_token_ns - early_ns < truth_ns + 5 * MS
