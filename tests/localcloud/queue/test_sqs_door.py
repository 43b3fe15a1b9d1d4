"""SQS over HTTP: both protocols, and receives that wait without holding anybody up."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

import boto3
import pytest
from botocore.config import Config

from loadproof.localcloud.queue.sqs.message import State
from loadproof.localcloud.queue.sqs.server import SqsServer, running

AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=AKIA/20261122/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0"
XML = "{http://queue.amazonaws.com/doc/2012-11-05/}"


@pytest.fixture(scope="module")
def server() -> Iterator[SqsServer]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def sqs(server: SqsServer) -> Any:
    config = Config(retries={"total_max_attempts": 1}, proxies={}, max_pool_connections=40)
    keys = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    return boto3.client("sqs", endpoint_url=server.endpoint_url, config=config, **keys)


@pytest.fixture
def url(sqs: Any, request: pytest.FixtureRequest) -> str:
    return str(sqs.create_queue(QueueName=request.node.name[:80].partition("[")[0])["QueueUrl"])


def post(server: SqsServer, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.endpoint_url).port, timeout=60)
    connection.request("POST", path, body, {"Authorization": AUTHORIZATION, **headers})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def query(server: SqsServer, path: str = "/", **form: str) -> tuple[int, ElementTree.Element]:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = post(server, path, urlencode({"Version": "2012-11-05", **form}).encode(), headers)
    return status, ElementTree.fromstring(body)


def ask(server: SqsServer, action: str, body: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
    headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
    status, answered, content = post(server, "/", body, headers)
    return status, answered, json.loads(content)


def test_the_query_protocol_sends_and_receives(server: SqsServer, url: str) -> None:
    """Form in, XML out; a batch, typed attributes, and the queue named by the path alone."""
    path = urlsplit(url).path
    entry = "SendMessageBatchRequestEntry.1."
    value = f"{entry}MessageAttribute.1.Value."
    form = {f"{entry}Id": "a", f"{entry}MessageBody": "<b>&", f"{entry}MessageAttribute.1.Name": "k"}
    form |= {f"{value}DataType": "Number", f"{value}StringValue": "7"}
    status, sent = query(server, Action="SendMessageBatch", QueueUrl=url, **form)
    assert status == 200
    assert sent.findtext(f".//{XML}SendMessageBatchResultEntry/{XML}Id") == "a"
    wish = {"AttributeName.1": "All", "MessageAttributeName.1": "All", "MaxNumberOfMessages": "10"}
    _, received = query(server, path, Action="ReceiveMessage", **wish)
    assert received.findtext(f".//{XML}Body") == "<b>&"
    assert received.findtext(f".//{XML}MessageAttribute/{XML}Value/{XML}StringValue") == "7"
    assert received.findtext(f".//{XML}MessageAttribute/{XML}Value/{XML}DataType") == "Number"
    handle = received.findtext(f".//{XML}ReceiptHandle") or ""
    status, _ = query(server, path, Action="DeleteMessage", ReceiptHandle=handle)
    assert status == 200
    queue = server.service.engine.queue("arn:aws:sqs:us-east-1:123456789012:" + url.rpartition("/")[2])
    assert list(queue) == []


def test_the_query_protocols_errors(server: SqsServer) -> None:
    """The older code, in XML; an action that SQS does not have."""
    status, error = query(server, Action="GetQueueUrl", QueueName="absent")
    assert (status, error.findtext(f".//{XML}Code")) == (400, "AWS.SimpleQueueService.NonExistentQueue")
    status, error = query(server, Action="GetRich")
    assert (status, error.findtext(f".//{XML}Code")) == (400, "InvalidAction")


def test_the_json_protocols_errors_carry_both_codes(server: SqsServer) -> None:
    """The shape's name in the body, the older code in the header that SDKs read."""
    status, headers, error = ask(server, "GetQueueUrl", b'{"QueueName": "absent"}')
    assert status == 400
    assert headers["x-amzn-query-error"] == "AWS.SimpleQueueService.NonExistentQueue;Sender"
    assert error == {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "The specified queue does not exist."}


@pytest.mark.parametrize(
    ("action", "body", "code"),
    [
        ("SendMessage", b"{", "SerializationException"),
        ("SendMessage", b"[]", "SerializationException"),
        ("SendMessage", b"[" * 200_000, "SerializationException"),
        ("SendMessage", b'{"QueueUrl": "u"}', "MissingRequiredParameterException"),
        ("ReceiveMessage", b'{"QueueUrl": "u", "WaitTimeSeconds": "1"}', "SerializationException"),
        ("SendMessageBatch", b'{"QueueUrl": "u", "Entries": [{}]}', "MissingRequiredParameterException"),
        ("ReceiveMessage", b'{"QueueUrl": "nowhere"}', "InvalidAddress"),
        (
            "AddPermission",
            b'{"QueueUrl":"u","Label":"l","AWSAccountIds":["1"],"Actions":["*"]}',
            "UnsupportedOperation",
        ),
        ("GetRich", b"{}", "UnknownOperationException"),
    ],
)
def test_requests_that_are_no_requests(server: SqsServer, action: str, body: bytes, code: str) -> None:
    """Each is refused with its reason; the server goes on."""
    status, _, error = ask(server, action, body)
    assert status in (400, 404)
    assert error["__type"] == f"com.amazonaws.sqs#{code}"


def test_thirty_waiting_receives_hold_nobody_up(sqs: Any, url: str) -> None:
    """All wait 20 s; thirty messages are sent meanwhile, and every receive gets one."""
    with ThreadPoolExecutor(30) as pool:
        waits = [pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20) for _ in range(30)]
        time.sleep(0.3)
        began_s = time.monotonic()
        for number in range(30):
            sqs.send_message(QueueUrl=url, MessageBody=str(number))
        received = [wait.result() for wait in waits]
    assert sorted(int(one["Messages"][0]["Body"]) for one in received) == list(range(30))
    assert time.monotonic() - began_s < 18


def test_a_receive_waits_as_long_as_the_queue_says(sqs: Any, url: str) -> None:
    """Without WaitTimeSeconds the queue's own second holds; with 0 nobody waits for its twenty."""
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReceiveMessageWaitTimeSeconds": "1"})
    began_s = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    assert time.monotonic() - began_s >= 1
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReceiveMessageWaitTimeSeconds": "20"})
    before_s = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
    assert time.monotonic() - before_s < 18


def test_a_receiver_that_is_gone_is_given_no_message(server: SqsServer, sqs: Any, url: str) -> None:
    """It hangs up while it waits; the message sent afterwards stays visible for others."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.endpoint_url).port)
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20})
    headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "Authorization": AUTHORIZATION}
    connection.request("POST", "/", body, headers)
    time.sleep(0.3)
    connection.close()
    time.sleep(0.3)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    time.sleep(0.2)
    queue = server.service.engine.queue("arn:aws:sqs:us-east-1:123456789012:" + url.rpartition("/")[2])
    assert (queue.count(State.VISIBLE), queue.count(State.IN_FLIGHT)) == (1, 0)


def test_a_thread_of_this_process_waits_too(server: SqsServer, url: str) -> None:
    """As Lambda's poller does: woken by a send from elsewhere."""
    from sqs_world import CALLER

    timer = threading.Timer(0.3, server.service.call, (CALLER, "SendMessage", {"QueueUrl": url, "MessageBody": "x"}))
    timer.start()
    found = server.service.call(CALLER, "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 10})
    assert [message["Body"] for message in found["Messages"]] == ["x"]
    timer.join()


def test_waiting_costs_no_turns(server: SqsServer, sqs: Any, url: str) -> None:
    """A receive that waits a second in vain counts as one empty receive, after no more than a few looks."""
    queue = server.service.engine.queue("arn:aws:sqs:us-east-1:123456789012:" + url.rpartition("/")[2])
    looks = 0
    receive = server.service.engine.receive

    def counting(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return receive(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.service.engine, "receive", counting)
        sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    assert queue.traffic["NumberOfEmptyReceives"] == 1
    assert looks <= 3
