"""Other services of the local cloud and its queues: who delivers to them, and what CloudWatch knows of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from sqs_world import CALLER

from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricKey, MetricStore
from loadproof.localcloud.controlplane.cloudwatch.queues import put_queue_metrics
from loadproof.localcloud.queue.sqs.service import SqsService

Aws = Callable[[str], Any]


def made(aws: Aws, name: str) -> tuple[str, str]:
    """URL and ARN of a new queue."""
    url = aws("sqs").create_queue(QueueName=name)["QueueUrl"]
    found = aws("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, found["Attributes"]["QueueArn"]


def received(aws: Aws, url: str) -> dict[str, Any]:
    found = aws("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"])
    (message,) = found["Messages"]
    return dict(message)


def test_a_topic_delivers_to_a_queue(aws: Aws) -> None:
    """Wrapped in SNS's own document, and raw with the message's attributes."""
    (wrapped_url, wrapped_arn), (raw_url, raw_arn) = made(aws, "sns-wrapped"), made(aws, "sns-raw")
    sns = aws("sns")
    topic = sns.create_topic(Name="to-queues")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=wrapped_arn)
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=raw_arn, Attributes={"RawMessageDelivery": "true"})
    kind = {"kind": {"DataType": "String", "StringValue": "result"}}
    sns.publish(TopicArn=topic, Message="hello", Subject="news", MessageAttributes=kind)
    document = json.loads(received(aws, wrapped_url)["Body"])
    assert (document["Type"], document["Message"], document["Subject"]) == ("Notification", "hello", "news")
    raw = received(aws, raw_url)
    assert raw["Body"] == "hello"
    assert raw["MessageAttributes"] == kind


def test_a_rule_delivers_to_a_queue(aws: Aws) -> None:
    """An event that fits the rule's pattern is a message."""
    url, arn = made(aws, "events")
    events = aws("events")
    events.put_rule(Name="to-queue", EventPattern=json.dumps({"source": ["tests.queue"]}))
    events.put_targets(Rule="to-queue", Targets=[{"Id": "1", "Arn": arn}])
    events.put_events(Entries=[{"Source": "tests.queue", "DetailType": "done", "Detail": '{"n": 1}'}])
    assert json.loads(received(aws, url)["Body"])["detail"] == {"n": 1}


def test_a_bucket_notifies_a_queue(aws: Aws) -> None:
    """The object's creation is a message after S3's own test event."""
    url, arn = made(aws, "bucket-events")
    s3 = aws("s3")
    s3.create_bucket(Bucket="notifying")
    told = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    s3.put_bucket_notification_configuration(Bucket="notifying", NotificationConfiguration=told)
    s3.put_object(Bucket="notifying", Key="a", Body=b"x")
    keys = []
    for _ in range(2):
        keys += [one["s3"]["object"]["key"] for one in json.loads(received(aws, url)["Body"]).get("Records", [])]
    assert keys == ["a"]


def test_a_delivery_to_a_queue_that_is_gone_fails_nobody(aws: Aws) -> None:
    """The publisher hears nothing, as on AWS."""
    url, arn = made(aws, "sns-gone")
    topic = aws("sns").create_topic(Name="to-nobody")["TopicArn"]
    aws("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    aws("sqs").delete_queue(QueueUrl=url)
    assert aws("sns").publish(TopicArn=topic, Message="x")["MessageId"]


def test_cloudwatch_sees_a_queues_state_and_traffic() -> None:
    """3 sent, 1 received and deleted, 1 received, 1 left, the oldest 60 s old on a clock at twice the speed: 120."""
    began_s = time.time() - 60
    moment = [began_s]
    sqs = SqsService(endpoint_url=lambda: "http://localhost", now_s=lambda: moment[0])
    url = sqs.call(CALLER, "CreateQueue", {"QueueName": "q"})["QueueUrl"]
    for _ in range(3):
        sqs.call(CALLER, "SendMessage", {"QueueUrl": url, "MessageBody": "x"})
    received = sqs.call(CALLER, "ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 2})["Messages"]
    sqs.call(CALLER, "DeleteMessage", {"QueueUrl": url, "ReceiptHandle": received[0]["ReceiptHandle"]})
    moment[0] = began_s + 1
    store = MetricStore()
    put_queue_metrics(store, sqs, 100.0, speed=2)

    def value(name: str) -> float | None:
        key = MetricKey(CALLER.account, CALLER.region, "AWS/SQS", name, (("QueueName", "q"),))
        return store.points(key, [100.0, 160.0], "Maximum")[0]

    assert {
        "sent": value("NumberOfMessagesSent"),
        "received": value("NumberOfMessagesReceived"),
        "deleted": value("NumberOfMessagesDeleted"),
        "visible": value("ApproximateNumberOfMessagesVisible"),
        "in flight": value("ApproximateNumberOfMessagesNotVisible"),
        "delayed": value("ApproximateNumberOfMessagesDelayed"),
    } == {"sent": 3, "received": 2, "deleted": 1, "visible": 1, "in flight": 1, "delayed": 0}
    age_s = value("ApproximateAgeOfOldestMessage")
    assert age_s is not None and 120 <= age_s < 140
    put_queue_metrics(store, sqs, 160.0, speed=2)
    key = MetricKey(CALLER.account, CALLER.region, "AWS/SQS", "NumberOfMessagesSent", (("QueueName", "q"),))
    assert store.points(key, [160.0, 220.0], "Maximum") == [0.0]
