"""Clients that give up: when, what it costs the server, and that every request ends exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation_fleet import WIDE, ChunkedByStep, CountedMs, PrefillFirstByStep
from test_simulation_same_decisions import Arrival, Roofline, due_times, limits, traffic

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation import (
    ClosedLoop,
    OpenLoop,
    RefusedRequest,
    Result,
    SimulatedRequest,
    TimedOutRequest,
    scheduler_for,
    simulate_fleet,
    summarise,
)


def run(limit: BatchLimits, sent: list[tuple[float, int, int]], patience_ms: float) -> list[Result]:
    copies = [scheduler_for(CountedMs(), limit)]
    load = OpenLoop([at for at, _, _ in sent])
    return list(simulate_fleet(copies, load, [(i, o) for _, i, o in sent], give_up_after_ms=patience_ms))


def test_an_answer_that_takes_too_long_is_given_up_and_its_place_is_free_at_the_steps_end() -> None:
    """Two requests of 10 + 20 tokens at 0 take 20 ms of prompts, then 2 ms a round: both give up at 35.5, are dropped
    when their step ends at 36; a request that comes at 35.7 starts there: 10 ms of prompt, 1 ms for its second token.
    """
    results = run(WIDE, [(0.0, 10, 20), (0.0, 10, 20), (35.7, 10, 2)], 35.5)
    assert [type(r) for r in results] == [TimedOutRequest, TimedOutRequest, SimulatedRequest]
    assert [r.gave_up_ms for r in results if isinstance(r, TimedOutRequest)] == [35.5, 35.5]
    (served,) = [r for r in results if isinstance(r, SimulatedRequest)]
    assert (served.first_token_ms, served.end_ms) == (46.0, 47.0)


def test_an_answer_in_time_is_no_time_out() -> None:
    """10 ms of prompt and 19 of decoding are over at 29: a client that waits 29 ms has its answer."""
    assert [type(r) for r in run(WIDE, [(0.0, 10, 20)], 29.0)] == [SimulatedRequest]


def test_dynamic_batching_works_an_abandoned_request_through_to_its_end() -> None:
    """Batches of 1: the first gives up at 15, its 29 ms are spent all the same, and the second ends at 58."""
    limit = replace(WIDE, scheduler="dynamic", max_sequences=1, max_batch_delay_ms=0.0)
    results = run(limit, [(0.0, 10, 20), (20.0, 10, 20)], 28.9)
    assert [type(r) for r in results] == [TimedOutRequest, TimedOutRequest]
    results = run(limit, [(0.0, 10, 20), (29.0, 10, 20)], 29.0)
    assert [(type(r), r.end_ms) for r in results if isinstance(r, SimulatedRequest)] == [
        (SimulatedRequest, 29.0),
        (SimulatedRequest, 58.0),
    ]


def test_a_client_of_a_closed_loop_that_gave_up_sends_its_next_request_at_once() -> None:
    """One client, answers of 29 ms, patience of 10: four requests are over at 10, 20, 30 and 40."""
    results = list(
        simulate_fleet(
            [scheduler_for(CountedMs(), WIDE)], ClosedLoop(1), [(10, 20)] * 3 + [(5, 5)], give_up_after_ms=10.0
        )
    )
    assert [r.sent_ms for r in results] == [0.0, 10.0, 20.0, 30.0]
    assert [type(r) for r in results] == [TimedOutRequest] * 3 + [SimulatedRequest]


def test_the_summary_counts_time_outs_beside_the_served() -> None:
    """One of each; rates are over the time to the last end, and only the served count."""
    summary = summarise(run(WIDE, [(0.0, 10, 20), (100.0, 10, 5)], 20.0))
    assert (summary.requests, summary.timed_out, summary.refused) == (1, 1, 0)
    assert summary.output_tokens == 5
    assert summary.end_ms == 114.0
    assert summary.requests_per_s == pytest.approx(1 / 0.114)


def test_no_patience_is_refused() -> None:
    """0 ms would give up before sending."""
    with pytest.raises(InputError, match="give up after more than 0 ms"):
        run(WIDE, [(0.0, 1, 1)], 0.0)


@settings(deadline=None)
@given(traffic, limits, st.sampled_from([0.5, 7.3, 60.0, 1e9]), st.booleans(), st.integers(1, 3))
def test_every_request_ends_exactly_once(
    arrivals: list[Arrival], limit: BatchLimits, patience_ms: float, dynamic: bool, copies: int
) -> None:
    """Served in time, refused, or given up when its patience ended; afterwards every copy is empty."""
    if dynamic:
        limit = replace(limit, scheduler="dynamic", max_batch_delay_ms=5.0)
    fleet = [scheduler_for(Roofline(), limit) for _ in range(copies)]
    sizes = [(prompt, answer) for _, prompt, answer in arrivals]
    results = list(simulate_fleet(fleet, OpenLoop(due_times(arrivals)), sizes, give_up_after_ms=patience_ms))
    ended = Counter((r.sent_ms, r.input_tokens, r.output_tokens) for r in results)
    assert ended == Counter(zip(due_times(arrivals), *zip(*sizes, strict=True), strict=True))
    for r in results:
        if isinstance(r, SimulatedRequest):
            assert r.e2e_ms <= patience_ms * (1 + 1e-12) + 1e-9
        elif isinstance(r, TimedOutRequest):
            assert r.gave_up_ms == r.sent_ms + patience_ms
    assert all(copy.outstanding == 0 for copy in fleet)
    assert all(copy.held == copy.context == copy.decoding == 0 for copy in fleet)


@settings(deadline=None)
@given(traffic, limits, st.sampled_from([7.3, 60.0]))
def test_giving_up_is_the_same_however_far_the_clock_jumps(
    arrivals: list[Arrival], limit: BatchLimits, patience_ms: float
) -> None:
    """A server that looks after every single step serves the same requests at the same times."""
    sizes = [(prompt, answer) for _, prompt, answer in arrivals]
    by_step = ChunkedByStep if limit.scheduler == "chunked" else PrefillFirstByStep
    found, expected = (
        sorted(simulate_fleet([copy], OpenLoop(due_times(arrivals)), sizes, give_up_after_ms=patience_ms), key=_order)
        for copy in (scheduler_for(Roofline(), limit), by_step(Roofline(), limit))
    )
    assert [type(r) for r in found] == [type(r) for r in expected]
    for row, wanted in zip(found, expected, strict=True):
        if not isinstance(wanted, RefusedRequest):
            assert row == pytest.approx(wanted, rel=1e-9)


def _order(result: Result) -> tuple[float, int, int]:
    return result.sent_ms, result.input_tokens, result.output_tokens
