"""What does not answer after a deployment goes back, by the real CDK CLI: whatever statuses say."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from botocore.exceptions import ClientError
from test_cdk_journey import CDK, Project, bootstrapped

STACK = "loadproof-dev-adapted"
MAIN, ADAPTER = f"{STACK}-main", f"{STACK}-main-legal"
SWITCH = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
PROFILE = """
name: adapted
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  source: {type: s3, s3_uri: "s3://weights-of-proof/llama/", accept_eula: true}
container: {family: vllm, settings: {enable_lora: true}}
adapters: [{name: legal, s3_uri: "s3://weights-of-proof/legal.tar.gz"}]
endpoint: {instance_type: ml.g6e.2xlarge, min_instances: 1, max_instances: 1}
copies: {min: 1, max: 1, memory_mib_per_copy: 16384}
objectives: {at_concurrency: 1, e2e_p95_ms: 30000}
workload: {input_tokens: 64, output_tokens: 16}
benchmark: {concurrency: [1]}
"""
DEPLOY = ("deploy", STACK, "-c", "env=dev", "--require-approval", "never")
Answer = Callable[[], bytes]
_serial = count()

pytestmark = [
    pytest.mark.cdk,
    pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed (make setup)"),
]


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"text": text}]}).encode()


def apart() -> bytes:
    """Never the same text twice."""
    return completion(f"answer {next(_serial)}")


def packed_adapter() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("adapter_config.json"))
    return packed.getvalue()


class ModelServer(ThreadingHTTPServer):
    """Stands behind every component, and answers as it is told."""

    answer: Answer = staticmethod(apart)


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_GET(self) -> None:
        self._reply(b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._reply(self.server.answer())

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to tell."""


@contextmanager
def model_server() -> Iterator[ModelServer]:
    server = ModelServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as made:
        yield made


@pytest.fixture(scope="module")
def project(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """With one profile, a base and its adapter."""
    backend = f"http://127.0.0.1:{server.server_port}"
    with bootstrapped(tmp_path_factory, "cdk-proof", backend=backend) as made:
        dev = made.folder / "deploy_profiles" / "dev"
        for file in dev.glob("*.yaml"):
            if file.name != "environment.yaml":
                file.unlink()
        (dev / "adapted.yaml").write_text(PROFILE)
        made.client("s3").create_bucket(Bucket="weights-of-proof")
        for key, body in (("llama/config.json", b"{}"), ("legal.tar.gz", packed_adapter())):
            made.client("s3").put_object(Bucket="weights-of-proof", Key=key, Body=body)
        yield made


def test_an_adapter_that_answers_like_its_base_is_not_deployed(project: Project, server: ModelServer) -> None:
    """Both are InService and answer 200; a first deployment leaves nothing."""
    server.answer = lambda: completion("the base's words")
    said = project.cdk(*DEPLOY, code=1)
    assert f"component {ADAPTER} answers like its base {MAIN} does: the adapter takes no part in it" in said
    assert status(project) == "ROLLBACK_COMPLETE"
    assert lives(project)["Proof"][0] == "CREATE_FAILED"
    assert set(lives(project)["AWS::SageMaker::InferenceComponent"]) == {"CREATE_COMPLETE", "DELETE_COMPLETE"}
    sagemaker = project.client("sagemaker")
    assert sagemaker.list_endpoints()["Endpoints"] == []
    assert sagemaker.list_inference_components()["InferenceComponents"] == []
    assert sagemaker.list_models()["Models"] == []


def test_one_that_answers_in_its_own_words_is(project: Project, server: ModelServer) -> None:
    server.answer = apart
    project.cdk(*DEPLOY)
    assert status(project) == "CREATE_COMPLETE"
    assert lives(project)["Proof"] == ["CREATE_COMPLETE"]
    assert ask(project, ADAPTER).startswith("answer ")


def test_an_adapter_that_its_server_never_loaded_goes_back(project: Project, server: ModelServer) -> None:
    """vLLM has no adapter routes without a variable; every status is InService. What ran before runs again."""
    server.answer = apart
    before = configuration(project)
    project.cdk("synth", STACK, "-c", "env=dev", "--quiet")
    edit_template(project.folder / "cdk.out")
    said = project.cdk("deploy", STACK, "--app", "cdk.out", "--require-approval", "never", code=1)
    assert f"component {ADAPTER} does not answer" in said and "Not Found" in said
    went_back(project, before)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>", "does not answer: found <html>"),
        (completion(" "), "answers without any text"),
    ],
    ids=["no answer", "an empty one"],
)
def test_a_component_that_gives_no_answer_goes_back(
    project: Project, server: ModelServer, answer: bytes, words: str
) -> None:
    """A changed setting is what was deployed; the server behind it starts, and says nothing."""
    server.answer = apart
    before = configuration(project)
    profile = project.folder / "deploy_profiles" / "dev" / "adapted.yaml"
    profile.write_text(PROFILE.replace("enable_lora: true", "enable_lora: true, max_loras: 2"))
    server.answer = lambda: answer
    try:
        said = project.cdk(*DEPLOY, code=1)
    finally:
        profile.write_text(PROFILE)
        server.answer = apart
    assert f"component {MAIN} {words}" in said
    went_back(project, before)


def edit_template(assembly: Path) -> None:
    """Take the variable away, and call the template by another name: the CLI uploads none that is there already."""
    template = assembly / f"{STACK}.template.json"
    changed = json.loads(template.read_text())
    (model,) = [one for one in changed["Resources"].values() if one["Type"] == "AWS::SageMaker::Model"]
    assert model["Properties"]["PrimaryContainer"]["Environment"].pop(SWITCH) == "true"
    template.write_text(json.dumps(changed))
    manifest = json.loads((assembly / "manifest.json").read_text())
    place = PurePosixPath(manifest["artifacts"][STACK]["properties"]["stackTemplateAssetObjectUrl"])
    for file in (assembly / "manifest.json", assembly / f"{STACK}.assets.json"):
        file.write_text(file.read_text().replace(place.stem, sha256(template.read_bytes()).hexdigest()))


def went_back(project: Project, before: dict[str, Any]) -> None:
    """The update failed at the proof, and what stood before stands and answers."""
    assert status(project) == "UPDATE_ROLLBACK_COMPLETE"
    assert "UPDATE_FAILED" in lives(project)["Proof"]
    assert configuration(project) == before
    assert before["variables"][SWITCH] == "true"
    for name in (MAIN, ADAPTER):
        assert ask(project, name).startswith("answer ")


def status(project: Project) -> str:
    return str(project.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"])


def lives(project: Project) -> dict[str, list[str]]:
    """How each kind of resource ended, in order; the proof by its logical id."""
    events = project.client("cloudformation").describe_stack_events(StackName=STACK)["StackEvents"][::-1]
    found: dict[str, list[str]] = {}
    for event in events:
        proof = event["ResourceType"] == "AWS::CloudFormation::CustomResource" and "Proof" in event["LogicalResourceId"]
        kind = "Proof" if proof else event["ResourceType"]
        if not event["ResourceStatus"].endswith("_IN_PROGRESS"):
            found.setdefault(kind, []).append(event["ResourceStatus"])
    return found


def configuration(project: Project) -> dict[str, Any]:
    """What runs now."""
    sagemaker = project.client("sagemaker")
    component = sagemaker.describe_inference_component(InferenceComponentName=MAIN)
    model = sagemaker.describe_model(ModelName=component["Specification"]["ModelName"])
    endpoint = sagemaker.describe_endpoint(EndpointName=STACK)
    assert component["InferenceComponentStatus"] == endpoint["EndpointStatus"] == "InService"
    return {"variables": model["PrimaryContainer"]["Environment"], "configuration": endpoint["EndpointConfigName"]}


def ask(project: Project, component: str) -> str:
    body = json.dumps({"prompt": "Hello", "max_tokens": 8})
    try:
        answer = project.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=STACK, InferenceComponentName=component, ContentType="application/json", Body=body
        )
    except ClientError as error:
        return str(error)
    return str(json.loads(answer["Body"].read())["choices"][0]["text"])
