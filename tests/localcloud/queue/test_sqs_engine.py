"""SQS's rules, on a clock that the test moves."""

from __future__ import annotations

import json
import sys

import pytest
from sqs_world import CALLER, World

from loadproof.localcloud.queue.sqs.moves import COMPLETED, FAILED, RUNNING
from loadproof.localcloud.queue.sqs.queue import Queue
from loadproof.localcloud.wire import AwsError


@pytest.fixture
def world() -> World:
    return World()


def with_dead_letters(world: World, most_receives: int, **attributes: object) -> tuple[Queue, Queue]:
    dead = world.queue("dead")
    policy = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": most_receives})
    return world.queue("source", RedrivePolicy=policy, **attributes), dead


def refusal(code: str, action: object, *arguments: object) -> str:
    with pytest.raises(AwsError) as caught:
        action(*arguments)  # type: ignore[operator]
    assert caught.value.code == code
    return caught.value.message


def test_a_message_is_hidden_for_its_visibility_and_no_longer(world: World) -> None:
    """Received at 0 with 30 s: still hidden at 29.9, there again at 30."""
    queue = world.queue()
    world.send(queue)
    assert world.bodies(queue) == ["x"]
    world.pass_s(29.9)
    assert world.bodies(queue) == []
    world.pass_s(0.1)
    assert world.bodies(queue) == ["x"]


def test_a_stale_receipt_deletes_nothing_once_the_message_was_received_again(world: World) -> None:
    """The first receiver is late: its delete ends well and does nothing; the second one's receipt deletes."""
    queue = world.queue()
    world.send(queue)
    ((_, first),) = world.receive(queue)
    world.pass_s(31)
    ((_, second),) = world.receive(queue)
    world.engine.delete(queue, first)
    assert world.counts(queue) == (0, 1, 0)
    world.engine.delete(queue, second)
    assert world.counts(queue) == (0, 0, 0)


def test_the_last_receipt_still_deletes_a_message_that_is_visible_again(world: World) -> None:
    """Nobody has received it since: the delete takes it out of the queue."""
    queue = world.queue()
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.pass_s(31)
    assert world.counts(queue) == (1, 0, 0)
    world.engine.delete(queue, handle)
    assert world.counts(queue) == (0, 0, 0)
    assert world.bodies(queue) == []


def test_deleting_twice_is_no_error(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.engine.delete(queue, handle)
    world.engine.delete(queue, handle)
    assert queue.traffic["NumberOfMessagesDeleted"] == 1


def test_a_heartbeat_hides_from_the_moment_it_is_sent(world: World) -> None:
    """At 20 s hide for 30 more: visible at 50, not at 49.9 and not at the first 30."""
    queue = world.queue()
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.pass_s(20)
    world.engine.change_visibility(queue, handle, 30)
    world.pass_s(29.9)
    assert world.bodies(queue) == []
    world.pass_s(0.1)
    assert world.bodies(queue) == ["x"]


def test_visibility_zero_gives_a_message_back_at_once(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.engine.change_visibility(queue, handle, 0)
    assert world.counts(queue) == (1, 0, 0)


def test_a_late_heartbeat_is_accepted_and_hides_nothing(world: World) -> None:
    """Visible again, and nobody has it: AWS answers 200 and the message stays visible."""
    queue = world.queue()
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.pass_s(31)
    world.engine.change_visibility(world.settled(queue), handle, 600)
    assert world.counts(queue) == (1, 0, 0)


def test_a_heartbeat_after_another_receive_or_a_delete_is_refused(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    ((_, first),) = world.receive(queue)
    world.pass_s(31)
    ((_, second),) = world.receive(queue)
    text = refusal("InvalidParameterValueException", world.engine.change_visibility, queue, first, 30)
    assert text.endswith("Reason: Message does not exist or is not available for visibility timeout change.")
    world.engine.delete(queue, second)
    refusal("InvalidParameterValueException", world.engine.change_visibility, queue, second, 30)


def test_visibility_ends_twelve_hours_after_the_receive(world: World) -> None:
    """10 h in, 2 h more are allowed and a second more is not; after 12 h the receipt itself has expired."""
    queue = world.queue(VisibilityTimeout=43200)
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.pass_s(36_000)
    world.engine.change_visibility(queue, handle, 7200)
    text = refusal("InvalidParameterValueException", world.engine.change_visibility, queue, handle, 7201)
    assert text.endswith("Total VisibilityTimeout for the message is beyond the limit [43200 seconds]")
    world.pass_s(7201)
    text = refusal("InvalidParameterValueException", world.engine.delete, world.settled(queue), handle)
    assert text.endswith("The receipt handle has expired.")


def test_a_receipt_of_another_queue_or_of_nobody_is_no_receipt(world: World) -> None:
    one, other = world.queue("one"), world.queue("other")
    world.send(one)
    ((_, handle),) = world.receive(one)
    for wrong in (handle, "nonsense", "", "TFAx" + handle[4:-2] + "AA"):
        text = refusal("ReceiptHandleIsInvalid", world.engine.delete, other, wrong)
        assert text == f'The input receipt handle "{wrong}" is not a valid receipt handle.'


def test_delays_of_the_queue_and_of_the_message(world: World) -> None:
    """A queue's 5 s hold unless the message says 0 or 10."""
    queue = world.queue(DelaySeconds=5)
    world.send(queue, "queue's")
    world.send(queue, "none", delay_s=0)
    world.send(queue, "own", delay_s=10)
    assert world.counts(queue) == (1, 0, 2)
    assert world.bodies(queue) == ["none"]
    world.pass_s(5)
    assert world.bodies(queue) == ["queue's"]
    world.pass_s(5)
    assert world.bodies(queue) == ["own"]


def test_messages_go_when_their_retention_ends(world: World) -> None:
    """60 s after they were sent, in flight or not."""
    queue = world.queue(MessageRetentionPeriod=60)
    world.send(queue, "old")
    world.receive(queue, visibility_s=600)
    world.pass_s(30)
    world.send(queue, "young")
    world.pass_s(30)
    assert world.counts(queue) == (1, 0, 0)
    assert world.bodies(queue) == ["young"]


def test_a_message_received_too_often_becomes_a_dead_letter_with_its_past(world: World) -> None:
    """maxReceiveCount 2: delivered twice, then among the dead letters with id, time, count and source kept."""
    queue, dead = with_dead_letters(world, 2, VisibilityTimeout=1)
    sent_s = world.now_s
    sent = world.send(queue, "poison")
    for _ in range(2):
        assert world.bodies(queue) == ["poison"]
        world.pass_s(1)
    assert world.bodies(queue) == []
    assert world.counts(queue) == (0, 0, 0)
    ((letter, _),) = world.receive(dead)
    attributes = letter.system_attributes()
    assert letter.id == sent.id
    assert attributes["SentTimestamp"] == str(int(sent_s * 1000))
    assert attributes["ApproximateReceiveCount"] == "3"
    assert attributes["DeadLetterQueueSourceArn"] == queue.arn


def test_a_dead_letter_expires_by_the_time_it_was_first_sent(world: World) -> None:
    """Source and dead-letter queue keep 100 s: dead at 90 s, gone at 100."""
    queue, dead = with_dead_letters(world, 1, VisibilityTimeout=90, MessageRetentionPeriod=100)
    world.engine.set_attributes(dead, {"MessageRetentionPeriod": "100"})
    world.send(queue)
    world.receive(queue)
    world.pass_s(90)
    assert world.bodies(queue) == []
    assert world.counts(dead) == (1, 0, 0)
    world.pass_s(10)
    assert world.counts(dead) == (0, 0, 0)


def test_an_old_receipt_does_nothing_after_the_move_to_the_dead_letters(world: World) -> None:
    queue, dead = with_dead_letters(world, 1)
    world.send(queue)
    ((_, handle),) = world.receive(queue)
    world.pass_s(30)
    world.receive(queue)
    world.engine.delete(queue, handle)
    assert world.counts(dead) == (1, 0, 0)


def test_the_age_of_the_oldest_leaves_out_what_was_received_three_times(world: World) -> None:
    """Poison of 100 s and a young one of 10 s: 100 until its third receive, then 10. Such age alarms miss poison."""
    queue = world.queue(VisibilityTimeout=0)
    world.send(queue, "poison")
    world.pass_s(90)
    world.send(queue, "young")
    world.pass_s(10)
    for _ in range(2):
        world.receive(queue, most=1)
    assert world.settled(queue).age_of_oldest_s(world.now_s) == 100
    world.receive(queue, most=1)
    assert world.settled(queue).age_of_oldest_s(world.now_s) == 10


def test_a_message_received_three_times_goes_to_the_back(world: World) -> None:
    """After its third receive the younger one comes first."""
    queue = world.queue(VisibilityTimeout=0)
    world.send(queue, "poison")
    world.send(queue, "young")
    assert [world.bodies(queue, most=1) for _ in range(4)] == [["poison"], ["poison"], ["poison"], ["young"]]


def test_an_empty_queue_has_no_age(world: World) -> None:
    queue = world.queue()
    assert queue.age_of_oldest_s(world.now_s) == 0.0


def test_a_dead_letters_age_begins_when_it_dies(world: World) -> None:
    """Sent at 0, dead at 30, looked at at 40: 10 s old there."""
    queue, dead = with_dead_letters(world, 1)
    world.send(queue)
    world.receive(queue)
    world.pass_s(30)
    world.receive(queue)
    world.pass_s(10)
    assert world.settled(dead).age_of_oldest_s(world.now_s) == 10


def test_a_tenant_with_much_in_flight_waits_for_the_others(world: World) -> None:
    """20 of a noisy tenant came first; of the next 3 receives the quiet one's two messages are among the first two."""
    queue = world.queue()
    for _ in range(20):
        world.send(queue, "noisy", group="a")
    assert world.bodies(queue, most=5) == ["noisy"] * 5
    for _ in range(2):
        world.send(queue, "quiet", group="b")
    assert world.bodies(queue, most=3) == ["quiet", "quiet", "noisy"]


def test_a_tenant_whose_messages_are_done_is_no_longer_noisy(world: World) -> None:
    """All of `a` in flight is deleted: its older message is before the younger of `b` again."""
    queue = world.queue()
    world.send(queue, "a1", group="a")
    world.send(queue, "a2", group="a")
    ((_, handle),) = world.receive(queue, most=1)
    world.send(queue, "b1", group="b")
    world.engine.delete(queue, handle)
    assert world.bodies(queue, most=2) == ["a2", "b1"]


def test_in_flight_messages_are_bounded() -> None:
    """With a limit of 3: the second receive gets what is left, the third is refused."""
    world = World(in_flight_limit=3)
    queue = world.queue()
    for _ in range(5):
        world.send(queue)
    assert len(world.receive(queue, most=2)) == 2
    assert len(world.receive(queue, most=2)) == 1
    refusal("OverLimit", world.receive, queue)


def test_the_size_limit_counts_bytes(world: World) -> None:
    """1,048,576 bytes pass and one more does not; two bytes of one letter are two."""
    queue = world.queue()
    world.send(queue, "x" * 1_048_576)
    text = refusal("InvalidParameterValueException", world.send, queue, "x" * 1_048_577)
    assert text == "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."
    refusal("InvalidParameterValueException", world.send, queue, "ä" * 524_289)


def test_a_purge_empties_the_queue_once_a_minute(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    world.send(queue, delay_s=10)
    ((_, handle),) = world.receive(queue, most=1)
    world.engine.purge(queue)
    assert world.counts(queue) == (0, 0, 0)
    world.engine.delete(queue, handle)
    assert refusal("PurgeQueueInProgress", world.engine.purge, queue).startswith("Only one PurgeQueue operation on q")
    world.pass_s(60)
    world.engine.purge(queue)


def test_a_deleted_queues_name_is_taken_for_a_minute(world: World) -> None:
    queue = world.queue()
    world.engine.delete_queue(queue)
    refusal("QueueDoesNotExist", world.engine.queue, queue.arn)
    refusal("QueueDeletedRecently", world.queue)
    world.pass_s(60)
    assert world.bodies(world.queue()) == []


def dead_letters(world: World, number: int) -> tuple[Queue, Queue]:
    queue, dead = with_dead_letters(world, 1, VisibilityTimeout=0)
    for index in range(number):
        world.send(queue, f"m{index}")
    while world.receive(queue):
        pass
    assert world.counts(dead) == (number, 0, 0)
    return queue, dead


def test_redriven_messages_are_new_ones_in_their_first_queue(world: World) -> None:
    """Without a destination they go back where they came from: another id, counted from zero, no longer dead."""
    queue, dead = dead_letters(world, 3)
    ids = {message.id for message in dead}
    world.pass_s(100)
    task = world.engine.start_move(dead, None, None)
    assert (task.status, task.moved, task.to_move) == (COMPLETED, 3, 3)
    received = world.receive(queue)
    assert sorted(message.body for message, _ in received) == ["m0", "m1", "m2"]
    for message, _ in received:
        assert message.id not in ids
        assert message.system_attributes()["ApproximateReceiveCount"] == "1"
        assert message.system_attributes()["SentTimestamp"] == str(int(world.now_s * 1000))
        assert "DeadLetterQueueSourceArn" not in message.system_attributes()


def test_a_redrive_keeps_its_rate(world: World) -> None:
    """Two a second: 0 at once, 4 after 2 s, all 5 after 3 s."""
    queue, dead = dead_letters(world, 5)
    task = world.engine.start_move(dead, queue.arn, 2)
    assert (task.status, task.moved) == (RUNNING, 0)
    assert world.engine.next_change_s(queue) == world.now_s + 0.5
    world.pass_s(2)
    assert world.counts(queue)[0] == 4
    world.pass_s(1)
    assert world.counts(queue)[0] == 5
    assert task.status == COMPLETED


def test_a_redrive_can_be_cancelled_and_keeps_what_it_moved(world: World) -> None:
    queue, dead = dead_letters(world, 5)
    task = world.engine.start_move(dead, None, 1)
    refusal("InvalidParameterValueException", world.engine.start_move, dead, None, 1)
    world.pass_s(2)
    assert world.engine.cancel_move(task.handle).moved == 2
    world.pass_s(10)
    assert (world.counts(queue)[0], world.counts(dead)[0]) == (2, 3)
    refusal("InvalidParameterValueException", world.engine.cancel_move, task.handle)


def test_letters_that_were_never_elsewhere_need_a_destination(world: World) -> None:
    """Sent straight to the dead-letter queue: a redrive to the source fails with the reason, one with a place works."""
    queue, dead = with_dead_letters(world, 5)
    world.send(dead, "sent here")
    task = world.engine.start_move(dead, None, None)
    assert (task.status, task.failure, world.counts(dead)[0]) == (FAILED, "CouldNotDetermineMessageSource", 1)
    assert world.engine.start_move(dead, queue.arn, None).status == COMPLETED
    assert world.bodies(queue) == ["sent here"]


def test_only_dead_letter_queues_are_redriven(world: World) -> None:
    text = refusal("InvalidParameterValueException", world.engine.start_move, world.queue(), None, None)
    assert text == "Source queue must be configured as a Dead Letter Queue."
    _, dead = dead_letters(world, 1)
    refusal("ResourceNotFoundException", world.engine.start_move, dead, CALLER.arn("sqs", "absent"), None)
    refusal("InvalidParameterValueException", world.engine.cancel_move, "nonsense")


def test_a_queue_says_whose_dead_letters_it_takes(world: World) -> None:
    """denyAll refuses everybody, byQueue all but the named."""
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [CALLER.arn("sqs", "friend")]}
    dead = world.queue("dead", RedriveAllowPolicy=json.dumps(allow))
    policy = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 5})
    world.queue("friend", RedrivePolicy=policy)
    refusal("InvalidParameterValueException", lambda: world.queue("stranger", RedrivePolicy=policy))
    world.engine.set_attributes(dead, {"RedriveAllowPolicy": '{"redrivePermission": "denyAll"}'})
    refusal("InvalidParameterValueException", lambda: world.queue("second", RedrivePolicy=policy))
    assert [queue.name for queue in world.engine.sources_of(dead)] == ["friend"]


def test_fifo_queues_are_refused_by_name(world: World) -> None:
    assert "standard queues only" in refusal("UnsupportedOperation", world.queue, "orders.fifo")


def calls_made(messages: int) -> int:
    """Python calls of a life in which every message is sent, received, extended twice and deleted."""
    world = World()
    queue = world.queue()
    made = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(count)
    try:
        for index in range(messages):
            world.send(queue, group=f"g{index % 7}" if index % 2 else None)
        received = [one for _ in range(messages // 10) for one in world.receive(queue)]
        for _ in range(2):
            world.pass_s(10)
            for _, handle in received:
                world.engine.change_visibility(queue, handle, 30)
        for _, handle in received:
            world.engine.delete(queue, handle)
    finally:
        sys.setprofile(None)
    assert world.counts(queue) == (0, 0, 0)
    return made


def test_a_message_among_many_costs_what_one_among_few_costs() -> None:
    """Eight times the messages, at most ten times the calls: nothing looks through the whole queue."""
    assert calls_made(2000) < 10 * calls_made(250)


def test_the_same_calls_give_the_same_answers() -> None:
    """Two engines on the same clock and ids: receipts and order are equal to the letter."""

    def story() -> list[tuple[str, str]]:
        world = World()
        queue = world.queue()
        for index in range(30):
            world.send(queue, str(index), group=f"g{index % 4}")
        return [(message.body, handle) for _ in range(4) for message, handle in world.receive(queue)]

    assert story() == story()
    assert len(story()) == 30
