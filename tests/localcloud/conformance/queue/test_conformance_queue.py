"""Facts about SQS, stated through boto3. They hold on AWS, by its documents or by what it was seen to answer."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from waiting import until

Receive = Callable[..., list[dict[str, Any]]]
Maker = Any  # conftest's QueueMaker


def refused(action: Callable[..., Any], **params: Any) -> tuple[str, str]:
    """(code, message) of the refusal."""
    with pytest.raises(ClientError) as caught:
        action(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_message_comes_as_it_was_sent(sqs: Any, queue: Maker, receive: Receive) -> None:
    """Body, typed attributes, digests, and what SQS says of it."""
    url = queue()
    attributes = {
        "text": {"DataType": "String", "StringValue": "grüße"},
        "count": {"DataType": "Number", "StringValue": "42"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    before_ms = int(time.time() * 1000) - 60_000
    sent = sqs.send_message(QueueUrl=url, MessageBody="héllo 🎈", MessageAttributes=attributes)
    (message,) = receive(url)
    assert message["Body"] == "héllo 🎈"
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == hashlib.md5("héllo 🎈".encode()).hexdigest()
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert before_ms < int(message["Attributes"]["SentTimestamp"])
    assert int(message["Attributes"]["SentTimestamp"]) <= int(message["Attributes"]["ApproximateFirstReceiveTimestamp"])
    assert message["Attributes"]["SenderId"]


def test_the_digest_of_attributes_is_the_published_one(sqs: Any, queue: Maker) -> None:
    """Foo=Bar of type String: ae7155c6026991b6d54b11589678bf9c, as AWS answered it."""
    attributes = {"Foo": {"DataType": "String", "StringValue": "Bar"}}
    sent = sqs.send_message(QueueUrl=queue(), MessageBody="msg", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == "ae7155c6026991b6d54b11589678bf9c"


def test_only_the_attributes_asked_for_come(sqs: Any, queue: Maker) -> None:
    """A name, a beginning with `.*`; and none without asking. The digest is that of what comes."""
    url = queue(VisibilityTimeout=0)
    attributes = {
        name: {"DataType": "String", "StringValue": value}
        for name, value in (("Hello", "There"), ("General", "Kenobi"), ("Help.Me", "Me"))
    }
    sqs.send_message(QueueUrl=url, MessageBody="msg", MessageAttributes=attributes)

    def seen(*names: str) -> tuple[set[str], str | None]:
        (message,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=list(names), WaitTimeSeconds=2)["Messages"]
        return set(message.get("MessageAttributes", {})), message.get("MD5OfMessageAttributes")

    assert seen() == (set(), None)
    assert seen("Hello", "Absent") == ({"Hello"}, "a311262e065454b75da111d535b8dacd")
    assert seen("Hel.*") == ({"Hello", "Help.Me"}, "83fee93c1bcd8b9a5a923ffacdc636c7")
    assert seen(".*") == ({"Hello", "General", "Help.Me"}, "4c360f3fdafd970e05fae2f149d997f5")


def test_a_stale_receipt_deletes_nothing(sqs: Any, queue: Maker, receive: Receive) -> None:
    """Received, hidden for a second, received again: the first receipt's delete ends well, the message stays."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (first,) = receive(url, VisibilityTimeout=1)
    (second,) = until(lambda: receive(url, VisibilityTimeout=1))
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    (third,) = until(lambda: receive(url), within_s=10)
    assert third["MessageId"] == second["MessageId"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])


def test_the_last_receipt_deletes_after_its_visibility(sqs: Any, queue: Maker, receive: Receive) -> None:
    """Visible again, but nobody has received it since."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url, VisibilityTimeout=1)
    time.sleep(1.2)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert receive(url) == []


def test_visibility_can_be_prolonged_and_ended(sqs: Any, queue: Maker, receive: Receive) -> None:
    """One second made sixty hides; sixty made zero shows."""
    url = queue(VisibilityTimeout=1)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url)
    wish = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    sqs.change_message_visibility(VisibilityTimeout=60, **wish)
    time.sleep(1.2)
    assert receive(url, WaitTimeSeconds=0) == []
    sqs.change_message_visibility(VisibilityTimeout=0, **wish)
    assert len(receive(url)) == 1


def test_a_late_heartbeat_hides_nothing(sqs: Any, queue: Maker, receive: Receive) -> None:
    """Sent after the visibility's end it is answered well, and the next receive still finds the message."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url, VisibilityTimeout=1)
    time.sleep(1.5)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=60)
    assert len(receive(url)) == 1


def test_a_deleted_messages_visibility_cannot_change(sqs: Any, queue: Maker, receive: Receive) -> None:
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url)
    wish = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    sqs.delete_message(**wish)
    code, text = refused(sqs.change_message_visibility, VisibilityTimeout=60, **wish)
    assert code == "InvalidParameterValue"
    assert text.endswith("Reason: Message does not exist or is not available for visibility timeout change.")


def test_no_message_is_hidden_for_more_than_twelve_hours(sqs: Any, queue: Maker, receive: Receive) -> None:
    """43,200 s more, a second after the receive, are beyond the total."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url)
    time.sleep(1)
    wish = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 43_200}
    code, text = refused(sqs.change_message_visibility, **wish)
    assert code == "InvalidParameterValue"
    assert "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]" in text


def test_text_that_is_no_receipt_is_refused(sqs: Any, queue: Maker) -> None:
    code, text = refused(sqs.delete_message, QueueUrl=queue(), ReceiptHandle="nonsense")
    assert code == "ReceiptHandleIsInvalid"
    assert text == 'The input receipt handle "nonsense" is not a valid receipt handle.'


@pytest.mark.parametrize("character", ["\x00", "\x08", "\x1f", "\ufffe"])
def test_characters_outside_of_xml_are_refused(sqs: Any, queue: Maker, character: str) -> None:
    code, _ = refused(sqs.send_message, QueueUrl=queue(), MessageBody=f"a{character}b")
    assert code == "InvalidMessageContents"


@pytest.mark.parametrize("character", ["\t", "\n", "\r", "\x7f", "\ufffd", "\U0010ffff"])
def test_characters_of_xml_pass(sqs: Any, queue: Maker, receive: Receive, character: str) -> None:
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody=f"a{character}b")
    assert receive(url)[0]["Body"] == f"a{character}b"


def test_an_empty_body_is_missing(sqs: Any, queue: Maker) -> None:
    code, text = refused(sqs.send_message, QueueUrl=queue(), MessageBody="")
    assert (code, text) == ("MissingParameter", "The request must contain the parameter MessageBody.")


def test_a_message_has_at_most_a_mebibyte(sqs: Any, queue: Maker) -> None:
    """1,048,576 bytes pass, one more does not."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x" * 1_048_576)
    code, text = refused(sqs.send_message, QueueUrl=url, MessageBody="x" * 1_048_577)
    assert code == "InvalidParameterValue"
    assert text == "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."


def test_attributes_count_towards_the_size(sqs: Any, queue: Maker) -> None:
    """Name, type and value: 1 + 6 + 2 bytes leave room for 1,048,567."""
    url = queue()
    attributes = {"k": {"DataType": "String", "StringValue": "vv"}}
    sqs.send_message(QueueUrl=url, MessageBody="x" * 1_048_567, MessageAttributes=attributes)
    code, _ = refused(sqs.send_message, QueueUrl=url, MessageBody="x" * 1_048_568, MessageAttributes=attributes)
    assert code == "InvalidParameterValue"


def test_a_batch_has_at_most_a_mebibyte(sqs: Any, queue: Maker) -> None:
    entries = [{"Id": str(number), "MessageBody": "x" * 524_289} for number in range(2)]
    code, text = refused(sqs.send_message_batch, QueueUrl=queue(), Entries=entries)
    assert code == "AWS.SimpleQueueService.BatchRequestTooLong"
    assert text == "Batch requests cannot be longer than 1048576 bytes. You have sent 1048578 bytes."


def test_a_batchs_entries_succeed_and_fail_for_themselves(sqs: Any, queue: Maker, receive: Receive) -> None:
    url = queue()
    entries = [{"Id": "good", "MessageBody": "fine"}, {"Id": "bad", "MessageBody": "\x00"}]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [row["Id"] for row in answer["Successful"]] == ["good"]
    assert [(row["Id"], row["Code"], row["SenderFault"]) for row in answer["Failed"]] == [
        ("bad", "InvalidMessageContents", True)
    ]
    (message,) = receive(url)
    rows = [
        {"Id": "1", "ReceiptHandle": message["ReceiptHandle"]},
        {"Id": "2", "ReceiptHandle": "nonsense"},
    ]
    answer = sqs.delete_message_batch(QueueUrl=url, Entries=rows)
    assert [row["Id"] for row in answer["Successful"]] == ["1"]
    assert [(row["Id"], row["Code"]) for row in answer["Failed"]] == [("2", "ReceiptHandleIsInvalid")]


def test_batches_that_are_refused_whole(sqs: Any, queue: Maker) -> None:
    """More than ten, two of one id, an id with a colon, none."""
    url = queue()
    prefix = "AWS.SimpleQueueService."
    for code, ids in (
        ("TooManyEntriesInBatchRequest", [str(number) for number in range(11)]),
        ("BatchEntryIdsNotDistinct", ["a", "a"]),
        ("InvalidBatchEntryId", ["a:b"]),
        ("EmptyBatchRequest", []),
    ):
        entries = [{"Id": name, "MessageBody": "x"} for name in ids]
        assert refused(sqs.send_message_batch, QueueUrl=url, Entries=entries)[0] == prefix + code


def test_a_receive_waits_for_a_message(sqs: Any, queue: Maker, receive: Receive) -> None:
    """Asked to wait 10 s, it is back soon after a message was sent, half a second in."""
    url = queue()
    sender = threading.Timer(0.5, sqs.send_message, kwargs={"QueueUrl": url, "MessageBody": "x"})
    sender.start()
    began_s = time.monotonic()
    assert len(receive(url, WaitTimeSeconds=10)) == 1
    assert 0.4 < time.monotonic() - began_s < 9
    sender.join()


def test_a_waiting_receive_finds_what_becomes_visible(sqs: Any, queue: Maker, receive: Receive) -> None:
    """A visibility that ends, and a delay that ends, while somebody waits."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="hidden")
    receive(url, VisibilityTimeout=1)
    assert len(receive(url, WaitTimeSeconds=10)) == 1
    sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=1)
    assert [message["Body"] for message in receive(url, WaitTimeSeconds=10)] == ["delayed"]


def test_delayed_messages_are_counted_apart(sqs: Any, queue: Maker, receive: Receive) -> None:
    """One visible, one in flight, one delayed."""
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="flying")
    receive(url)
    sqs.send_message(QueueUrl=url, MessageBody="waiting")
    sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=600)
    names = ["", "NotVisible", "Delayed"]

    def counts() -> list[str]:
        found = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=[f"ApproximateNumberOfMessages{name}" for name in names]
        )["Attributes"]
        return [found[f"ApproximateNumberOfMessages{name}"] for name in names]

    until(lambda: counts() == ["1", "1", "1"])


def test_dead_letters_keep_their_past(sqs: Any, queue: Maker, receive: Receive) -> None:
    """maxReceiveCount 1: id, attributes and time are the first ones; the count goes on; the source is told."""
    source, dead = queue.with_dead_letters(1, VisibilityTimeout=0)
    attributes = {"k": {"DataType": "String", "StringValue": "v"}}
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison", MessageAttributes=attributes)
    (first,) = receive(source)
    assert receive(source) == []
    (letter,) = until(lambda: receive(dead))
    assert (letter["MessageId"], letter["Body"]) == (sent["MessageId"], "poison")
    assert letter["MessageAttributes"] == attributes
    assert letter["Attributes"]["SentTimestamp"] == first["Attributes"]["SentTimestamp"]
    assert letter["Attributes"]["ApproximateReceiveCount"] == "2"
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == queue.arn(source)


def dead_letters(sqs: Any, queue: Maker, receive: Receive, number: int) -> tuple[str, str]:
    source, dead = queue.with_dead_letters(1, VisibilityTimeout=0)
    for index in range(number):
        sqs.send_message(QueueUrl=source, MessageBody=f"m{index}")
    until(lambda: not receive(source, WaitTimeSeconds=0) and waiting(sqs, dead) == number)
    return source, dead


def waiting(sqs: Any, url: str) -> int:
    names = ["ApproximateNumberOfMessages"]
    return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"][names[0]])


def test_dead_letters_are_redriven_as_new_messages(sqs: Any, queue: Maker, receive: Receive) -> None:
    """Back in the source, counted from zero; the task is COMPLETED and has moved two of two."""
    source, dead = dead_letters(sqs, queue, receive, 2)
    dead_arn = queue.arn(dead)
    sqs.start_message_move_task(SourceArn=dead_arn)

    def task() -> dict[str, Any]:
        (found,) = sqs.list_message_move_tasks(SourceArn=dead_arn)["Results"]
        return dict(found)

    until(lambda: task()["Status"] == "COMPLETED")
    assert task()["ApproximateNumberOfMessagesMoved"] == task()["ApproximateNumberOfMessagesToMove"] == 2
    assert "TaskHandle" not in task()
    bodies: dict[str, str] = {}
    while len(bodies) < 2:
        for message in receive(source, VisibilityTimeout=60):
            bodies[message["Body"]] = message["Attributes"]["ApproximateReceiveCount"]
    assert bodies == {"m0": "1", "m1": "1"}


def test_a_redrive_has_a_rate_and_can_be_cancelled(sqs: Any, queue: Maker, receive: Receive) -> None:
    """One a second, stopped at once: most of the five letters are still there, and a second task may begin."""
    _, dead = dead_letters(sqs, queue, receive, 5)
    arn = queue.arn(dead)
    handle = sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    code, text = refused(sqs.start_message_move_task, SourceArn=arn)
    assert (code, text.partition(".")[0]) == ("InvalidParameterValue", "There is already a task running")
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] <= 2
    until(lambda: sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"] == "CANCELLED")
    assert waiting(sqs, dead) >= 2


def test_only_dead_letter_queues_can_be_redriven(sqs: Any, queue: Maker) -> None:
    code, text = refused(sqs.start_message_move_task, SourceArn=queue.arn(queue()))
    assert (code, text) == ("InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")


def test_a_task_that_does_not_exist(sqs: Any) -> None:
    code, text = refused(sqs.cancel_message_move_task, TaskHandle="nonsense")
    assert (code, text) == ("InvalidParameterValue", "Value for parameter TaskHandle is invalid.")


def test_redrive_policies_that_are_refused(sqs: Any, queue: Maker) -> None:
    """No ARN, a count of 0, a queue that is not there."""
    arn = queue.arn(queue())
    for policy in (
        {"deadLetterTargetArn": "dummy", "maxReceiveCount": 5},
        {"deadLetterTargetArn": arn, "maxReceiveCount": 0},
        {"deadLetterTargetArn": arn + "-absent", "maxReceiveCount": 5},
    ):
        assert refused(queue, RedrivePolicy=policy)[0] == "InvalidParameterValue", policy


def test_the_sources_of_dead_letters_are_listed(sqs: Any, queue: Maker) -> None:
    source, dead = queue.with_dead_letters(5)
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]


def test_a_group_on_a_standard_queue_is_a_tenant(sqs: Any, queue: Maker, receive: Receive) -> None:
    """MessageGroupId is accepted and comes back; both messages of one group may be in flight at once."""
    url = queue()
    for _ in range(2):
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="tenant-1")
    received: list[dict[str, Any]] = []
    until(lambda: received.extend(receive(url)) or len(received) == 2)
    assert {message["Attributes"]["MessageGroupId"] for message in received} == {"tenant-1"}


def test_a_purge_is_allowed_once_a_minute(sqs: Any, queue: Maker) -> None:
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.purge_queue(QueueUrl=url)
    code, text = refused(sqs.purge_queue, QueueUrl=url)
    assert code == "AWS.SimpleQueueService.PurgeQueueInProgress"
    name = url.rpartition("/")[2]
    assert text == f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."


def test_a_deleted_queues_name_is_not_free_at_once(sqs: Any) -> None:
    name = f"loadproof-fact-{uuid.uuid4().hex[:12]}"
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.delete_queue(QueueUrl=url)
    assert refused(sqs.create_queue, QueueName=name)[0] == "AWS.SimpleQueueService.QueueDeletedRecently"


def test_a_queue_is_made_again_only_with_the_same_attributes(sqs: Any, queue: Maker) -> None:
    url = queue(DelaySeconds=1)
    name = url.rpartition("/")[2]
    assert sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})["QueueUrl"] == url
    code, text = refused(sqs.create_queue, QueueName=name, Attributes={"DelaySeconds": "2"})
    assert code == "QueueAlreadyExists"
    assert text == "A queue already exists with the same name and a different value for attribute DelaySeconds"


def test_a_queue_that_is_not_there(sqs: Any, queue: Maker) -> None:
    code, _ = refused(sqs.get_queue_url, QueueName=f"absent-{uuid.uuid4().hex[:8]}")
    assert code == "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.send_message(QueueUrl=queue() + "-absent", MessageBody="x")


def test_numbers_out_of_their_bounds(sqs: Any, queue: Maker) -> None:
    """Each names the value, the parameter and what is allowed."""
    url = queue()
    for action, params, reason in (
        (sqs.receive_message, {"MaxNumberOfMessages": 11}, "Must be between 1 and 10, if provided."),
        (sqs.receive_message, {"WaitTimeSeconds": 21}, "Must be >= 0 and <= 20, if provided."),
        (
            sqs.send_message,
            {"MessageBody": "x", "DelaySeconds": 901},
            "DelaySeconds must be >= 0 and <= 900.",
        ),
    ):
        code, text = refused(action, QueueUrl=url, **params)
        (name, value) = list(params.items())[-1]
        assert (code, text) == (
            "InvalidParameterValue",
            f"Value {value} for parameter {name} is invalid. Reason: {reason}",
        )


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("VisibilityTimeout", "43201", "InvalidAttributeValue"),
        ("MaximumMessageSize", "1023", "InvalidAttributeValue"),
        ("MessageRetentionPeriod", "59", "InvalidAttributeValue"),
        ("DelaySeconds", "901", "InvalidAttributeValue"),
        ("Colour", "red", "InvalidAttributeName"),
    ],
)
def test_attributes_of_a_queue_that_are_refused(sqs: Any, queue: Maker, name: str, value: str, code: str) -> None:
    assert refused(sqs.set_queue_attributes, QueueUrl=queue(), Attributes={name: value})[0] == code


def test_an_attribute_that_no_queue_has(sqs: Any, queue: Maker) -> None:
    code, text = refused(sqs.get_queue_attributes, QueueUrl=queue(), AttributeNames=["Colour"])
    assert (code, text) == ("InvalidAttributeName", "Unknown Attribute Colour.")


def test_a_queue_encrypts_by_itself_and_with_one_kind_of_key(sqs: Any, queue: Maker) -> None:
    url = queue()
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["SqsManagedSseEnabled"])["Attributes"]
    assert found == {"SqsManagedSseEnabled": "true"}
    both = {"SqsManagedSseEnabled": "true", "KmsMasterKeyId": "alias/aws/sqs"}
    assert refused(sqs.set_queue_attributes, QueueUrl=url, Attributes=both)[0] == "InvalidAttributeName"


def test_message_attributes_that_are_refused(sqs: Any, queue: Maker) -> None:
    """An empty value, an unknown type, a reserved beginning, an eleventh."""
    url = queue()
    text = {"DataType": "String", "StringValue": "x"}
    for attributes in (
        {"a": {"DataType": "String", "StringValue": ""}},
        {"a": {"DataType": "Text", "StringValue": "x"}},
        {"AWS.a": text},
        {f"a{number}": text for number in range(11)},
    ):
        code, _ = refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes=attributes)
        assert code == "InvalidParameterValue", attributes


def test_tags_come_and_go(sqs: Any, queue: Maker) -> None:
    url = queue()
    sqs.tag_queue(QueueUrl=url, Tags={"a": "1", "b": "2"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"b": "2"}
