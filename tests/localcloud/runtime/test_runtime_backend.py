"""A real HTTP model server behind the runtime, and everything that can go wrong with one."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from runtime_harness import IMAGES, LocalRuntime, container, local_runtime
from waiting import until

from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.runtime import Limits

STUB = Path(__file__).with_name("model_stub.py")


@contextmanager
def model_server(kind: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(STUB), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def backend() -> Iterator[str]:
    with model_server("sagemaker") as url:
        yield url


@pytest.fixture
def cloud(backend: str) -> Iterator[LocalRuntime]:
    with local_runtime(backend_url=backend, limits=Limits(unary_s=0.6, stream_s=1.2)) as running:
        running.directory.add_component("e", "e-main", container())
        yield running


def invoke(cloud: LocalRuntime, **ask: Any) -> Any:
    return cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName="e-main", Body=json.dumps(ask))


def stream(cloud: LocalRuntime, **ask: Any) -> Any:
    return cloud.client().invoke_endpoint_with_response_stream(
        EndpointName="e", InferenceComponentName="e-main", Body=json.dumps(ask)
    )


def state(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/state", timeout=30) as answer:
        found: dict[str, int] = json.loads(answer.read())
        return found


def test_bytes_pass_through_unchanged(cloud: LocalRuntime) -> None:
    """Unary and streamed answers are exactly what the server wrote, with its content type."""
    answer = invoke(cloud, parts=4)
    assert answer["Body"].read() == b"data:0\n\ndata:1\n\ndata:2\n\ndata:3\n\n"
    assert answer["ContentType"] == "text/event-stream"
    streamed = stream(cloud, parts=4)
    assert b"".join(e["PayloadPart"]["Bytes"] for e in streamed["Body"]).count(b"data:") == 4
    assert streamed["ContentType"] == "text/event-stream"


def test_parts_arrive_as_they_are_written(cloud: LocalRuntime) -> None:
    """Two parts 0.4 s apart are not held back until the end."""
    arrivals = [time.monotonic() for _ in stream(cloud, parts=2, gap_s=0.4)["Body"]]
    assert arrivals[-1] - arrivals[0] > 0.2


@pytest.mark.parametrize("call", [invoke, stream])
def test_a_container_error_is_a_model_error_with_the_original(cloud: LocalRuntime, call: Any) -> None:
    """503 from the container: HTTP 424 ModelError carrying OriginalStatusCode, OriginalMessage and LogStreamArn."""
    with pytest.raises(ClientError) as raised:
        call(cloud, status=503)
    response = raised.value.response
    assert response["Error"]["Code"] == "ModelError"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert response["OriginalStatusCode"] == 503
    assert response["OriginalMessage"] == '{"error": "as asked"}'
    assert response["LogStreamArn"].startswith("arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/")
    assert "Received server error (503) from primary" in response["Error"]["Message"]


def test_an_invocation_past_its_limit_times_out_and_stops_the_model(cloud: LocalRuntime, backend: str) -> None:
    """The unary limit (60 s on AWS) answers ModelError and hangs up on the container."""
    with pytest.raises(ClientError, match="invocation timed out") as raised:
        invoke(cloud, think_s=30)
    assert raised.value.response["OriginalStatusCode"] == 0
    until(lambda: state(backend)["running"] == 0)


def test_a_stream_past_its_limit_ends_with_an_exception_frame(cloud: LocalRuntime) -> None:
    """The stream limit (8 minutes on AWS) ends in ModelStreamError, ErrorCode ModelInvocationTimeExceeded."""
    with pytest.raises(EventStreamError) as raised:
        for _ in stream(cloud, parts=100, gap_s=0.1)["Body"]:
            pass
    assert raised.value.response["Error"]["Code"] == "ModelStreamError"
    assert "time limit" in raised.value.response["Error"]["Message"]


@pytest.mark.parametrize("how", ["die", "break"])
def test_a_container_that_dies_in_mid_stream_is_stream_broken(cloud: LocalRuntime, how: str) -> None:
    """What came before is delivered; then ModelStreamError, and the metric MidStreamErrors counts one."""
    received = b""
    with pytest.raises(EventStreamError) as raised:
        for event in stream(cloud, parts=3, gap_s=0.05, **{how: True})["Body"]:
            received += event["PayloadPart"]["Bytes"]
    assert received.count(b"data:") == 3
    assert raised.value.response["Error"]["Code"] == "ModelStreamError"
    cloud.look(lambda: cloud.runtime.publish_metrics(cloud.runtime.take_metrics()))
    where = {"InferenceComponentName": "e-main"}
    names = {name: value for _, name, value, found in cloud.directory.metrics if found == where}
    assert names["MidStreamErrors"] == 1.0 == names["Invocations"]


def test_errors_of_the_container_are_counted_by_their_class(cloud: LocalRuntime) -> None:
    """One answer, one 503, one 422: Invocations 3; of each error metric a 1 a failure and a 0 for all the others."""
    invoke(cloud)
    for status in (503, 422):
        with pytest.raises(ClientError):
            invoke(cloud, status=status)
    cloud.look(lambda: cloud.runtime.publish_metrics(cloud.runtime.take_metrics()))
    where = {"InferenceComponentName": "e-main"}
    found = [(name, value) for _, name, value, dimensions in cloud.directory.metrics if dimensions == where]
    assert ("Invocations", 3.0) in found
    for name in ("InvocationModelErrors", "Invocation5XXErrors", "Invocation4XXErrors"):
        assert [value for metric, value in found if metric == name] == [1.0, 0.0]
    assert [value for metric, value in found if metric == "MidStreamErrors"] == [0.0]


def test_a_container_that_is_gone_is_a_model_error(backend: str) -> None:
    """No process behind the port: ModelError with status 0, not a hang and not a 500."""
    with local_runtime(backend_url="http://127.0.0.1:1") as cloud:
        cloud.directory.add_component("e", "e-main", container())
        with pytest.raises(ClientError) as raised:
            invoke(cloud)
    assert raised.value.response["Error"]["Code"] == "ModelError"
    assert raised.value.response["OriginalStatusCode"] == 0


@pytest.mark.parametrize("think_s", [0, 20])
@pytest.mark.parametrize("path", ["invocations", "invocations-response-stream"])
def test_a_client_that_hangs_up_cancels_the_generation(backend: str, path: str, think_s: int) -> None:
    """Before or after the first token: the container loses its connection, and the copy is idle again."""
    with local_runtime(backend_url=backend) as cloud:
        cloud.directory.add_component("e", "e-main", container())
        hang_up(cloud, backend, path, think_s)


def hang_up(cloud: LocalRuntime, backend: str, path: str, think_s: int) -> None:
    body = json.dumps({"think_s": think_s, "parts": 1000, "gap_s": 0.02}).encode()
    port = int(cloud.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as caller:
        head = (
            f"POST /endpoints/e/{path} HTTP/1.1\r\nHost: x\r\nX-Amzn-SageMaker-Inference-Component: e-main\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        caller.sendall(head.encode() + body)
        until(lambda: state(backend)["running"] == 1)
    until(lambda: state(backend) == {"running": 0, "canceled": 1})
    (copy,) = cloud.look(lambda: cloud.runtime.fleet.groups["component/e-main/ml.g5.2xlarge/1"])
    until(lambda: copy.outstanding == 0)


def test_without_invocations_the_openai_api_is_used_by_the_bodys_keys() -> None:
    """A server with no /invocations gets `messages` on chat completions and the rest on completions."""
    with model_server("openai") as url, local_runtime(backend_url=url) as cloud:
        cloud.directory.add_component("e", "e-main", container("vllm"))
        chat = json.loads(invoke(cloud, messages=[])["Body"].read())
        completion = json.loads(invoke(cloud, prompt="x")["Body"].read())
    assert chat == {"path": "/v1/chat/completions", "asked": {"messages": []}}
    assert completion == {"path": "/v1/completions", "asked": {"prompt": "x"}}


def test_a_containers_own_404_is_not_taken_for_a_missing_route(cloud: LocalRuntime) -> None:
    """`model not found` is the caller's ModelError; /invocations stays the way in."""
    with pytest.raises(ClientError) as raised:
        invoke(cloud, status=404)
    assert raised.value.response["OriginalStatusCode"] == 404
    assert invoke(cloud, parts=1)["Body"].read() == b"data:0\n\n"


def test_any_image_starts_on_a_healthy_backend_and_none_on_a_sick_one(backend: str) -> None:
    """With a backend the image does not matter, its health check does: /ping, or /health where there is no /ping."""
    own = ContainerView("example.com/mine:1", {}, None, {})
    with model_server("openai") as openai, model_server("sick") as sick:
        found = {}
        for name, url in (("ping", backend), ("health", openai), ("sick", sick), ("gone", "http://127.0.0.1:1")):
            with local_runtime(backend_url=url) as cloud:
                cloud.directory.add_component("e", "e-main", own)
                found[name] = cloud.runtime.check_startable(cloud.directory.known_components["e-main"])
    assert found["ping"] is None and found["health"] is None
    assert found["sick"] is not None and "GET /ping answered 503" in found["sick"]
    assert found["gone"] is not None and "did not pass its health check" in found["gone"]


def test_images_of_the_catalog_are_known_families() -> None:
    """The four families of AWS's containers are told apart by repository, with their versions."""
    from loadproof.families import family_and_version

    assert {family: family_and_version(image) for family, image in IMAGES.items()} == {
        "tgi": ("tgi", "3.3.6"),
        "lmi": ("lmi", "0.38.0"),
        "vllm": ("vllm", "0.30.0"),
        "sglang": ("sglang", "0.5.20"),
    }
    assert family_and_version("example.com/mine:1") is None
    # A digest names no version; the family is still told by the repository.
    assert family_and_version(f"{IMAGES['vllm'].partition(':')[0]}@sha256:12ab") == ("vllm", "")


WITH_ADAPTERS = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true"}


class Bucket:
    """A packed adapter at every address but those that end in `gone`."""

    def read(self, s3_uri: str) -> bytes | None:
        if s3_uri.endswith("gone"):
            return None
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.addfile(tarfile.TarInfo("adapter_config.json"))
        return b"" if s3_uri.endswith("cut") else packed.getvalue()

    def start(self, s3_uri: str, length: int) -> bytes:
        return b""

    def sizes(self, s3_uri: str) -> dict[str, int]:
        return {}


def adapter(name: str, source: str = "s3://weights/legal.tar.gz") -> ContainerView:
    base = container("vllm", WITH_ADAPTERS)
    return replace(base, adapter=True, adapter_name=name, model_data_s3_uri=source)


def problem(cloud: LocalRuntime, view: ContainerView) -> str | None:
    cloud.directory.add_component("e", view.adapter_name or "", view)
    return cloud.runtime.check_startable(cloud.directory.known_components[view.adapter_name or ""])


def asked_who(cloud: LocalRuntime, component: str) -> Any:
    ask = json.dumps({"who": True})
    answer = cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName=component, Body=ask)
    return json.loads(answer["Body"].read())["adapter"]


def test_an_adapter_is_loaded_by_the_server_and_named_in_every_request(backend: str) -> None:
    """POST /adapters with a folder that holds it, and SageMaker's header; the base has none. Twice, as in an update."""
    with local_runtime(backend_url=backend, stored=Bucket()) as cloud:
        cloud.directory.add_component("e", "e-main", container("vllm", WITH_ADAPTERS))
        assert [problem(cloud, adapter("e-legal")) for _ in range(2)] == [None, None]
        with urllib.request.urlopen(f"{backend}/adapters", timeout=30) as answer:
            folder = Path(json.loads(answer.read())["e-legal"])
        assert [path.name for path in folder.iterdir()] == ["adapter_config.json"]
        assert (asked_who(cloud, "e-legal"), asked_who(cloud, "e-main")) == ("e-legal", None)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (adapter("refused"), 'answered 400: {"error": "rank 64 is greater than max_lora_rank 16"}'),
        (adapter("e-legal", "s3://weights/gone"), "s3://weights/gone is no tar.gz that can be unpacked"),
        (adapter("e-legal", "s3://weights/cut"), "s3://weights/cut is no tar.gz that can be unpacked"),
    ],
    ids=["refused", "gone", "cut"],
)
def test_an_adapter_that_the_server_does_not_load_fails_its_component(
    backend: str, view: ContainerView, said: str
) -> None:
    """In the server's words; what is nowhere, or cut off, never gets to it."""
    with local_runtime(backend_url=backend, stored=Bucket()) as cloud:
        assert said in (problem(cloud, view) or "")


def test_an_openai_api_knows_an_adapter_as_a_model() -> None:
    """A server without /adapters and /invocations, such as vLLM with --lora-modules: InService, as on AWS."""
    with model_server("openai") as url, local_runtime(backend_url=url, stored=Bucket()) as cloud:
        assert problem(cloud, adapter("e-legal")) is None
        answer = cloud.client().invoke_endpoint(
            EndpointName="e", InferenceComponentName="e-legal", Body=json.dumps({"prompt": "x", "model": "base"})
        )
        assert json.loads(answer["Body"].read())["asked"] == {"prompt": "x", "model": "e-legal"}


def test_what_the_image_refuses_is_refused_with_a_server_behind_it(cloud: LocalRuntime) -> None:
    """The server answers, but on AWS the image in front would not start on this host, and has no adapter routes."""
    host = replace(container("vllm"), ami_version="al2-ami-sagemaker-inference-gpu-3-1")
    cloud.directory.add_component("e", "e-old", host)
    problem = cloud.runtime.check_startable(cloud.directory.known_components["e-old"])
    assert "CannotStartContainerError" in (problem or "")
    cloud.directory.add_component("e", "e-legal", replace(container("vllm"), adapter=True))
    with pytest.raises(ClientError) as raised:
        cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName="e-legal", Body="{}")
    assert raised.value.response["OriginalStatusCode"] == 404  # type: ignore[typeddict-item]
