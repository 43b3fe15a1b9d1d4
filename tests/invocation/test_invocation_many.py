"""The many-invoker: every item ends once, whatever the endpoint does, and sessions keep their order."""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_twin import made_invocation, now_ns, now_s, refused, run_virtual

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation import ChatMessage, GenerationRequest, Invocation, Outcome, OutcomeKind, RetryClass
from loadproof.invocation.chains import Item, chat_turn, prompt_turn
from loadproof.invocation.concurrency import Pace
from loadproof.invocation.engine import MOST_UNDELIVERED, ItemResult, Many
from loadproof.invocation.faults import ConnectionFault
from loadproof.invocation.many import invoke_many, invoke_many_sync
from loadproof.invocation.outcomes import outcome_of_fault
from loadproof.invocation.quotas import Quota, Quotas
from loadproof.invocation.retry import RetryPolicy

OK = Outcome(OutcomeKind.OK, 200)
ACCIDENT = Outcome(OutcomeKind.INTERNAL, 500, "HTTP 500", "broken", RetryClass.TRY_AGAIN)
POISON = Outcome(OutcomeKind.VALIDATION, 422, "HTTP 422", "too long", RetryClass.POISON)
NO_COPY = Outcome(OutcomeKind.NO_CAPACITY, 400, "ValidationError", "no capacity", RetryClass.NO_CAPACITY_YET)

Says = Callable[[GenerationRequest, int], Outcome]


class Endpoint:
    """Answers `re: <prompt>` after a second, or as `says(request, number)` has it; keeps what it saw."""

    def __init__(self, says: Says = lambda request, number: OK, takes_s: float = 1.0) -> None:
        self.says, self.takes_s = says, takes_s
        self.seen: list[GenerationRequest] = []
        self.sent_s: list[float] = []
        self.in_flight = self.most_in_flight = 0

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
        outcome = self.says(request, len(self.seen))
        self.seen.append(request)
        self.sent_s.append(now_s())
        started_ns = now_ns()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.takes_s if outcome.ok else 0.01)
        finally:
            self.in_flight -= 1
        arrivals = array("q", [now_ns()]) if outcome.ok else array("q")
        return made_invocation(outcome, started_ns, arrivals, now_ns(), 1, f"re: {request.prompt}")

    def under_way(self) -> list:
        return []


def item(key: object, chain: str | None = None, **more: object) -> Item:
    return Item(str(key), GenerationRequest(f"q{key}", 5), chain, **more)  # type: ignore[arg-type]


def run_all(endpoint: Endpoint, items: list[Item], most: int = 4, **options: object) -> list[ItemResult]:
    async def main() -> list[ItemResult]:
        many = Many(endpoint, Pace(most), clock_s=now_s, chance=Random(0), **options)  # type: ignore[arg-type]
        return [result async for result in many.run(items)]

    return run_virtual(main())


def test_as_many_as_allowed_are_in_flight_and_each_item_ends_once() -> None:
    """Ten items of a second each at four in flight: three seconds, ten answers."""
    endpoint = Endpoint()
    results = run_all(endpoint, [item(n) for n in range(10)])
    assert sorted(result.item.key for result in results) == sorted(str(n) for n in range(10))
    assert endpoint.most_in_flight == 4
    assert endpoint.sent_s == pytest.approx([0] * 4 + [1] * 4 + [2] * 2)


def test_an_accident_is_tried_again_and_the_result_counts_the_attempts() -> None:
    """Two 500s and then an answer: three requests, one result."""
    [result] = run_all(Endpoint(lambda request, number: ACCIDENT if number < 2 else OK), [item(1)])
    assert (result.outcome.ok, result.attempts, result.give_up) == (True, 3, None)


def test_poison_is_the_items_result_and_hurts_nobody_else() -> None:
    """One request for it; the others are answered."""
    endpoint = Endpoint(lambda request, number: POISON if request.prompt == "q1" else OK)
    results = {result.item.key: result for result in run_all(endpoint, [item(n) for n in range(4)])}
    assert (results["1"].give_up, results["1"].attempts, results["1"].outcome.message) == ("poison", 1, "too long")
    assert [results[key].outcome.ok for key in "023"] == [True] * 3


def test_text_no_json_can_carry_is_a_result_and_no_crash() -> None:
    """The invoker's InputError belongs to its item."""

    class Refusing(Endpoint):
        async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
            if request.prompt == "q1":
                raise InputError("the prompt is not valid Unicode")
            return await super().invoke(request)

    results = {result.item.key: result for result in run_all(Refusing(), [item(1), item(2)])}
    assert results["1"].outcome.message == "the prompt is not valid Unicode" and results["2"].outcome.ok


def test_a_scale_from_zero_loses_nothing_and_is_probed_gently() -> None:
    """Ten minutes without a copy: at most one request each 5 s, then all twenty items are answered."""
    endpoint = Endpoint()
    endpoint.says = lambda request, number: NO_COPY if now_s() < 600 else OK
    results = run_all(endpoint, [item(n) for n in range(20)])
    early = [at_s for at_s in endpoint.sent_s if at_s < 600]
    assert len(results) == 20 and all(result.outcome.ok for result in results)
    assert len(early) <= 600 / 5 + 4, "the four that found out, then one each 5 s"
    assert len(early) >= 600 / 60
    assert max(endpoint.sent_s) < 600 + 5 + 30, "full rate soon after"


def test_refusals_for_a_while_are_waited_for_at_one_probe_each_five_seconds() -> None:
    """Two minutes of 503 for everything: no item is lost, and no more than the probes are sent."""
    endpoint = Endpoint()
    endpoint.says = lambda request, number: refused(503) if 10 < now_s() < 130 else OK
    results = run_all(endpoint, [item(n) for n in range(200)])
    during = [at_s for at_s in endpoint.sent_s if 20 < at_s < 130]
    assert all(result.outcome.ok for result in results) and len(results) == 200
    assert len(during) <= 110 / 5 + 1


def test_a_third_of_500s_is_survived_within_the_budget() -> None:
    """Of 2,000 items 99.9% are answered, with at most 1.6 requests an item."""
    draw = Random(5)
    endpoint = Endpoint(lambda request, number: ACCIDENT if draw.random() < 0.3 else OK)
    results = run_all(endpoint, [item(n) for n in range(2000)], most=16)
    assert len(results) == 2000
    assert sum(result.outcome.ok for result in results) >= 1998
    assert len(endpoint.seen) <= 3200


def test_an_endpoint_that_never_answers_ends_the_run_early() -> None:
    """A thousand items at a dead port: an error after a few tens of requests, not a thousand failures."""
    endpoint = Endpoint(lambda request, number: ACCIDENT)
    with pytest.raises(CouldNotRunError, match="broken"):
        run_all(endpoint, [item(n) for n in range(1000)])
    assert len(endpoint.seen) < 60


SHORTAGE = outcome_of_fault(ConnectionFault("shortage", "Too many open files"), None)


def test_what_this_machine_lacks_is_no_items_failure() -> None:
    """Room for 8 connections, 64 asked for: fewer go at once, and every item is answered."""
    endpoint = Endpoint()
    endpoint.says = lambda request, number: OK if endpoint.in_flight < 8 else SHORTAGE
    results = run_all(endpoint, [item(n) for n in range(120)], most=64)
    assert [result.outcome.ok for result in results] == [True] * 120


def test_a_machine_that_can_connect_to_nothing_ends_the_run_early() -> None:
    """As a dead port does, and no item is a failure: --resume sends them all."""
    endpoint = Endpoint(lambda request, number: SHORTAGE)
    with pytest.raises(CouldNotRunError, match="Too many open files"):
        run_all(endpoint, [item(n) for n in range(1000)])
    assert len(endpoint.seen) < 60


def test_an_outage_in_the_middle_is_waited_for() -> None:
    """Five minutes of broken connections in between: all 300 items are answered, without 300 in vain meanwhile."""
    endpoint = Endpoint()
    endpoint.says = lambda request, number: ACCIDENT if 20 < now_s() < 320 else OK
    results = run_all(endpoint, [item(n) for n in range(300)], most=8)
    failed = [result for result in results if not result.outcome.ok]
    assert len(results) == 300 and len(failed) <= 15, "only probes spend attempts"
    assert len([at_s for at_s in endpoint.sent_s if 60 < at_s < 320]) <= 260 / 5 + 1


def test_quotas_spread_requests_over_the_minute() -> None:
    """1,200 tokens a minute, 120 a request (1 read, 1 written at 119): ten at once, then one each 6 s."""
    endpoint = Endpoint(takes_s=0.001)
    quotas = Quotas(Quota(tokens_per_min=1200, output_burndown=119), 0.0, lambda request: 100)
    items = [Item(str(n), GenerationRequest("q", 20)) for n in range(13)]
    run_all(endpoint, items, most=50, quotas=quotas)
    assert endpoint.sent_s == pytest.approx([0.0] * 10 + [6.0, 12.0, 18.0], abs=0.2)


@pytest.mark.parametrize(
    ("outcome", "sent_s"),
    [
        (ACCIDENT, [0.0] * 10 + [6.0, 12.0, 18.0]),  # it may have generated all: nothing comes back
        (POISON, [0.0] * 13),  # refused before anything was generated: all comes back
    ],
)
def test_a_request_that_failed_keeps_the_tokens_it_may_have_used(outcome: Outcome, sent_s: list[float]) -> None:
    """1,200 tokens a minute, 120 a request."""
    endpoint = Endpoint(lambda request, number: outcome)
    quotas = Quotas(Quota(tokens_per_min=1200), 0.0, lambda request: 100)
    items = [Item(str(n), GenerationRequest("q", 20)) for n in range(13)]
    run_all(endpoint, items, most=10, quotas=quotas, policy=RetryPolicy(max_attempts=1))
    assert endpoint.sent_s == pytest.approx(sent_s, abs=0.2)


def test_an_answer_that_nobody_counted_keeps_the_tokens_it_may_have_used() -> None:
    """Without the server's counts: ten at once out of 1,200 a minute at 120 each, then one each 6 s."""

    class Silent(Endpoint):
        async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
            return replace(await super().invoke(request, intended_ns), input_tokens=None, token_source="chunks")

    endpoint = Silent(takes_s=0.001)
    quotas = Quotas(Quota(tokens_per_min=1200), 0.0, lambda request: 100)
    items = [Item(str(n), GenerationRequest("q", 20)) for n in range(13)]
    run_all(endpoint, items, most=50, quotas=quotas)
    assert endpoint.sent_s == pytest.approx([0.0] * 10 + [6.0, 12.0, 18.0], abs=0.2)


# ---------------------------------------------------------------------------------------------------- sessions


def test_items_of_a_session_go_one_after_another_with_what_was_said() -> None:
    """The third turn carries both earlier prompts and their answers; another session runs beside it."""
    endpoint = Endpoint()
    results = run_all(endpoint, [item(n, chain) for n in (1, 2, 3) for chain in ("a", "b")])
    third = [request for request in endpoint.seen if request.prompt == "q3"]
    said = (
        ChatMessage("user", "q1"),
        ChatMessage("assistant", "re: q1"),
        ChatMessage("user", "q2"),
        ChatMessage("assistant", "re: q2"),
    )
    assert [request.history for request in third] == [said, said]
    assert endpoint.sent_s == pytest.approx([0, 0, 1, 1, 2, 2]) and len(results) == 6


def test_a_prompt_server_gets_the_session_as_one_text() -> None:
    """Prompt, answer, a line's end, and the new prompt."""
    endpoint = Endpoint()
    run_all(endpoint, [item(1, "a"), item(2, "a")], follow=prompt_turn)
    assert endpoint.seen[1].prompt == "q1re: q1\nq2"


def test_a_broken_session_is_not_gone_on_with() -> None:
    """Its later items are results that say so; nothing is sent for them, and other sessions go on."""
    endpoint = Endpoint(lambda request, number: POISON if request.prompt == "q1" else OK)
    items = [item(1, "a"), item(2, "a"), item(3, "a"), item(4, "b"), item(5, "b")]
    results = {result.item.key: result for result in run_all(endpoint, items)}
    assert [results[key].outcome.code for key in "123"] == ["HTTP 422", "ChainBroken", "ChainBroken"]
    assert [results[key].attempts for key in "23"] == [0, 0]
    assert results["5"].outcome.ok and len(endpoint.seen) == 3


def test_stored_answers_are_history_and_not_sent_again() -> None:
    """A session goes on where an earlier run left it."""
    endpoint = Endpoint()
    results = run_all(endpoint, [item(1, "a", stored="kept"), item(2, "a"), item(3, stored="kept")])
    assert [result.item.key for result in results] == ["2"]
    assert endpoint.seen[0].history == (ChatMessage("user", "q1"), ChatMessage("assistant", "kept"))


def test_a_session_that_failed_in_an_earlier_run_is_not_gone_on_with() -> None:
    """The item after the failed one was never sent, and is not now."""
    endpoint = Endpoint()
    [result] = run_all(endpoint, [item(1, "a", failed=True), item(2, "a"), item(3, failed=True)])
    assert (result.item.key, result.outcome.code, endpoint.seen) == ("2", "ChainBroken", [])


def test_one_long_session_does_not_starve_the_others() -> None:
    """Items of other sessions behind a hundred of one are read ahead and sent beside it."""
    endpoint = Endpoint()
    run_all(endpoint, [*(item(n, "long") for n in range(100)), item("x", "short")])
    assert endpoint.sent_s[[request.prompt for request in endpoint.seen].index("qx")] == 0


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=40),
    st.integers(1, 8),
    st.integers(0, 1000),
)
def test_whatever_happens_each_item_ends_once_and_sessions_keep_their_order(
    chains: list[str | None], most: int, seed: int
) -> None:
    """Any mix of sessions, accidents, refusals and poison."""
    draw = Random(seed)

    def says(request: GenerationRequest, number: int) -> Outcome:
        return draw.choices([OK, ACCIDENT, POISON, refused()], [6, 2, 1, 1])[0]

    endpoint = Endpoint(says)
    items = [item(n, chain) for n, chain in enumerate(chains)]
    results = run_all(endpoint, items, most=most)
    assert sorted(result.item.key for result in results) == sorted(one.key for one in items)
    assert endpoint.most_in_flight <= most
    for chain in "abc":
        order = [int(result.item.key) for result in results if result.item.chain == chain]
        assert order == sorted(order)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_chat_turn_appends_and_changes_nothing_else(first: str, answer: str, second: str) -> None:
    """History grows by two; prompt and length are the new request's."""
    turn = chat_turn(GenerationRequest(first, 1), answer, GenerationRequest(second, 9))
    assert turn.history == (ChatMessage("user", first), ChatMessage("assistant", answer))
    assert (turn.prompt, turn.max_output_tokens) == (second, 9)


# ---------------------------------------------------------------------------------------------------- stopping, reading


def test_stop_ends_what_is_in_flight_and_sends_nothing_more() -> None:
    """Four of a hundred are answered after a stop in the first second."""
    endpoint = Endpoint()

    async def main() -> list[ItemResult]:
        many = Many(endpoint, Pace(4), clock_s=now_s)
        asyncio.get_running_loop().call_later(0.5, many.stop)
        return [result async for result in many.run(item(n) for n in range(100))]

    assert len(run_virtual(main())) == 4 == len(endpoint.seen)


def test_items_are_read_only_as_they_are_needed() -> None:
    """An endless input: after three results no more was read than was sent."""
    read = 0

    def endless() -> Iterator[Item]:
        nonlocal read
        while True:
            read += 1
            yield item(read)

    async def main() -> None:
        many = Many(Endpoint(), Pace(4), clock_s=now_s)
        async with aclosing(many.run(endless())) as results:
            count = 0
            async for _ in results:
                count += 1
                if count == 3:
                    break

    run_virtual(main())
    assert read <= 12


def test_results_that_nobody_takes_stop_the_sending() -> None:
    """While the reader sleeps, at most the bound and what was in flight is sent."""
    endpoint = Endpoint(takes_s=0.01)

    async def main() -> int:
        many = Many(endpoint, Pace(64), clock_s=now_s)
        results = many.run(item(n) for n in range(10**6))
        await anext(results)
        await asyncio.sleep(60)
        await results.aclose()
        return len(endpoint.seen)

    assert run_virtual(main()) <= MOST_UNDELIVERED + 2 * 64


def test_an_error_of_the_input_is_raised_to_the_reader() -> None:
    """A generator that breaks is the caller's own bug, and no hang."""

    def broken() -> Iterator[Item]:
        yield item(1)
        raise KeyError("mine")

    async def main() -> None:
        async for _ in Many(Endpoint(), Pace(1), clock_s=now_s).run(broken()):
            pass

    with pytest.raises(KeyError, match="mine"):
        run_virtual(main())


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_concurrency_below_one_is_refused(concurrency: int) -> None:
    """With the value and what is allowed."""

    async def main() -> None:
        async for _ in invoke_many([item(1)], Endpoint(), concurrency=concurrency):
            pass

    with pytest.raises(InputError, match="auto or a whole number from 1"):
        run_virtual(main())


class QuickEndpoint(Endpoint):
    """The same without a virtual clock."""

    closed = False

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
        self.seen.append(request)
        await asyncio.sleep(0)
        return made_invocation(OK, 0, array("q", [1]), 2, 1, f"re: {request.prompt}")

    async def close(self) -> None:
        self.closed = True


def test_the_synchronous_face_yields_the_same_and_leaves_no_thread() -> None:
    """All items, then the invoker is closed and its thread gone."""
    endpoint, before = QuickEndpoint(), threading.active_count()
    results = list(invoke_many_sync([item(n) for n in range(50)], lambda: endpoint, concurrency=4))  # type: ignore[arg-type,return-value]
    assert sorted(int(result.item.key) for result in results) == list(range(50))
    assert endpoint.closed and threading.active_count() == before


def test_leaving_the_synchronous_face_early_ends_its_thread() -> None:
    """A `break` after the first of an endless input."""
    endpoint, before = QuickEndpoint(), threading.active_count()
    endless = (item(n) for n in iter(int, 1))
    results = invoke_many_sync(endless, lambda: endpoint, concurrency=4)  # type: ignore[arg-type,return-value]
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert endpoint.closed and threading.active_count() == before


def test_the_synchronous_face_raises_what_ended_the_run() -> None:
    """In the caller's thread."""
    with pytest.raises(InputError, match="whole number from 1"):
        list(invoke_many_sync([item(1)], lambda: QuickEndpoint(), concurrency=0))  # type: ignore[arg-type,return-value]
