"""One scheduler, two ways to drive it, and an oracle that shares no code: all three must decide the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_by_token import TokenByToken

from loadproof.capacity import BatchLimits
from loadproof.simulation import ContinuousBatcher, Step
from loadproof.simulation.batching import scheduler_for
from loadproof.simulation.request import Request

TGI = BatchLimits("prefill_first", 8, 40, None, None, 1000, kv_token_capacity=150)
VLLM = replace(TGI, scheduler="chunked")
Arrival = tuple[float, int, int]  # after the one before it, input tokens, output tokens


class Roofline:
    """Reading weights against computing, attention inside the maximum, KV beside it: the real model's shape.

    `kv_inside` puts the KV read inside the maximum too, so that decode runs have a kink as well.
    """

    def __init__(self, kv_inside: bool = False) -> None:
        self.kv_inside = kv_inside

    def step_ms(
        self,
        *,
        decodes: float = 0,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float:
        compute = 0.31 * (decodes + prefill_tokens) + 0.0071 * prefill_pairs
        kv = 0.0173 * context_tokens
        server = 0.7 + 0.013 * (decodes + prefill_requests)
        return (max(2.9 + kv, compute) if self.kv_inside else max(2.9, compute) + kv) + server


traffic = st.lists(
    st.tuples(st.sampled_from([0.0, 1.37, 23.9, 211.3]), st.integers(1, 110), st.integers(1, 40)),
    min_size=1,
    max_size=25,
)
limits = st.builds(
    replace,
    st.sampled_from([TGI, VLLM]),
    max_sequences=st.integers(1, 10),
    step_prefill_tokens=st.integers(1, 80),
    max_waiting_steps=st.integers(1, 20),
    waiting_served_ratio=st.sampled_from([0.1, 0.3, 1.2]),
    max_admitted_requests=st.sampled_from([3, 8, 1000]),
)


def due_times(arrivals: list[Arrival]) -> list[float]:
    at_ms, times = 0.05, []
    for gap_ms, _, _ in arrivals:
        at_ms += gap_ms
        times.append(at_ms)
    return times


def stepped(server: Any, arrivals: list[Arrival]) -> tuple[list[Step], list[str]]:
    """Every step, and who was refused: the clock moves one step at a time."""
    times, now_ms, sent = due_times(arrivals), 0.0, 0
    steps: list[Step] = []
    refused = []
    while True:
        while sent < len(arrivals) and times[sent] <= now_ms:
            if server.submit(str(sent), *arrivals[sent][1:], times[sent]) is not None:
                refused.append(str(sent))
            sent += 1
        if (step := server.next_step(now_ms)) is not None:
            steps.append(step)
            now_ms += step.duration_ms
        elif sent < len(arrivals):
            now_ms = max(now_ms, times[sent])
        else:
            return steps, refused


def jumped(
    step_times: Roofline, limit: BatchLimits, arrivals: list[Arrival]
) -> tuple[list[tuple[float, tuple[str, ...]]], list[str], int]:
    """(end of each step and who got a token, who was refused, runs): the clock jumps from event to event."""
    scheduler = scheduler_for(step_times, limit)
    times, now_ms, sent, runs = due_times(arrivals), 0.0, 0, 0
    tokens: list[tuple[float, tuple[str, ...]]] = []
    refused = []

    def submit() -> None:
        nonlocal sent
        prompt, answer = arrivals[sent][1:]
        if scheduler.refusal(prompt, answer) is None:
            scheduler.waiting.append(Request(str(sent), prompt, answer, times[sent]))
        else:
            refused.append(str(sent))
        sent += 1

    while True:
        while sent < len(arrivals) and times[sent] <= now_ms:
            submit()
        if scheduler.plan(now_ms):
            while sent < len(arrivals) and times[sent] < scheduler.end_ms:
                if scheduler.open_to_arrivals:
                    scheduler.cut(times[sent])
                submit()
            names = tuple(request.name for request in scheduler.receiving())
            tokens += [(scheduler.boundary_ms(step + 1), names) for step in range(scheduler.steps)]
            scheduler.commit()
            now_ms, runs = scheduler.end_ms, runs + 1
            assert 0 <= scheduler.held <= limit.kv_token_capacity
        elif sent < len(arrivals):
            now_ms = max(now_ms, times[sent])
        else:
            assert scheduler.held == scheduler.context == scheduler.decoding == 0
            return tokens, refused, runs


@settings(deadline=None)
@given(traffic, limits)
def test_counting_rounds_decides_what_counting_tokens_decides(arrivals: list[Arrival], limit: BatchLimits) -> None:
    """The same steps as the oracle's, their durations to the last bit but rounding, and the same refusals."""
    found, refused = stepped(ContinuousBatcher(Roofline(), limit), arrivals)
    expected, refused_by_oracle = stepped(TokenByToken(Roofline(), limit), arrivals)
    assert refused == refused_by_oracle
    assert [(s.tokens, s.finished, s.prefilled, s.batch) for s in found] == [
        (s.tokens, s.finished, s.prefilled, s.batch) for s in expected
    ]
    assert [s.duration_ms for s in found] == pytest.approx([s.duration_ms for s in expected], rel=1e-12)


@settings(deadline=None)
@given(traffic, limits, st.booleans())
def test_jumping_gives_every_token_at_the_time_that_stepping_gives_it(
    arrivals: list[Arrival], limit: BatchLimits, kv_inside: bool
) -> None:
    """Every token of every request within 1e-9, relatively; also where the roofline's maximum changes sides."""
    expected, refused_by_steps = stepped(ContinuousBatcher(Roofline(kv_inside), limit), arrivals)
    found, refused, runs = jumped(Roofline(kv_inside), limit, arrivals)
    assert refused == refused_by_steps
    assert [names for _, names in found] == [step.tokens for step in expected]
    assert [end for end, _ in found] == pytest.approx([s.start_ms + s.duration_ms for s in expected], rel=1e-9)
    assert runs <= len(expected)


@settings(deadline=None)
@given(traffic, limits, st.lists(st.tuples(st.integers(1, 30), st.integers(0, 24)), max_size=8))
def test_cancelling_in_any_state_leaves_the_same_schedule(
    arrivals: list[Arrival], limit: BatchLimits, cancelled: list[tuple[int, int]]
) -> None:
    """Waiting, half prefilled, decoding or gone: what remains is served as the oracle serves it."""
    schedules = []
    for server in (ContinuousBatcher(Roofline(), limit), TokenByToken(Roofline(), limit)):
        for index, (_, prompt, answer) in enumerate(arrivals):
            server.submit(str(index), prompt, answer, 0.0)
        plan, seen = sorted(cancelled), []
        while True:
            while plan and plan[0][0] <= len(seen):
                seen.append((server.cancel(str(plan.pop(0)[1])), server.kv_tokens_held))
            if (step := server.next_step(0.0)) is None:
                break
            seen.append((step.tokens, step.finished))
        schedules.append((seen, server.kv_tokens_held))
    assert schedules[0] == schedules[1]


def test_a_long_answer_is_one_run_and_a_long_prompt_is_a_few() -> None:
    """1,000 tokens behind a prompt of 50 chunks: two or three runs for the kink where attention begins to bind, one
    for the last chunk and one for 999 decode steps."""
    limit = replace(VLLM, step_prefill_tokens=8, kv_token_capacity=10_000)
    found, _, runs = jumped(Roofline(), limit, [(0.0, 400, 1000)])
    assert len(found) == 50 + 999
    assert runs <= 2 + 2 * 6  # one, the last chunk, and at most log2(50) halvings on each side of the kink
