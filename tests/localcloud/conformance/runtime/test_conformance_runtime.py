"""Facts about SageMaker's runtime that the local cloud promises to keep. See conftest.py to run them against AWS."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from runtime_harness import Deployed


def body(prompt: str = "hello", tokens: int = 5, **more: Any) -> bytes:
    parameters = {"max_new_tokens": tokens, "details": True}
    return json.dumps({"inputs": prompt, "parameters": parameters, **more}).encode()


def error_of(deployed: Deployed, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as raised:
        deployed.client.invoke_endpoint(**{"Body": body(), "ContentType": "application/json", **arguments})
    response: dict[str, Any] = raised.value.response
    return response


def test_an_unknown_endpoint_is_a_validation_error(deployed: Deployed) -> None:
    """HTTP 400 ValidationError: `Endpoint NAME of account ACCOUNT not found.`"""
    response = error_of(deployed, EndpointName="no-such-endpoint-here")
    assert response["Error"]["Code"] == "ValidationError"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert response["Error"]["Message"].startswith("Endpoint no-such-endpoint-here of account ")
    assert response["Error"]["Message"].endswith("not found.")


def test_a_component_endpoint_needs_the_component_header(deployed: Deployed) -> None:
    """HTTP 400 ValidationError that asks for the header."""
    response = error_of(deployed, EndpointName=deployed.endpoint)
    assert response["Error"]["Code"] == "ValidationError"
    assert "Inference Component Name header is required" in response["Error"]["Message"]


def test_an_unknown_component_is_a_validation_error(deployed: Deployed) -> None:
    """HTTP 400 ValidationError."""
    response = error_of(deployed, EndpointName=deployed.endpoint, InferenceComponentName="no-such-component")
    assert response["Error"]["Code"] == "ValidationError"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400


@pytest.mark.parametrize("header", ["TargetVariant", "TargetModel"])
def test_a_header_for_another_kind_of_endpoint_is_refused(deployed: Deployed, header: str) -> None:
    """A component is not in a variant of another name, and this is no multi-model endpoint: HTTP 400."""
    response = error_of(
        deployed, EndpointName=deployed.endpoint, InferenceComponentName=deployed.component, **{header: "Nothing"}
    )
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == ("ValidationError", 400)


def test_a_body_past_six_megabytes_is_refused(deployed: Deployed) -> None:
    """6,291,456 bytes is the last that passes the service's own check."""
    response = error_of(
        deployed,
        EndpointName=deployed.endpoint,
        InferenceComponentName=deployed.component,
        Body=b"x" * (6_291_456 + 1),
    )
    assert 400 <= response["ResponseMetadata"]["HTTPStatusCode"] < 500
    assert response["Error"]["Code"] != "ModelError"


def test_a_container_refusal_is_a_model_error(deployed: Deployed) -> None:
    """The container's 422 arrives as HTTP 424 ModelError with the original status, message and log stream."""
    response = error_of(
        deployed,
        EndpointName=deployed.endpoint,
        InferenceComponentName=deployed.component,
        Body=body(tokens=10_000_000),
    )
    assert response["Error"]["Code"] == "ModelError"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert response["OriginalStatusCode"] == 422
    assert json.loads(response["OriginalMessage"])["error_type"] == "validation"
    assert "/aws/sagemaker/" in response["LogStreamArn"]


def test_a_unary_answer_names_variant_and_type(deployed: Deployed) -> None:
    """The container's body and Content-Type pass through; the variant that answered is named."""
    answer = deployed.client.invoke_endpoint(
        EndpointName=deployed.endpoint,
        InferenceComponentName=deployed.component,
        ContentType="application/json",
        Body=body(tokens=5),
    )
    assert answer["InvokedProductionVariant"]
    assert answer["ContentType"].startswith("application/json")
    assert answer["ResponseMetadata"]["RequestId"]
    (generated,) = json.loads(answer["Body"].read())
    assert generated["details"]["generated_tokens"] == 5


def test_a_stream_is_payload_parts_of_the_containers_own_bytes(deployed: Deployed) -> None:
    """Joined, the parts are the container's SSE; its content type has its own header."""
    answer = deployed.client.invoke_endpoint_with_response_stream(
        EndpointName=deployed.endpoint,
        InferenceComponentName=deployed.component,
        ContentType="application/json",
        Body=body(tokens=6, stream=True),
    )
    raw = b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"])
    events = [json.loads(part.removeprefix(b"data:")) for part in raw.strip().split(b"\n\n")]
    assert len(events) == 6
    assert events[-1]["details"]["generated_tokens"] == 6
    assert answer["ContentType"].startswith("text/event-stream")


def test_a_refusal_in_a_tgi_stream_comes_in_band(deployed: Deployed) -> None:
    """TGI has sent its 200 before it validates a stream: the error is an event, not a status."""
    answer = deployed.client.invoke_endpoint_with_response_stream(
        EndpointName=deployed.endpoint,
        InferenceComponentName=deployed.component,
        ContentType="application/json",
        Body=body(tokens=10_000_000, stream=True),
    )
    raw = b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"])
    assert json.loads(raw.removeprefix(b"data:"))["error_type"] == "validation"


def test_a_stream_without_streaming_is_the_whole_answer_in_parts(deployed: Deployed) -> None:
    """The container streams only if the body asks for it; the operation does not change the body."""
    answer = deployed.client.invoke_endpoint_with_response_stream(
        EndpointName=deployed.endpoint,
        InferenceComponentName=deployed.component,
        ContentType="application/json",
        Body=body(tokens=3),
    )
    raw = b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"])
    assert json.loads(raw)[0]["details"]["generated_tokens"] == 3
