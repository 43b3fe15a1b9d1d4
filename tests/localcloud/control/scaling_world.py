"""A control plane in process whose clock stands still until `pass_s` moves it, with one component that can scale."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from control_templates import TGI_IMAGE
from moto import mock_aws

from loadproof.localcloud.clock import StillClock
from loadproof.localcloud.controlplane.sagemaker import Timing
from loadproof.localcloud.plane import ControlPlane
from loadproof.localcloud.wire import Caller

CALLER = Caller("123456789012", "us-east-1", "AKIA")
COMPONENT = {"InferenceComponentName": "chat-main"}
DIMENSIONS = [{"Name": "InferenceComponentName", "Value": "chat-main"}]
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/chat-main",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
CONCURRENCY = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"


class World:
    """Endpoint `chat` on up to four instances of one accelerator each; component `chat-main`, one copy an instance."""

    def __init__(self, clock: StillClock, *, copies: int = 1, fewest: int = 0, most: int = 4) -> None:
        self.clock = clock
        self.plane = ControlPlane(
            account=CALLER.account, region=CALLER.region, timing=Timing(20.0, 20.0, 10.0), clock=clock
        )
        self._deploy(copies)
        self.scaling("RegisterScalableTarget", MinCapacity=fewest, MaxCapacity=most)

    def _deploy(self, copies: int) -> None:
        allowed = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
        trust = {"Statement": [allowed]}
        role = self.moto("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        container = {"Image": TGI_IMAGE, "Environment": {"HF_MODEL_ID": "x"}}
        self.sagemaker("CreateModel", ModelName="model", PrimaryContainer=container, ExecutionRoleArn=role)
        variant = {
            "VariantName": "AllTraffic",
            "InstanceType": "ml.g5.2xlarge",  # one A10G
            "InitialInstanceCount": 1,
            "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 4},
        }
        self.sagemaker(
            "CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=[variant], ExecutionRoleArn=role
        )
        self.sagemaker("CreateEndpoint", EndpointName="chat", EndpointConfigName="c")
        self.clock.advance(60)
        needs = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
        self.sagemaker(
            "CreateInferenceComponent",
            **COMPONENT,
            EndpointName="chat",
            VariantName="AllTraffic",
            Specification={"ModelName": "model", "ComputeResourceRequirements": needs},
            RuntimeConfig={"CopyCount": copies},
        )
        self.clock.advance(60)
        assert self.copies() == copies

    def moto(self, service: str) -> Any:
        """A client of what moto answers."""
        return boto3.client(service, region_name=CALLER.region, aws_access_key_id="AKIA", aws_secret_access_key="none")

    def sagemaker(self, action: str, **params: Any) -> Mapping[str, Any]:
        return self.plane.sagemaker.call(CALLER, action, params)

    def cloudwatch(self, action: str, **params: Any) -> Mapping[str, Any]:
        return self.plane.cloudwatch.call(CALLER, action, params)

    def scaling(self, action: str, **params: Any) -> Mapping[str, Any]:
        return self.plane.autoscaling.call(CALLER, action, {**TARGET, **params})

    def copies(self) -> int:
        return int(self.sagemaker("DescribeInferenceComponent", **COMPONENT)["RuntimeConfig"]["CurrentCopyCount"])

    def instances(self) -> int:
        return int(
            self.sagemaker("DescribeEndpoint", EndpointName="chat")["ProductionVariants"][0]["CurrentInstanceCount"]
        )

    def pass_s(self, seconds: int, in_flight: int | None = None) -> None:
        """Time passes in turns of 10 s; so many requests are in flight all the while (None: nothing is published)."""
        for _ in range(seconds // 10):
            if in_flight is not None:
                self._publish(in_flight)
            self.clock.advance(10)
            self.plane.pulse.turn()

    def _publish(self, in_flight: int) -> None:
        copies = self.copies()
        dimensions = {"InferenceComponentName": "chat-main"}
        if copies:
            self.put("AWS/SageMaker", "ConcurrentRequestsPerCopy", in_flight / copies, dimensions)
        elif in_flight:
            self.put("AWS/SageMaker", "NoCapacityInvocationFailures", 1.0, dimensions)

    def put(self, namespace: str, name: str, value: float, dimensions: Mapping[str, str]) -> None:
        self.plane.directory.record_metric(namespace, name, value, dimensions)

    def track(self, target: float = 2.0, name: str = "track", **more: Any) -> None:
        """A target tracking policy on the concurrency of a copy."""
        configuration = {
            "TargetValue": target,
            "PredefinedMetricSpecification": {"PredefinedMetricType": CONCURRENCY},
            "ScaleOutCooldown": 60,
            "ScaleInCooldown": 60,
            **more,
        }
        self.policy(name, "TargetTrackingScaling", configuration)

    def policy(self, name: str, kind: str, configuration: dict[str, Any]) -> str:
        field = f"{kind.removesuffix('Scaling')}ScalingPolicyConfiguration"
        found = self.scaling("PutScalingPolicy", PolicyName=name, PolicyType=kind, **{field: configuration})
        return str(found["PolicyARN"])

    def step(self, steps: list[dict[str, float]], name: str = "step", **more: Any) -> str:
        configuration = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps, "Cooldown": 60, **more}
        return self.policy(name, "StepScaling", configuration)

    def alarm(self, name: str, metric: str, threshold: float, action: str = "", **more: Any) -> None:
        self.cloudwatch(
            "PutMetricAlarm",
            **{
                "AlarmName": name,
                "Namespace": "AWS/SageMaker",
                "MetricName": metric,
                "Dimensions": DIMENSIONS,
                "Statistic": "Maximum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": threshold,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "AlarmActions": [action] if action else [],
                **more,
            },
        )

    def state(self, name: str) -> str:
        rows = self.cloudwatch("DescribeAlarms", AlarmNames=[name], AlarmTypes=["MetricAlarm", "CompositeAlarm"])
        return str((rows["MetricAlarms"] + rows["CompositeAlarms"])[0]["StateValue"])

    def activities(self, **params: Any) -> list[dict[str, Any]]:
        """Oldest first."""
        found = self.plane.autoscaling.call(
            CALLER, "DescribeScalingActivities", {"ServiceNamespace": "sagemaker", **params}
        )["ScalingActivities"]
        return list(reversed(found))


@contextmanager
def scaling_world(**options: Any) -> Iterator[World]:
    """A world on moto's backends, whose time begins at 2027-01-15 08:00 UTC, a Friday."""
    with mock_aws():
        yield World(StillClock(1_800_000_000.0), **options)
