"""The function as Lambda calls it, against SQS (ours), S3 and DynamoDB (moto) and a real HTTP endpoint."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aws_lambda_powertools import Logger
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from consumer_world import Endpoint, sagemaker
from moto import mock_aws

from loadproof.constructs.buffer.runtime.consumer import handler as door
from loadproof.constructs.buffer.runtime.consumer.clock import Clock
from loadproof.constructs.buffer.runtime.consumer.results import Results
from loadproof.localcloud.queue.sqs.server import running

REQUEST = {"inputs": "a canary prompt"}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with sagemaker() as state:
        yield state


class Cloud:
    """The buffer's stores and one consumer on them."""

    def __init__(self) -> None:
        self.sqs, self.s3, self.dynamodb = (boto3.client(name) for name in ("sqs", "s3", "dynamodb"))
        self.dead = self.sqs.create_queue(QueueName="chat-dead-letters")["QueueUrl"]
        self.url = self.sqs.create_queue(QueueName="chat-requests")["QueueUrl"]
        self.told = self.sqs.create_queue(QueueName="told")["QueueUrl"]
        self.s3.create_bucket(Bucket="results-bucket")
        self.dynamodb.create_table(
            TableName="claims",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def variables(self) -> dict[str, str]:
        return {
            "ENDPOINT_NAME": "chat",
            "COMPONENT_NAME": "chat-main",
            "PROTOCOL": "tgi",
            "MODEL_REVISION": "r1",
            "QUEUE_URL": self.url,
            "DEAD_LETTER_URL": self.dead,
            "CLAIMS_TABLE": "claims",
            "RESULTS_BUCKET": "results-bucket",
            "RESULTS_PREFIX": "results/",
            "CALLBACKS": "arn:aws:sqs:us-east-1:123456789012:told",
            "INVOCATION_TIMEOUT_S": "10",
            "IDLE_TIMEOUT_S": "5",
            "LEASE_S": "60",
            "MAX_ATTEMPTS": "8",
            "MAX_IN_FLIGHT": "4",
            "RETENTION_S": "1209600",
        }

    def send(self, **message: Any) -> None:
        self.sqs.send_message(QueueUrl=self.url, MessageBody=json.dumps(message))

    def serve(self, *, time_s: float = 60) -> list[str]:
        """One batch as Lambda serves it: received, handled, what is not reported deleted. Returns what is reported."""
        received = self.received(self.url)
        context = SimpleNamespace(get_remaining_time_in_millis=lambda: int(time_s * 1000))
        answer = door.handler({"Records": [record(message) for message in received]}, context)
        failed = [item["itemIdentifier"] for item in answer["batchItemFailures"]]
        for message in received:
            if message["MessageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return failed

    def received(self, url: str) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
        )
        return list(answer.get("Messages", []))

    def result(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.s3.get_object(Bucket="results-bucket", Key=f"results/{key}.json")["Body"].read()
        )
        return found

    def left(self) -> int:
        """Messages in the queue, hidden or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        names.append("ApproximateNumberOfMessagesDelayed")
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


def record(message: dict[str, Any]) -> dict[str, Any]:
    """As Lambda's event has a message."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:chat-requests",
    }


@pytest.fixture
def cloud(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "example")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", endpoint.url)
    with running() as sqs, mock_aws():
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", sqs.endpoint_url)
        made = Cloud()
        for name, value in made.variables().items():
            monkeypatch.setenv(name, value)
        door._consumer.cache_clear()
        yield made
        door._consumer.cache_clear()


def test_an_answer_is_stored_under_its_key(cloud: Cloud, endpoint: Endpoint) -> None:
    """The model is asked for a stream on its component; the answer lies at results/<key>.json, the message is gone."""
    cloud.send(request=REQUEST, key="order-17")
    assert cloud.serve() == []
    path, component, payload = endpoint.asked[0]
    assert (path, component) == ("/endpoints/chat/invocations-response-stream", "chat-main")
    assert payload == REQUEST | {"stream": True, "parameters": {"return_full_text": False, "details": True}}
    stored = cloud.result("order-17")
    assert stored["answer"]["choices"] == [{"index": 0, "text": "hello you", "finish_reason": "eos_token"}]
    assert stored["answer"]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2}
    assert (cloud.left(), len(endpoint.asked)) == (0, 1)


def test_a_batch_ends_item_by_item(cloud: Cloud, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """Two answers and a body that is no JSON: nothing comes back, the third is a dead letter with a reason."""
    cloud.send(request=REQUEST, key="a")
    cloud.send(request=REQUEST, key="b")
    cloud.sqs.send_message(QueueUrl=cloud.url, MessageBody='{"a canary prompt"')
    assert cloud.serve() == []
    assert {cloud.result("a")["key"], cloud.result("b")["key"]} == {"a", "b"}
    (dead,) = cloud.received(cloud.dead)
    assert dead["MessageAttributes"]["reason"]["StringValue"] == "not strict JSON at line 1, column 19"
    assert cloud.left() == 0


def test_no_log_line_and_no_attribute_holds_what_was_asked(
    cloud: Cloud, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answered, refused by the model with the prompt in its words, broken: the canary is nowhere but in bodies."""
    log = io.StringIO()
    monkeypatch.setattr(door, "logger", Logger(service="test-consumer", stream=log))
    cloud.send(request=REQUEST, key="a")
    cloud.serve()
    endpoint.status, endpoint.error = 424, "ModelError"
    said = {"Message": "a canary prompt", "OriginalStatusCode": 422, "OriginalMessage": "a canary prompt"}
    endpoint.body = json.dumps(said).encode()
    cloud.send(request=REQUEST, key="b")
    cloud.sqs.send_message(QueueUrl=cloud.url, MessageBody='{"request": {"a canary prompt": 1}, "key": "/"}')
    cloud.serve()
    dead = cloud.received(cloud.dead)
    assert sorted(one["MessageAttributes"]["reason"]["StringValue"] for one in dead) == [
        "`key` must be 1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
        "the model answered 422",
    ]
    printed = capsys.readouterr()
    everything = log.getvalue() + printed.out + printed.err
    assert "dead-lettered" in everything
    assert "canary" not in everything + json.dumps([one["MessageAttributes"] for one in dead])


def test_metrics_are_one_line_a_batch(cloud: Cloud, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """In CloudWatch's embedded format: counts summed, durations one by one, units for both."""
    for key in "ab":
        cloud.send(request=REQUEST, key=key)
    cloud.serve()
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    assert (line["Buffer"], line["Invocations"], line["Stored"]) == ("chat", 2, 2)
    assert len(line["Age"]) == 2
    (shape,) = line["_aws"]["CloudWatchMetrics"]
    assert (shape["Namespace"], shape["Dimensions"]) == ("Loadproof/Buffer", [["Buffer"]])
    assert {"Name": "Age", "Unit": "Seconds"} in shape["Metrics"]


def test_a_callback_names_the_result(cloud: Cloud, endpoint: Endpoint) -> None:
    """The queue of the profile's list gets key and place, after the result is stored."""
    cloud.send(request=REQUEST, key="a", callback="arn:aws:sqs:us-east-1:123456789012:told")
    cloud.serve()
    (told,) = cloud.received(cloud.told)
    assert json.loads(told["Body"]) == {"key": "a", "result": "s3://results-bucket/results/a.json"}


def test_a_request_longer_than_sagemaker_takes_is_refused(cloud: Cloud, endpoint: Endpoint) -> None:
    """The claim check is read to 6 MB and no further."""
    cloud.s3.put_object(Bucket="results-bucket", Key="requests/large", Body=b"x" * 6_291_457)
    cloud.send(request_s3="requests/large", key="a")
    assert cloud.serve() == []
    (dead,) = cloud.received(cloud.dead)
    assert dead["MessageAttributes"]["reason"]["StringValue"].startswith("the request in the bucket is longer than")
    assert endpoint.asked == []


def test_a_stalled_stream_is_one_request_and_found_by_its_silence(
    cloud: Cloud, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes for the idle timeout of 1 s: given up then, asked once more and no more, by nobody below us."""
    monkeypatch.setenv("IDLE_TIMEOUT_S", "1")
    monkeypatch.setenv("MAX_ATTEMPTS", "2")
    door._consumer.cache_clear()
    released = threading.Event()
    endpoint.before = lambda: bool(released.wait(60))
    cloud.send(request=REQUEST, key="a")
    assert cloud.serve() == []
    released.set()
    (dead,) = cloud.received(cloud.dead)
    reason = dead["MessageAttributes"]["reason"]["StringValue"]
    assert reason == "failed 2 times, the last time: nothing came for the idle timeout"
    assert len(endpoint.asked) == 2


def test_sigterm_gives_back_what_it_cannot_finish(
    cloud: Cloud, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain ends while a stream hangs: the message is reported, visible again at once, and its key is free."""
    monkeypatch.setenv("DRAIN_S", "0.2")
    door._consumer.cache_clear()
    released = threading.Event()

    def hang() -> None:
        door._consumer().stop()
        released.wait(60)

    endpoint.before = hang
    cloud.send(request=REQUEST, key="a")
    (failed,) = cloud.serve()
    released.set()
    assert failed
    (again,) = cloud.received(cloud.url)
    assert again["MessageId"] == failed
    item = cloud.dynamodb.get_item(TableName="claims", Key={"id": {"S": "a"}})["Item"]
    assert item["phase"] == {"S": "released"}


def test_a_process_without_work_ends_at_sigterm(cloud: Cloud) -> None:
    """Nothing is in hand, so there is nothing to drain."""
    with pytest.raises(SystemExit) as ended:
        door._consumer().stop()
    assert ended.value.code == 0


@pytest.mark.parametrize("service", ["s3", "sqs", "sns", "dynamodb", "sagemaker-runtime", "bedrock-runtime"])
def test_every_client_tries_once(cloud: Cloud, service: str) -> None:
    """A repeat inside botocore would be a generation that somebody pays for."""
    assert door._client(service).meta.config.retries["total_max_attempts"] == 1


def test_a_message_costs_four_calls_beside_its_generation(
    cloud: Cloud, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three messages in a batch: each a claim, a generation, a put and a done; visibility and pace once for all."""
    for key in "abc":
        cloud.send(request=REQUEST, key=key)
    calls: Counter[str] = Counter()
    call = BaseClient._make_api_call

    def counted(client: BaseClient, operation: str, arguments: Any) -> Any:
        calls[operation] += 1
        return call(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", counted)
    cloud.serve()
    for around in ("ReceiveMessage", "DeleteMessage"):
        del calls[around]
    assert calls == {
        "ChangeMessageVisibilityBatch": 1,
        "GetItem": 1,
        "UpdateItem": 6,
        "InvokeEndpointWithResponseStream": 3,
        "PutObject": 3,
    }


@pytest.mark.parametrize(("status", "there"), [(403, False), (404, False), (200, True)])
def test_a_result_that_s3_does_not_tell_of_is_not_there(status: int, there: bool) -> None:
    """403 is what a missing object is to who may not list the bucket: the conditional put decides then."""

    class S3:
        def head_object(self, **_: Any) -> None:
            if status != 200:
                raise ClientError({"ResponseMetadata": {"HTTPStatusCode": status}}, "HeadObject")

    assert Results(S3(), "results-bucket", "results/", Clock()).exists("a") is there
