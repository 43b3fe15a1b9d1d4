"""The wire: constraint messages as AWS words them, and no request that breaks the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError
from cloud_clients import signed_headers
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.localcloud.local import LocalCloud
from loadproof.localcloud.wire import Caller, Service

CALLER = Caller("123456789012", "us-east-1", "AKIA")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["EndpointName", "Tags", "Key", "Value", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


class Echo:
    """A handler that says what it was given."""

    def CreateEndpoint(self, caller: Caller, params: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"EndpointArn": params["EndpointName"]}


def test_every_broken_constraint_is_named_at_once() -> None:
    """Type, pattern, length, unknown and missing members in one message."""
    body = json.dumps({"EndpointName": "-bad", "Tags": [{"Key": "", "Value": 1}], "Colour": 1}).encode()
    reply = Service("sagemaker", Echo()).answer_json(CALLER, "SageMaker.CreateEndpoint", body)
    message = json.loads(reply.body)["message"]
    assert (reply.status, json.loads(reply.body)["__type"]) == (400, "ValidationException")
    assert message.startswith("5 validation errors detected: ")
    for part in (
        "Value at 'colour' failed to satisfy constraint: Member is not known",
        "Value null at 'endpointConfigName' failed to satisfy constraint: Member must not be null",
        "Value '-bad' at 'endpointName' failed to satisfy constraint: Member must satisfy regular expression pattern",
        "Value '' at 'tags.1.member.key' failed to satisfy constraint: Member must have length greater than",
        "Value '1' at 'tags.1.member.value' failed to satisfy constraint: Member must be a string",
    ):
        assert part in message


@given(JSON)
@settings(max_examples=150)
def test_any_json_gets_an_answer(document: Any) -> None:
    """A request is answered or refused, never a crash."""
    reply = Service("sagemaker", Echo()).answer_json(CALLER, "SageMaker.CreateEndpoint", json.dumps(document).encode())
    assert reply.status in (200, 400)
    assert isinstance(json.loads(reply.body), dict)


@given(st.binary(max_size=60))
def test_any_bytes_get_an_answer(body: bytes) -> None:
    """Both protocols stand bytes that are no document at all."""
    assert Service("sagemaker", Echo()).answer_json(CALLER, "SageMaker.CreateEndpoint", body).status in (200, 400)
    assert Service("cloudformation", Echo()).answer_query(CALLER, body).status == 400


def test_operation_that_is_not_provided_says_so(aws: Callable[[str], Any]) -> None:
    """Training is not what this cloud is for."""
    with pytest.raises(ClientError, match="does not provide sagemaker:ListTrainingJobs"):
        aws("sagemaker").list_training_jobs()


def test_history_of_calls_is_empty(aws: Callable[[str], Any]) -> None:
    """The CDK CLI asks for it after a failed deployment; trails stay moto's."""
    trails = aws("cloudtrail")
    assert trails.lookup_events(MaxResults=50)["Events"] == []
    assert trails.describe_trails()["trailList"] == []


def test_large_objects_pass_untouched(aws: Callable[[str], Any]) -> None:
    """An asset archive of 12 MB comes back byte for byte."""
    body = bytes(range(256)) * 48 * 1024
    aws("s3").create_bucket(Bucket="large")
    aws("s3").put_object(Bucket="large", Key="a b/ü.zip", Body=body)
    found = aws("s3").get_object(Bucket="large", Key="a b/ü.zip")
    assert found["Body"].read() == body
    assert aws("s3").head_object(Bucket="large", Key="a b/ü.zip")["ContentLength"] == 12 * 1024 * 1024


def test_reset_of_moto_is_off(cloud: LocalCloud) -> None:
    """A stray POST must not empty the local cloud."""
    session = requests.Session()
    session.trust_env = False
    headers = signed_headers(cloud, "s3", "POST", "/moto-api/reset")
    assert session.post(f"{cloud.endpoint_url}/moto-api/reset", headers=headers, timeout=10).status_code == 404


def test_caller_is_the_clouds_account(aws: Callable[[str], Any]) -> None:
    assert aws("sts").get_caller_identity()["Account"] == "123456789012"
