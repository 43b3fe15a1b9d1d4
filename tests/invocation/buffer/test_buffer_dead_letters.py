"""Dead letters: seen without being touched, and sent back so that nothing is lost and nothing answered twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from buffer_cloud import REVISION, BufferCloud

from loadproof.constructs.buffer.runtime.consumer.handler import delivery_of
from loadproof.invocation.buffer import DeadLetters
from loadproof.wire.message import key_of


def body(key: str | None = None, **more: Any) -> str:
    return json.dumps({"request": {"inputs": "hi"}, **more} | ({"key": key} if key else {}))


def dead_keys(cloud: BufferCloud) -> list[str | None]:
    return [letter.key for letter in cloud.dead_letters().look()]


class Disturbed:
    """The real SQS; `before[name]` is called ahead of a call of that name."""

    def __init__(self, sqs: Any, **before: Callable[..., None]) -> None:
        self._sqs = sqs
        self._before = before

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._sqs, name)

        def call(**arguments: Any) -> Any:
            self._before.get(name, lambda **_: None)(**arguments)
            return real(**arguments)

        return call


def disturbed(cloud: BufferCloud, **before: Callable[..., None]) -> DeadLetters:
    sqs = Disturbed(cloud.client("sqs"), **before)
    return DeadLetters(cloud.places, sqs=sqs, s3=cloud.client("s3"), dynamodb=cloud.client("dynamodb"))


def test_looking_takes_nothing_and_shows_no_body(cloud: BufferCloud) -> None:
    """Twelve letters, more than one call gives, are all seen twice over; a body only where it is asked for."""
    for number in range(12):
        cloud.dead_letter(body(f"k{number:02}"), attempts=number, MessageGroupId="blue")
    letters = cloud.dead_letters().look()
    assert sorted(str(letter.key) for letter in letters) == [f"k{number:02}" for number in range(12)]
    assert {letter.body for letter in letters} == {None}
    again = cloud.dead_letters().look(with_bodies=True)
    assert len(again) == 12 and {letter.tenant for letter in again} == {"blue"}
    assert {json.loads(letter.body or "")["request"]["inputs"] for letter in again} == {"hi"}


def test_the_oldest_letters_are_shown_not_those_received_first(cloud: BufferCloud) -> None:
    """Of 25, sent in the order of their youth, the three oldest; all were looked at."""
    for number in range(25):
        cloud.dead_letter(body(f"o{number:02}"), age_s=100 + number)
    told = list[int]()
    letters = cloud.dead_letters().look(most=3, seen=told.append)
    assert [letter.key for letter in letters] == ["o24", "o23", "o22"] and told[-1] == 25
    assert len(cloud.received(dead=True)) == 25


def test_a_letter_without_a_reason_was_moved_by_sqs(cloud: BufferCloud) -> None:
    """Said so; its key is made of its request as the consumer makes it."""
    cloud.dead_letter(body(), reason=None)
    (letter,) = cloud.dead_letters().look()
    assert letter.reason.startswith("moved by SQS") and letter.attempts == 0
    assert letter.key == key_of({"inputs": "hi"}, REVISION)


def test_redriven_letters_begin_a_new_life(cloud: BufferCloud) -> None:
    """Body, group and reason are kept; the age is the consumer's to count from now, the failures are forgotten."""
    cloud.claim("again", phase="released", attempts=8, suspicion=150)
    cloud.dead_letter(body("again"), "no answer after 8 attempts", attempts=8, MessageGroupId="blue")
    redriven = cloud.dead_letters().redrive()
    assert (redriven.sent, redriven.done, dict(redriven.left)) == (1, 0, {})
    (message,) = cloud.received()
    told = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert told == {"reason": "no answer after 8 attempts", "attempts": "8"}
    assert (message["Body"], message["Attributes"]["MessageGroupId"]) == (body("again"), "blue")
    record = cloud.record("again")
    assert (record["attempts"], record["suspicion"], record["phase"]) == ({"N": "0"}, {"N": "0"}, {"S": "released"})
    assert dead_keys(cloud) == []


def test_the_consumer_takes_a_crashed_one_for_new(cloud: BufferCloud) -> None:
    """A letter that SQS moved after postponements has no age left over from them."""
    old_ms = int(time.time() * 1000) - 14 * 86_400_000
    attributes = {"first_sent_ms": {"DataType": "Number", "StringValue": str(old_ms)}}
    cloud.client("sqs").send_message(
        QueueUrl=cloud.places.dead_letter_url, MessageBody=body("crashed"), MessageAttributes=attributes
    )
    cloud.dead_letters().redrive()
    (message,) = cloud.received()
    record = {
        "messageId": message["MessageId"], "receiptHandle": "r", "body": message["Body"],
        "attributes": message["Attributes"], "messageAttributes": message.get("MessageAttributes", {}),
    }  # fmt: skip
    assert delivery_of(SQSRecord(record)).first_sent_ms >= time.time() * 1000 - 60_000


def test_what_has_its_result_is_deleted(cloud: BufferCloud) -> None:
    """The bucket says so: no message, so no invocation."""
    cloud.answer("has-result")
    cloud.dead_letter(body("has-result"))
    redriven = cloud.dead_letters().redrive()
    assert (redriven.sent, redriven.done) == (0, 1)
    assert cloud.received() == [] and dead_keys(cloud) == []


def test_a_result_that_has_gone_is_asked_for_again(cloud: BufferCloud) -> None:
    """The record says done, but the bucket holds nothing any more: the letter goes back."""
    cloud.claim("gone", phase="done")
    cloud.dead_letter(body("gone"))
    redriven = cloud.dead_letters().redrive()
    assert (redriven.sent, redriven.done) == (1, 0)
    assert [json.loads(message["Body"])["key"] for message in cloud.received()] == ["gone"]


def test_what_would_only_come_back_stays(cloud: BufferCloud) -> None:
    """No message, and a deadline that has passed: counted by why, still there, visible at once."""
    cloud.dead_letter("not json")
    cloud.dead_letter(body("late", deadline_ms=1))
    redriven = cloud.dead_letters().redrive()
    assert redriven.sent == 0
    assert dict(redriven.left) == {"not a message that could be answered": 1, "past its deadline": 1}
    assert cloud.received() == [] and sorted(map(str, dead_keys(cloud))) == ["None", "late"]


def test_twice_is_once(cloud: BufferCloud) -> None:
    """25 letters are sent back once; the second time there is nothing."""
    for number in range(25):
        cloud.dead_letter(body(f"t{number:02}"))
    assert cloud.dead_letters().redrive().sent == 25
    assert cloud.dead_letters().redrive().sent == 0
    assert len(cloud.received()) == 25


def test_a_letter_as_long_as_the_queue_takes_goes_back_by_the_bucket(cloud: BufferCloud) -> None:
    """Its body filled the queue's 2,048 bytes; with its reason it would be longer, so the request leaves it."""
    long = {"inputs": "x" * (2048 - len(body("long", request={"inputs": ""})))}
    cloud.dead_letter(body("long", request=long))
    assert cloud.dead_letters().redrive().sent == 1
    (message,) = cloud.received()
    content = json.loads(message["Body"])
    stored = cloud.client("s3").get_object(Bucket=cloud.places.bucket, Key=content["request_s3"])["Body"].read()
    assert (content["key"], json.loads(stored)) == ("long", long)
    assert message["MessageAttributes"]["reason"]["StringValue"] == "the model answered 400"


def test_an_interruption_loses_nothing(cloud: BufferCloud) -> None:
    """Stopped between send and delete: the letter is in both queues, visible, and once answered it is deleted."""

    def stop(**_: Any) -> None:
        raise KeyboardInterrupt

    cloud.dead_letter(body("cut"))
    with pytest.raises(KeyboardInterrupt):
        disturbed(cloud, delete_message_batch=stop).redrive()
    assert [json.loads(message["Body"])["key"] for message in cloud.received()] == ["cut"]
    assert dead_keys(cloud) == ["cut"]
    cloud.answer("cut")
    assert cloud.dead_letters().redrive().done == 1


def test_a_poisonous_letter_is_sent_once_a_run(cloud: BufferCloud) -> None:
    """One that is back among the dead before the run is over does not go round and round."""

    def comes_back(**_: Any) -> None:
        cloud.dead_letter(body("poison"))

    cloud.dead_letter(body("poison"))
    redriven = disturbed(cloud, delete_message_batch=comes_back).redrive()
    assert (redriven.sent, dict(redriven.left)) == (1, {"back again since": 1})
    assert len(cloud.received()) == 1
