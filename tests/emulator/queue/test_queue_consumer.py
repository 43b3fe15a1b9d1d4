"""The buffer's own consumer, as it is deployed: queue → real function code → runtime's event stream → result in S3."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import local

RUNTIME = Path(__file__).parents[3] / "stacks" / "buffer" / "runtime"
IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/"
    "huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
)
TINY = "layers=2 hidden=64 heads=4 kv_heads=4 head_dim=16 intermediate=128 vocab=1000 context=2048 parameters_b=0.001"
POWERTOOLS = "arn:aws:lambda:us-east-1:017000801446:layer:AWSLambdaPowertoolsPythonV3-python313-arm64:27"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
            for service in ("sagemaker.amazonaws.com", "lambda.amazonaws.com")
        ],
    }
)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch, _running(tmp_path_factory, patch) as found:
        yield found


@contextmanager
def _running(paths: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    patch.setenv("LOADPROOF_STATE_DIR", str(paths.mktemp("state")))
    with local.running(f"test-consumer-{uuid.uuid4().hex[:8]}", transition_s=0.1) as cloud:
        options = {
            "endpoint_url": cloud.state.endpoint_url,
            "region_name": cloud.state.region,
            "aws_access_key_id": cloud.state.access_key,
            "aws_secret_access_key": cloud.state.secret_key,
        }
        names = ("iam", "sagemaker", "s3", "sqs", "lambda")
        yield {name: boto3.client(name, **options) for name in names}


def serve_a_model(clients: dict[str, Any], role_arn: str) -> None:
    sagemaker = clients["sagemaker"]
    tags = [{"Key": "loadproof:model-id", "Value": "tests/tiny"}, {"Key": "loadproof:architecture", "Value": TINY}]
    sagemaker.create_model(ModelName="tiny", ExecutionRoleArn=role_arn, PrimaryContainer={"Image": IMAGE}, Tags=tags)
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.2xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="c", ExecutionRoleArn=role_arn, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 1})
    resources = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
    sagemaker.create_inference_component(
        InferenceComponentName="e-main",
        EndpointName="e",
        VariantName="AllTraffic",
        Specification={"ModelName": "tiny", "ComputeResourceRequirements": resources},
        RuntimeConfig={"CopyCount": 1},
    )
    deadline = time.monotonic() + 10
    while (found := sagemaker.describe_inference_component(InferenceComponentName="e-main"))[
        "InferenceComponentStatus"
    ] == "Creating":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found["InferenceComponentStatus"] == "InService", found.get("FailureReason")


def consumer_zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(RUNTIME.rglob("*.py")):
            archive.write(path, str(path.relative_to(RUNTIME)))
    return packed.getvalue()


def test_a_queued_request_becomes_a_result_in_s3(clients: dict[str, Any]) -> None:
    """The answer has the twelve tokens asked for; a malformed neighbour fails alone and ends among the dead letters."""
    role_arn = clients["iam"].create_role(RoleName="all", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    serve_a_model(clients, role_arn)
    s3, sqs, functions = clients["s3"], clients["sqs"], clients["lambda"]
    s3.create_bucket(Bucket="results")

    def queue(name: str, **attributes: str) -> tuple[str, str]:
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, arn

    dead_url, dead_arn = queue("dead")
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    url, arn = queue("requests", VisibilityTimeout="120", RedrivePolicy=redrive)
    variables = {
        "ENDPOINT_NAME": "e",
        "COMPONENT_NAME": "e-main",
        "PROTOCOL": "tgi",
        "MODEL_REVISION": "r1",
        "RESULTS_BUCKET": "results",
        "RESULTS_PREFIX": "results/",
        "INVOCATION_TIMEOUT_S": "30",
        "QUEUE_URL": url,
    }
    functions.create_function(
        FunctionName="consumer",
        Role=role_arn,
        Runtime="python3.13",
        Handler="consumer.handler.handler",
        Timeout=60,
        Code={"ZipFile": consumer_zip()},
        Layers=[POWERTOOLS],
        Environment={"Variables": variables},
    )
    functions.create_event_source_mapping(
        FunctionName="consumer",
        EventSourceArn=arn,
        BatchSize=5,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        ScalingConfig={"MaximumConcurrency": 2},
    )
    good = {"key": "first", "request": {"inputs": "one two three", "parameters": {"max_new_tokens": 12}}}
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(good))
    sqs.send_message(QueueUrl=url, MessageBody="not json at all")

    deadline = time.monotonic() + 25
    while not (found := s3.list_objects_v2(Bucket="results").get("Contents")):
        assert time.monotonic() < deadline, "no result came"
        time.sleep(0.1)
    assert found[0]["Key"] == "results/first.json"
    result = json.loads(s3.get_object(Bucket="results", Key=found[0]["Key"])["Body"].read())
    assert '"completion_tokens": 12' in json.dumps(result)
    while not (dead := sqs.receive_message(QueueUrl=dead_url, WaitTimeSeconds=1).get("Messages")):
        assert time.monotonic() < deadline, "the malformed message did not reach the dead letters"
    assert dead[0]["Body"] == "not json at all"
