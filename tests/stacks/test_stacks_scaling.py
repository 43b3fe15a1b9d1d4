"""Scaling of copies: targets, policies, schedules, zero and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stacks_support import Synthesized, profile, synthesize

from loadproof.errors import InputError
from loadproof.profiles.schema import Scaling, TargetTracking

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
ALARM = "AWS::CloudWatch::Alarm"

TRACKING = {
    "type": "target_tracking",
    "metric": "concurrent_requests_per_copy",
    "target": 8.0,
    "scale_out_cooldown_s": 30,
    "scale_in_cooldown_s": 600,
}


def scaled(folder: Path, *policies: dict[str, Any], **changes: Any) -> Synthesized:
    return synthesize(profile(folder, {"scaling": {"policies": list(policies)}, **changes}))


def test_target_of_a_component(tmp_path: Path) -> None:
    """Bounds are the copies', the role is the service-linked one, and the target waits for the component."""
    stack = scaled(tmp_path, TRACKING)
    assert stack.only(TARGET) == {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
        "ResourceId": "inference-component/loadproof-test-chat-main",
        "MinCapacity": 1,
        "MaxCapacity": 2,
        "RoleARN": {
            "Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/aws-service-role/"
            "sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
        },
    }
    (target,) = stack.all(TARGET).values()
    assert target["DependsOn"] == [stack.logical_id("AWS::SageMaker::InferenceComponent")]


def test_target_tracking_has_both_cooldowns(tmp_path: Path) -> None:
    """Predefined high-resolution metric, target and cooldowns as the profile says."""
    stack = scaled(tmp_path, TRACKING)
    policy = stack.only(POLICY)
    assert policy["PolicyType"] == "TargetTrackingScaling"
    assert policy["ScalingTargetId"] == {"Ref": stack.logical_id(TARGET)}
    assert policy["TargetTrackingScalingPolicyConfiguration"] == {
        "TargetValue": 8,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
        },
        "ScaleOutCooldown": 30,
        "ScaleInCooldown": 600,
        "DisableScaleIn": False,
    }


def test_without_scaling_nothing_scales(tmp_path: Path) -> None:
    """No `scaling` in the profile: no target, no policy."""
    stack = synthesize(profile(tmp_path))
    assert stack.all(TARGET) == {} and stack.all(POLICY) == {}


def test_plain_variant_scales_instances(tmp_path: Path) -> None:
    """A plain variant has one copy an instance: the target is the variant, its bounds the instances'."""
    stack = scaled(tmp_path, {**TRACKING, "metric": "invocations_per_instance"}, endpoint={"hosting": "plain_variant"})
    target = stack.only(TARGET)
    assert target["ResourceId"] == "endpoint/loadproof-test-chat/variant/AllTraffic"
    assert target["ScalableDimension"] == "sagemaker:variant:DesiredInstanceCount"
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 2)
    specification = stack.only(POLICY)["TargetTrackingScalingPolicyConfiguration"]["PredefinedMetricSpecification"]
    assert specification == {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}


def test_step_policy_upwards(tmp_path: Path) -> None:
    """Steps are intervals above the threshold; the last one is open; the alarm starts the policy."""
    policy = {
        "type": "step",
        "metric": "concurrent_requests_per_copy",
        "threshold": 10.0,
        "period_s": 10,
        "evaluation_periods": 3,
        "steps": [{"at": 0.0, "add_copies": 1}, {"at": 5.0, "add_copies": 3}],
    }
    stack = scaled(tmp_path, policy)
    assert stack.only(POLICY)["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "MetricAggregationType": "Maximum",
        "Cooldown": 60,
        "StepAdjustments": [
            {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 5, "ScalingAdjustment": 1},
            {"MetricIntervalLowerBound": 5, "ScalingAdjustment": 3},
        ],
    }
    alarm = stack.named(ALARM, MetricName="ConcurrentRequestsPerCopy")["Properties"]
    assert alarm["AlarmActions"] == [{"Ref": stack.logical_id(POLICY)}]
    assert alarm["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "loadproof-test-chat-main"}]
    assert (alarm["Threshold"], alarm["Period"], alarm["EvaluationPeriods"]) == (10, 10, 3)
    assert (alarm["Statistic"], alarm["ComparisonOperator"]) == ("Maximum", "GreaterThanOrEqualToThreshold")


def test_step_policy_downwards(tmp_path: Path) -> None:
    """Below a threshold the intervals run the other way: at 0 removes one, from 2 below removes two."""
    policy = {
        "type": "step",
        "metric": "concurrent_requests_per_copy",
        "threshold": 4.0,
        "comparison": "below",
        "steps": [{"at": 0.0, "add_copies": -1}, {"at": 2.0, "add_copies": -2}],
    }
    stack = scaled(tmp_path, policy)
    assert stack.only(POLICY)["StepScalingPolicyConfiguration"]["StepAdjustments"] == [
        {"MetricIntervalLowerBound": -2, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
        {"MetricIntervalUpperBound": -2, "ScalingAdjustment": -2},
    ]
    alarm = stack.named(ALARM, MetricName="ConcurrentRequestsPerCopy")["Properties"]
    assert alarm["ComparisonOperator"] == "LessThanOrEqualToThreshold"


def test_schedules_live_in_the_target(tmp_path: Path) -> None:
    """A schedule moves the bounds in its own time zone and needs no policy."""
    policy = {
        "type": "scheduled",
        "name": "morning",
        "schedule": "cron(30 7 ? * MON-FRI *)",
        "timezone": "Europe/Berlin",
        "min_copies": 2,
    }
    stack = scaled(tmp_path, policy)
    assert stack.all(POLICY) == {}
    assert stack.only(TARGET)["ScheduledActions"] == [
        {
            "ScheduledActionName": "morning",
            "Schedule": "cron(30 7 ? * MON-FRI *)",
            "Timezone": "Europe/Berlin",
            "ScalableTargetAction": {"MinCapacity": 2},
        }
    ]


def to_zero(folder: Path, **wake: Any) -> Synthesized:
    return synthesize(
        profile(
            folder,
            {
                "scaling": {"policies": [TRACKING], "to_zero": wake},
                "copies": {"min": 0},
                "endpoint": {"min_instances": 0},
                "buffer": {"max_concurrency": 2},
            },
        )
    )


def test_to_zero_and_back(tmp_path: Path) -> None:
    """Minimum 0, created with 1; the first request in vain (≥ 1, not > 1) adds one copy."""
    stack = to_zero(tmp_path, wake_on_failed_invocation=True)
    assert stack.only(TARGET)["MinCapacity"] == 0
    count = stack.named("AWS::CloudFormation::CustomResource", ComponentName="loadproof-test-chat-main")
    assert count["Properties"]["FirstCopies"] == 1
    (variant,) = stack.only("AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert (variant["InitialInstanceCount"], variant["ManagedInstanceScaling"]["MinInstanceCount"]) == (1, 0)
    wake = stack.named(POLICY, PolicyName="wake-from-zero")["Properties"]
    assert wake["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "MetricAggregationType": "Maximum",
        "Cooldown": 60,
        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
    }
    alarm = stack.named(ALARM, MetricName="NoCapacityInvocationFailures")["Properties"]
    assert alarm["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "loadproof-test-chat-main"}]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold")
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["Statistic"]) == (60, 1, "Sum")


def test_backlog_wakes_too(tmp_path: Path) -> None:
    """With wake_on_backlog one waiting message starts the same policy."""
    stack = to_zero(tmp_path, wake_on_backlog=True)
    (policy,) = [name for name, body in stack.all(POLICY).items() if "Wake" in name]
    woken_by = [
        body["Properties"]["MetricName"]
        for body in stack.all(ALARM).values()
        if body["Properties"]["AlarmActions"] == [{"Ref": policy}]
    ]
    assert sorted(woken_by) == ["ApproximateNumberOfMessagesVisible", "NoCapacityInvocationFailures"]


def test_metric_of_the_other_hosting_is_refused(tmp_path: Path) -> None:
    """invocations_per_instance says nothing about a component's copies."""
    chosen = profile(tmp_path)
    policy = TargetTracking(type="target_tracking", metric="invocations_per_instance", target=8.0)
    with pytest.raises(InputError, match=r"scaling\.policies: found metric invocations_per_instance"):
        synthesize(chosen.model_copy(update={"scaling": Scaling(policies=(policy,))}))
