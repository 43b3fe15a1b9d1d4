"""The buffer's own consumer, as it is deployed: queue → real function code → runtime's event stream → result in S3."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadproof.constructs.cdk.packing import write_package

RUNTIME = Path(__file__).parents[3] / "loadproof" / "constructs" / "buffer" / "runtime"
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


def serve_a_model(sagemaker: Any, role_arn: str) -> None:
    tags = [{"Key": "loadproof:model-id", "Value": "tests/tiny"}, {"Key": "loadproof:architecture", "Value": TINY}]
    sagemaker.create_model(
        ModelName="consumer-tiny", ExecutionRoleArn=role_arn, PrimaryContainer={"Image": IMAGE}, Tags=tags
    )
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.2xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(
        EndpointConfigName="consumer-c", ExecutionRoleArn=role_arn, ProductionVariants=[variant]
    )
    sagemaker.create_endpoint(EndpointName="consumer-e", EndpointConfigName="consumer-c")
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="consumer-e", WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    resources = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
    sagemaker.create_inference_component(
        InferenceComponentName="consumer-e-main",
        EndpointName="consumer-e",
        VariantName="AllTraffic",
        Specification={"ModelName": "consumer-tiny", "ComputeResourceRequirements": resources},
        RuntimeConfig={"CopyCount": 1},
    )
    deadline = time.monotonic() + 60
    while (found := sagemaker.describe_inference_component(InferenceComponentName="consumer-e-main"))[
        "InferenceComponentStatus"
    ] == "Creating":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found["InferenceComponentStatus"] == "InService", found.get("FailureReason")


def consumer_zip(folder: Path) -> bytes:
    write_package(RUNTIME, folder)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*.py")):
            archive.write(path, str(path.relative_to(folder)))
    return packed.getvalue()


def test_a_queued_request_becomes_a_result_in_s3(aws: Callable[[str], Any], tmp_path: Path) -> None:
    """The answer has the twelve tokens asked for; a malformed neighbour fails alone and ends among the dead letters."""
    role_arn = aws("iam").create_role(RoleName="consumer-all", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    serve_a_model(aws("sagemaker"), role_arn)
    s3, sqs, functions = aws("s3"), aws("sqs"), aws("lambda")
    s3.create_bucket(Bucket="consumer-results")
    aws("dynamodb").create_table(
        TableName="consumer-claims",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def queue(name: str, **attributes: str) -> tuple[str, str]:
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, arn

    dead_url, dead_arn = queue("consumer-dead")
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    url, arn = queue("consumer-requests", VisibilityTimeout="120", RedrivePolicy=redrive)
    variables = {
        "ENDPOINT_NAME": "consumer-e",
        "COMPONENT_NAME": "consumer-e-main",
        "PROTOCOL": "tgi",
        "MODEL_REVISION": "r1",
        "RESULTS_BUCKET": "consumer-results",
        "RESULTS_PREFIX": "results/",
        "INVOCATION_TIMEOUT_S": "30",
        "IDLE_TIMEOUT_S": "20",
        "LEASE_S": "60",
        "MAX_ATTEMPTS": "8",
        "MAX_IN_FLIGHT": "2",
        "RETENTION_S": "1209600",
        "CLAIMS_TABLE": "consumer-claims",
        "QUEUE_URL": url,
        "DEAD_LETTER_URL": dead_url,
    }
    functions.create_function(
        FunctionName="consumer",
        Role=role_arn,
        Runtime="python3.13",
        Handler="consumer.handler.handler",
        Timeout=60,
        Code={"ZipFile": consumer_zip(tmp_path)},
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

    deadline = time.monotonic() + 90
    while not (found := s3.list_objects_v2(Bucket="consumer-results").get("Contents")):
        assert time.monotonic() < deadline, "no result came"
        time.sleep(0.1)
    assert found[0]["Key"] == "results/first.json"
    result = json.loads(s3.get_object(Bucket="consumer-results", Key=found[0]["Key"])["Body"].read())
    assert '"completion_tokens": 12' in json.dumps(result)
    while not (dead := sqs.receive_message(QueueUrl=dead_url, WaitTimeSeconds=1).get("Messages")):
        assert time.monotonic() < deadline, "the malformed message did not reach the dead letters"
    assert dead[0]["Body"] == "not json at all"
