"""Dynamic batching and prefix hits, on traffic small enough to follow."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_simulation_fleet import WIDE, CountedMs

from loadproof.capacity import PlannedDeployment, StepTimes, deployment_from_container, predict_level
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.shares import latency_shares
from loadproof.errors import InputError
from loadproof.simulation import (
    ClosedLoop,
    ContinuousBatcher,
    Dynamic,
    OpenLoop,
    SimulatedRequest,
    fresh_copies,
    scheduler_for,
    simulate_fleet,
    summarise,
)

Sent = list[tuple[float, int, int]]


def run(copy: Dynamic, sent: Sent) -> list[SimulatedRequest]:
    results = simulate_fleet([copy], OpenLoop([at for at, _, _ in sent]), [(i, o) for _, i, o in sent])
    return [result for result in results if isinstance(result, SimulatedRequest)]


def dynamic(batch_size: int, delay_ms: float, capacity: int = 100_000) -> Dynamic:
    limits = replace(
        WIDE, scheduler="dynamic", kv_token_capacity=capacity, max_sequences=batch_size, max_batch_delay_ms=delay_ms
    )
    return Dynamic(CountedMs(), limits)


def test_a_batch_that_does_not_fill_waits_its_delay() -> None:
    """Alone in a batch of 2: 100 ms of waiting, 10 of prompt, 4 of decoding; the answer comes whole."""
    (done,) = run(dynamic(2, 100), [(0.0, 10, 5)])
    assert (done.first_token_ms, done.end_ms) == (114.0, 114.0)


def test_a_batch_that_fills_starts_at_once_and_ends_together() -> None:
    """The second comes at 30: prompts padded to 12 take 24 ms, 4 rounds of 2 take 8; the shorter answer waits too.

    The third came at 40, is taken at 62, waits until 162 and takes 10 ms for its prompt and only token.
    """
    done = run(dynamic(2, 100), [(0.0, 10, 5), (30.0, 12, 3), (40.0, 10, 1)])
    assert [(r.output_tokens, r.end_ms) for r in done] == [(5, 62.0), (3, 62.0), (1, 172.0)]


def test_a_batch_takes_no_more_than_its_padded_memory() -> None:
    """60 tokens of cache hold one prompt of 30 and answer of 10, and two of 20 and 10, but not two of 30 and 10."""
    done = run(dynamic(3, 0, capacity=60), [(0.0, 30, 10), (0.0, 20, 10), (0.0, 20, 10)])
    assert [r.end_ms for r in done] == [39.0, 39.0 + 40 + 18, 39.0 + 40 + 18]


@given(
    st.lists(st.tuples(st.floats(0, 500), st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=20),
    st.integers(1, 6),
    st.sampled_from([0.0, 7.3, 100.0]),
)
def test_every_request_ends_and_none_before_its_work(sent: Sent, batch_size: int, delay_ms: float) -> None:
    """In order of arrival, never sooner than its own prompt and answer take alone."""
    done = run(dynamic(batch_size, delay_ms), sorted(sent))
    assert [r.sent_ms for r in done] == sorted(at for at, _, _ in sent)
    for r in done:
        assert r.e2e_ms >= r.input_tokens + r.output_tokens - 1 - 1e-9


def gathered_plainly(sent: Sent, batch_size: int, delay_ms: float, capacity: int) -> list[tuple[float, float]]:
    """(sent, end) of each request by a plain loop over batches, which shares no code with the scheduler."""
    free_ms, first, ends = 0.0, 0, []
    while first < len(sent):
        seen_ms = max(free_ms, sent[first][0])
        full_ms = sent[first + batch_size - 1][0] if first + batch_size <= len(sent) else float("inf")
        go_ms = max(seen_ms, min(full_ms, seen_ms + delay_ms))
        batch = [row for row in sent[first : first + batch_size] if row[0] <= go_ms]
        while len(batch) > 1 and len(batch) * (max(i for _, i, _ in batch) + max(o for _, _, o in batch)) > capacity:
            batch.pop()
        free_ms = go_ms + len(batch) * (max(i for _, i, _ in batch) + max(o for _, _, o in batch) - 1)
        ends += [(row[0], free_ms) for row in batch]
        first += len(batch)
    return ends


@given(
    st.lists(st.tuples(st.floats(0, 500), st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=20),
    st.integers(1, 6),
    st.sampled_from([0.0, 7.3, 100.0]),
    st.sampled_from([120, 300, 100_000]),
)
def test_batches_are_those_of_a_plain_loop(sent: Sent, batch_size: int, delay_ms: float, capacity: int) -> None:
    """The same requests together, ending at the same times to the rounding."""
    sent = sorted(sent, key=lambda row: row[0])
    done = run(dynamic(batch_size, delay_ms, capacity), sent)
    expected = gathered_plainly(sent, batch_size, delay_ms, capacity)
    assert [r.sent_ms for r in done] == [at for at, _ in expected]
    assert [r.end_ms for r in done] == pytest.approx([end for _, end in expected], rel=1e-9)


def test_continuous_batching_serves_spread_answers_sooner() -> None:
    """Eight clients, answers of 1 to 200 tokens, the same step times: padding and gathering cost over 1.5 times."""
    chance = Random(0)
    sizes = [(10, chance.randint(1, 200)) for _ in range(200)]

    class Flat(CountedMs):
        def step_ms(self, **work: float) -> float:
            return 10.0

    limits = replace(WIDE, max_sequences=8)
    gathered = replace(limits, scheduler="dynamic", max_batch_delay_ms=100)
    ends = [
        summarise(simulate_fleet([scheduler_for(Flat(), limit)], ClosedLoop(8), sizes)).end_ms
        for limit in (limits, gathered)
    ]
    assert ends[1] > 1.5 * ends[0]


def test_dynamic_settings_that_mean_nothing_are_refused() -> None:
    """A batch of none."""
    with pytest.raises(InputError, match="found 0 and 100"):
        dynamic(0, 100)


def test_a_shared_prefix_is_computed_once_a_copy() -> None:
    """Prompts of 50 that share 40 tokens: the first costs 50 ms, the next 18, for 32 of the 40 fill whole blocks."""
    copy = scheduler_for(CountedMs(), WIDE, shared_prefix_tokens=40)
    done = list(simulate_fleet([copy], OpenLoop([0.0, 100.0]), [(50, 1), (50, 1)]))
    assert [r.ttft_ms for r in done if isinstance(r, SimulatedRequest)] == [50.0, 18.0]


def test_a_prompt_that_is_all_prefix_still_computes_its_last_token() -> None:
    """32 tokens, all cached: 31 or fewer may be skipped, and whole blocks make it 16."""
    copy = scheduler_for(CountedMs(), WIDE, shared_prefix_tokens=40)
    done = list(simulate_fleet([copy], OpenLoop([0.0, 100.0]), [(50, 1), (32, 1)]))
    assert [r.ttft_ms for r in done if isinstance(r, SimulatedRequest)] == [50.0, 16.0]


def lmi(**settings: str) -> PlannedDeployment:
    return deployment_from_container(
        family="lmi",
        version="",
        variables={"OPTION_ROLLING_BATCH": "disable", **settings},
        model_id="meta-llama/Llama-3.1-8B-Instruct",
        architecture=None,
        instance_type="ml.g5.2xlarge",
        accelerators_per_copy=1,
        copies=1,
    )


def test_rolling_batch_disable_is_dynamic_batching_with_its_settings() -> None:
    """8 requests and 50 ms, as written; without them DJL Serving's own 1 request and 100 ms."""
    limits = lmi(SERVING_BATCH_SIZE="8", SERVING_MAX_BATCH_DELAY="50").limits
    assert (limits.scheduler, limits.max_sequences, limits.max_batch_delay_ms) == ("dynamic", 8, 50.0)
    limits = lmi().limits
    assert (limits.max_sequences, limits.max_batch_delay_ms, limits.max_admitted_requests) == (1, 100.0, 1001)
    (copy,) = fresh_copies(lmi(SERVING_BATCH_SIZE="8"))
    assert isinstance(copy, Dynamic)


def test_accelerators_that_hold_whole_layers_work_one_after_the_other() -> None:
    """Falcon 40B in bf16 over eight A10G: 41.3 billion parameters, 82.6 GB, at 83% of one card's 600 GB/s are
    165.9 ms; 5 ms a step, 0.1 a layer (60) and 0.1 a sequence make 177 ms, where tensor parallelism would read in an
    eighth of the time."""
    made = deployment_from_container(
        family="lmi",
        version="",
        variables={"OPTION_ROLLING_BATCH": "disable"},
        model_id="tiiuae/falcon-40b",
        architecture=None,
        instance_type="ml.g5.48xlarge",
        accelerators_per_copy=8,
        copies=1,
    )
    assert StepTimes(made).decode_ms(1, 0) == pytest.approx(177, rel=0.002)


@pytest.mark.parametrize("clients", [1, 3, 4, 8])
def test_the_planners_closed_form_is_what_the_twin_does(clients: int) -> None:
    """Equal requests in batches of 4: throughput and latency of a long closed loop within 2%, queues and delay too."""
    made = lmi(SERVING_BATCH_SIZE="4")
    level = predict_level(made, 128, 64, clients)
    summary = summarise(simulate_fleet(fresh_copies(made), ClosedLoop(clients), [(128, 64)] * 50 * clients))
    assert level is not None
    assert summary.output_tokens_per_s == pytest.approx(level.output_tokens_per_s, rel=0.02)
    assert summary.e2e.mean_ms == pytest.approx(level.e2e_ms, rel=0.02)
    assert level.ttft_ms == level.e2e_ms


def test_what_is_not_prompt_of_a_whole_answer_is_decoding() -> None:
    """Alone, 128 + 64 tokens: the delay and 63 rounds are nearly all of it, and no engine of its own was calibrated."""
    level = predict_level(lmi(), 128, 64, 1)
    assert level is not None
    shares = latency_shares(level)
    assert shares.queue + shares.prefill + shares.decode == pytest.approx(1)
    assert shares.decode > 0.9
    assert confidence_of(lmi()).grade == "D"


def test_against_the_wall_clock_a_batch_is_gathered_and_answered_whole() -> None:
    """Two of 10 + 5 in a batch of 2, 100 ms of delay: alone the first is looked for every 5 ms; the second comes at 12,
    so the batch starts at 15: 20 ms of prompts, 8 of decoding, and at 43 each has its five tokens at once."""
    limits = replace(WIDE, scheduler="dynamic", max_sequences=2, max_batch_delay_ms=100.0)
    batcher = ContinuousBatcher(CountedMs(), limits)
    batcher.submit("a", 10, 5, 0.0)
    now_ms, given = 0.0, []
    while (step := batcher.next_step(now_ms)) is not None:
        if now_ms < 12 <= now_ms + step.duration_ms:
            batcher.submit("b", 10, 5, 12.0)
        now_ms += step.duration_ms
        given.append((now_ms, step.tokens, step.finished))
    assert [row for row in given if row[1]] == [(43.0, ("a",) * 5 + ("b",) * 5, ("a", "b"))]


def test_a_lone_request_waits_its_delay_against_the_wall_clock_too() -> None:
    """100 ms, then 10 of prompt; its only token comes with it."""
    limits = replace(WIDE, scheduler="dynamic", max_sequences=2, max_batch_delay_ms=100.0)
    batcher = ContinuousBatcher(CountedMs(), limits)
    batcher.submit("a", 10, 1, 0.0)
    now_ms, last = 0.0, None
    while (step := batcher.next_step(now_ms)) is not None:
        now_ms, last = now_ms + step.duration_ms, step
    assert now_ms == 110.0
    assert last is not None
    assert (last.tokens, last.finished, last.prefilled) == (("a",), ("a",), ("a",))
