"""Application Auto Scaling in process: what is kept, what is refused, which alarms come and go."""

from __future__ import annotations

from typing import Any

import pytest

from loadproof.localcloud.clock import StillClock
from loadproof.localcloud.controlplane.autoscaling import AutoScalingApi
from loadproof.localcloud.controlplane.autoscaling.targets import Target
from loadproof.localcloud.wire import AwsError, Caller, Service

CALLER = Caller("123456789012", "us-east-1", "AKIA")
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/chat",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
TRACK = {
    "TargetValue": 10.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerInferenceComponentInvocationsPerCopy"},
}


class Alarms:
    """CloudWatch, as far as a policy needs it."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    def put(self, caller: Caller, alarm: dict[str, Any]) -> str:
        self.kept[alarm["AlarmName"]] = alarm
        return caller.arn("cloudwatch", f"alarm:{alarm['AlarmName']}")

    def delete(self, caller: Caller, names: list[str]) -> None:
        for name in names:
            del self.kept[name]

    def acting_on(self, caller: Caller, policy_arn: str) -> list[dict[str, str]]:
        return [{"AlarmName": name} for name, alarm in self.kept.items() if policy_arn in alarm["AlarmActions"]]


class Nothing:
    """SageMaker without any resource: nothing here is applied."""

    def capacity(self, target: Target) -> None:
        return None

    def set_capacity(self, target: Target, capacity: int) -> None:
        raise AssertionError(f"{target.resource_id} was set to {capacity}")


@pytest.fixture
def alarms() -> Alarms:
    return Alarms()


@pytest.fixture
def service(alarms: Alarms) -> Service:
    api = AutoScalingApi(
        exists=lambda caller, resource: not resource.endswith("absent"),
        alarms=alarms,
        clock=StillClock(),
        scaled=Nothing(),
    )
    made = Service("application-autoscaling", api)
    made.call(CALLER, "RegisterScalableTarget", {**TARGET, "MinCapacity": 1, "MaxCapacity": 4})
    return made


def refusal(service: Service, action: str, **params: Any) -> str:
    with pytest.raises(AwsError) as caught:
        service.call(CALLER, action, params)
    return f"{caught.value.code}: {caught.value.message}"


def test_target_keeps_what_a_second_registration_leaves_out(service: Service) -> None:
    service.call(CALLER, "RegisterScalableTarget", {**TARGET, "MaxCapacity": 9})
    found = service.call(CALLER, "DescribeScalableTargets", {"ServiceNamespace": "sagemaker"})["ScalableTargets"]
    assert [(one["MinCapacity"], one["MaxCapacity"]) for one in found] == [(1, 9)]


def test_targets_that_cannot_be(service: Service) -> None:
    """Bounds crossed, a thing that is not there, a dimension that does not fit."""
    assert "Maximum capacity (4) cannot be less than minimum capacity (5)" in refusal(
        service, "RegisterScalableTarget", **TARGET, MinCapacity=5
    )
    absent = {**TARGET, "ResourceId": "inference-component/absent"}
    assert "No resource found" in refusal(service, "RegisterScalableTarget", **absent, MinCapacity=0, MaxCapacity=1)
    crossed = {**TARGET, "ResourceId": "endpoint/e/variant/v"}
    assert "does not fit" in refusal(service, "RegisterScalableTarget", **crossed, MinCapacity=0, MaxCapacity=1)


def test_policy_makes_renews_and_removes_its_alarms(service: Service, alarms: Alarms) -> None:
    """Above 10 for 3 minutes of 60 s; below 9 for 15 minutes, unless scale-in is off; none after deregistering."""
    put = {**TARGET, "PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    service.call(CALLER, "PutScalingPolicy", {**put, "TargetTrackingScalingPolicyConfiguration": TRACK})
    by_threshold = {alarm["Threshold"]: alarm for alarm in alarms.kept.values()}
    assert {value: one["EvaluationPeriods"] for value, one in by_threshold.items()} == {10.0: 3, 9.0: 15}
    assert by_threshold[10.0]["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "chat"}]
    only_out = {**TRACK, "DisableScaleIn": True}
    service.call(CALLER, "PutScalingPolicy", {**put, "TargetTrackingScalingPolicyConfiguration": only_out})
    assert [alarm["Threshold"] for alarm in alarms.kept.values()] == [10.0]
    found = service.call(CALLER, "DescribeScalingPolicies", {"ServiceNamespace": "sagemaker"})["ScalingPolicies"]
    assert [alarm["AlarmName"] for alarm in found[0]["Alarms"]] == list(alarms.kept)
    service.call(CALLER, "DeregisterScalableTarget", dict(TARGET))
    assert alarms.kept == {}
    assert "ObjectNotFoundException: No scalable target registered" in refusal(
        service, "PutScalingPolicy", **put, TargetTrackingScalingPolicyConfiguration=TRACK
    )


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (
            {"TargetValue": 0.0, "PredefinedMetricSpecification": TRACK["PredefinedMetricSpecification"]},
            "greater than 0",
        ),
        ({"TargetValue": 1.0}, "exactly one of a predefined and a customized metric"),
        (
            {
                "TargetValue": 1.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
            },
            "not supported for sagemaker:inference-component:DesiredCopyCount",
        ),
        ({"TargetValue": 1.0, "CustomizedMetricSpecification": {"MetricName": "x"}}, "Namespace and Statistic"),
    ],
)
def test_tracking_that_could_not_track(service: Service, configuration: dict[str, Any], message: str) -> None:
    put = {**TARGET, "PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    assert message in refusal(
        service, "PutScalingPolicy", **put, TargetTrackingScalingPolicyConfiguration=configuration
    )


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "StepAdjustments is required"),
        ([{"MetricIntervalLowerBound": 5.0, "MetricIntervalUpperBound": 1.0, "ScalingAdjustment": 1}], "less than"),
        (
            [
                {"MetricIntervalLowerBound": 0.0, "MetricIntervalUpperBound": 1.0, "ScalingAdjustment": 1},
                {"MetricIntervalLowerBound": 2.0, "ScalingAdjustment": 2},
            ],
            "neither overlap nor leave a gap",
        ),
    ],
)
def test_steps_that_do_not_join(service: Service, steps: list[dict[str, Any]], message: str) -> None:
    configuration = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps}
    put = {**TARGET, "PolicyName": "p", "PolicyType": "StepScaling"}
    assert message in refusal(service, "PutScalingPolicy", **put, StepScalingPolicyConfiguration=configuration)


def test_step_policy_shows_the_alarms_that_name_it(service: Service, alarms: Alarms) -> None:
    """The service makes none for a step policy; its owner's alarm appears once it names the policy."""
    steps = {
        "AdjustmentType": "ChangeInCapacity",
        "StepAdjustments": [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}],
    }
    put = {**TARGET, "PolicyName": "wake", "PolicyType": "StepScaling", "StepScalingPolicyConfiguration": steps}
    arn = service.call(CALLER, "PutScalingPolicy", put)["PolicyARN"]

    def shown() -> list[str]:
        found = service.call(CALLER, "DescribeScalingPolicies", {"ServiceNamespace": "sagemaker"})
        return [alarm["AlarmName"] for alarm in found["ScalingPolicies"][0]["Alarms"]]

    assert shown() == []
    alarms.put(CALLER, {"AlarmName": "no-capacity", "AlarmActions": [arn]})
    assert shown() == ["no-capacity"]


def test_scheduled_actions_are_kept_and_removed(service: Service) -> None:
    action = {**TARGET, "ScheduledActionName": "morning", "Schedule": "cron(0 7 * * ? *)"}
    service.call(CALLER, "PutScheduledAction", {**action, "ScalableTargetAction": {"MinCapacity": 2}})
    found = service.call(CALLER, "DescribeScheduledActions", {"ServiceNamespace": "sagemaker"})["ScheduledActions"]
    assert [(one["ScheduledActionName"], one["ScalableTargetAction"]) for one in found] == [
        ("morning", {"MinCapacity": 2})
    ]
    service.call(CALLER, "DeleteScheduledAction", {**TARGET, "ScheduledActionName": "morning"})
    assert "ObjectNotFound" in refusal(service, "DeleteScheduledAction", **TARGET, ScheduledActionName="morning")
