"""Scaling seen on a running local cloud whose clock is fast: under a benchmark, to zero, and back in both ways.

At 60 times the wall's speed three 10 s periods are half a second, fifteen quiet minutes a quarter of one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cloud_clients import boto3_client
from waiting import until

from loadproof.bench.connect import parse_target
from loadproof.bench.job import run_benchmark
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.loads import Load
from loadproof.localcloud.local import LocalCloud, running

SPEED = 60.0
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
IMAGE = f"{REGISTRY}/huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
TINY = "layers=2 hidden=64 heads=4 kv_heads=4 head_dim=16 intermediate=128 vocab=1000 context=2048 parameters_b=0.001"
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/chat-main",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
COMPONENT = {"InferenceComponentName": "chat-main"}
WAKE = {
    "AdjustmentType": "ChangeInCapacity",
    "StepAdjustments": [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}],
    "Cooldown": 60,
}
Aws = Callable[[str], Any]


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with running("fast", speed=SPEED, transition_s=30.0) as cloud:
            yield cloud


@pytest.fixture(scope="module")
def aws(fast: LocalCloud) -> Aws:
    def client(service: str) -> Any:
        return boto3_client(fast, service)

    return client


@pytest.fixture(scope="module")
def component(aws: Aws) -> str:
    """Endpoint `chat` with component `chat-main`: 0 to 4 copies, tracked at 2 requests a copy, woken by two alarms."""
    allowed = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = {"Statement": [allowed]}
    role = aws("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    sagemaker, scaling, cloudwatch = aws("sagemaker"), aws("application-autoscaling"), aws("cloudwatch")
    tags = {"loadproof:model-id": "tests/tiny", "loadproof:architecture": TINY}
    sagemaker.create_model(
        ModelName="tiny",
        PrimaryContainer={"Image": IMAGE, "Environment": {}},
        ExecutionRoleArn=role,
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    variant = {
        "VariantName": "AllTraffic",
        "InstanceType": "ml.g5.2xlarge",
        "InitialInstanceCount": 1,
        "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 4},
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
    }
    sagemaker.create_endpoint_config(EndpointConfigName="chat", ProductionVariants=[variant], ExecutionRoleArn=role)
    sagemaker.create_endpoint(EndpointName="chat", EndpointConfigName="chat")
    sagemaker.create_inference_component(
        **COMPONENT,
        EndpointName="chat",
        VariantName="AllTraffic",
        Specification={
            "ModelName": "tiny",
            "ComputeResourceRequirements": {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024},
        },
        RuntimeConfig={"CopyCount": 1},
    )
    until(lambda: copies(aws) == 1)
    scaling.register_scalable_target(**TARGET, MinCapacity=0, MaxCapacity=4)
    metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    scaling.put_scaling_policy(
        **TARGET,
        PolicyName="track",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 2.0,
            "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
            "ScaleOutCooldown": 60,
            "ScaleInCooldown": 60,
        },
    )
    wake = scaling.put_scaling_policy(
        **TARGET, PolicyName="wake", PolicyType="StepScaling", StepScalingPolicyConfiguration=WAKE
    )["PolicyARN"]
    aws("sqs").create_queue(QueueName="requests")
    common = {"Period": 60, "EvaluationPeriods": 1, "Threshold": 1.0, "AlarmActions": [wake]}
    compared = {"ComparisonOperator": "GreaterThanOrEqualToThreshold", "TreatMissingData": "notBreaching"}
    cloudwatch.put_metric_alarm(
        AlarmName="no-capacity",
        Namespace="AWS/SageMaker",
        MetricName="NoCapacityInvocationFailures",
        Dimensions=[{"Name": "InferenceComponentName", "Value": "chat-main"}],
        Statistic="Sum",
        **common,
        **compared,
    )
    cloudwatch.put_metric_alarm(
        AlarmName="backlog",
        Namespace="AWS/SQS",
        MetricName="ApproximateNumberOfMessagesVisible",
        Dimensions=[{"Name": "QueueName", "Value": "requests"}],
        Statistic="Maximum",
        **common,
        **compared,
    )
    return "chat-main"


def copies(aws: Aws) -> int:
    found = aws("sagemaker").describe_inference_component(**COMPONENT)
    return int(found["RuntimeConfig"]["CurrentCopyCount"]) if found["InferenceComponentStatus"] == "InService" else -1


def instances(aws: Aws) -> int:
    return int(aws("sagemaker").describe_endpoint(EndpointName="chat")["ProductionVariants"][0]["CurrentInstanceCount"])


def causes(aws: Aws) -> list[str]:
    """Newest first. An activity is successful from the turn on that finds its copies there, a moment after they are."""
    found = aws("application-autoscaling").describe_scaling_activities(ServiceNamespace="sagemaker")
    return [one["Cause"] for one in found["ScalingActivities"] if one["StatusCode"] == "Successful"]


def newest_cause(aws: Aws) -> str:
    return next(iter(causes(aws)), "")


def sleeping(aws: Aws) -> None:
    """Down to zero at once, as an operator would."""
    until(lambda: copies(aws) >= 0)
    if copies(aws):
        aws("sagemaker").update_inference_component_runtime_config(**COMPONENT, DesiredRuntimeConfig={"CopyCount": 0})
    until(lambda: (copies(aws), instances(aws)) == (0, 0))


def test_benchmark_sees_copies_rise(fast: LocalCloud, aws: Aws, component: str, tmp_path: Path) -> None:
    """One request in flight needs one copy, eight need four: ⌈1 · 8 / 2⌉; summary and report tell it."""
    target = parse_target(
        f"sagemaker://chat/{component}", "tgi", streaming=True, endpoint_url=fast.endpoint_url, region=fast.region
    )
    spec = BenchmarkSpec(
        target=target,
        workload=WorkloadSpec(fixed_tokens(16), fixed_tokens(16)),
        concurrency=(1, 8),
        requests_per_level=1,
        warmup_requests=1,
        loads=(Load(concurrency=1, duration_s=2.0), Load(concurrency=8, duration_s=6.0)),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fast.environment().items():
            patch.setenv(name, value)
        done = run_benchmark(spec, lambda progress: None, tmp_path / "run", observe=True)
    scaling = done.summary.scaling
    assert [(one.before, one.after) for one in scaling.scale_outs] == [(1, 4)]
    out = scaling.scale_outs[0]
    assert out.by == "activity"
    assert 0.4 <= out.seconds <= 8.0  # 30 s of the cloud's clock are half a second, and turns come every 10 s
    assert out.seconds < out.after_load_s <= 8.0
    assert scaling.copies[-1].current == 4
    assert scaling.clock_speed == SPEED
    assert [one.description for one in scaling.activities] == ["Setting desired copy count to 4."]
    assert scaling.activities[0].status == "Successful"
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Scale-out from 1 to 4 copies" in page
    assert "clock ran 60 times as fast" in page


def test_idle_component_goes_to_zero_copies_and_instances(aws: Aws, component: str) -> None:
    until(lambda: (copies(aws), instances(aws)) == (0, 0))
    until(lambda: "AlarmLow" in newest_cause(aws))


def test_failed_invocation_wakes(aws: Aws, component: str) -> None:
    """The caller gets AWS's own refusal, and some minutes of the cloud's clock later an answer."""
    sleeping(aws)
    runtime = aws("sagemaker-runtime")
    call = {
        "EndpointName": "chat",
        "InferenceComponentName": component,
        "ContentType": "application/json",
        "Body": json.dumps({"inputs": "hello", "parameters": {"max_new_tokens": 4}}),
    }
    with pytest.raises(ClientError, match="has no capacity to process this request"):
        runtime.invoke_endpoint(**call)
    until(lambda: copies(aws) == 1)
    assert runtime.invoke_endpoint(**call)["ResponseMetadata"]["HTTPStatusCode"] == 200
    until(lambda: newest_cause(aws) == "monitor alarm no-capacity in state ALARM triggered policy wake")


def test_backlog_of_a_queue_wakes(aws: Aws, component: str) -> None:
    until(lambda: _state(aws, "no-capacity") == "OK")
    sleeping(aws)
    sqs = aws("sqs")
    url = sqs.get_queue_url(QueueName="requests")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="{}")
    until(lambda: copies(aws) == 1)
    until(lambda: newest_cause(aws) == "monitor alarm backlog in state ALARM triggered policy wake")
    sqs.purge_queue(QueueUrl=url)


def test_schedule_fires_on_the_clouds_calendar(aws: Aws, component: str) -> None:
    """A rate of 5 minutes is up after 5 s of the wall's time."""
    scaling = aws("application-autoscaling")
    scaling.put_scheduled_action(
        **TARGET,
        ScheduledActionName="peak",
        Schedule="rate(5 minutes)",
        ScalableTargetAction={"MinCapacity": 3},
    )
    until(lambda: copies(aws) == 3)
    until(lambda: "minimum capacity was set to 3" in causes(aws))
    scaling.delete_scheduled_action(**TARGET, ScheduledActionName="peak")


def test_step_adds_by_its_alarm(aws: Aws, component: str) -> None:
    """An alarm set by hand calls its policy as one that was evaluated does: to exactly 4 copies."""
    scaling, cloudwatch = aws("application-autoscaling"), aws("cloudwatch")
    until(lambda: copies(aws) == 3)
    exact = {**WAKE, "AdjustmentType": "ExactCapacity"}
    exact["StepAdjustments"] = [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 4}]
    arn = scaling.put_scaling_policy(
        **TARGET, PolicyName="all", PolicyType="StepScaling", StepScalingPolicyConfiguration=exact
    )["PolicyARN"]
    cloudwatch.put_metric_alarm(
        AlarmName="by-hand",
        Namespace="Mine",
        MetricName="Nothing",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[arn],
    )
    cloudwatch.set_alarm_state(AlarmName="by-hand", StateValue="ALARM", StateReason="a test")
    until(lambda: copies(aws) == 4)
    kinds = {
        row["HistoryItemType"] for row in cloudwatch.describe_alarm_history(AlarmName="by-hand")["AlarmHistoryItems"]
    }
    assert kinds == {"ConfigurationUpdate", "StateUpdate", "Action"}


def _state(aws: Aws, alarm: str) -> str:
    return str(aws("cloudwatch").describe_alarms(AlarmNames=[alarm])["MetricAlarms"][0]["StateValue"])
