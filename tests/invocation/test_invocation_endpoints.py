"""Describing a target with boto3's own shapes (botocore's stubber checks requests and answers against the model)."""

from __future__ import annotations

import datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.endpoints import TargetComponent, aws_client, describe_target, describe_with

NOW = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
ARN = "arn:aws:sagemaker:eu-west-1:123456789012:x/y"


@pytest.fixture
def client() -> Any:
    return boto3.client("sagemaker", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")


def _endpoint(**more: Any) -> dict[str, Any]:
    fixed = {"EndpointName": "ep", "EndpointArn": ARN, "EndpointConfigName": "c", "EndpointStatus": "InService"}
    variants = [{"VariantName": "AllTraffic", **more}]
    return {**fixed, "CreationTime": NOW, "LastModifiedTime": NOW, "ProductionVariants": variants}


def _component(name: str, endpoint: str = "ep") -> dict[str, Any]:
    return {
        "InferenceComponentName": name,
        "InferenceComponentArn": ARN,
        "EndpointName": endpoint,
        "EndpointArn": ARN,
        "CreationTime": NOW,
        "LastModifiedTime": NOW,
        "InferenceComponentStatus": "InService",
        "Specification": {"Container": {"DeployedImage": {"SpecifiedImage": "img:1", "ResolvedImage": "img@sha256:1"}}},
        "RuntimeConfig": {"DesiredCopyCount": 2, "CurrentCopyCount": 1},
    }


def _listed(name: str) -> dict[str, Any]:
    full = _component(name)
    names = ("InferenceComponentName", "InferenceComponentArn", "EndpointName", "EndpointArn")
    return {**{key: full[key] for key in names}, "VariantName": "v", "CreationTime": NOW, "LastModifiedTime": NOW}


def test_all_components_of_an_endpoint(client: Any) -> None:
    """Each page is read, components come sorted, copies are those in service now."""
    with Stubber(client) as stub:
        stub.add_response("describe_endpoint", _endpoint(), {"EndpointName": "ep"})
        page = {"InferenceComponents": [_listed("ep-b")], "NextToken": "more"}
        stub.add_response("list_inference_components", page, {"EndpointNameEquals": "ep"})
        last = {"InferenceComponents": [_listed("ep-a")]}
        stub.add_response("list_inference_components", last, {"EndpointNameEquals": "ep", "NextToken": "more"})
        for name in ("ep-a", "ep-b"):
            stub.add_response("describe_inference_component", _component(name), {"InferenceComponentName": name})
        found = describe_with(client, "ep")
    assert found.components == tuple(TargetComponent(n, "InService", 1, "img:1", None) for n in ("ep-a", "ep-b"))
    assert (found.status, found.variants, found.image) == ("InService", ("AllTraffic",), None)


def test_a_plain_variant_shows_its_own_image(client: Any) -> None:
    """No components: the image is the variant's."""
    with Stubber(client) as stub:
        stub.add_response("describe_endpoint", _endpoint(DeployedImages=[{"SpecifiedImage": "img:2"}]))
        stub.add_response("list_inference_components", {"InferenceComponents": []})
        found = describe_with(client, "ep")
    assert (found.components, found.image) == ((), "img:2")


def test_a_component_of_another_endpoint_is_refused(client: Any) -> None:
    """Both names are in the message."""
    with Stubber(client) as stub:
        stub.add_response("describe_endpoint", _endpoint())
        stub.add_response("describe_inference_component", _component("c", endpoint="other"))
        with pytest.raises(CouldNotRunError, match="component c belongs to endpoint other, not to ep"):
            describe_with(client, "ep", "c")


def test_what_aws_says_is_told(client: Any) -> None:
    """An endpoint that does not exist: AWS's code and message, asked once."""
    with Stubber(client) as stub:
        stub.add_client_error("describe_endpoint", "ValidationException", 'Could not find endpoint "ep".')
        with pytest.raises(
            CouldNotRunError, match='ep in eu-west-1: ValidationException: Could not find endpoint "ep"'
        ):
            describe_with(client, "ep")


def test_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable control plane is one message; port 9 of loopback refuses at once."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(CouldNotRunError, match="endpoint ep in eu-west-1 cannot be described: Could not connect"):
        describe_target("ep", region="eu-west-1", endpoint_url="http://127.0.0.1:9")


def test_url_that_is_none_is_bad_input() -> None:
    """Nothing was asked, so exit code 2: the message has what was found and what is allowed."""
    with pytest.raises(InputError, match="found foo, expected http:// or https:// and a host"):
        aws_client("sqs", "eu-west-1", "foo")
