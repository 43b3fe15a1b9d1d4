"""Sending in batches, failing in parts, the claim check, and results that are waited for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from buffer_cloud import REVISION, STACK, BufferCloud

from loadproof.errors import CouldNotRunError
from loadproof.invocation.buffer import DeadLetters, Message, Producer, places_of
from loadproof.invocation.buffer.calls import Calls
from loadproof.wire.message import key_of

Answer = dict[str, Any]


class Time:
    """A clock that moves by sleeping, and what happens while it sleeps."""

    def __init__(self, meanwhile: Callable[[float], None] = lambda now_s: None) -> None:
        self.now_s = 0.0
        self._meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self._meanwhile(self.now_s)

    def calls(self) -> Calls:
        return Calls(sleep=self.sleep, now_s=lambda: self.now_s, chance=Random(1))


class Between:
    """The real SQS, with a fault in front of its SendMessageBatch."""

    def __init__(self, sqs: Any, fault: Callable[[int, list[Answer]], list[Answer]]) -> None:
        self._sqs = sqs
        self._fault = fault
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sqs, name)

    def send_message_batch(self, QueueUrl: str, Entries: list[Answer]) -> Answer:  # noqa: N803
        """`fault(turn, entries)` gives the answers of those entries that fail; the rest is sent."""
        self.sizes.append(len(Entries))
        failed = self._fault(len(self.sizes), Entries)
        left = [entry for entry in Entries if entry["Id"] not in {one["Id"] for one in failed}]
        sent = self._sqs.send_message_batch(QueueUrl=QueueUrl, Entries=left) if left else {}
        return {"Successful": sent.get("Successful", []), "Failed": [*sent.get("Failed", []), *failed]}


def producer(cloud: BufferCloud, fault: Callable[[int, list[Answer]], list[Answer]], time: Time) -> Producer:
    return Producer(cloud.places, sqs=Between(cloud.client("sqs"), fault), s3=cloud.client("s3"), calls=time.calls())


def keys(cloud: BufferCloud) -> list[str]:
    return sorted(json.loads(message["Body"])["key"] for message in cloud.received())


def test_many_go_ten_a_call(cloud: BufferCloud) -> None:
    """23 messages are calls of 10, 10 and 3; all are in the queue, under the keys that were told."""
    sender = producer(cloud, lambda turn, entries: [], Time())
    sent = list(sender.send_many(Message({"inputs": f"p{number}"}) for number in range(23)))
    assert sender._sqs.sizes == [10, 10, 3]
    assert keys(cloud) == sorted(one.key for one in sent)
    assert sent[3].key == key_of({"inputs": "p3"}, REVISION)


def test_what_fails_in_part_is_sent_again_once(cloud: BufferCloud) -> None:
    """Two of five fail twice: three calls of 5, 2 and 2 entries, and everyone is in the queue exactly once."""

    def fault(turn: int, entries: list[Answer]) -> list[Answer]:
        faulty = entries[1:3] if turn == 1 else entries if turn == 2 else []
        return [{"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"} for entry in faulty]

    sender = producer(cloud, fault, Time())
    sent = list(sender.send_many(Message({"x": 1}, key=f"k{number}") for number in range(5)))
    assert sender._sqs.sizes == [5, 2, 2]
    assert [one.error for one in sent] == [None] * 5
    assert keys(cloud) == ["k0", "k1", "k2", "k3", "k4"]


def test_what_the_sender_is_to_blame_for_is_not_sent_again(cloud: BufferCloud) -> None:
    """Its error is its own; its neighbours are sent."""

    def fault(turn: int, entries: list[Answer]) -> list[Answer]:
        return [{"Id": entries[0]["Id"], "SenderFault": True, "Code": "InvalidMessageContents", "Message": "bad"}]

    sender = producer(cloud, fault, Time())
    sent = list(sender.send_many([Message({"x": 1}, key="bad"), Message({"x": 1}, key="good")]))
    assert [(one.key, one.error) for one in sent] == [("bad", "InvalidMessageContents: bad"), ("good", None)]
    assert sender._sqs.sizes == [2] and keys(cloud) == ["good"]


def test_throttles_are_waited_for_and_an_outage_ends_in_words(cloud: BufferCloud) -> None:
    """Three throttles are survived; an endless one ends within the policy's minute, by name."""
    time = Time()

    def fault(turn: int, entries: list[Answer]) -> list[Answer]:
        if turn <= 3 or time.now_s > 100:
            error = {"Error": {"Code": "RequestThrottled"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
            raise ClientError(error, "SendMessageBatch")
        return []

    sender = producer(cloud, fault, time)
    assert sender.send({"x": 1}, key="patient") == "patient"
    time.now_s = 101
    with pytest.raises(CouldNotRunError, match="late was not sent: the queue: RequestThrottled"):
        sender.send({"x": 1}, key="late")
    assert time.now_s <= 101 + 60
    assert keys(cloud) == ["patient"]


UNREACHABLE = EndpointConnectionError(endpoint_url="https://sqs")
DOWN = ClientError(
    {"Error": {"Code": "ServiceUnavailable"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "SendMessageBatch"
)


@pytest.mark.parametrize("fault", [UNREACHABLE, DOWN])
def test_an_outage_of_less_than_a_minute_is_waited_for_each_time(cloud: BufferCloud, fault: Exception) -> None:
    """Four outages of 50 s, each met by a send: none is given up, whatever the ones before cost."""
    time, ends_s = Time(), 50.0

    def down(turn: int, entries: list[Answer]) -> list[Answer]:
        if time.now_s < ends_s:
            raise fault
        return []

    sender = producer(cloud, down, time)
    for number in range(4):
        time.now_s, ends_s = 100.0 * number, 100.0 * number + 50
        assert sender.send({"x": 1}, key=f"k{number}") == f"k{number}"
        assert ends_s <= time.now_s <= ends_s + 5
    assert keys(cloud) == ["k0", "k1", "k2", "k3"]


def test_a_longer_outage_is_given_up_within_its_minute(cloud: BufferCloud) -> None:
    """By name, and not before the wait that would pass the minute; so for a result of the bucket's."""
    time = Time()

    def down(**_: Any) -> Any:
        raise UNREACHABLE

    reader = Producer(cloud.places, sqs=SimpleNamespace(send_message_batch=down, get_queue_attributes=down),
                      s3=SimpleNamespace(get_object=down), calls=time.calls())  # fmt: skip
    for call in (lambda: reader.send({"x": 1}, key="k"), lambda: reader.result("k", wait_s=60)):
        before_s = time.now_s
        with pytest.raises(CouldNotRunError, match="EndpointConnectionError"):
            call()
        assert 55 <= time.now_s - before_s <= 60


def test_fields_beside_a_message_replace_its_own(cloud: BufferCloud) -> None:
    """None is dropped; what is said in the message only stays."""
    cloud.producer().send(Message({"x": 1}, key="k", priority="low", tenant="red"), tenant="blue", deadline_ms=5)
    (message,) = cloud.received()
    said = {name: value for name, value in json.loads(message["Body"]).items() if name != "request"}
    assert said == {"key": "k", "priority": "low", "tenant": "blue", "deadline_ms": 5}
    assert message["Attributes"]["MessageGroupId"] == "blue"


def test_a_long_request_is_left_in_the_bucket(cloud: BufferCloud) -> None:
    """The queue takes 2,048 bytes: the message holds a place, the place the request, and the key is the request's."""
    long = {"inputs": "é" * 3000, "parameters": {"b": 1, "a": 2}}
    key = cloud.producer().send(long, tenant="blue")
    (message,) = cloud.received()
    body = json.loads(message["Body"])
    assert sorted(body) == ["key", "request_s3", "tenant"] and message["Attributes"]["MessageGroupId"] == "blue"
    stored = cloud.client("s3").get_object(Bucket=cloud.places.bucket, Key=body["request_s3"])["Body"].read()
    assert json.loads(stored) == long and list(json.loads(stored)["parameters"]) == ["b", "a"]
    assert body["key"] == key == key_of(long, REVISION)


def test_an_empty_request_in_the_bucket_is_not_sent(cloud: BufferCloud) -> None:
    """The consumer would refuse it: the producer gave it a key and sent it."""
    cloud.client("s3").put_object(Bucket=cloud.places.bucket, Key="requests/empty", Body=b"{}")
    (sent,) = cloud.producer().send_many([Message(request_s3="requests/empty")])
    assert sent.error == "the payload in the bucket is an empty object" and keys(cloud) == []


def test_only_what_is_longer_than_the_limit_is_left(cloud: BufferCloud) -> None:
    """A body of 2,048 bytes goes as it is, of 2,049 by the bucket."""
    empty = len(Message({"inputs": ""}, key="k").body)
    for more, field in ((0, "request"), (1, "request_s3")):
        cloud.producer().send({"inputs": "x" * (2048 - empty + more)}, key="k")
        (message,) = cloud.received()
        assert field in json.loads(message["Body"])


def test_a_request_no_model_takes_is_refused_and_its_neighbours_go(cloud: BufferCloud) -> None:
    """One byte above 6,291,456 names the limit."""
    over = 6_291_456 - len('{"inputs": ""}') + 1
    sent = list(
        cloud.producer().send_many([Message({"inputs": "x" * over}, key="huge"), Message({"x": 1}, key="small")])
    )
    assert sent[0].error == "`request` has 6,291,457 bytes; a model takes at most 6,291,456"
    assert sent[1].error is None and keys(cloud) == ["small"]


def test_a_result_is_waited_for(cloud: BufferCloud) -> None:
    """There after five seconds, found within the two that a look is apart at most."""
    stored = Counter[str]()

    def meanwhile(now_s: float) -> None:
        if now_s >= 5 and not stored["late"]:
            stored["late"] += 1
            cloud.answer("late", "here")

    time = Time(meanwhile)
    reader = producer(cloud, lambda turn, entries: [], time)
    found = reader.result("late", wait_s=60)
    assert found is not None and found["answer"]["choices"][0]["text"] == "here"
    assert 5 <= time.now_s <= 7


def test_a_result_that_does_not_come_is_none(cloud: BufferCloud) -> None:
    """After the time that was given, and no later."""
    time = Time()
    reader = producer(cloud, lambda turn, entries: [], time)
    assert reader.result("never") is None and time.now_s == 0
    assert reader.result("never", wait_s=10) is None and time.now_s == pytest.approx(10)


def test_a_stacks_name_is_all_an_application_needs(cloud: BufferCloud) -> None:
    """Places, clients and the queue's own limit are asked for; the same places serve the dead letters."""
    where = {"region": cloud.local.region, "endpoint_url": cloud.local.endpoint_url}
    sender = Producer.of_stack(STACK, **where)
    cloud.answer("whole")
    assert sender.send({"x": 1}, key="whole") == "whole" and keys(cloud) == ["whole"]
    found = sender.result("whole")
    assert found is not None and found["key"] == "whole"
    cloud.dead_letter(Message({"x": 1}, key="whole").body)
    assert DeadLetters.at(sender.places, **where).redrive().done == 1


def test_a_stack_that_is_not_there_or_has_no_buffer_is_told(cloud: BufferCloud) -> None:
    """By its name, with what to do."""
    with pytest.raises(CouldNotRunError, match=r"stack loadproof-dev-none: .*deploy the profile first"):
        places_of("loadproof-dev-none", region=cloud.local.region, endpoint_url=cloud.local.endpoint_url)
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    cloud.client("cloudformation").create_stack(StackName="loadproof-dev-bare", TemplateBody=json.dumps(template))
    with pytest.raises(CouldNotRunError, match=r"has no output QueueUrl, DeadLetterQueueUrl, .*set `buffer`"):
        places_of("loadproof-dev-bare", region=cloud.local.region, endpoint_url=cloud.local.endpoint_url)
