"""An asynchronous endpoint and data capture, deployed by CloudFormation and called through boto3, on a real port."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from control_templates import create, delete, endpoint_template, reasons

from loadproof.invocation import (
    AsynchronousTransport,
    GenerationRequest,
    Invocation,
    Invoker,
    OutcomeKind,
    RetryClass,
    codec_for,
)
from loadproof.localcloud.local import LocalCloud, running

Aws = Callable[[str], Any]
BODY = json.dumps({"inputs": "Hello", "parameters": {"max_new_tokens": 3}})


def plain_template(name: str, **config: Any) -> dict[str, Any]:
    """A plain variant with more in its configuration, and a bucket."""
    template = endpoint_template(name)
    for gone in ("Component", "Target", "Policy"):
        del template["Resources"][gone]
    properties = template["Resources"]["Config"]["Properties"]
    variant = properties["ProductionVariants"][0]
    variant["ModelName"] = {"Fn::GetAtt": ["Model", "ModelName"]}
    del variant["ManagedInstanceScaling"]
    properties.update(config)
    template["Resources"]["Bucket"] = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": f"{name}-objects"}}
    return template


def listed(s3: Any, bucket: str, count: int) -> list[str]:
    end_s = time.monotonic() + 90
    while True:
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        if len(keys) >= count:
            return keys
        assert time.monotonic() < end_s, f"{bucket} holds {keys}"
        time.sleep(0.05)


def emptied(s3: Any, bucket: str) -> None:
    for one in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=one["Key"])


def test_asynchronous_answer_reaches_bucket_and_topic(aws: Aws) -> None:
    """The request is read from S3, the answer is written there, and the success topic's queue has the message."""
    cfn, s3, sqs = aws("cloudformation"), aws("s3"), aws("sqs")
    output = {
        "S3OutputPath": "s3://later-objects/answers",
        "S3FailurePath": "s3://later-objects/failures",
        "NotificationConfig": {"SuccessTopic": {"Ref": "Topic"}},
    }
    client = {"MaxConcurrentInvocationsPerInstance": 2}
    template = plain_template("later", AsyncInferenceConfig={"OutputConfig": output, "ClientConfig": client})
    template["Resources"] |= {
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "later-told"}},
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "sqs",
                "Endpoint": {"Fn::GetAtt": ["Queue", "Arn"]},
                "RawMessageDelivery": True,
            },
        },
    }
    assert create(cfn, "later", template)["StackStatus"] == "CREATE_COMPLETE"
    shown = aws("sagemaker").describe_endpoint(EndpointName="later")
    assert shown["AsyncInferenceConfig"]["ClientConfig"] == client
    s3.put_object(Bucket="later-objects", Key="in/one.json", Body=BODY.encode())
    answer = aws("sagemaker-runtime").invoke_endpoint_async(
        EndpointName="later", ContentType="application/json", InputLocation="s3://later-objects/in/one.json"
    )
    assert answer["OutputLocation"].startswith("s3://later-objects/answers/")
    key = answer["OutputLocation"].removeprefix("s3://later-objects/")
    assert key in listed(s3, "later-objects", 2)
    assert json.loads(s3.get_object(Bucket="later-objects", Key=key)["Body"].read())[0]["generated_text"]
    url = sqs.get_queue_url(QueueName="later-told")["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    told = json.loads(message["Body"])
    assert (told["invocationStatus"], told["inferenceId"]) == ("Completed", answer["InferenceId"])
    assert told["responseParameters"]["outputLocation"] == answer["OutputLocation"]
    emptied(s3, "later-objects")
    assert delete(cfn, "later")["StackStatus"] == "DELETE_COMPLETE"


def test_loadproofs_own_transport_finds_its_answers_in_s3(
    cloud: LocalCloud, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inline, by S3 above 128,000 bytes, and a request that the model refuses: a failure found where it was put."""
    cfn, s3, store = aws("cloudformation"), aws("s3"), "s3://own-objects"
    output = {"S3OutputPath": f"{store}/answers", "S3FailurePath": f"{store}/failures"}
    template = plain_template("own", AsyncInferenceConfig={"OutputConfig": output})
    assert create(cfn, "own", template)["StackStatus"] == "CREATE_COMPLETE"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", cloud.state.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud.state.secret_key)

    async def ask(*prompts: str) -> list[Invocation]:
        place = {"region": cloud.region, "endpoint_url": cloud.endpoint_url}
        transport = AsynchronousTransport("own", input_uri=f"{store}/in", look_every_s=0.05, **place)
        invoker = Invoker(transport, codec_for("tgi"))
        try:
            return [await invoker.invoke(GenerationRequest(prompt, 3, stream=False)) for prompt in prompts]
        finally:
            await invoker.close()

    short, large, wrong = asyncio.run(ask("one two", "a" * 128_000, "word " * 30_000))
    assert [(one.outcome.kind, one.output_tokens) for one in (short, large)] == [(OutcomeKind.OK, 3)] * 2
    assert (wrong.outcome.kind, wrong.outcome.retry) == (OutcomeKind.MODEL_ERROR, RetryClass.POISON)
    keys = [key.partition("/")[0] for key in listed(s3, "own-objects", 5)]
    assert sorted(keys) == ["answers", "answers", "failures", "in", "in"]
    emptied(s3, "own-objects")
    assert delete(cfn, "own")["StackStatus"] == "DELETE_COMPLETE"


def test_captured_requests_lie_in_the_bucket(aws: Aws) -> None:
    """By endpoint, variant and hour, as SageMaker lays them out."""
    cfn, s3 = aws("cloudformation"), aws("s3")
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": "s3://kept-objects/capture",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }
    assert create(cfn, "kept", plain_template("kept", DataCaptureConfig=capture))["StackStatus"] == "CREATE_COMPLETE"
    shown = aws("sagemaker").describe_endpoint(EndpointName="kept")["DataCaptureConfig"]
    assert (shown["CaptureStatus"], shown["CurrentSamplingPercentage"]) == ("Started", 100)
    aws("sagemaker-runtime").invoke_endpoint(EndpointName="kept", ContentType="application/json", Body=BODY)
    (key,) = listed(s3, "kept-objects", 1)
    assert key.startswith("capture/kept/AllTraffic/")
    line = json.loads(s3.get_object(Bucket="kept-objects", Key=key)["Body"].read())
    assert line["captureData"]["endpointInput"]["data"] == BODY
    emptied(s3, "kept-objects")
    assert delete(cfn, "kept")["StackStatus"] == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"S3FailurePath": "s3://x/y"}, "needs AsyncInferenceConfig.OutputConfig.S3OutputPath"),
        (
            {
                "S3OutputPath": "s3://x/y",
                "NotificationConfig": {"IncludeInferenceResponseIn": ["SUCCESS_NOTIFICATION_TOPIC"]},
            },
            "does not provide IncludeInferenceResponseIn",
        ),
    ],
)
def test_asynchronous_options_without_effect_are_refused(aws: Aws, output: dict[str, Any], reason: str) -> None:
    cfn = aws("cloudformation")
    template = plain_template("odd", AsyncInferenceConfig={"OutputConfig": output})
    assert create(cfn, "odd", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in reasons(cfn, "odd")["Config"]
    delete(cfn, "odd")


def test_components_are_never_asynchronous(aws: Aws) -> None:
    cfn = aws("cloudformation")
    template = endpoint_template("odd")
    output = {"OutputConfig": {"S3OutputPath": "s3://x/y"}}
    template["Resources"]["Config"]["Properties"]["AsyncInferenceConfig"] = output
    assert create(cfn, "odd", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "AllTraffic hosts inference components" in reasons(cfn, "odd")["Config"]
    delete(cfn, "odd")


def test_request_wakes_an_endpoint_that_sleeps(tmp_path_factory: pytest.TempPathFactory) -> None:
    """At zero instances the backlog's alarm lets a step policy add one, which answers; nothing was lost meanwhile."""
    template = plain_template(
        "asleep", AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": "s3://asleep-objects/o"}}
    )
    template["Resources"] |= {
        "Target": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "DependsOn": "Endpoint",
            "Properties": {
                "ServiceNamespace": "sagemaker",
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
                "ResourceId": "endpoint/asleep/variant/AllTraffic",
                "MinCapacity": 0,
                "MaxCapacity": 2,
            },
        },
        "Wake": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "wake",
                "PolicyType": "StepScaling",
                "ScalingTargetId": {"Ref": "Target"},
                "StepScalingPolicyConfiguration": {
                    "AdjustmentType": "ChangeInCapacity",
                    "Cooldown": 300,
                    "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
                },
            },
        },
        "Backlog": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "Namespace": "AWS/SageMaker",
                "MetricName": "HasBacklogWithoutCapacity",
                "Dimensions": [{"Name": "EndpointName", "Value": "asleep"}],
                "Statistic": "Average",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "TreatMissingData": "missing",
                "AlarmActions": [{"Ref": "Wake"}],
            },
        },
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with running("asleep", transition_s=10, speed=100) as cloud:

            def client(service: str) -> Any:
                return boto3.client(
                    service,
                    endpoint_url=cloud.endpoint_url,
                    region_name=cloud.region,
                    aws_access_key_id=cloud.state.access_key,
                    aws_secret_access_key=cloud.state.secret_key,
                )

            cfn, sagemaker, s3 = client("cloudformation"), client("sagemaker"), client("s3")
            assert create(cfn, "asleep", template)["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "asleep")
            sagemaker.update_endpoint_weights_and_capacities(
                EndpointName="asleep",
                DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 0}],
            )
            sagemaker.get_waiter("endpoint_in_service").wait(
                EndpointName="asleep", WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
            )
            (variant,) = sagemaker.describe_endpoint(EndpointName="asleep")["ProductionVariants"]
            assert variant["CurrentInstanceCount"] == 0
            client("sagemaker-runtime").invoke_endpoint_async(
                EndpointName="asleep", ContentType="application/json", Body=BODY
            )
            (key,) = listed(s3, "asleep-objects", 1)
            assert json.loads(s3.get_object(Bucket="asleep-objects", Key=key)["Body"].read())[0]["generated_text"]
            (variant,) = sagemaker.describe_endpoint(EndpointName="asleep")["ProductionVariants"]
            assert variant["CurrentInstanceCount"] == 1
