"""The consumer against a real HTTP server that speaks SageMaker's event stream, and a bucket in memory."""

from __future__ import annotations

import io
import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aws_lambda_powertools import Logger
from botocore.config import Config
from botocore.exceptions import ClientError

from stacks.buffer.runtime.consumer import handler as door
from stacks.buffer.runtime.consumer.worker import NeverError, RetryLaterError, Settings, Worker

SETTINGS = Settings(
    endpoint="chat",
    component="chat-main",
    protocol="tgi",
    revision="r1",
    bucket="results-bucket",
    prefix="results/",
    timeout_s=30.0,
)
BODY = '{"key": "order-17", "request": {"inputs": "hi"}}'
LAST = {
    "token": {"text": " you", "special": False},
    "generated_text": "hello you",
    "details": {"finish_reason": "eos_token", "generated_tokens": 2, "input_length": 1},
}
STREAM = b"data:" + json.dumps({"token": {"text": "hello"}}).encode() + b"\n\ndata:" + json.dumps(LAST).encode()


def frame(payload: bytes, **headers: str) -> bytes:
    """One event-stream message as AWS defines it: lengths, CRC of both, headers, payload, CRC of all."""
    coded = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in ((f":{name.replace('_', '-')}", value) for name, value in headers.items())
    )
    prelude = struct.pack(">II", 16 + len(coded) + len(payload), len(coded))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + coded + payload
    return head + struct.pack(">I", zlib.crc32(head))


def part(payload: bytes) -> bytes:
    return frame(payload, message_type="event", event_type="PayloadPart", content_type="application/octet-stream")


@dataclass
class Runtime:
    """What the fake endpoint answers, and what it was asked."""

    status: int = 200
    error: str | None = None
    body: bytes = b""
    asked: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    state = Runtime(body=part(STREAM[:30]) + part(STREAM[30:]))

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            component = self.headers.get("X-Amzn-SageMaker-Inference-Component")
            state.asked.append((self.path, component, json.loads(content)))
            self.send_response(state.status)
            if state.error:
                self.send_header("x-amzn-ErrorType", state.error)
            self.send_header("Content-Type", "application/vnd.amazon.eventstream")
            self.send_header("Content-Length", str(len(state.body)))
            self.end_headers()
            self.wfile.write(state.body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


class Bucket:
    """S3 as far as the consumer uses it: head, and put under the condition that nothing is there."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failing_with: int | None = None

    def head_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803
        if (Bucket, Key in self.objects) != ("results-bucket", True):
            raise client_error("HeadObject", "404", 404)

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str, IfNoneMatch: str) -> None:  # noqa: N803
        assert (Bucket, ContentType, IfNoneMatch) == ("results-bucket", "application/json", "*")
        if self.failing_with is not None:
            raise client_error("PutObject", "Failing", self.failing_with)
        if Key in self.objects:
            raise client_error("PutObject", "PreconditionFailed", 412)
        self.objects[Key] = io.BytesIO(Body).read()


def client_error(operation: str, code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


def worker(
    runtime: Runtime, bucket: Bucket, settings: Settings = SETTINGS, clock_s: Callable[[], float] | None = None
) -> Worker:
    client = boto3.client(
        "sagemaker-runtime",
        endpoint_url=f"http://127.0.0.1:{runtime.port}",
        region_name="us-east-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="example",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
    )
    return Worker(settings, runtime=client, s3=bucket, **({"clock_s": clock_s} if clock_s else {}))


def test_answer_is_stored_under_its_key(runtime: Runtime) -> None:
    """The model is asked for a stream on its component; the assembled answer lies at results/<key>.json."""
    bucket = Bucket()
    place = worker(runtime, bucket).serve(BODY, message_id="m-1", time_left_s=60)
    assert place == "results/order-17.json"
    assert runtime.asked == [
        (
            "/endpoints/chat/invocations-response-stream",
            "chat-main",
            {"inputs": "hi", "stream": True, "parameters": {"return_full_text": False, "details": True}},
        )
    ]
    result = json.loads(bucket.objects[place])
    assert result.pop("duration_ms") > 0
    assert result == {
        "schema_version": 1,
        "key": "order-17",
        "message_id": "m-1",
        "endpoint": "chat",
        "component": "chat-main",
        "model_revision": "r1",
        "answer": {
            "choices": [{"index": 0, "text": "hello you", "finish_reason": "eos_token"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        },
    }


def test_a_redelivered_message_costs_no_generation(runtime: Runtime) -> None:
    """At least once from the queue, once from the model."""
    bucket = Bucket()
    one = worker(runtime, bucket)
    assert one.serve(BODY, message_id="m-1", time_left_s=60) == one.serve(BODY, message_id="m-2", time_left_s=60)
    assert len(runtime.asked) == 1


def test_the_first_of_two_answers_stays(runtime: Runtime) -> None:
    """A result that appeared during the generation is not overwritten, and the message is done."""
    bucket = Bucket()
    racing = Bucket()
    racing.head_object = lambda **_: (_ for _ in ()).throw(client_error("HeadObject", "404", 404))  # type: ignore[method-assign]
    racing.objects = bucket.objects
    bucket.objects["results/order-17.json"] = b"first"
    worker(runtime, racing).serve(BODY, message_id="m-1", time_left_s=60)
    assert bucket.objects["results/order-17.json"] == b"first"


def test_a_plain_variant_names_no_component(runtime: Runtime) -> None:
    """Without a component the header is not sent: a plain endpoint would refuse it."""
    plain = Settings(**{name: getattr(SETTINGS, name) for name in SETTINGS.__slots__} | {"component": None})
    worker(runtime, Bucket(), plain).serve(BODY, message_id="m-1", time_left_s=60)
    assert runtime.asked[0][1] is None


def model_error(original: int) -> bytes:
    return json.dumps({"Message": "no", "OriginalStatusCode": original, "OriginalMessage": "no"}).encode()


@pytest.mark.parametrize(
    ("status", "error", "body", "outcome", "reason"),
    [
        (424, "ModelError", model_error(422), NeverError, "the model refused the request (422)"),
        (424, "ModelError", model_error(429), RetryLaterError, "the model is busy (429)"),
        (424, "ModelError", model_error(503), RetryLaterError, "the endpoint answered ModelError"),
        (
            400,
            "ValidationError",
            b'{"Message": "Inference Component has no capacity"}',
            RetryLaterError,
            "the endpoint answered ValidationError",
        ),
        (503, "ServiceUnavailable", b"{}", RetryLaterError, "the endpoint answered ServiceUnavailable"),
    ],
)
def test_failures_are_judged_by_their_cause(
    runtime: Runtime, status: int, error: str, body: bytes, outcome: type[Exception], reason: str
) -> None:
    """A cold or busy endpoint means later; a request the model itself refuses means never. One attempt each."""
    runtime.status, runtime.error, runtime.body = status, error, body
    bucket = Bucket()
    with pytest.raises(outcome) as caught:
        worker(runtime, bucket).serve(BODY, message_id="m-1", time_left_s=60)
    assert str(caught.value) == reason
    assert (len(runtime.asked), bucket.objects) == (1, {})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (part(STREAM[:40]), "the stream ended without the model's end marker"),
        (
            part(STREAM[:40])
            + frame(b'{"ErrorCode": "StreamBroken"}', message_type="exception", exception_type="ModelStreamError"),
            "the endpoint answered ModelStreamError",
        ),
        ((part(STREAM))[:-1] + b"\x00", "the invocation broke (ChecksumMismatch)"),
    ],
)
def test_broken_streams_store_nothing(runtime: Runtime, body: bytes, reason: str) -> None:
    """Cut, reported broken, or damaged on the way: one error, no result."""
    runtime.body = body
    bucket = Bucket()
    with pytest.raises(RetryLaterError) as caught:
        worker(runtime, bucket).serve(BODY, message_id="m-1", time_left_s=60)
    assert str(caught.value) == reason
    assert bucket.objects == {}


def test_time_runs_out(runtime: Runtime) -> None:
    """An answer that takes longer than the invocation timeout is given up; without time nothing is begun."""
    ticks = iter([0.0, 31.0])
    with pytest.raises(RetryLaterError, match="longer than the invocation timeout"):
        worker(runtime, Bucket(), clock_s=lambda: next(ticks)).serve(BODY, message_id="m-1", time_left_s=60)
    with pytest.raises(RetryLaterError, match="no time left"):
        worker(runtime, Bucket()).serve(BODY, message_id="m-1", time_left_s=0)
    assert len(runtime.asked) == 1


def test_a_bucket_that_fails_means_later(runtime: Runtime) -> None:
    """The message comes back when its result could not be stored."""
    bucket = Bucket()
    bucket.failing_with = 503
    with pytest.raises(RetryLaterError, match="the results bucket answered 503"):
        worker(runtime, bucket).serve(BODY, message_id="m-1", time_left_s=60)


class Queue:
    """SQS as far as the handler uses it."""

    def __init__(self) -> None:
        self.pauses: list[tuple[str, int]] = []

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> None:  # noqa: N803
        assert QueueUrl == "https://queue"
        self.pauses.append((ReceiptHandle, VisibilityTimeout))


def record(number: int, body: str, receives: int = 1) -> dict[str, Any]:
    return {
        "messageId": f"m-{number}",
        "receiptHandle": f"r-{number}",
        "body": body,
        "attributes": {"ApproximateReceiveCount": str(receives)},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:chat-requests",
        "awsRegion": "us-east-1",
    }


def test_a_batch_fails_item_by_item(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The malformed body and the refused one come back, the good one does not; reasons are logged, prompts are not."""
    bucket, queue, log = Bucket(), Queue(), io.StringIO()
    monkeypatch.setattr(door, "logger", Logger(service="test-consumer", stream=log))
    monkeypatch.setenv("QUEUE_URL", "https://queue")
    monkeypatch.setattr(door, "_worker", lambda: worker(runtime, bucket))
    monkeypatch.setattr(door, "_sqs", lambda: queue)
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000)
    outcome = door.handler({"Records": [record(1, BODY), record(2, '{"secret prompt"')]}, context)
    assert outcome == {"batchItemFailures": [{"itemIdentifier": "m-2"}]}
    assert list(bucket.objects) == ["results/order-17.json"]
    assert queue.pauses == [("r-2", 0)]
    assert "not strict JSON at line 1" in log.getvalue()
    assert "secret prompt" not in log.getvalue()


def test_all_failing_is_a_report_not_a_crash(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cold endpoint: every message is reported and paused, longer the more often it was received."""
    runtime.status, runtime.error, runtime.body = 400, "ValidationError", b"{}"
    queue = Queue()
    monkeypatch.setenv("QUEUE_URL", "https://queue")
    monkeypatch.setattr(door, "_worker", lambda: worker(runtime, Bucket()))
    monkeypatch.setattr(door, "_sqs", lambda: queue)
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000)
    outcome = door.handler({"Records": [record(1, BODY), record(2, BODY, receives=3)]}, context)
    assert outcome == {"batchItemFailures": [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-2"}]}
    assert queue.pauses == [("r-1", 60), ("r-2", 240)]


def test_four_pauses_outlast_a_start_from_zero() -> None:
    """60 + 120 + 240 + 480 = 900 s, and a first copy from zero was measured at about ten minutes."""
    assert [door.pause_before_retry_s(receives) for receives in (1, 2, 3, 4, 5, 1000)] == [60, 120, 240, 480, 900, 900]


def test_settings_come_from_the_functions_variables() -> None:
    """What the stack writes is what the consumer reads; no component means a plain variant."""
    variables = {
        "ENDPOINT_NAME": "chat",
        "PROTOCOL": "tgi",
        "MODEL_REVISION": "r1",
        "RESULTS_BUCKET": "results-bucket",
        "RESULTS_PREFIX": "results/",
        "INVOCATION_TIMEOUT_S": "30",
    }
    assert Settings.from_variables(variables).component is None
    assert Settings.from_variables(variables | {"COMPONENT_NAME": "chat-main"}) == SETTINGS
