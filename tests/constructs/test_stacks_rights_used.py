"""Every function's rights against what it asks for, in a deployment to the local cloud: none too many, none missing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from stacks_cloud import Cloud, local_cloud
from stacks_support import ENVIRONMENT, profile
from staging_hub import REPOSITORY, REVISION, Hub, served
from tiny_weights import TINY_SHAPE, safetensors

from loadproof.templates.template import listed

STACK = "loadproof-test-chat"
FILES = {"config.json": b"{}", "model.safetensors": safetensors(), "tokenizer.json": b"{}"}
LOGS = "Lambda writes the function's log by its role"
POLLS = "Lambda's event source mapping asks by the function's role"
DENIED = "nobody asks: with it, S3 says of a missing object that it is missing, and not that it is forbidden"
STREAMS = "what streams needs it, too: InvokeEndpointWithResponseStream in SageMaker Runtime's API reference"
IN_PARTS = "files of 64 MiB and more come in parts"
BY_VERSION = "S3 asks for it where a request to delete many names their versions in its body"
SPOILED = "a file whose checksum is not the commit's is taken away"
AFTER_A_KILL = "asked after an accident alone: a function that died in the middle, a deployment that was rolled back"
# Rights that this deployment does not use: (beginning of the function's logical id, action) -> why it has them.
UNUSED = {
    ("", "logs:CreateLogStream"): LOGS,
    ("", "logs:PutLogEvents"): LOGS,
    ("BufferConsumer", "sqs:ReceiveMessage"): POLLS,
    ("BufferConsumer", "sqs:GetQueueAttributes"): POLLS,
    ("BufferConsumer", "s3:ListBucket"): DENIED,
    ("BufferConsumer", "sagemaker:InvokeEndpoint"): STREAMS,
    ("BufferEmptied", "s3:DeleteObjectVersion"): BY_VERSION,
    ("WeightsBegin", "s3:AbortMultipartUpload"): AFTER_A_KILL,
    ("WeightsBegin", "states:DescribeExecution"): AFTER_A_KILL,
    ("WeightsBegin", "states:StopExecution"): AFTER_A_KILL,
    ("WeightsFetch", "s3:DeleteObject"): SPOILED,
    ("WeightsFetch", "s3:ListBucket"): DENIED,
    ("WeightsFetch", "s3:ListBucketMultipartUploads"): IN_PARTS,
    ("WeightsFetch", "s3:ListMultipartUploadParts"): IN_PARTS,
}
_S3 = (
    ("GET", "uploadId", "s3:ListMultipartUploadParts"),
    ("GET", "uploads", "s3:ListBucketMultipartUploads"),
    ("GET", "versions", "s3:ListBucketVersions"),
    ("GET", "tagging", "s3:GetBucketTagging"),
    ("GET", "list-type", "s3:ListBucket"),
    ("DELETE", "uploadId", "s3:AbortMultipartUpload"),
    ("DELETE", "versionId", "s3:DeleteObjectVersion"),
    ("POST", "delete", "s3:DeleteObject"),
    ("POST", "", "s3:PutObject"),
    ("PUT", "", "s3:PutObject"),
    ("DELETE", "", "s3:DeleteObject"),
    ("GET", "", "s3:GetObject"),
    ("HEAD", "", "s3:GetObject"),
)
_INVOKED = {
    "invocations": "sagemaker:InvokeEndpoint",
    "invocations-response-stream": "sagemaker:InvokeEndpointWithResponseStream",
}


@dataclass(frozen=True, slots=True)
class Deployed:
    """By the logical id of each function: the actions its role allows, and those it asked for."""

    allowed: Mapping[str, frozenset[str]]
    asked: Mapping[str, frozenset[str]]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Weights are staged, requests answered and buried, and all is destroyed with what it holds."""
    folder = tmp_path_factory.mktemp("rights")
    with pytest.MonkeyPatch.context() as patch, served(Hub(dict(FILES), frozenset(["model.safetensors"]))) as hub:
        patch.setenv("LOADPROOF_CALLS", "1")
        hub.token = "hf_open"
        with local_cloud(folder / "state", "rights") as cloud:
            secret = cloud.client("secretsmanager").create_secret(Name="hub", SecretString="hf_open")["ARN"]
            source = {
                "type": "hub",
                "revision": REVISION,
                "s3_uri": None,
                "accept_eula": None,
                "token_secret_arn": secret,
            }
            model = {"id": REPOSITORY, "source": source, "architecture": TINY_SHAPE}
            chosen = profile(folder, {"model": model, "buffer": {"max_concurrency": 2}})
            environment = ENVIRONMENT.model_copy(update={"hub_url": hub.address, "results_on_destroy": "delete"})
            template = cloud.template(chosen, environment)
            assert cloud.apply(STACK, template) == "CREATE_COMPLETE", cloud.reasons(STACK)
            names = _physical_names(cloud)
            _use(cloud)
            assert cloud.destroy(STACK) == "DELETE_COMPLETE"
            yield Deployed(_allowed(template), _asked(cloud.local.log_file, names))


def _physical_names(cloud: Cloud) -> dict[str, str]:
    """Logical ids of functions by their physical names."""
    found = cloud.client("cloudformation").list_stack_resources(StackName=STACK)["StackResourceSummaries"]
    return {
        one["PhysicalResourceId"][:50]: one["LogicalResourceId"]
        for one in found
        if one["ResourceType"] == "AWS::Lambda::Function"
    }


def _use(cloud: Cloud) -> None:
    """Requests that are answered, one twice and one left in S3, and one that is buried."""
    (stack,) = cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    places = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    sqs, s3 = cloud.client("sqs"), cloud.client("s3")
    request = {"prompt": "one two three", "max_tokens": 8}
    s3.put_object(Bucket=places["ResultsBucketName"], Key="requests/b.json", Body=json.dumps(request).encode())
    for body in (
        {"key": "a", "request": request},
        {"key": "a", "request": request},
        {"key": "b", "request_s3": "requests/b.json"},
        {"no": "request"},
    ):
        sqs.send_message(QueueUrl=places["QueueUrl"], MessageBody=json.dumps(body))
    patience_s = time.monotonic() + 240
    results = {"Bucket": places["ResultsBucketName"], "Prefix": "results/"}
    while len(s3.list_objects_v2(**results).get("Contents", [])) < 2:
        assert time.monotonic() < patience_s, "no result came"
        time.sleep(0.2)
    while not sqs.receive_message(QueueUrl=places["DeadLetterQueueUrl"], WaitTimeSeconds=1).get("Messages"):
        assert time.monotonic() < patience_s, "no dead letter came"


def _allowed(template: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    resources = template["Resources"]
    functions = {name: body for name, body in resources.items() if body["Type"] == "AWS::Lambda::Function"}
    found = {}
    for name, body in functions.items():
        role = body["Properties"]["Role"]["Fn::GetAtt"][0]
        documents = [one["PolicyDocument"] for one in resources[role]["Properties"].get("Policies", [])]
        documents += [
            one["Properties"]["PolicyDocument"]
            for one in resources.values()
            if one["Type"] == "AWS::IAM::Policy" and {"Ref": role} in one["Properties"]["Roles"]
        ]
        statements = [statement for document in documents for statement in document["Statement"]]
        found[name] = frozenset(action for statement in statements for action in listed(statement, "Action"))
    return found


def _asked(log_file: Path, names: Mapping[str, str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in log_file.read_text(errors="replace").splitlines():
        match = re.search(r" asked: (\S+) (\S+) (\S+) (\S+) (\S+)$", line)
        if match is not None:
            caller, service, operation, method, path = match.groups()
            found.setdefault(names[caller], set()).add(_action(service, operation, method, path))
    return {name: frozenset(actions) for name, actions in found.items()}


def _action(service: str, operation: str, method: str, path: str) -> str:
    """As IAM names it."""
    where, _, query = path.partition("?")
    if service == "s3":
        keys = parse_qs(query, keep_blank_values=True)
        return next(action for verb, key, action in _S3 if verb == method and (not key or key in keys))
    if where.startswith("/endpoints/"):
        return _INVOKED[where.rpartition("/")[2]]
    assert operation != "-", (service, method, path)
    return f"{service}:{operation.removesuffix('Batch')}"


def _excused(function: str, action: str) -> tuple[str, str] | None:
    return next((key for key in UNUSED if function.startswith(key[0]) and fnmatchcase(action, key[1])), None)


def test_every_function_was_seen(deployed: Deployed) -> None:
    """What was not called says nothing of its rights."""
    assert deployed.allowed.keys() == deployed.asked.keys()


def test_what_a_function_asks_for_is_allowed(deployed: Deployed) -> None:
    """A right that is missing here is missing at AWS, where nobody would have seen it before."""
    missing = {name: sorted(asked - deployed.allowed[name]) for name, asked in deployed.asked.items()}
    assert not {name: actions for name, actions in missing.items() if actions}


def test_what_is_allowed_is_asked_for(deployed: Deployed) -> None:
    """All but what has a reason; and no reason stands for what is used."""
    unused = {(name, action) for name, allowed in deployed.allowed.items() for action in allowed - deployed.asked[name]}
    assert sorted(one for one in unused if _excused(*one) is None) == []
    assert {_excused(*one) for one in unused} == set(UNUSED)
