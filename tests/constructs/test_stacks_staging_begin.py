"""Staging's custom resource: it begins, answers for the machine, and clears up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import boto3
import pytest
from http_servers import Quiet, serving_http
from moto import mock_aws

from loadproof.constructs.staging.machine import definition
from loadproof.constructs.staging.runtime import begin

BUCKET, PREFIX = "weights", "models/acme/chat-7b/0123456789abcdef0123456789abcdef01234567/"
URI = f"s3://{BUCKET}/{PREFIX}"


@pytest.fixture
def answers() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """CloudFormation's one-time address, and what was put there."""
    received: list[dict[str, Any]] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

    with serving_http(Handler) as url:
        yield f"{url}/once", received


@pytest.fixture
def machine_arn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        made = boto3.client("stepfunctions").create_state_machine(
            name="chat-weights", definition=definition(), roleArn="arn:aws:iam::123456789012:role/machine"
        )
        monkeypatch.setenv("MACHINE_ARN", made["stateMachineArn"])
        yield str(made["stateMachineArn"])


def request(kind: str, url: str, **properties: Any) -> dict[str, Any]:
    """As CloudFormation sends it: every value is text."""
    given = {"hub": "https://huggingface.co", "repository": "acme/chat-7b", "revision": PREFIX.split("/")[3]}
    return {
        "RequestType": kind,
        "ResponseURL": url,
        "StackId": "stack",
        "RequestId": "0f1e2d3c",
        "LogicalResourceId": "WeightsStaged",
        "ResourceProperties": {
            "ServiceToken": "arn",
            **given,
            "code": "false",
            "bucket": BUCKET,
            "prefix": PREFIX,
            **properties,
        },
    }


def executions(machine_arn: str, status: str) -> list[Any]:
    found = boto3.client("stepfunctions").list_executions(stateMachineArn=machine_arn, statusFilter=status)
    return list(found["executions"])


def test_creation_begins_and_leaves_the_answer_to_the_machine(machine_arn: str, answers: Any) -> None:
    """Nothing is answered yet; the machine is given what to fetch and where to answer. A repetition begins nothing."""
    url, received = answers
    begin.handler(request("Create", url, secret="arn:aws:secretsmanager:us-east-1:123456789012:secret:hub"), None)
    (execution,) = executions(machine_arn, "RUNNING")
    described = boto3.client("stepfunctions").describe_execution(executionArn=execution["executionArn"])
    given = json.loads(described["input"])
    assert given["source"] == {
        "hub": "https://huggingface.co",
        "repository": "acme/chat-7b",
        "revision": "0123456789abcdef0123456789abcdef01234567",
        "code": False,
        "bucket": BUCKET,
        "prefix": PREFIX,
        "secret": "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub",
    }
    assert given["request"]["ResponseURL"] == url
    assert received == []


def test_the_machines_last_state_answers(machine_arn: str, answers: Any) -> None:
    """Success hands out the prefix that the model waits for."""
    url, received = answers
    begin.handler({"request": request("Create", url)}, None)
    (answer,) = received
    assert (answer["Status"], answer["PhysicalResourceId"], answer["Data"]) == ("SUCCESS", URI, {"S3Uri": URI})
    assert (answer["StackId"], answer["RequestId"], answer["LogicalResourceId"]) == (
        "stack",
        "0f1e2d3c",
        "WeightsStaged",
    )


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ('{"errorMessage": "the hub answers 401", "errorType": "RefusedError"}', "the hub answers 401"),
        ("not Lambda's document", "States.Runtime: not Lambda's document"),
    ],
)
def test_a_failure_is_told_in_its_own_words(machine_arn: str, answers: Any, cause: str, reason: str) -> None:
    """The function's message reaches the stack's events; anything else is told as it came."""
    url, received = answers
    begin.handler({"request": request("Create", url), "error": {"Error": "States.Runtime", "Cause": cause}}, None)
    (answer,) = received
    assert (answer["Status"], answer["Reason"]) == ("FAILED", reason)


def test_deletion_stops_and_clears(machine_arn: str, answers: Any) -> None:
    """What still runs is stopped, parts and files go, the neighbour's stay, and the answer is a success."""
    url, received = answers
    s3 = boto3.client("s3")
    begin.handler(request("Create", url), None)
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}config.json", Body=b"{}")
    s3.put_object(Bucket=BUCKET, Key="models/acme/other/config.json", Body=b"{}")
    s3.create_multipart_upload(Bucket=BUCKET, Key=f"{PREFIX}model.safetensors")
    begin.handler(request("Delete", url), None)
    assert executions(machine_arn, "RUNNING") == []
    assert len(executions(machine_arn, "ABORTED")) == 1
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["models/acme/other/config.json"]
    assert s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
    assert [answer["Status"] for answer in received] == ["SUCCESS"]


def test_what_cannot_begin_fails_the_deployment(
    machine_arn: str, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is not there is told at once: nobody waits an hour for silence."""
    url, received = answers
    monkeypatch.setenv("MACHINE_ARN", machine_arn + "-gone")
    begin.handler(request("Create", url), None)
    (answer,) = received
    assert answer["Status"] == "FAILED"
    assert "StateMachineDoesNotExist" in answer["Reason"]
