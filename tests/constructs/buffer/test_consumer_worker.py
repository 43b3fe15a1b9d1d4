"""The life of a message on a virtual clock: what is stored, postponed, dead-lettered and given back, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from consumer_memory import FUNCTION_S, LEASE_S, Answer, Process, World, answered, body_of

from loadproof.constructs.buffer.runtime.consumer.failures import Kind, ModelFailure
from loadproof.constructs.buffer.runtime.consumer.worker import Ending
from loadproof.localcloud.queue.sqs.message import checked_attributes
from loadproof.localcloud.queue.sqs.queue import Queue

DAY_S = 86_400


@pytest.fixture
def world() -> World:
    return World()


def sequence(*steps: Kind | None) -> Answer:
    """A model that fails in these ways, one a call, and answers where it says None and ever after."""
    left: Iterator[Kind | None] = iter(steps)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        kind = next(left, None)
        if kind is not None:
            raise ModelFailure(kind, f"test says {kind}")
        return answered(request)

    return answer


def taking(world: World, seconds: float) -> Answer:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        world.clock.sleep(seconds)
        return answered(request)

    return answer


def letters(world: World, queue: Queue) -> list[tuple[str, dict[str, str]]]:
    """Bodies with the attributes that are there."""
    found = world.queued(queue)
    return [(one.body, {name: str(value.value) for name, value in one.attributes.items()}) for one in found]


def test_a_result_is_stored_once_and_says_where_it_comes_from(world: World) -> None:
    """The contract's fields; the message is gone and its key done."""
    message = world.send(body_of("order-17"))
    assert Process(world, answered).serve_one() is Ending.STORED
    assert world.results["order-17"] == {
        "schema_version": 1,
        "key": "order-17",
        "message_id": message.id,
        "endpoint": "chat",
        "component": None,
        "model_revision": "r1",
        "duration_ms": 0.0,
        "answer": {"choices": [{"index": 0, "text": "answer to order-17", "finish_reason": "stop"}], "usage": None},
    }
    assert world.queued(world.requests) == []
    assert world.claims["order-17"]["phase"] == "done"


def test_the_same_key_again_costs_no_generation(world: World) -> None:
    """Sent twice: one generation, one write, both messages gone."""
    world.send(body_of("a"))
    world.send(body_of("a"))
    process = Process(world, answered)
    assert [process.serve_one(), process.serve_one()] == [Ending.STORED, Ending.DUPLICATE]
    assert (world.generations["a"], world.writes["a"], world.queued(world.requests)) == (1, 1, [])
    assert process.counts()["DuplicatesAvoided"] == 1


@pytest.mark.parametrize("taken_away", [False, True])
def test_a_key_whose_result_has_gone_is_answered_again(world: World, taken_away: bool) -> None:
    """Asked once a day for 62 days, with results that go after 30: three are written, and after no message is there
    none, whether DynamoDB takes expired records away or leaves them."""
    stored_s = 0.0
    for _ in range(62):
        if world.clock.now_s() - stored_s >= 30 * DAY_S:
            world.results.clear()
        if taken_away and world.claims and world.claims["a"]["expires_s"] < world.clock.now_s():
            world.claims.clear()
        before = world.writes["a"]
        world.send(body_of("a"))
        assert Process(world, answered).serve_one() in (Ending.STORED, Ending.DUPLICATE)
        assert "a" in world.results
        stored_s = world.clock.now_s() if world.writes["a"] > before else stored_s
        world.clock.time_s += DAY_S
    assert world.writes["a"] == 3


def test_a_result_deleted_by_hand_is_made_anew(world: World) -> None:
    """The record still says done; the bucket decides."""
    process = Process(world, answered)
    for _ in range(2):
        world.send(body_of("a"))
        assert process.serve_one() is Ending.STORED
        world.results.clear()
    assert world.generations["a"] == 2


def test_without_a_key_the_request_is_the_key(world: World) -> None:
    """Two messages with the same request and no key are one result."""
    for _ in range(2):
        world.send(json.dumps({"request": {"inputs": "same"}}))
    process = Process(world, answered)
    assert [process.serve_one(), process.serve_one()] == [Ending.STORED, Ending.DUPLICATE]
    (key,) = world.results
    assert len(key) == 64


def test_a_killed_consumer_is_noticed_within_a_lease(world: World) -> None:
    """Killed right after its claim: a lease and five seconds later the message is there, its key free, and answered."""
    world.send(body_of("a"))
    Process(world, answered, dies_at=4).serve_one()
    world.clock.sleep(LEASE_S + 4)
    assert Process(world, answered).serve_one() is None
    world.clock.sleep(2)
    assert Process(world, answered).serve_one() is Ending.STORED


def test_a_generation_longer_than_the_lease_is_not_repeated(world: World) -> None:
    """250 s of work under a lease of 60 s: nobody else ever sees the message."""
    world.send(body_of("a"))
    others: list[Ending | None] = []
    world.clock.during.append(lambda: others.append(Process(world, answered).serve_one()))
    assert Process(world, taking(world, 250)).serve_one() is Ending.STORED
    assert world.generations["a"] == 1
    assert set(others) == {None}


def test_a_key_held_elsewhere_waits_without_spending_receives(world: World) -> None:
    """The second message of a key that is worked on is sent anew with a delay, received never; later it is free."""
    world.send(body_of("a"))
    world.send(body_of("a"))
    seen: list[Ending | None] = []

    def other() -> None:
        world.clock.during.remove(other)
        seen.append(Process(world, answered).serve_one())

    world.clock.during.append(other)
    assert Process(world, taking(world, 100)).serve_one() is Ending.STORED
    assert seen == [Ending.POSTPONED]
    (waiting,) = world.queued(world.requests)
    assert (waiting.receives, waiting.attributes["postponed"].value) == (0, "1")
    world.clock.sleep(70)
    assert Process(world, answered).serve_one() is Ending.DUPLICATE
    assert world.generations["a"] == 1


def test_the_put_decides_between_two_owners(world: World) -> None:
    """A consumer that lost its lease while it worked finds a result: its generation is wasted, and nothing changes."""
    world.send(body_of("a"))

    class Frozen(Process):
        heartbeat = False

    def other() -> None:
        if world.clock.now_s() > begun_s + 100:
            world.clock.during.remove(other)
            assert Process(world, answered).serve_one() is Ending.STORED

    begun_s = world.clock.now_s()
    world.clock.during.append(other)
    late = Frozen(world, taking(world, 200))
    assert late.serve_one() is Ending.DUPLICATE
    assert (world.writes["a"], late.counts()["WastedGenerations"]) == (1, 1)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "not strict JSON at line 1, column 2"),
        (body_of("a", callback="arn:aws:sns:us-east-1:123456789012:other"), "`callback` is not among"),
        (json.dumps({"key": "a", "request_s3": "requests/none"}), "`request_s3` names nothing"),
        (json.dumps({"key": "a", "request": {"inputs": "one two", "max_tokens": 9}}), "exceed the model's context"),
    ],
)
def test_what_can_never_be_served_goes_to_the_dead_letters_at_once(world: World, body: str, reason: str) -> None:
    """In one attempt, without an invocation, with a reason that quotes nothing, and when it was sent."""
    sent_ms = int(world.clock.now_s() * 1000)
    world.send(body)
    assert Process(world, answered, context_tokens=10).serve_one() is Ending.DEAD_LETTERED
    assert (world.queued(world.requests), sum(world.generations.values())) == ([], 0)
    ((dead, attributes),) = letters(world, world.dead_letters)
    assert dead == body
    assert attributes["reason"].startswith(reason) or reason in attributes["reason"]
    assert (attributes["first_sent_ms"], attributes["attempts"]) == (str(sent_ms), "0")


def test_a_request_that_the_model_refuses_is_dead_lettered_and_free_again(world: World) -> None:
    """One invocation; a redrive after the model was mended finds the key free and its attempts forgotten."""
    world.send(body_of("a"))
    assert Process(world, sequence(Kind.POISON)).serve_one() is Ending.DEAD_LETTERED
    ((_, attributes),) = letters(world, world.dead_letters)
    assert (attributes["reason"], attributes["attempts"]) == ("test says poison", "1")
    world.engine.start_move(world.engine.queue(world.dead_letters.arn), world.requests.arn, None)
    assert Process(world, answered).serve_one() is Ending.STORED


def test_accidents_are_tried_again_in_hand(world: World) -> None:
    """Three failures and an answer: four invocations, one receive, nothing sent anew."""
    world.send(body_of("a"))
    again = Kind.TRY_AGAIN
    assert Process(world, sequence(again, again, again)).serve_one() is Ending.STORED
    assert world.generations["a"] == 4


def test_after_its_attempts_a_message_is_dead_lettered(world: World) -> None:
    """Eight failures, counted over postponing and over processes; never a ninth."""
    world.send(body_of("a"))
    for _ in range(20):
        if world.queued(world.dead_letters):
            break
        Process(world, sequence(*[Kind.TRY_AGAIN] * 9)).serve_one()
        world.clock.sleep(LEASE_S)
    assert world.generations["a"] == 8
    ((_, attributes),) = letters(world, world.dead_letters)
    assert attributes["reason"] == "failed 8 times, the last time: test says try_again"


def test_a_time_out_while_others_are_answered_is_the_message_s_own(world: World) -> None:
    """100 others answered and none timed out, twice: -100 log10(0.3 / 101) = 253 each, and 400 bury it."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        for _ in range(100):
            process.pace.answered(world.clock.now_s())
        raise ModelFailure(Kind.TIMED_OUT, "test says so")

    process = Process(world, answer)
    world.send(body_of("a"))
    assert process.serve_one() is Ending.DEAD_LETTERED
    assert world.generations["a"] == 2
    assert letters(world, world.dead_letters)[0][1]["reason"] == "timed out more often than others: test says so"


def test_a_message_alone_times_out_as_often_as_anything_may_fail(world: World) -> None:
    """With nobody to compare with, a time-out is an accident like others: three allowed, three made."""
    world.send(body_of("a"))
    assert Process(world, sequence(*[Kind.TIMED_OUT] * 9), max_attempts=3).serve_one() is Ending.DEAD_LETTERED
    assert world.generations["a"] == 3


def test_time_outs_that_strike_many_at_once_bury_nobody(world: World) -> None:
    """Nine of ten others time out as well, 20 times over: no attempt is spent, and the answer is stored at last."""
    left = [Kind.TIMED_OUT] * 20

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        for other in range(10):
            if other:
                process.pace.refused(Kind.TIMED_OUT, world.clock.now_s())
            else:
                process.pace.answered(world.clock.now_s())
        if left:
            raise ModelFailure(left.pop(), "test says so")
        return answered(request)

    process = Process(world, answer, max_attempts=3)
    world.send(body_of("a"))
    endings = [process.serve_one() for _ in range(3) if not world.clock.sleep(120)]
    assert Ending.STORED in endings
    assert not world.queued(world.dead_letters)


def test_time_outs_of_the_same_moment_count_whoever_is_first(world: World) -> None:
    """Three others time out while this one waits to be judged: no attempt is spent, not even the only one."""
    left = [Kind.TIMED_OUT] * 3

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if left:
            world.clock.during.append(others)
            raise ModelFailure(left.pop(), "test says so")
        return answered(request)

    def others() -> None:
        world.clock.during.remove(others)
        for _ in range(3):
            process.pace.refused(Kind.TIMED_OUT, world.clock.now_s())

    process = Process(world, answer, max_attempts=1)
    world.send(body_of("a"))
    assert process.serve_one() is Ending.STORED
    assert world.generations["a"] == 4


def test_suspicion_outlives_postponing(world: World) -> None:
    """It goes with the key's record from consumer to consumer."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        for _ in range(100):
            process.pace.answered(world.clock.now_s())
        world.clock.sleep(300)  # leaves no time for another attempt
        raise ModelFailure(Kind.TIMED_OUT, "test says so")

    process = Process(world, answer)
    world.send(body_of("a"))
    assert process.serve_one() is Ending.POSTPONED
    assert world.claims["a"]["suspicion"] == 253
    world.clock.sleep(60)
    process = Process(world, answer)
    assert process.serve_one() is Ending.DEAD_LETTERED


@pytest.mark.parametrize("kind", [Kind.SLOW_DOWN, Kind.UNAVAILABLE, Kind.NO_RIGHT, Kind.NO_CAPACITY_YET])
def test_what_time_heals_spends_neither_receives_nor_attempts(world: World, kind: Kind) -> None:
    """An hour of refusals: sent anew again and again, never dead-lettered, received once each time, then answered."""
    world.send(body_of("a"))
    begun_s = world.clock.now_s()
    sent = {message.sent_s for message in world.queued(world.requests)}

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if world.clock.now_s() < begun_s + 3600:
            raise ModelFailure(kind, "test")
        return answered(request)

    endings = []
    while (ending := Process(world, answer).serve_one()) is not Ending.STORED:
        endings.append(ending)
        assert all(message.receives <= 1 for message in world.queued(world.requests))
        world.clock.sleep(1)
    assert set(endings) <= {Ending.POSTPONED, None}
    assert world.queued(world.dead_letters) == []
    assert len(sent) == 1


def test_a_right_that_only_one_message_lacks_is_its_own_fault(world: World) -> None:
    """While others are served its refusals are attempts: it ends as a dead letter within ten minutes, and the gate that
    its first two closed stays open."""
    begun_s = world.clock.now_s()
    closed: list[float] = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["inputs"] == "bad":
            raise ModelFailure(Kind.NO_RIGHT, "the endpoint answered AccessDeniedException")
        return answered(request)

    def other() -> None:
        if bad_sent and len(world.queued(world.requests)) < 2:
            world.send(body_of(f"good{world.clock.now_s()}"))
            Process(world, answer).serve_one()
        if world.record.gate != "open":
            closed.append(world.clock.now_s())

    bad_sent = world.send(body_of("bad"))
    world.clock.during.append(other)
    while not world.queued(world.dead_letters):
        assert world.clock.now_s() < begun_s + 600
        Process(world, answer).serve_one()
        world.clock.sleep(1)
    ((_, attributes),) = letters(world, world.dead_letters)
    reason = "the endpoint answered AccessDeniedException while others are served"
    assert attributes["reason"] == f"failed 8 times, the last time: {reason}"
    assert max(closed, default=begun_s) < begun_s + 120
    assert not any(key == "bad" for key in world.results)


def test_a_refusal_after_it_was_served_itself_is_a_new_one(world: World) -> None:
    """Rights are gone, come back, and go again: what is served between the two says nothing of the second time."""
    endings = iter([Kind.NO_RIGHT, *[Kind.TRY_AGAIN] * 7, Kind.NO_RIGHT, None])
    begun_s = world.clock.now_s()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        kind = next(endings) if request["inputs"] == "one" else None
        if kind is not None:
            raise ModelFailure(kind, "test")
        return answered(request)

    def other() -> None:
        """Served in between, when the first refusal is long over."""
        if begun_s + 20 < world.clock.now_s() and "other" not in world.results:
            world.send(body_of("other"))
            process.serve_one()

    process = Process(world, answer)
    world.send(body_of("one"))
    world.clock.during.append(other)
    while "one" not in world.results:
        assert not world.queued(world.dead_letters)
        process.serve_one()
        world.clock.sleep(1)
    assert next(endings, "ended") == "ended"


def test_age_and_tenant_outlive_postponing(world: World) -> None:
    """The first send's time, the tenant's group and the sender's own attributes are on the new message."""
    sent_ms = int(world.clock.now_s() * 1000)
    world.send(body_of("a", priority="low"), group="blue")
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1 << 50)
    assert Process(world, answered).serve_one() is Ending.POSTPONED
    (waiting,) = world.queued(world.requests)
    assert waiting.group == "blue"
    assert waiting.attributes["first_sent_ms"].value == str(sent_ms)
    assert world.generations["a"] == 0


def test_low_priority_is_postponed_at_once_and_the_rest_waits_in_hand(world: World) -> None:
    """Behind a closed gate: a low message leaves the consumer's hand without waiting, a normal one in two minutes."""
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1 << 50)
    taken_s = []
    for priority in ("low", "normal"):
        world.send(body_of(priority, priority=priority))
        begun_s = world.clock.now_s()
        Process(world, answered).serve_one()
        taken_s.append(world.clock.now_s() - begun_s)
    assert taken_s[0] == 0
    assert 120 < taken_s[1] < 160


@pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.NO_CAPACITY_YET])
def test_where_all_that_waits_is_of_low_priority_it_probes(world: World, kind: Kind) -> None:
    """Ten minutes away, and only low messages in the queue: they ask as others would, and are answered within a minute
    of the end, instead of waiting behind a gate that nobody opens until they are too old."""
    for key in "abc":
        world.send(body_of(key, priority="low"))
    back_s = world.clock.now_s() + 600
    asked_s = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        asked_s.append(world.clock.now_s())
        if world.clock.now_s() < back_s:
            raise ModelFailure(kind, "test")
        return answered(request)

    while world.clock.now_s() < back_s + 60:
        Process(world, answer).serve_one()
        world.clock.sleep(1)
    assert set(world.results) == {"a", "b", "c"}
    assert max(later - earlier for earlier, later in pairwise(asked_s)) <= 60
    assert world.queued(world.dead_letters) == []


@pytest.mark.parametrize(("sent", "gate"), [(True, "open"), (False, "unavailable")])
def test_a_refusal_of_ones_own_says_nothing_of_the_endpoint(world: World, sent: bool, gate: str) -> None:
    """A poisonous message is the probe at a closed gate: the endpoint's no opens it, one that never left does not."""
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1)
    world.send(body_of("a"))

    def refuse(request: dict[str, Any]) -> dict[str, Any]:
        raise ModelFailure(Kind.POISON, "test", sent=sent)

    assert Process(world, refuse).serve_one() is Ending.DEAD_LETTERED
    assert world.record.gate == gate


def test_after_its_deadline_nothing_is_invoked(world: World) -> None:
    """A message that nobody waits for any more goes to the dead letters; a result that is there is still told of."""
    late_ms = int(world.clock.now_s() * 1000) - 1
    world.send(body_of("a", deadline_ms=late_ms))
    process = Process(world, answered)
    assert process.serve_one() is Ending.DEAD_LETTERED
    ((_, attributes),) = letters(world, world.dead_letters)
    assert attributes["reason"] == "its deadline has passed"
    assert (world.generations["a"], process.counts()["Expired"]) == (0, 1)


def test_nothing_is_postponed_beyond_the_retention(world: World) -> None:
    """SQS begins to count anew with each sending; the consumer does not."""
    world.send(body_of("a"))
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1 << 50)
    process = Process(world, answered, retention_s=600.0)
    while world.queued(world.requests):
        process.serve_one()
        world.clock.sleep(10)
    ((_, attributes),) = letters(world, world.dead_letters)
    assert attributes["reason"].startswith("older than the buffer's retention, and ")


def test_an_old_backlog_becomes_dead_letters_before_sqs_deletes_it(world: World) -> None:
    """Nothing is served for an hour and a half, and each waits in hand for two minutes; kept for half of that, with
    SQS's day on top, one consumer at a time loses none of 70: all are dead letters or have results."""
    kept_s = 0.75 * 3600
    world.engine.set_attributes(
        world.engine.queue(world.requests.arn), {"MessageRetentionPeriod": str(int(kept_s) + DAY_S)}
    )
    for number in range(70):
        world.send(body_of(f"k{number}"))
    back_s = world.clock.now_s() + 1.5 * 3600

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if world.clock.now_s() < back_s:
            raise ModelFailure(Kind.NO_CAPACITY_YET, "test")
        return answered(request)

    process = Process(world, answer, retention_s=kept_s)
    while world.queued(world.requests):
        if process.serve_one() is None:
            world.clock.sleep(30)
    assert len(world.results) + len(world.queued(world.dead_letters)) == 70
    assert len(world.queued(world.dead_letters)) > 40


def test_what_is_too_old_does_not_wait_at_a_closed_gate(world: World) -> None:
    """Twenty of them leave their consumer at once, so that a backlog is told of within the day that SQS leaves."""
    for number in range(20):
        world.send(body_of(f"k{number}"))
    world.clock.sleep(601)
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1 << 50)
    process, begun_s = Process(world, answered, retention_s=600.0), world.clock.now_s()
    assert {process.serve_one() for _ in range(20)} == {Ending.DEAD_LETTERED}
    assert world.clock.now_s() == begun_s


def test_an_answer_outlives_a_store_that_is_down(world: World) -> None:
    """The bucket fails after the generation: the answer is kept, others leave the key alone, and it is stored later."""
    world.send(body_of("a"))

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        world.down.add("results")
        return answered(request)

    process = Process(world, answer)
    assert process.serve_one() is Ending.POSTPONED
    world.clock.sleep(40)
    assert Process(world, answered).serve_one() is Ending.POSTPONED
    world.down.clear()
    world.clock.sleep(70)
    assert process.serve_one() is Ending.STORED
    assert (world.generations["a"], world.writes["a"]) == (1, 1)


def test_while_the_store_is_down_nothing_more_is_generated(world: World) -> None:
    """One answer waits for the bucket; the next message is postponed instead of paid for."""
    for key in "ab":
        world.send(body_of(key))

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        world.down.add("results")
        return answered(request)

    process = Process(world, answer)
    assert [process.serve_one(), process.serve_one()] == [Ending.POSTPONED, Ending.POSTPONED]
    assert sum(world.generations.values()) == 1


def test_claims_that_are_down_lose_nothing(world: World) -> None:
    """Nothing is generated without a claim; the message is sent anew, and answered when the table is back."""
    world.send(body_of("a"))
    world.down.add("claims")
    assert Process(world, answered).serve_one() is Ending.POSTPONED
    assert world.generations["a"] == 0
    world.down.clear()
    world.clock.sleep(60)
    assert Process(world, answered).serve_one() is Ending.STORED


def test_told_to_stop_it_gives_back_at_once(world: World) -> None:
    """A message that was not begun is visible again at once, and its key is free."""
    world.send(body_of("a"))
    process = Process(world, answered)
    delivery = process.receive()
    assert delivery is not None
    world.clock.stop()
    assert process.serve(delivery) is Ending.RELEASED
    assert [message.state.name for message in world.queued(world.requests)] == ["VISIBLE"]


def test_a_callback_is_told_after_the_result_and_again_for_a_duplicate(world: World) -> None:
    """At least once each message: who sends a key again is told as well."""
    arn = "arn:aws:sns:us-east-1:123456789012:told"
    process = Process(world, answered, callbacks=frozenset({arn}))
    for _ in range(2):
        world.send(body_of("a", callback=arn))
        process.serve_one()
    assert [json.loads(text) for text in world.told] == [
        {"key": "a", "result": "s3://results-bucket/results/a.json"}
    ] * 2


def test_binary_attributes_of_the_sender_go_with_the_letter(world: World) -> None:
    """Text and bytes are on the dead letter as they were on the message."""
    own = {
        "trace": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        "from": {"DataType": "String", "StringValue": "shop"},
    }
    world.engine.send(world.engine.queue(world.requests.arn), "{", checked_attributes(own), sender="test")
    assert Process(world, answered).serve_one() is Ending.DEAD_LETTERED
    (dead,) = world.queued(world.dead_letters)
    assert (dead.attributes["trace"].value, dead.attributes["from"].value) == (b"\x00\xff", "shop")


def test_a_request_from_the_bucket(world: World) -> None:
    """The claim check: the payload lies in the bucket, its digest is the key."""
    world.kept_requests["requests/large"] = json.dumps({"inputs": "large"})
    world.send(json.dumps({"request_s3": "requests/large"}))
    assert Process(world, answered).serve_one() is Ending.STORED
    assert world.generations["large"] == 1


def test_a_message_of_the_longest_length_can_be_postponed(world: World) -> None:
    """1,048,576 bytes have no room for attributes: the request goes to the bucket, and the key stays the same."""
    empty = len(json.dumps({"request": {"inputs": ""}}))
    world.send(json.dumps({"request": {"inputs": "x" * (1_048_576 - empty)}}))
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1 << 50)
    assert Process(world, answered).serve_one() is Ending.POSTPONED
    (waiting,) = world.queued(world.requests)
    assert len(waiting.body) < 1000
    (place,) = world.kept_requests
    assert json.loads(waiting.body)["request_s3"] == place
    assert json.loads(waiting.body)["key"] == place.removeprefix("requests/")
    world.record = world.record.__class__()
    world.clock.sleep(60)
    assert Process(world, answered).serve_one() is Ending.STORED


def test_a_message_as_long_as_its_queue_takes_can_be_postponed(world: World) -> None:
    """A queue of 262,144 bytes (buffer.max_message_bytes): the request goes to the bucket there too."""
    world.engine.set_attributes(world.engine.queue(world.requests.arn), {"MaximumMessageSize": "262144"})
    empty = len(json.dumps({"request": {"inputs": ""}}))
    world.send(json.dumps({"request": {"inputs": "x" * (262_144 - empty)}}))
    world.record = world.record.__class__(gate="unavailable", gate_ms=1, probe_ms=1 << 50)
    assert Process(world, answered, most_message_bytes=262_144).serve_one() is Ending.POSTPONED
    (waiting,) = world.queued(world.requests)
    assert "request_s3" in json.loads(waiting.body)


def test_a_function_without_much_time_still_makes_its_first_attempt(world: World) -> None:
    """Where the timeouts leave no room for waiting, a first invocation is begun and bounded by the function's end."""
    world.send(body_of("a"))
    assert FUNCTION_S < 10_000
    assert Process(world, answered, timeout_s=10_000.0).serve_one() is Ending.STORED
