"""What a run takes for "could not run"; that no record is late for its phase; where the knee of a curve lies."""

from __future__ import annotations

import asyncio
import time
from array import array

import pytest
from bench_records import record

from loadproof.bench.batch import Batch
from loadproof.bench.load.runner import CANCEL_GRACE_S, Runner
from loadproof.bench.load.sweep import why_never_ran
from loadproof.bench.measure.levels import MeasuredLevel
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.steady import steady_state, steady_tokens_per_s
from loadproof.bench.spec import WorkloadSpec, fixed_tokens
from loadproof.bench.summary import knee_of
from loadproof.bench.workload.arrivals import closed_loop
from loadproof.bench.workload.prompts import Prompts
from loadproof.invocation import GenerationRequest, Invocation, OutcomeKind
from loadproof.invocation.outcomes import Outcome
from loadproof.loads import Load


def test_a_connection_that_breaks_after_the_request_left_did_reach_somebody() -> None:
    """A refusal before it left says "not reachable"; a reset after that is a failed request like any other."""
    before = record(outcome="connection", sent_ns=None, error_code="refused", error_message="nobody")
    after = record(outcome="connection", http_status=None, error_code="reset", error_message="broke")
    assert why_never_ran([before, before]) == "connection: refused: nobody"
    assert why_never_ran([after, after]) is None
    assert why_never_ran([before, after]) is None


class _Sender:
    """Ends its request in the turn of the loop in which the runner looks up, by holding the loop past both timers."""

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
        asyncio.get_running_loop().call_later(0.5 * CANCEL_GRACE_S, time.sleep, CANCEL_GRACE_S)
        await asyncio.sleep(0.9 * CANCEL_GRACE_S)
        now_ns, times = time.perf_counter_ns(), array("q")
        outcome = Outcome(OutcomeKind.TIMEOUT)
        return Invocation(now_ns, now_ns, None, None, now_ns, times, times, None, None, "none", 0, None, outcome)

    def cancel_all(self) -> None: ...


def test_every_record_is_kept_when_the_batch_ends() -> None:
    """Also where the last request ends just when the runner looks whether it was stopped."""
    kept: list[RequestRecord] = []
    prompts = Prompts(WorkloadSpec(fixed_tokens(5), fixed_tokens(5)))

    async def run() -> None:
        runner = Runner(_Sender(), prompts, True, 0, time.perf_counter_ns(), kept.append)
        await runner.run(Batch("measured", 0, 1, closed_loop(1, 1), iter([(0,)]), 0))
        assert len(kept) == 1

    asyncio.run(run())


def _served(concurrency: int, requests: int, slots: int) -> MeasuredLevel:
    """A closed loop on a server of `slots`, each answering in 100 ms; the others wait in line."""
    ends: list[int] = []
    records = []
    for index in range(requests):
        start = ends[index - concurrency] if index >= concurrency else 0
        ends.append(max(start, ends[index - slots] if index >= slots else 0) + 100)
        records.append(record(index, intended_ms=start, end_ms=ends[-1], output_tokens=10))
    metrics = measure_level(concurrency, records)
    return MeasuredLevel(0, Load(concurrency=concurrency), tuple(records), (), metrics, steady_state(records), True)


def test_a_levels_last_round_is_no_knee() -> None:
    """16 requests of 100 ms take four rounds at 4 and at 5 in flight; the endpoint serves 5 as fast as 4."""
    levels = [_served(4, 16, slots=5), _served(5, 16, slots=5)]
    assert [level.metrics.output_tokens_per_s for level in levels] == [400, 400]
    knee = knee_of(levels)
    assert knee is not None and (knee.concurrency, knee.reached) == (5, False)


@pytest.mark.parametrize("requests", [32, 48, 160])
def test_a_queues_first_round_is_no_speed(requests: int) -> None:
    """16 slots give 160 tokens in 100 ms however many wait: at 32 in flight too, though the first 16 of them do not."""
    at_slots, beyond = _served(16, requests, slots=16), _served(32, requests, slots=16)
    for level in (at_slots, beyond):
        assert steady_tokens_per_s(level.metrics, level.steady, level.records) == pytest.approx(1600)
    knee = knee_of([at_slots, beyond])
    assert knee is not None and (knee.concurrency, knee.reached) == (16, True)
