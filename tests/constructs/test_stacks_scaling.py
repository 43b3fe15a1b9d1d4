"""Scaling of copies: targets, policies, schedules, zero and back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stacks_support import Synthesized, profile, synthesize

from loadproof.errors import InputError
from loadproof.profiles.schema import Scaling, TargetTracking
from loadproof.simulation import make_plan

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
    (alarm,) = [body["Properties"] for body in acting(stack, "Wake")]
    assert alarm["MetricName"] == "NoCapacityInvocationFailures"
    assert alarm["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "loadproof-test-chat-main"}]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold")
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["Statistic"]) == (60, 1, "Sum")


def test_backlog_wakes_too(tmp_path: Path) -> None:
    """With wake_on_backlog one waiting message starts the same policy."""
    stack = to_zero(tmp_path, wake_on_backlog=True)
    metrics = sorted(body["Properties"]["MetricName"] for body in acting(stack, "Wake"))
    assert metrics == ["ApproximateNumberOfMessagesVisible", "NoCapacityInvocationFailures"]


def acting(stack: Synthesized, policy: str) -> list[dict[str, Any]]:
    """The alarms that start the one policy whose logical id has this in it."""
    (wanted,) = [name for name in stack.all(POLICY) if policy in name]
    return [body for body in stack.all(ALARM).values() if body["Properties"].get("AlarmActions") == [{"Ref": wanted}]]


def test_metric_of_the_other_hosting_is_refused(tmp_path: Path) -> None:
    """invocations_per_instance says nothing about a component's copies."""
    chosen = profile(tmp_path)
    policy = TargetTracking(type="target_tracking", metric="invocations_per_instance", target=8.0)
    with pytest.raises(InputError, match=r"scaling\.policies: found metric invocations_per_instance"):
        synthesize(chosen.model_copy(update={"scaling": Scaling(policies=(policy,))}))


PLAIN = {"hosting": "plain_variant"}
QUEUED = {"buffer": {"max_concurrency": 2}}


@pytest.mark.parametrize(
    ("endpoint", "metric", "predefined"),
    [
        ({}, "concurrent_requests_per_copy", "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"),
        ({}, "invocations_per_copy", "SageMakerInferenceComponentInvocationsPerCopy"),
        (PLAIN, "concurrent_requests_per_model", "SageMakerVariantConcurrentRequestsPerModelHighResolution"),
        (PLAIN, "invocations_per_instance", "SageMakerVariantInvocationsPerInstance"),
    ],
)
def test_predefined_metrics(tmp_path: Path, endpoint: dict[str, Any], metric: str, predefined: str) -> None:
    """Each metric of the vocabulary is the service's predefined one for its hosting."""
    stack = scaled(tmp_path, {"type": "target_tracking", "metric": metric, "target": 8.0}, endpoint=endpoint)
    configuration = stack.only(POLICY)["TargetTrackingScalingPolicyConfiguration"]
    assert configuration["PredefinedMetricSpecification"] == {"PredefinedMetricType": predefined}


def test_auto_is_the_same_number_in_plan_and_template(tmp_path: Path) -> None:
    """One copy meets e2e_p95_ms <= 3000 up to 45 in flight: 0.75 x 45 = 33.75, so 33; a copy takes 450 s to come up."""
    policy = {**TRACKING, "target": "auto", "scale_out_cooldown_s": "auto", "scale_in_cooldown_s": "auto"}
    chosen = profile(tmp_path, {"scaling": {"policies": [policy]}})
    configuration = synthesize(chosen).only(POLICY)["TargetTrackingScalingPolicyConfiguration"]
    deployed = [configuration[key] for key in ("TargetValue", "ScaleOutCooldown", "ScaleInCooldown")]
    assert deployed == [33, 450, 450]
    assert [row.value for row in make_plan(chosen).scaling] == deployed


def test_auto_without_a_number_is_refused(tmp_path: Path) -> None:
    """No level meets the objective: the message names profile, field and reason."""
    policy = {**TRACKING, "target": "auto"}
    chosen = profile(tmp_path, {"scaling": {"policies": [policy]}, "objectives": {"e2e_p95_ms": 8}})
    with pytest.raises(InputError, match=r"^profile chat: scaling\.policies\[0\]\.target: auto has no number: at 1 in"):
        synthesize(chosen)


def test_backlog_per_copy_is_metric_math(tmp_path: Path) -> None:
    """Messages waiting times InvocationsPerCopy / Invocations, whose quotient is 1 / copies; one result is returned."""
    stack = scaled(tmp_path, {"type": "target_tracking", "metric": "backlog_per_copy", "target": 20.0}, **QUEUED)
    configuration = stack.only(POLICY)["TargetTrackingScalingPolicyConfiguration"]
    queries = configuration["CustomizedMetricSpecification"]["Metrics"]
    assert [query["ReturnData"] for query in queries] == [True, False, False, False]
    assert queries[0]["Expression"] == (
        "FILL(FILL(waiting, REPEAT), 0) * FILL(FILL(calls_per_copy, REPEAT), 1) / FILL(FILL(calls, REPEAT), 1)"
    )
    read = {query["Id"]: query["MetricStat"] for query in queries[1:]}
    assert {name: (stat["Metric"]["MetricName"], stat["Stat"]) for name, stat in read.items()} == {
        "waiting": ("ApproximateNumberOfMessagesVisible", "Maximum"),
        "calls": ("Invocations", "Sum"),
        "calls_per_copy": ("InvocationsPerCopy", "Sum"),
    }
    component = [{"Name": "InferenceComponentName", "Value": "loadproof-test-chat-main"}]
    assert read["calls"]["Metric"]["Dimensions"] == read["calls_per_copy"]["Metric"]["Dimensions"] == component


def test_backlog_of_a_plain_variant_is_per_instance(tmp_path: Path) -> None:
    """The quotient is of the variant's own metrics."""
    policy = {"type": "target_tracking", "metric": "backlog_per_copy", "target": 20.0}
    stack = scaled(tmp_path, policy, endpoint=PLAIN, **QUEUED)
    configuration = stack.only(POLICY)["TargetTrackingScalingPolicyConfiguration"]
    per_copy = configuration["CustomizedMetricSpecification"]["Metrics"][3]["MetricStat"]["Metric"]
    assert per_copy["MetricName"] == "InvocationsPerInstance"
    assert [one["Name"] for one in per_copy["Dimensions"]] == ["EndpointName", "VariantName"]


def test_step_on_the_backlog(tmp_path: Path) -> None:
    """The same expression starts a step policy, with the policy's own period."""
    policy = {
        "type": "step",
        "metric": "backlog_per_copy",
        "threshold": 50.0,
        "period_s": 120,
        "steps": [{"at": 0.0, "add_copies": 1}],
    }
    (alarm,) = [body["Properties"] for body in acting(scaled(tmp_path, policy, **QUEUED), "Step")]
    assert alarm["Threshold"] == 50
    assert [query["ReturnData"] for query in alarm["Metrics"]] == [True, False, False, False]
    assert {query["MetricStat"]["Period"] for query in alarm["Metrics"][1:]} == {120}


def test_simple_policy_is_one_step(tmp_path: Path) -> None:
    """One alarm, one adjustment, one wait of 300 s; a negative number reads the alarm from below."""
    simple = {"type": "simple", "metric": "concurrent_requests_per_copy", "threshold": 2.0, "add_copies": -1}
    stack = scaled(tmp_path, simple)
    policy = stack.only(POLICY)
    assert (policy["PolicyType"], policy["PolicyName"]) == ("StepScaling", "step-concurrent-requests-per-copy-below")
    assert policy["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "MetricAggregationType": "Maximum",
        "Cooldown": 300,
        "StepAdjustments": [{"MetricIntervalUpperBound": 0, "ScalingAdjustment": -1}],
    }
    (alarm,) = acting(stack, "Step")
    assert alarm["Properties"]["ComparisonOperator"] == "LessThanOrEqualToThreshold"


ASYNCHRONOUS = {
    "endpoint": {
        "hosting": "plain_variant",
        "min_instances": 0,
        "async_inference": {"input_s3_uri": "s3://inputs/chat/", "output_s3_uri": "s3://outputs/chat/"},
    },
    "scaling": {
        "policies": [{"type": "target_tracking", "metric": "async_backlog_per_instance", "target": 5.0}],
        "to_zero": {},
    },
}


def test_asynchronous_endpoint_follows_its_own_queue_to_zero(tmp_path: Path) -> None:
    """ApproximateBacklogSizePerInstance by endpoint; instances go to 0, and HasBacklogWithoutCapacity wakes them."""
    stack = synthesize(profile(tmp_path, ASYNCHRONOUS))
    assert (stack.only(TARGET)["MinCapacity"], stack.only(TARGET)["MaxCapacity"]) == (0, 2)
    (variant,) = stack.only("AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["InitialInstanceCount"] == 1
    tracked = stack.named(POLICY, PolicyName="track-async-backlog-per-instance")["Properties"]
    assert tracked["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"] == {
        "Namespace": "AWS/SageMaker",
        "MetricName": "ApproximateBacklogSizePerInstance",
        "Dimensions": [{"Name": "EndpointName", "Value": "loadproof-test-chat"}],
        "Statistic": "Average",
    }
    (alarm,) = [body["Properties"] for body in acting(stack, "Wake")]
    assert (alarm["MetricName"], alarm["Statistic"]) == ("HasBacklogWithoutCapacity", "Average")
    assert alarm["Dimensions"] == [{"Name": "EndpointName", "Value": "loadproof-test-chat"}]
    assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (1, 2, 2)


SEVERAL = (
    TRACKING,
    {"type": "simple", "metric": "invocations_per_copy", "threshold": 100.0, "add_copies": 1},
    {"type": "simple", "metric": "invocations_per_copy", "threshold": 200.0, "add_copies": 2},
    {"type": "scheduled", "name": "morning", "schedule": "cron(0 8 ? * MON-FRI *)", "min_copies": 2},
    {"type": "scheduled", "name": "evening", "schedule": "cron(0 18 ? * MON-FRI *)", "min_copies": 1},
)


def test_creation_waits_from_component_to_alarm(tmp_path: Path) -> None:
    """Component, target, policies, alarms: each names the one before it, so that deletion goes the other way."""
    stack = scaled(tmp_path, *SEVERAL)
    resources: dict[str, Any] = stack.template["Resources"]

    def before(name: str) -> set[str]:
        body = resources[name]
        waits = body.get("DependsOn", [])
        found = {waits} if isinstance(waits, str) else set(waits)
        return found | set(re.findall(r'"(?:Ref|Fn::GetAtt)": \[?"(\w+)"', json.dumps(body["Properties"])))

    component = stack.logical_id("AWS::SageMaker::InferenceComponent")
    target = stack.logical_id(TARGET)
    assert component in before(target)
    policies = set(stack.all(POLICY))
    assert len(policies) == 3
    assert all(target in before(policy) for policy in policies)
    started_by = {policy: [alarm for alarm in stack.all(ALARM) if policy in before(alarm)] for policy in policies}
    assert sorted(len(alarms) for alarms in started_by.values()) == [0, 1, 1]


def test_plain_variants_target_waits_for_the_endpoint(tmp_path: Path) -> None:
    """There is nothing to register before the variant is in service."""
    policy = {"type": "target_tracking", "metric": "invocations_per_instance", "target": 8.0}
    stack = scaled(tmp_path, policy, endpoint=PLAIN)
    (target,) = stack.all(TARGET).values()
    assert target["DependsOn"] == [stack.logical_id("AWS::SageMaker::Endpoint")]


def test_an_edited_policy_stays_the_same_resource(tmp_path: Path) -> None:
    """New targets, thresholds and neighbours change neither logical ids nor names, which nothing can rename."""
    first = scaled(tmp_path, *SEVERAL)
    edited = scaled(
        tmp_path, {**TRACKING, "target": 9.0}, {**SEVERAL[1], "threshold": 120.0}, *SEVERAL[2:4], SEVERAL[4]
    )
    fewer = scaled(tmp_path, SEVERAL[1])

    def names(stack: Synthesized) -> dict[str, str]:
        return {name: body["Properties"]["PolicyName"] for name, body in stack.all(POLICY).items()}

    assert names(edited) == names(first)
    assert names(fewer).items() < names(first).items()
    assert first.logical_id(TARGET) == fewer.logical_id(TARGET)


def test_paused_scaling_leaves_everything_else(tmp_path: Path) -> None:
    """Target, policies and their alarms go; the endpoint keeps its counts, and nothing but the proof changes."""
    policy = {"type": "target_tracking", "metric": "invocations_per_instance", "target": 8.0}
    chosen = profile(tmp_path, {"scaling": {"policies": [policy]}, "endpoint": PLAIN})
    running, paused = (synthesize(chosen, scaling_paused=pausing) for pausing in (False, True))
    gone = running.template["Resources"].keys() - paused.template["Resources"].keys()
    assert {running.template["Resources"][name]["Type"] for name in gone} == {TARGET, POLICY}
    proof = paused.all("AWS::CloudFormation::CustomResource", proof=True)  # asks for no count meanwhile
    kept = {name: body for name, body in paused.template["Resources"].items() if name not in proof}
    assert kept.items() <= running.template["Resources"].items()
    assert paused.only("AWS::SageMaker::Endpoint")["RetainAllVariantProperties"] is True
