"""Queue, prefill and decode against requests whose parts are known."""

from __future__ import annotations

from bench_records import record

from loadproof.bench.measure.levels import MeasuredLevel
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.phases import Phases, phases_of
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.measure.steady import steady_state
from loadproof.loads import Load


def level(index: int, load: Load, records: list[RequestRecord]) -> MeasuredLevel:
    metrics = measure_level(load.concurrency or 1, records, load=load.words if load.is_open else None)
    return MeasuredLevel(index, load, tuple(records), (), metrics, steady_state(records), True)


def answered(index: int, ttft: float, input_tokens: int, decode: float = 100) -> RequestRecord:
    return record(index, token_ms=(ttft, ttft + decode), end_ms=ttft + decode, input_tokens=input_tokens)


def phases(*levels: tuple[Load, list[RequestRecord]]) -> list[Phases]:
    found = phases_of({index: level(index, *one) for index, one in enumerate(levels)})
    return [found[index] for index in range(len(levels))]


def test_what_load_adds_before_the_first_token_is_queue() -> None:
    """Alone 40 ms for 256 tokens; with four in flight 40 to 190 ms: queues of 0, 50, 100 and 150 ms."""
    alone = [answered(index, 40, 256) for index in range(5)]
    crowded = [answered(index, 40 + 50 * index, 256, decode=300) for index in range(4)]
    _, found = phases((Load(concurrency=1), alone), (Load(concurrency=4), crowded))
    assert found.baseline == "1 in flight"
    assert (found.queue_ms.p50, found.queue_ms.max) == (75, 150)
    assert (found.prefill_ms.p50, found.prefill_ms.max) == (40, 40)
    assert found.decode_ms.mean == 300


def test_longer_prompts_have_longer_prefills() -> None:
    """Alone 10 ms + 0.1 ms a token: 100 tokens take 20 ms, 1,000 take 110 ms, so 150 ms for 700 has 70 ms of queue."""
    alone = [answered(index, 10 + 0.1 * tokens, tokens) for index, tokens in enumerate((100, 200, 500, 800, 1000))]
    _, found = phases((Load(concurrency=1), alone), (Load(concurrency=8), [answered(0, 150, 700)]))
    assert found.queue_ms.p50 is not None and abs(found.queue_ms.p50 - 70) < 1e-6
    assert found.prefill_ms.p50 is not None and abs(found.prefill_ms.p50 - 80) < 1e-6


def test_the_lightest_level_is_the_baseline_wherever_it_stands() -> None:
    """Levels 8, 1: the one of 1 in flight. A request faster than it has no negative queue."""
    fast = [answered(index, 30, 256) for index in range(2)]
    first, _ = phases((Load(concurrency=8), fast), (Load(concurrency=1), [answered(i, 40, 256) for i in range(5)]))
    assert first.baseline == "1 in flight"
    assert (first.queue_ms.max, first.prefill_ms.max) == (0, 30)


def test_without_a_baseline_only_decode_is_known() -> None:
    """Four requests are no baseline, and a unary answer has no first token to part its time by."""
    [found] = phases((Load(concurrency=1), [answered(index, 40, 256) for index in range(4)]))
    assert (found.baseline, found.queue_ms, found.prefill_ms, found.decode_ms.p50) == (None, Spread(), Spread(), 100)
    [unary] = phases((Load(concurrency=1), [record(index, end_ms=50, output_tokens=3) for index in range(9)]))
    assert unary.decode_ms == Spread()
