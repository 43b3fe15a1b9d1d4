"""Fleets: the event loop against the step-by-step clock, routing, closed loops, refusals, memory and work."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import islice, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation_same_decisions import TGI, VLLM, Arrival, Roofline, due_times, limits, stepped, traffic

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation import (
    ClosedLoop,
    ContinuousBatcher,
    OpenLoop,
    RefusedRequest,
    Routing,
    SimulatedRequest,
    scheduler_for,
    simulate_fleet,
)
from loadproof.simulation.chunked import Chunked
from loadproof.simulation.prefill_first import PrefillFirst

WIDE = replace(VLLM, kv_token_capacity=1_000_000, max_sequences=64, step_prefill_tokens=2048)


class CountedMs(Roofline):
    """1 ms for each decode and each prompt token; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def step_ms(self, *, decodes: float = 0, prefill_tokens: float = 0, **rest: float) -> float:
        self.asked += 1
        return decodes + prefill_tokens


def served(
    limit: BatchLimits,
    load: ClosedLoop | OpenLoop,
    sizes: list[tuple[int, int]],
    copies: int = 1,
    routing: str = "least_outstanding",
) -> tuple[list[SimulatedRequest], list[RefusedRequest]]:
    fleet = [scheduler_for(CountedMs(), limit) for _ in range(copies)]
    results = list(simulate_fleet(fleet, load, sizes, routing=routing))  # type: ignore[arg-type]
    return (
        [result for result in results if isinstance(result, SimulatedRequest)],
        [result for result in results if isinstance(result, RefusedRequest)],
    )


@pytest.mark.parametrize("load", [ClosedLoop(1), OpenLoop([0.0, 115.0])])
def test_what_lies_before_a_server_is_in_each_time(load: ClosedLoop | OpenLoop) -> None:
    """100 ms, a prompt of 10 and an answer of 6 tokens at 1 ms each: a client's next request leaves after 115."""
    fleet = [scheduler_for(CountedMs(), WIDE, outside_ms=100)]
    first, second = (one for one in simulate_fleet(fleet, load, [(10, 6)] * 2) if isinstance(one, SimulatedRequest))
    assert (first.ttft_ms, first.e2e_ms, first.tpot_ms) == (110, 115, 1)
    assert (second.sent_ms, second.ttft_ms) == (115, 110)


@settings(deadline=None)
@given(traffic, limits)
def test_the_event_loop_serves_an_open_loop_as_the_step_by_step_clock_does(
    arrivals: list[Arrival], limit: BatchLimits
) -> None:
    """First token and end of every request within 1e-9, relatively, and the same requests refused."""
    steps, refused = stepped(ContinuousBatcher(Roofline(), limit), arrivals)
    first, end = {}, {}
    for step in steps:
        first.update(dict.fromkeys(map(int, step.prefilled), step.start_ms + step.duration_ms))
        end.update(dict.fromkeys(map(int, step.finished), step.start_ms + step.duration_ms))
    times = due_times(arrivals)
    expected = sorted((end[i], first[i], times[i], *arrivals[i][1:]) for i in end)
    results = list(
        simulate_fleet(
            [scheduler_for(Roofline(), limit)], OpenLoop(times), [(prompt, answer) for _, prompt, answer in arrivals]
        )
    )
    found = [r for r in results if isinstance(r, SimulatedRequest)]
    assert Counter(r.sent_ms for r in results if isinstance(r, RefusedRequest)) == Counter(
        times[int(name)] for name in refused
    )
    rows = sorted((r.end_ms, r.first_token_ms, r.sent_ms, r.input_tokens, r.output_tokens) for r in found)
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert row == pytest.approx(wanted, rel=1e-9)


class PrefillFirstByStep(PrefillFirst):
    """Jumps no further than one step."""

    def plan(self, now_ms: float) -> bool:
        planned = super().plan(now_ms)
        if planned:
            self.shorten(1)
        return planned


class ChunkedByStep(Chunked):
    """Jumps no further than one step."""

    def plan(self, now_ms: float) -> bool:
        planned = super().plan(now_ms)
        if planned:
            self.shorten(1)
        return planned


@settings(deadline=None)
@given(traffic, limits, st.integers(1, 3), st.sampled_from(["random", "least_outstanding"]), st.booleans())
def test_routing_and_closed_loops_do_not_see_how_far_the_clock_jumps(
    arrivals: list[Arrival], limit: BatchLimits, copies: int, routing: Routing, closed: bool
) -> None:
    """One step at a time or whole runs: the same requests on the same copies, times within 1e-9, relatively.

    Closed loops only over one copy: equal copies end in the same instant, and rounding decides who is first.
    """
    count = 1 if closed else copies
    load = ClosedLoop(copies + 2) if closed else OpenLoop(due_times(arrivals))
    by_step = ChunkedByStep if limit.scheduler == "chunked" else PrefillFirstByStep
    fleets = [
        [scheduler_for(Roofline(), limit) for _ in range(count)],
        [by_step(Roofline(), limit) for _ in range(count)],
    ]
    rows = []
    for fleet in fleets:
        results = simulate_fleet(fleet, load, [(prompt, answer) for _, prompt, answer in arrivals], routing=routing)
        ends = (r for r in results if isinstance(r, SimulatedRequest))
        rows.append(
            sorted((r.copy, r.input_tokens, r.output_tokens, r.sent_ms, r.first_token_ms, r.end_ms) for r in ends)
        )
    assert len(rows[0]) == len(rows[1])
    for jumping, stepping in zip(*rows, strict=True):
        assert jumping == pytest.approx(stepping, rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(traffic, limits)
def test_under_random_routing_copies_do_not_influence_each_other(arrivals: list[Arrival], limit: BatchLimits) -> None:
    """What one copy of three got is served as if that copy stood alone."""
    sizes = [(prompt, answer) for _, prompt, answer in arrivals]
    limit = replace(limit, max_admitted_requests=1000)
    done, _ = served(limit, OpenLoop(due_times(arrivals)), sizes, copies=3, routing="random")
    for copy in range(3):
        mine = sorted((r for r in done if r.copy == copy), key=lambda r: r.sent_ms)
        # Requests of one instant lose their order in the results, so only those sent apart can be sent again.
        if not mine or len({r.sent_ms for r in mine}) < len(mine):
            continue
        alone, _ = served(limit, OpenLoop([r.sent_ms for r in mine]), [(r.input_tokens, r.output_tokens) for r in mine])
        assert sorted(alone, key=lambda r: r.sent_ms) == [r._replace(copy=0) for r in mine]


def test_the_least_loaded_copy_gets_the_next_request() -> None:
    """Two at 0 ms go to two copies and take 110 and 20 ms; the third, at 30 ms, goes to the one that is idle again."""
    done, _ = served(WIDE, OpenLoop([0.0, 0.0, 30.0]), [(10, 101), (10, 11), (10, 1)], copies=2)
    by_answer = {r.output_tokens: r for r in done}
    assert by_answer[101].copy != by_answer[11].copy == by_answer[1].copy
    assert [(r.output_tokens, r.end_ms) for r in done] == [(11, 20.0), (1, 40.0), (101, 110.0)]


def test_random_routing_spreads_evenly() -> None:
    """4,000 requests over 4 copies: each gets 1,000 give or take four standard deviations (27 each)."""
    done, _ = served(WIDE, OpenLoop([float(i) for i in range(4000)]), [(1, 1)] * 4000, copies=4, routing="random")
    counts = Counter(r.copy for r in done)
    assert all(abs(counts[copy] - 1000) < 110 for copy in range(4))


def test_a_closed_loop_sends_when_a_request_ends() -> None:
    """Three clients, two copies, twenty requests: after the first three, every request is sent at an end."""
    done, refused = served(WIDE, ClosedLoop(3), [(10, 5 + index % 7) for index in range(20)], copies=2)
    assert (len(done), refused) == (20, [])
    sent, ends = sorted(r.sent_ms for r in done), sorted(r.end_ms for r in done)
    assert sent == [0.0, 0.0, 0.0, *ends[:17]]


def test_a_refused_client_comes_back_after_its_pause() -> None:
    """One place, two clients, answers of 10 + 1990 ms: the second client is told no at 0, 1,000 and 2,000 ms.

    At 2,000 ms the first request has ended and its client has sent the next one already.
    """
    limit = replace(WIDE, max_admitted_requests=1)
    done, refused = served(limit, ClosedLoop(2), [(10, 1991)] * 5)
    assert [r.sent_ms for r in refused] == [0.0, 1000.0, 2000.0]
    assert {r.reason for r in refused} == {"queue_full"}
    assert [(r.sent_ms, r.end_ms) for r in done] == [(0.0, 2000.0), (2000.0, 4000.0)]


def test_an_endless_simulation_keeps_no_request() -> None:
    """After 20,000 requests it holds no more than after 2,000, give or take 64 KiB."""
    results = simulate_fleet([scheduler_for(Roofline(), WIDE)], ClosedLoop(16), repeat((100, 50)))
    tracemalloc.start()
    try:
        held = []
        for _ in range(2):
            for _ in islice(results, 2000 if not held else 18_000):
                pass
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[1] - held[0] < 64 << 10


@pytest.mark.parametrize("limit", [replace(TGI, kv_token_capacity=10_000_000, max_sequences=64), WIDE])
def test_work_grows_with_requests_and_not_with_tokens(limit: BatchLimits) -> None:
    """A hundred times the answer asks the step model no more often, but for its three points of each batch size."""
    asked = []
    for answer in (100, 10_000):
        times = CountedMs()
        copy = scheduler_for(times, limit)
        sizes = [(10, answer + 7 * index) for index in range(100)]
        assert sum(1 for _ in simulate_fleet([copy], ClosedLoop(10), sizes)) == 100
        asked.append(times.asked)
    assert asked[1] <= asked[0] + 30


def test_the_same_seed_gives_the_same_results() -> None:
    """Ties are broken by chance, and chance is seeded."""
    runs = [served(WIDE, ClosedLoop(7), [(10, 5 + index % 9) for index in range(50)], copies=3) for _ in range(2)]
    assert runs[0] == runs[1]


def test_mistakes_of_the_caller_are_errors() -> None:
    """No copies, an empty prompt, times that fall, no clients."""
    copy = scheduler_for(Roofline(), WIDE)
    with pytest.raises(InputError, match="at least one copy"):
        simulate_fleet([], ClosedLoop(1), [(1, 1)])
    with pytest.raises(InputError, match="found 0 and 1"):
        list(simulate_fleet([copy], ClosedLoop(1), [(0, 1)]))
    with pytest.raises(InputError, match=r"found 1\.0 ms after 2\.0 ms"):
        list(simulate_fleet([scheduler_for(Roofline(), WIDE)], OpenLoop([2.0, 1.0]), [(1, 1)] * 2))
    with pytest.raises(InputError, match="at least 1 client"):
        ClosedLoop(0)
