"""Real queues, real zips, real processes: what happens to messages between a queue and a function."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import psutil
import pytest
from botocore.exceptions import ClientError
from moto_server import moto_server

from loadproof.localcloud.queue import QueuePoller
from loadproof.localcloud.queue.emf import Datum
from loadproof.localcloud.queue.poller import cloud_environment
from loadproof.localcloud.queue.sqs.server import running

ACCOUNT, REGION = "123456789012", "us-east-1"
POWERTOOLS = f"arn:aws:lambda:{REGION}:017000801446:layer:AWSLambdaPowertoolsPythonV3-python313-x86_64:27"


class Cloud:
    """Clients, and the few resources a test needs."""

    def __init__(self, url: str, sqs_url: str, poller: QueuePoller) -> None:
        options = {"region_name": REGION, "aws_access_key_id": "test", "aws_secret_access_key": "test"}
        self.poller = poller
        self.metrics: list[Datum] = []
        self.sqs = boto3.client("sqs", endpoint_url=sqs_url, **options)
        self.functions, self.s3, iam = (
            boto3.client(service, endpoint_url=url, **options) for service in ("lambda", "s3", "iam")
        )
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        self._role = iam.create_role(RoleName="consumer", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        self.s3.create_bucket(Bucket="answers")

    def queue(self, **attributes: str) -> tuple[str, str]:
        url = self.sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}", Attributes=attributes)["QueueUrl"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return url, found["Attributes"]["QueueArn"]

    def function(self, code: str, **more: Any) -> str:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("consumer.py", code)
        name = f"f-{uuid.uuid4().hex[:8]}"
        options = {"Runtime": "python3.13", "Handler": "consumer.handle", "Timeout": 5, **more}
        self.functions.create_function(
            FunctionName=name, Role=self._role, Code={"ZipFile": packed.getvalue()}, **options
        )
        return name

    def connect(self, function: str, queue_arn: str, **more: Any) -> str:
        options = {"BatchSize": 10, "FunctionResponseTypes": ["ReportBatchItemFailures"], **more}
        made = self.functions.create_event_source_mapping(FunctionName=function, EventSourceArn=queue_arn, **options)
        return str(made["UUID"])

    def answers(self, prefix: str) -> dict[str, Any]:
        found = self.s3.list_objects_v2(Bucket="answers", Prefix=f"{prefix}/").get("Contents", [])
        return {
            item["Key"].partition("/")[2]: json.loads(
                self.s3.get_object(Bucket="answers", Key=item["Key"])["Body"].read()
            )
            for item in found
        }

    def left(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_server() as url, running(region=REGION) as sqs:
        environment = cloud_environment(url, "test", "test")
        told: list[Datum] = []
        poller = QueuePoller(
            sqs.service, account=ACCOUNT, region=REGION, environment=environment, put_metric=told.append
        )
        poller.start()
        try:
            cloud = Cloud(url, sqs.endpoint_url, poller)
            cloud.metrics = told
            yield cloud
        finally:
            poller.stop()
            leftover = [child for child in psutil.Process().children() if "worker.py" in " ".join(child.cmdline())]
            assert leftover == []


def eventually(check: Callable[[], Any], within_s: float = 60.0) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


STORE = """
import json, os, boto3
s3 = boto3.client("s3")
def store(prefix, key, value):
    s3.put_object(Bucket="answers", Key=f"{prefix}/{key}", Body=json.dumps(value))
"""


def test_a_message_reaches_real_code_that_reaches_the_cloud(cloud: Cloud) -> None:
    """The zip's handler runs with the function's variables and writes to S3 of the same local cloud."""
    code = (
        STORE
        + """
def handle(event, context):
    for record in event["Records"]:
        seen = {"body": record["body"], "stage": os.environ["STAGE"], "name": context.function_name,
                "region": os.environ["AWS_REGION"], "left": context.get_remaining_time_in_millis() > 0,
                "source": record["eventSourceARN"].rpartition(":")[2], "trace": record["messageAttributes"]}
        store("plain", record["messageId"], seen)
"""
    )
    url, arn = cloud.queue()
    name = cloud.function(code, Environment={"Variables": {"STAGE": "dev"}})
    cloud.connect(name, arn)
    attribute = {"trace": {"StringValue": "t1", "DataType": "String"}}
    sent = cloud.sqs.send_message(QueueUrl=url, MessageBody="hello", MessageAttributes=attribute)
    answers = eventually(lambda: cloud.answers("plain"))
    found = answers[sent["MessageId"]]
    assert found["trace"]["trace"]["stringValue"] == "t1"
    del found["trace"]
    assert found == {
        "body": "hello",
        "stage": "dev",
        "name": name,
        "region": REGION,
        "left": True,
        "source": arn.rpartition(":")[2],
    }
    eventually(lambda: cloud.left(url) == 0)


def test_sending_does_not_run_the_function_itself(cloud: Cloud) -> None:
    """A disabled mapping leaves messages alone, and a send returns without an invocation; enabling delivers them."""
    code = (
        STORE
        + """
def handle(event, context):
    for record in event["Records"]:
        store("enabled", record["messageId"], 1)
"""
    )
    url, arn = cloud.queue()
    mapping = cloud.connect(cloud.function(code), arn, Enabled=False)
    cloud.sqs.send_message(QueueUrl=url, MessageBody="x")
    time.sleep(1.5)
    assert cloud.left(url) == 1
    assert cloud.answers("enabled") == {}
    cloud.functions.update_event_source_mapping(UUID=mapping, Enabled=True)
    eventually(lambda: len(cloud.answers("enabled")) == 1)


def test_only_reported_failures_come_back_and_end_in_the_dead_letter_queue(cloud: Cloud) -> None:
    """maxReceiveCount 2: the poisoned message is tried twice, then found in the DLQ; its neighbours are done once."""
    code = (
        STORE
        + """
def handle(event, context):
    failures = []
    for record in event["Records"]:
        if record["body"] == "poison":
            store("poison", record["attributes"]["ApproximateReceiveCount"], 1)
            failures.append({"itemIdentifier": record["messageId"]})
        else:
            store("fine", record["messageId"], record["body"])
    return {"batchItemFailures": failures}
"""
    )
    dead_url, dead_arn = cloud.queue()
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    url, arn = cloud.queue(VisibilityTimeout="3", RedrivePolicy=redrive)
    for body in ("one", "poison", "two"):
        cloud.sqs.send_message(QueueUrl=url, MessageBody=body)
    name = cloud.function(code)
    # Warm: a cold start longer than the visibility time-out would bring the healthy ones back as well.
    cloud.functions.invoke(FunctionName=name, Payload=json.dumps({"Records": []}))
    cloud.connect(name, arn)
    eventually(lambda: cloud.left(dead_url) == 1)
    (dead,) = cloud.sqs.receive_message(QueueUrl=dead_url)["Messages"]
    assert dead["Body"] == "poison"
    assert sorted(cloud.answers("fine").values()) == ["one", "two"]
    assert sorted(cloud.answers("poison")) == ["1", "2"]
    assert cloud.left(url) == 0


def test_an_unhandled_exception_brings_the_whole_batch_back(cloud: Cloud) -> None:
    """The first delivery raises; after the visibility time-out the same messages are delivered again."""
    code = (
        STORE
        + """
def handle(event, context):
    counts = {r["attributes"]["ApproximateReceiveCount"] for r in event["Records"]}
    if counts == {"1"}:
        raise RuntimeError("first time")
    for record in event["Records"]:
        store("again", record["messageId"], record["attributes"]["ApproximateReceiveCount"])
"""
    )
    url, arn = cloud.queue(VisibilityTimeout="5")
    cloud.sqs.send_message(QueueUrl=url, MessageBody="x")
    cloud.connect(cloud.function(code), arn)
    answers = eventually(lambda: cloud.answers("again"))
    assert list(answers.values()) == ["2"]
    eventually(lambda: cloud.left(url) == 0)


def test_a_function_past_its_time_out_is_killed_and_the_message_comes_back(cloud: Cloud) -> None:
    """Timeout 1: the sleeper's process ends, its message is not deleted."""
    code = """
import time
def handle(event, context):
    if event["Records"][0]["body"] == "slow":
        time.sleep(600)
"""
    url, arn = cloud.queue(VisibilityTimeout="60")
    name = cloud.function(code, Timeout=1)
    # A warm worker has no allowance for loading left: its time-out is exactly the function's.
    cloud.functions.invoke(FunctionName=name, Payload=json.dumps({"Records": [{"body": "warm"}]}))
    cloud.connect(name, arn)
    cloud.sqs.send_message(QueueUrl=url, MessageBody="slow")
    eventually(lambda: _workers_of(name))
    eventually(lambda: not _workers_of(name))
    assert cloud.left(url) == 1


def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(cloud: Cloud) -> None:
    """kill -9 while three messages are being worked on: all three come back after their visibility, counted twice."""
    code = (
        STORE
        + """
import time
def handle(event, context):
    counts = {record["attributes"]["ApproximateReceiveCount"] for record in event["Records"]}
    if counts == {"1"}:
        store("killed-at-work", "it", len(event["Records"]))
        time.sleep(600)
    for record in event["Records"]:
        store("killed", record["body"], record["attributes"]["ApproximateReceiveCount"])
"""
    )
    url, arn = cloud.queue(VisibilityTimeout="5")
    name = cloud.function(code, Timeout=60)
    for body in ("a", "b", "c"):
        cloud.sqs.send_message(QueueUrl=url, MessageBody=body)
    cloud.connect(name, arn)
    assert eventually(lambda: cloud.answers("killed-at-work")) == {"it": 3}
    [worker] = _workers_of(name)
    worker.children(recursive=True)[-1].kill()  # the function itself, below its keepers
    answers = eventually(lambda: len(found := cloud.answers("killed")) == 3 and found)
    assert answers == {"a": "2", "b": "2", "c": "2"}
    eventually(lambda: cloud.left(url) == 0)


def test_metrics_that_a_function_prints_are_told(cloud: Cloud) -> None:
    """A line of the embedded metric format on stdout becomes a datum; other output does not."""
    code = """
import json
def handle(event, context):
    print("not a metric")
    about = {"Namespace": "Tests", "Dimensions": [["Kind"]], "Metrics": [{"Name": "Stored", "Unit": "Count"}]}
    print(json.dumps({"_aws": {"Timestamp": 5000, "CloudWatchMetrics": [about]}, "Kind": "x", "Stored": 2}))
"""
    cloud.functions.invoke(FunctionName=cloud.function(code))
    eventually(lambda: cloud.metrics)
    assert cloud.metrics == [Datum("Tests", "Stored", 2.0, {"Kind": "x"}, "Count", 5000.0)]


def test_binary_attributes_reach_a_function_as_base64(cloud: Cloud) -> None:
    code = (
        STORE
        + """
def handle(event, context):
    store("binary", "seen", event["Records"][0]["messageAttributes"]["raw"]["binaryValue"])
"""
    )
    url, arn = cloud.queue()
    raw = {"raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    cloud.sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=raw)
    cloud.connect(cloud.function(code), arn)
    assert eventually(lambda: cloud.answers("binary")) == {"seen": "AP8="}


def _workers_of(name: str) -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        try:
            if any(f"/{name}-" in part for part in child.cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found


def test_maximum_concurrency_bounds_the_batches_in_flight(cloud: Cloud) -> None:
    """MaximumConcurrency 2 and batches of one: six messages never see more than two handlers at work at once."""
    code = (
        STORE
        + """
import time
def handle(event, context):
    began = time.time()
    time.sleep(0.3)
    store("span", event["Records"][0]["messageId"], [began, time.time(), os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]])
"""
    )
    url, arn = cloud.queue()
    for _ in range(6):
        cloud.sqs.send_message(QueueUrl=url, MessageBody="x")
    cloud.connect(cloud.function(code), arn, BatchSize=1, ScalingConfig={"MaximumConcurrency": 2})
    spans = list(eventually(lambda: (found := cloud.answers("span")) and len(found) == 6 and found).values())
    for begun, *_ in spans:
        assert sum(start <= begun < end for start, end, _ in spans) <= 2
    assert len({environment for *_, environment in spans}) == 2  # and both slots keep their warm process


def test_invoke_runs_the_same_code_and_reports_errors_as_lambda_does(cloud: Cloud) -> None:
    """`lambda invoke` returns the handler's JSON; an exception is FunctionError with Lambda's error document."""
    code = "def handle(event, context):\n    return {'double': 2 * event['n']}\n"
    name = cloud.function(code)
    good = cloud.functions.invoke(FunctionName=name, Payload=json.dumps({"n": 21}))
    assert json.loads(good["Payload"].read()) == {"double": 42}
    bad = cloud.functions.invoke(FunctionName=name, Payload=json.dumps({}))
    assert bad["FunctionError"]
    assert json.loads(bad["Payload"].read())["errorType"] == "KeyError"


def test_a_function_sees_its_layers_and_nothing_else_of_this_machine(cloud: Cloud) -> None:
    """boto3 is Lambda's own, Powertools comes with its layer; what is merely installed here cannot be imported."""
    code = """
import importlib.util
def handle(event, context):
    return {name: importlib.util.find_spec(name) is not None for name in event["names"]}
"""
    names = {"names": ["boto3", "aws_lambda_powertools", "aiohttp", "loadproof"]}
    bare, layered = cloud.function(code), cloud.function(code, Layers=[POWERTOOLS])
    found = {
        name: json.loads(cloud.functions.invoke(FunctionName=name, Payload=json.dumps(names))["Payload"].read())
        for name in (bare, layered)
    }
    nothing = {"aiohttp": False, "loadproof": False}
    assert found[bare] == {"boto3": True, "aws_lambda_powertools": False, **nothing}
    assert found[layered] == {"boto3": True, "aws_lambda_powertools": True, **nothing}


def test_powertools_batch_processing_works_from_its_layer(cloud: Cloud) -> None:
    """Powertools' batch processor, imported from the layer, reports the one item that raised."""
    code = """
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
processor = BatchProcessor(event_type=EventType.SQS)
def one(record):
    if record.body == "bad":
        raise ValueError(record.body)
def handle(event, context):
    return process_partial_response(event=event, record_handler=one, processor=processor, context=context)
"""
    name = cloud.function(code, Layers=[POWERTOOLS])
    event = {
        "Records": [
            {"messageId": body, "body": body, "eventSource": "aws:sqs", "receiptHandle": "r", "attributes": {}}
            for body in ("good", "bad")
        ]
    }
    answer = cloud.functions.invoke(FunctionName=name, Payload=json.dumps(event))
    assert json.loads(answer["Payload"].read()) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}


def test_an_unknown_layer_is_refused_when_the_function_is_created(cloud: Cloud) -> None:
    """A layer whose content is not here fails loudly, as a missing layer does."""
    unknown = f"arn:aws:lambda:{REGION}:999999999999:layer:Mystery:1"
    with pytest.raises(ClientError, match="LayerVersion does not exist"):
        cloud.function("def handle(event, context): pass", Layers=[unknown])


def test_new_code_is_run_after_an_update(cloud: Cloud) -> None:
    """update_function_code retires the warm workers of the old code."""
    name = cloud.function("def handle(event, context):\n    return 'old'\n")
    assert json.loads(cloud.functions.invoke(FunctionName=name)["Payload"].read()) == "old"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("consumer.py", "def handle(event, context):\n    return 'new'\n")
    cloud.functions.update_function_code(FunctionName=name, ZipFile=packed.getvalue())
    assert json.loads(cloud.functions.invoke(FunctionName=name)["Payload"].read()) == "new"


def test_a_mapping_that_is_replaced_loses_no_time(cloud: Cloud) -> None:
    """Delete the mapping, send, connect another function: the message is there at once, not after its visibility."""
    old = cloud.function("def handle(event, context):\n    raise RuntimeError('the old one must not run')\n")
    code = (
        STORE
        + """
def handle(event, context):
    store("replaced", event["Records"][0]["messageId"], 1)
"""
    )
    url, arn = cloud.queue(VisibilityTimeout="300")
    mapping = cloud.connect(old, arn)
    time.sleep(1.2)  # the old poller is in the middle of a poll
    cloud.functions.delete_event_source_mapping(UUID=mapping)
    time.sleep(1.2)  # and has been told to stop
    cloud.sqs.send_message(QueueUrl=url, MessageBody="x")
    cloud.connect(cloud.function(code), arn)
    eventually(lambda: cloud.answers("replaced"))
