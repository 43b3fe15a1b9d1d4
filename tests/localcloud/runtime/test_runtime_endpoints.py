"""Who answers, and who refuses: endpoints, variants, components, copies. Through boto3, on a directory set by hand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from runtime_harness import IMAGES, LocalRuntime, container, local_runtime

from loadproof.localcloud.directory import ContainerView, VariantView

BODY = json.dumps({"inputs": "x", "parameters": {"max_new_tokens": 2}})


@pytest.fixture
def cloud() -> Iterator[LocalRuntime]:
    with local_runtime() as running:
        running.directory.add_component("e", "e-main", container())
        yield running


def refused(cloud: LocalRuntime, **target: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as raised:
        cloud.client().invoke_endpoint(**{"Body": BODY, **target})
    response: dict[str, Any] = raised.value.response
    return response


def test_an_endpoint_that_is_not_in_service_takes_nothing(cloud: LocalRuntime) -> None:
    """Creating: ValidationError. Updating: it serves."""
    found = cloud.directory.known_endpoints["e"]
    cloud.directory.known_endpoints["e"] = replace(found, status="Creating")
    assert refused(cloud, EndpointName="e", InferenceComponentName="e-main")["Error"]["Code"] == "ValidationError"
    cloud.directory.known_endpoints["e"] = replace(found, status="Updating")
    cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName="e-main", Body=BODY)


def test_a_component_of_another_endpoint_is_not_found(cloud: LocalRuntime) -> None:
    """A component's name alone does not open another endpoint."""
    cloud.directory.add_component("f", "f-main", container())
    response = refused(cloud, EndpointName="e", InferenceComponentName="f-main")
    assert response["Error"]["Code"] == "ValidationError"


def test_a_plain_endpoint_serves_without_and_refuses_with_the_component_header(cloud: LocalRuntime) -> None:
    """The model of a plain variant is the endpoint itself."""
    cloud.directory.add_plain("plain", container())
    answer = cloud.client().invoke_endpoint(EndpointName="plain", Body=BODY)
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    response = refused(cloud, EndpointName="plain", InferenceComponentName="e-main")
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_target_variant_chooses_the_variant(cloud: LocalRuntime) -> None:
    """Two plain variants: the header decides, an unknown one is refused."""
    cloud.directory.add_plain("ab", container())
    found = cloud.directory.known_endpoints["ab"]
    second = VariantView("Second", "ml.g5.2xlarge", 1, container("lmi"), 1)
    cloud.directory.known_endpoints["ab"] = replace(found, variants=(*found.variants, second))
    client = cloud.client()
    for name in ("AllTraffic", "Second"):
        answer = client.invoke_endpoint(EndpointName="ab", TargetVariant=name, Body=BODY)
        assert answer["InvokedProductionVariant"] == name
    assert refused(cloud, EndpointName="ab", TargetVariant="Third")["Error"]["Code"] == "ValidationError"


def test_zero_copies_are_no_capacity_and_one_datum_a_request(cloud: LocalRuntime) -> None:
    """Scaled to zero: 400 with SageMaker's words, and NoCapacityInvocationFailures counts each request at once."""
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, copies=0)
    for _ in range(2):
        response = refused(cloud, EndpointName="e", InferenceComponentName="e-main")
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert response["Error"]["Message"].startswith("Inference Component has no capacity to process this request")
    datum = ("AWS/SageMaker", "NoCapacityInvocationFailures", 1.0, {"InferenceComponentName": "e-main"})
    assert cloud.directory.metrics == [datum, datum]


def test_invocations_and_latencies_in_microseconds_are_recorded(cloud: LocalRuntime) -> None:
    """Two requests: Invocations 2 and two ModelLatency data plausible as µs, by component and again by variant."""
    client = cloud.client()
    for _ in range(2):
        client.invoke_endpoint(EndpointName="e", InferenceComponentName="e-main", Body=BODY)
    cloud.look(lambda: cloud.runtime.publish_metrics(cloud.runtime.take_metrics()))
    for dimensions in ({"InferenceComponentName": "e-main"}, {"EndpointName": "e", "VariantName": "AllTraffic"}):
        found = [(name, value) for _, name, value, where in cloud.directory.metrics if where == dimensions]
        assert ("Invocations", 2.0) in found
        latencies = [value for name, value in found if name == "ModelLatency"]
        assert len(latencies) == 2
        assert all(1_000 < value < 10_000_000 for value in latencies)
        assert len([name for name, _ in found if name == "OverheadLatency"]) == 2


def test_requests_go_to_the_copy_with_the_least_outstanding(cloud: LocalRuntime) -> None:
    """Four slow streams over two copies: two on each, never three on one."""
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, copies=2)
    body = json.dumps({"inputs": "x", "parameters": {"max_new_tokens": 150}, "stream": True})
    counts: list[list[int]] = []

    def look() -> list[int]:
        return [copy.outstanding for copy in cloud.runtime.fleet.groups["component/e-main/ml.g5.2xlarge/1"]]

    streams = []
    for _ in range(4):
        client = cloud.client()
        streams.append(
            client.invoke_endpoint_with_response_stream(EndpointName="e", InferenceComponentName="e-main", Body=body)
        )
        counts.append(sorted(cloud.look(look)))
    assert counts == [[0, 1], [1, 1], [1, 2], [2, 2]]
    for opened in streams:
        opened["Body"].close()


def test_a_new_generation_serves_at_once_while_the_old_one_finishes(cloud: LocalRuntime) -> None:
    """An update to another image: the running stream ends whole, the next request speaks the new payload."""
    body = json.dumps({"inputs": "x", "parameters": {"max_new_tokens": 60}, "stream": True})
    old = cloud.client().invoke_endpoint_with_response_stream(
        EndpointName="e", InferenceComponentName="e-main", Body=body
    )
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, container=container("lmi"), generation=2)
    new = cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName="e-main", Body=BODY)
    assert isinstance(json.loads(new["Body"].read()), dict)  # LMI answers an object where TGI answers a list
    assert b"".join(event["PayloadPart"]["Bytes"] for event in old["Body"]).count(b"data:") == 60


def test_scaling_follows_the_directory_also_without_traffic(cloud: LocalRuntime) -> None:
    """Copies scaled in and components deleted are let go of by housekeeping."""
    client = cloud.client()
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, copies=3)
    client.invoke_endpoint(EndpointName="e", InferenceComponentName="e-main", Body=BODY)
    assert cloud.look(lambda: len(cloud.runtime.fleet.groups["component/e-main/ml.g5.2xlarge/1"])) == 3
    cloud.directory.known_components["e-main"] = replace(found, copies=1)
    deadline = time.monotonic() + 60
    while cloud.look(lambda: len(cloud.runtime.fleet.groups["component/e-main/ml.g5.2xlarge/1"])) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cloud.directory.known_endpoints.clear()
    while cloud.look(lambda: list(cloud.runtime.fleet.groups)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_cannot_start_is_known_before_and_fails_the_component(cloud: LocalRuntime) -> None:
    """Unknown image, no model id, unknown model, too little memory: each has its reason, named before any request."""
    big = "layers=80 hidden=8192 heads=64 kv_heads=8 head_dim=128 context=8192 parameters_b=70.6"
    tgi = IMAGES["tgi"]
    cases = {
        "the twin knows no model server in image example.com/mine:1": ContainerView("example.com/mine:1", {}, None, {}),
        "HF_MODEL_ID must be set": ContainerView(tgi, {}, None, {}),
        "does not know the shape of `nobody/nothing`": ContainerView(
            tgi, {}, None, {"loadproof:model-id": "nobody/nothing"}
        ),
        "CUDA out of memory": ContainerView(
            tgi, {}, None, {"loadproof:model-id": "tests/big", "loadproof:architecture": big}
        ),
        "kv_heads missing": ContainerView(
            tgi,
            {},
            None,
            {
                "loadproof:model-id": "tests/odd",
                "loadproof:architecture": "layers=2 hidden=8 heads=2 head_dim=4 parameters_b=1",
            },
        ),
    }
    for number, (reason, view) in enumerate(cases.items()):
        name = f"bad-{number}"
        cloud.directory.add_component("e", name, view)
        said = cloud.runtime.check_startable(cloud.directory.known_components[name])
        assert said is not None and reason in said
        assert refused(cloud, EndpointName="e", InferenceComponentName=name)["Error"]["Code"] == "ModelError"
        assert reason in cloud.directory.failures[name]
    assert cloud.runtime.check_startable(cloud.directory.known_components["e-main"]) is None


def test_an_instance_nobody_knows_has_its_reason_too(cloud: LocalRuntime) -> None:
    """A plain variant on an unknown instance type: named before a request, a ModelError for one, never a 500."""
    cloud.directory.add_plain("odd", container())
    found = cloud.directory.known_endpoints["odd"]
    (variant,) = found.variants
    strange = replace(variant, instance_type="ml.g99.xlarge")
    cloud.directory.known_endpoints["odd"] = replace(found, variants=(strange,))
    said = cloud.runtime.check_startable(strange)
    assert said is not None and "ml.g99.xlarge" in said
    assert refused(cloud, EndpointName="odd")["Error"]["Code"] == "ModelError"


def test_many_streams_at_once_each_get_their_own_tokens(cloud: LocalRuntime) -> None:
    """Sixteen concurrent streams of different lengths: each gets exactly as many tokens as it asked for."""
    received: dict[int, int] = {}

    def one(tokens: int) -> None:
        body = json.dumps({"inputs": "x", "parameters": {"max_new_tokens": tokens}, "stream": True})
        answer = cloud.client().invoke_endpoint_with_response_stream(
            EndpointName="e", InferenceComponentName="e-main", Body=body
        )
        received[tokens] = b"".join(e["PayloadPart"]["Bytes"] for e in answer["Body"]).count(b"data:")

    threads = [threading.Thread(target=one, args=(tokens,)) for tokens in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert received == {tokens: tokens for tokens in range(1, 17)}
