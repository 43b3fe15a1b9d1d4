"""The scheduler: what must hold for any traffic, and the policies' own rules on traffic small enough to follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation import ContinuousBatcher, Step

CAPACITY = 100

TGI = BatchLimits(
    scheduler="prefill_first",
    max_sequences=8,
    step_prefill_tokens=40,
    max_request_tokens=None,
    max_input_tokens=None,
    max_admitted_requests=1000,
    kv_token_capacity=CAPACITY,
)
VLLM = replace(TGI, scheduler="chunked")


class CountedMs:
    """A step takes 1 ms for each decode and 1 ms for each prompt token: easy to follow by hand."""

    def step_ms(
        self,
        *,
        decodes: float = 0,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float:
        return decodes + prefill_tokens


def batcher(limits: BatchLimits) -> ContinuousBatcher:
    return ContinuousBatcher(CountedMs(), limits)


def drained(server: ContinuousBatcher, now_ms: float = 0.0) -> list[Step]:
    steps = []
    while (step := server.next_step(now_ms)) is not None:
        steps.append(step)
        now_ms += step.duration_ms
        assert len(steps) < 100_000, "a request starves"
    return steps


requests = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=25)
limits = st.builds(
    replace,
    st.sampled_from([TGI, VLLM]),
    max_sequences=st.integers(1, 10),
    step_prefill_tokens=st.integers(1, 80),
    max_waiting_steps=st.integers(1, 20),
    waiting_served_ratio=st.sampled_from([0.1, 0.3, 1.2]),
)


@given(requests, limits)
def test_every_admitted_request_gets_exactly_its_tokens(sizes: list[tuple[int, int]], limit: BatchLimits) -> None:
    """Whatever the order, the budget or the preemptions: output_tokens tokens, one prefill, one finish."""
    server = batcher(limit)
    for index, (prompt, answer) in enumerate(sizes):
        assert server.submit(str(index), prompt, answer, 0.0) is None  # 60 + 40 fit the capacity of 100
    steps = drained(server)
    tokens = Counter(request_id for step in steps for request_id in step.tokens)
    assert tokens == {str(index): answer for index, (_, answer) in enumerate(sizes)}
    for names in ("finished", "prefilled"):
        assert Counter(name for step in steps for name in getattr(step, names)) == Counter(map(str, range(len(sizes))))


@given(requests, limits, st.lists(st.integers(0, 24), max_size=10))
def test_memory_is_never_over_capacity_and_all_of_it_comes_back(
    sizes: list[tuple[int, int]], limit: BatchLimits, cancelled: list[int]
) -> None:
    """Also when requests arrive while others run and some are cancelled in the middle."""
    server, now_ms, arrivals = batcher(limit), 0.0, list(enumerate(sizes))
    while arrivals or server.running or server.waiting:
        if arrivals:
            index, (prompt, answer) = arrivals.pop()
            server.submit(str(index), prompt, answer, now_ms)
        if cancelled:
            server.cancel(str(cancelled.pop()))
        step = server.next_step(now_ms)
        now_ms += step.duration_ms if step else 0.0
        assert 0 <= server.kv_tokens_held <= CAPACITY
        assert server.running <= limit.max_sequences
    assert server.kv_tokens_held == 0


@given(requests, limits)
def test_the_same_traffic_gives_the_same_steps(sizes: list[tuple[int, int]], limit: BatchLimits) -> None:
    """No clock and no chance inside."""
    runs = []
    for _ in range(2):
        server = batcher(limit)
        for index, (prompt, answer) in enumerate(sizes):
            server.submit(str(index), prompt, answer, 0.0)
        runs.append(drained(server))
    assert runs[0] == runs[1]


@given(requests, limits)
def test_first_tokens_come_in_order_of_arrival(sizes: list[tuple[int, int]], limit: BatchLimits) -> None:
    """First come, first served: nobody overtakes, so nobody starves."""
    server = batcher(limit)
    for index, (prompt, answer) in enumerate(sizes):
        server.submit(str(index), prompt, answer, 0.0)
    order = [int(name) for step in drained(server) for name in step.prefilled]
    assert order == sorted(order)


def test_tgi_prefills_what_waits_then_decodes_together() -> None:
    """Two prompts of 10 in one step of 20 ms, then steps of 2 ms; the shorter answer leaves first."""
    server = batcher(TGI)
    server.submit("a", 10, 3, 0.0)
    server.submit("b", 10, 2, 0.0)
    steps = drained(server)
    assert [(step.start_ms, step.duration_ms, step.tokens, step.finished) for step in steps] == [
        (0.0, 20.0, ("a", "b"), ()),
        (20.0, 2.0, ("a", "b"), ("b",)),
        (22.0, 1.0, ("a",), ("a",)),
    ]
    assert steps[0].prefilled == ("a", "b")


def test_tgi_interrupts_decoding_to_prefill_a_newcomer() -> None:
    """One waits, one runs, and 0.3 · 1 rounds down: the prefill comes at once, and `a` gets no token in it."""
    server = batcher(TGI)
    server.submit("a", 10, 5, 0.0)
    server.next_step(0.0)
    server.submit("b", 7, 5, 10.0)
    step = server.next_step(10.0)
    assert step is not None
    assert (step.tokens, step.duration_ms) == (("b",), 7.0)


def test_tgi_prefills_no_more_than_its_budget_in_one_step() -> None:
    """Budget 40: of three prompts of 20 two go first; a prompt of 50 alone still goes, in one long step."""
    server = batcher(TGI)
    for name in "abc":
        server.submit(name, 20, 1, 0.0)
    server.submit("long", 50, 1, 0.0)
    assert [step.prefilled for step in drained(server)] == [("a", "b"), ("c",), ("long",)]


def test_tgi_lets_enough_wait_before_it_interrupts_a_large_batch() -> None:
    """Seven run: 0.3 · 7 = 2.1, so one waiting request waits for a second, or for 20 decode steps."""
    server = batcher(replace(TGI, kv_token_capacity=10_000, max_sequences=100))
    for index in range(7):
        server.submit(f"old {index}", 1, 50, 0.0)
    server.next_step(0.0)
    server.submit("new", 1, 50, 1.0)
    decodes = 0
    while (step := server.next_step(1.0)) is not None and "new" not in step.prefilled:
        decodes += 1
    assert decodes == 20

    server.submit("one", 1, 50, 1.0)
    assert server.next_step(1.0).prefilled == ()  # type: ignore[union-attr]
    server.submit("two", 1, 50, 1.0)
    assert server.next_step(1.0).prefilled == ("one", "two")  # type: ignore[union-attr]


def test_tgi_reserves_the_whole_answer_before_it_lets_a_request_in() -> None:
    """10 + 50 of 100 tokens are reserved: a second such request waits until the first has ended."""
    server = batcher(TGI)
    server.submit("a", 10, 50, 0.0)
    server.submit("b", 10, 50, 0.0)
    steps = drained(server)
    assert max(step.batch for step in steps) == 1


def test_vllm_takes_memory_as_it_is_written() -> None:
    """The same two requests run together, because 20 tokens of prompt are far from 100."""
    server = batcher(VLLM)
    server.submit("a", 10, 40, 0.0)
    server.submit("b", 10, 40, 0.0)
    assert max(step.batch for step in drained(server)) == 2


def test_vllm_puts_the_youngest_back_when_memory_runs_out() -> None:
    """Two grow from 10 to 70 tokens in 100: `b` is computed again, and both still get 60 tokens."""
    server = batcher(VLLM)
    server.submit("a", 10, 60, 0.0)
    server.submit("b", 10, 60, 0.0)
    steps = drained(server)
    assert steps[-1].finished == ("b",)
    assert Counter(name for step in steps for name in step.tokens) == {"a": 60, "b": 60}
    prompt_work = sum(step.duration_ms for step in steps) - 2 * 59
    assert prompt_work > 20  # more than the two prompts: `b`'s was done again


def test_vllm_mixes_decodes_and_prompt_chunks_within_its_budget() -> None:
    """Budget 40: `a` decodes (1), the newcomer's 60 tokens go 39 and 21, and its token comes with the second chunk."""
    server = batcher(VLLM)
    server.submit("a", 10, 9, 0.0)
    server.next_step(0.0)
    server.submit("b", 60, 9, 0.0)
    first, second = server.next_step(0.0), server.next_step(0.0)
    assert first is not None
    assert second is not None
    assert (first.duration_ms, first.tokens, first.prefilled) == (40.0, ("a",), ())
    assert (second.duration_ms, second.tokens, second.prefilled) == (22.0, ("a", "b"), ("b",))


def test_a_request_that_can_never_fit_is_refused_at_once() -> None:
    """101 tokens in a cache of 100; or beyond the server's own limits."""
    assert batcher(TGI).submit("a", 60, 41, 0.0) == "too_long"
    assert batcher(replace(TGI, max_request_tokens=50)).submit("a", 30, 21, 0.0) == "too_long"
    assert batcher(replace(TGI, max_input_tokens=20)).submit("a", 21, 1, 0.0) == "too_long"


def test_requests_past_the_admission_limit_are_refused_until_one_ends() -> None:
    """TGI counts running and waiting together and answers 429."""
    server = batcher(replace(TGI, max_admitted_requests=2))
    assert [server.submit(name, 5, 1, 0.0) for name in "abc"] == [None, None, "queue_full"]
    server.next_step(0.0)  # both finish with their first token, at 10 ms
    assert server.submit("c", 5, 1, 9.9) == "queue_full"
    assert server.submit("c", 5, 1, 10.0) is None


def test_a_cancelled_request_frees_its_memory_and_its_place() -> None:
    """Running or waiting; cancelling twice is harmless."""
    for limit in (TGI, VLLM):
        server = batcher(limit)
        server.submit("running", 10, 20, 0.0)
        server.next_step(0.0)
        server.submit("waiting", 10, 20, 0.0)
        assert [server.cancel("running"), server.cancel("waiting"), server.cancel("running")] == [True, True, False]
        assert (server.running, server.waiting, server.kv_tokens_held) == (0, 0, 0)
        assert server.next_step(0.0) is None


def test_mistakes_of_the_caller_are_errors() -> None:
    """An id in flight, an empty prompt, an empty answer, a cache of nothing."""
    server = batcher(TGI)
    server.submit("a", 5, 5, 0.0)
    for request in (("a", 5, 5), ("b", 0, 5), ("c", 5, 0)):
        with pytest.raises(InputError, match="expected a new id and at least 1"):
            server.submit(*request, 0.0)
    with pytest.raises(InputError, match="no KV cache"):
        batcher(replace(TGI, kv_token_capacity=None))
