"""Asynchronous inference and data capture through boto3, with S3 and SNS held in memory."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from runtime_harness import LocalRuntime, container, local_runtime
from waiting import until

from loadproof.localcloud.directory import AsynchronousView, CaptureView
from loadproof.localcloud.runtime.outside import OutsideError

SETTINGS = AsynchronousView(
    "s3://out/answers/", "s3://out/failures", "arn:aws:sns:us-east-1:1:ok", "arn:aws:sns:us-east-1:1:bad", None, 2
)
BODY = {"inputs": "x", "parameters": {"max_new_tokens": 2}}


@dataclass
class Memory:
    """S3 and SNS as they would be found afterwards."""

    objects: dict[str, bytes] = field(default_factory=dict)
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    now_s: float = 0.0

    def read(self, s3_uri: str) -> bytes:
        if s3_uri not in self.objects:
            raise OutsideError("An error occurred (NoSuchKey)")
        return self.objects[s3_uri]

    def write(self, s3_uri: str, body: bytes, content_type: str, kms_key_id: str | None) -> None:
        self.objects[s3_uri] = body

    def publish(self, topic_arn: str, message: str) -> None:
        self.messages.append((topic_arn.rpartition(":")[2], json.loads(message)))


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def cloud(memory: Memory) -> Iterator[LocalRuntime]:
    with local_runtime(outside=memory, now_s=lambda: memory.now_s) as running:
        running.directory.add_plain("later", container("tgi", {"MAX_INPUT_TOKENS": "64"}))
        found = running.directory.known_endpoints["later"]
        running.directory.known_endpoints["later"] = replace(found, asynchronous=SETTINGS)
        yield running


def ask(cloud: LocalRuntime, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = cloud.client().invoke_endpoint_async(
        EndpointName="later", ContentType="application/json", **arguments
    )
    return answer


def instances(cloud: LocalRuntime, count: int) -> None:
    found = cloud.directory.known_endpoints["later"]
    variants = tuple(replace(one, instances=count) for one in found.variants)
    cloud.directory.known_endpoints["later"] = replace(found, variants=variants)


def backlog(cloud: LocalRuntime) -> dict[str, float]:
    cloud.directory.metrics.clear()
    cloud.look(lambda: cloud.runtime.publish_metrics(cloud.runtime.take_metrics()))
    where = {"EndpointName": "later"}
    return {name: value for _, name, value, found in cloud.directory.metrics if found == where}


def test_answer_lies_where_the_reply_said_and_the_topic_tells(cloud: LocalRuntime, memory: Memory) -> None:
    """202 at once with both places; the object and the success message come afterwards."""
    memory.objects["s3://in/request.json"] = json.dumps(BODY).encode()
    answer = ask(cloud, InputLocation="s3://in/request.json", InferenceId="mine")
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["InferenceId"]) == (202, "mine")
    assert answer["OutputLocation"].startswith("s3://out/answers/")
    assert answer["FailureLocation"].startswith("s3://out/failures/")
    until(lambda: bool(memory.messages))
    (generated,) = json.loads(memory.objects[answer["OutputLocation"]])
    assert generated["generated_text"]
    ((topic, message),) = memory.messages
    assert (topic, message["invocationStatus"], message["inferenceId"]) == ("ok", "Completed", "mine")
    assert message["requestParameters"] == {
        "contentType": "application/json",
        "endpointName": "later",
        "inputLocation": "s3://in/request.json",
    }
    assert message["responseParameters"]["outputLocation"] == answer["OutputLocation"]
    assert answer["FailureLocation"] not in memory.objects


def test_inline_body_and_chosen_name(cloud: LocalRuntime, memory: Memory) -> None:
    answer = ask(cloud, Body=json.dumps(BODY), S3OutputPathExtension="today", Filename="a.json")
    assert answer["OutputLocation"] == "s3://out/answers/today/a.json"
    until(lambda: answer["OutputLocation"] in memory.objects)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"InputLocation": "s3://in/nothing"}, "ClientError: An error occurred (NoSuchKey)"),
        ({"Body": json.dumps({"inputs": "word " * 200})}, "ModelError: Received client error (422)"),
    ],
)
def test_failure_has_its_object_and_its_topic(
    cloud: LocalRuntime, memory: Memory, arguments: dict[str, Any], reason: str
) -> None:
    """An input that is not there, and a container that refuses."""
    answer = ask(cloud, **arguments)
    until(lambda: bool(memory.messages))
    assert memory.objects[answer["FailureLocation"]].decode().startswith(reason)
    assert answer["OutputLocation"] not in memory.objects
    ((topic, message),) = memory.messages
    assert (topic, message["invocationStatus"]) == ("bad", "Failed")
    assert message["failureReason"].startswith(reason)


def test_slow_answer_is_given_up(cloud: LocalRuntime, memory: Memory) -> None:
    """InvocationTimeoutSeconds bounds one invocation."""
    endless = {"inputs": "x", "parameters": {"max_new_tokens": 1900}}
    ask(cloud, Body=json.dumps(endless), InvocationTimeoutSeconds=1)
    until(lambda: bool(memory.messages))
    assert memory.messages[0][1]["failureReason"] == "ModelInvocationTimeExceeded: no answer within 1 seconds."


def test_requests_wait_for_the_first_instance(cloud: LocalRuntime, memory: Memory) -> None:
    """At zero instances nothing is refused: the metrics tell the scaling, and the queue is worked off afterwards."""
    assert backlog(cloud) == {
        "ApproximateBacklogSize": 0.0,
        "ApproximateBacklogSizePerInstance": 0.0,
        "HasBacklogWithoutCapacity": 0.0,
    }
    instances(cloud, 0)
    for _ in range(3):
        ask(cloud, Body=json.dumps(BODY))
    assert backlog(cloud) == {
        "ApproximateBacklogSize": 3.0,
        "ApproximateBacklogSizePerInstance": 3.0,
        "HasBacklogWithoutCapacity": 1.0,
    }
    instances(cloud, 2)
    until(lambda: len(memory.messages) == 3)
    until(lambda: backlog(cloud)["ApproximateBacklogSize"] == 0.0)


def test_request_expires_in_the_queue(cloud: LocalRuntime, memory: Memory) -> None:
    """RequestTTLSeconds is waiting time on the cloud's clock."""
    instances(cloud, 0)
    ask(cloud, Body=json.dumps(BODY), RequestTTLSeconds=60)
    ask(cloud, Body=json.dumps(BODY), RequestTTLSeconds=600)
    memory.now_s = 61.0
    until(lambda: len(memory.messages) == 1)
    assert memory.messages[0][1]["failureReason"].startswith("RequestTTLExpired")
    assert backlog(cloud)["ApproximateBacklogSize"] == 1.0


def test_an_instance_gets_no_more_than_its_limit(cloud: LocalRuntime, memory: Memory) -> None:
    """Two at once on one instance: the third waits until one of them is given up."""
    for _ in range(3):
        ask(cloud, Body=json.dumps({"inputs": "x", "parameters": {"max_new_tokens": 1900}}), InvocationTimeoutSeconds=2)
    group = "endpoint/later/variant/AllTraffic/ml.g5.2xlarge/1"

    def outstanding() -> int:
        return cloud.look(lambda: sum(copy.outstanding for copy in cloud.runtime.fleet.groups.get(group, [])))

    until(lambda: outstanding() == 2)
    assert backlog(cloud)["ApproximateBacklogSize"] == 3.0
    until(lambda: len(memory.messages) == 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Exactly one of Body and InputLocation"),
        ({"Body": b"x", "InputLocation": "s3://in/x"}, "Exactly one of Body and InputLocation"),
        ({"InputLocation": "http://in/x"}, "must be an S3 URI"),
    ],
)
def test_bad_request_is_refused_at_once(cloud: LocalRuntime, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        ask(cloud, **arguments)


def test_endpoints_take_one_kind_of_request(cloud: LocalRuntime) -> None:
    """An asynchronous endpoint refuses InvokeEndpoint, any other refuses InvokeEndpointAsync."""
    client = cloud.client()
    with pytest.raises(ClientError, match="takes InvokeEndpointAsync only"):
        client.invoke_endpoint(EndpointName="later", Body=json.dumps(BODY))
    cloud.directory.add_plain("now", container())
    with pytest.raises(ClientError, match="is not an asynchronous inference endpoint"):
        client.invoke_endpoint_async(EndpointName="now", InputLocation="s3://in/x")


# -------------------------------------------------------------------------------------------------------- data capture


def capturing(cloud: LocalRuntime, **changes: Any) -> None:
    cloud.directory.add_component("kept", "kept-main", container())
    view = CaptureView(100, "s3://seen/here", None, True, True, frozenset(), frozenset({"application/json"}))
    found = cloud.directory.known_endpoints["kept"]
    cloud.directory.known_endpoints["kept"] = replace(found, capture=replace(view, **changes))


def invoke(cloud: LocalRuntime, times: int = 1, **more: Any) -> None:
    client = cloud.client()
    for _ in range(times):
        client.invoke_endpoint(
            EndpointName="kept",
            InferenceComponentName="kept-main",
            ContentType="application/json",
            Body=json.dumps(BODY),
            **more,
        )


def captured(memory: Memory) -> list[dict[str, Any]]:
    """Lines of all files, which lie by endpoint, variant and hour."""
    lines = []
    for uri, body in memory.objects.items():
        parts = uri.removeprefix("s3://seen/here/").split("/")
        assert parts[:2] == ["kept", "AllTraffic"] and [len(part) for part in parts[2:6]] == [4, 2, 2, 2]
        assert parts[6].endswith(".jsonl")
        lines += [json.loads(line) for line in body.splitlines()]
    return lines


def test_request_and_answer_are_captured_as_lines(cloud: LocalRuntime, memory: Memory) -> None:
    """JSON as text, both sides, with the caller's own attributes."""
    capturing(cloud)
    invoke(cloud, 3, CustomAttributes="who=me")
    until(lambda: len(captured(memory)) == 3)
    line = captured(memory)[0]
    asked, answered = line["captureData"]["endpointInput"], line["captureData"]["endpointOutput"]
    assert asked == {
        "observedContentType": "application/json",
        "mode": "INPUT",
        "data": json.dumps(BODY),
        "encoding": "JSON",
    }
    assert (answered["mode"], answered["encoding"]) == ("OUTPUT", "JSON")
    assert json.loads(answered["data"])[0]["generated_text"]
    assert line["eventMetadata"]["customAttributes"] == ["who=me"]
    assert line["eventVersion"] == "0"


def test_only_the_configured_sides_and_types(cloud: LocalRuntime, memory: Memory) -> None:
    """Input only, and base64 for a type that is not configured as JSON."""
    capturing(cloud, captures_output=False, json_types=frozenset())
    invoke(cloud)
    until(lambda: len(captured(memory)) == 1)
    (line,) = captured(memory)
    assert line["captureData"].keys() == {"endpointInput"}
    asked = line["captureData"]["endpointInput"]
    assert (asked["encoding"], json.loads(base64.b64decode(asked["data"]))) == ("BASE64", BODY)


def test_sample_is_about_its_percentage(cloud: LocalRuntime, memory: Memory) -> None:
    """A quarter of 100 requests, within five standard deviations (4.3 each)."""
    capturing(cloud, sampling_percentage=25)
    invoke(cloud, 100)
    time.sleep(1.2)  # a sweep stores what there is
    assert 4 <= len(captured(memory)) <= 46
