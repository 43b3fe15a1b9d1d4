"""Alarms and policies applied, on a clock that the test moves: out, in, to zero and back, by steps, by schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scaling_world import CALLER, DIMENSIONS, World, scaling_world

WAKE = [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}]


@pytest.fixture
def world() -> Iterator[World]:
    with scaling_world() as made:
        yield made


def test_tracking_scales_out_to_what_the_load_needs(world: World) -> None:
    """8 requests on 1 copy, target 2: three 10 s periods above it, then ⌈1 · 8 / 2⌉ = 4 copies; instances follow."""
    world.track(target=2.0)
    world.pass_s(30, in_flight=8)
    assert world.copies() == 1
    world.pass_s(10, in_flight=8)
    world.pass_s(30, in_flight=8)
    assert (world.copies(), world.instances()) == (4, 4)
    (activity,) = world.activities()
    assert activity["Description"] == "Setting desired copy count to 4."
    assert activity["StatusCode"] == "Successful"
    assert activity["Cause"].startswith("monitor alarm TargetTracking-inference-component/chat-main-AlarmHigh-")
    assert activity["Cause"].endswith("in state ALARM triggered policy track")
    assert 20 <= (activity["EndTime"] - activity["StartTime"]).total_seconds() <= 30


def test_values_from_before_new_copies_ask_for_no_more(world: World) -> None:
    """4 in flight, target 2: 1 copy becomes 2, and its old value of 4 a copy is not taken for each of the 2."""
    world.track(target=2.0, ScaleOutCooldown=0)
    world.pass_s(300, in_flight=4)
    assert world.copies() == 2
    assert len(world.activities()) == 1


def test_larger_load_during_the_cooldown_scales_out_further(world: World) -> None:
    """4 in flight make 2 copies; with 16 the 10 minutes of cooldown do not hold back: 2 · 8 / 2 = 8, cut to 4."""
    world.track(target=2.0, ScaleOutCooldown=600)
    world.pass_s(120, in_flight=4)
    assert world.copies() == 2
    world.pass_s(180, in_flight=32)
    assert world.copies() == 4


def test_tracking_scales_in_after_fifteen_low_minutes(world: World) -> None:
    """From 4 copies with 2 in flight (0.5 a copy, below 0.9 · 2): nothing for 14 minutes, then ⌈4 · 0.5 / 2⌉ = 1."""
    world.sagemaker(
        "UpdateInferenceComponentRuntimeConfig",
        InferenceComponentName="chat-main",
        DesiredRuntimeConfig={"CopyCount": 4},
    )
    world.pass_s(60)
    world.track(target=2.0)
    world.pass_s(14 * 60, in_flight=2)
    assert world.copies() == 4
    world.pass_s(180, in_flight=2)
    assert (world.copies(), world.instances()) == (1, 1)


def test_idle_component_goes_to_zero_and_tracking_cannot_bring_it_back(world: World) -> None:
    """Zeros for 15 minutes: ⌈1 · 0 / 2⌉ = 0 copies and 0 instances; requests in vain leave tracking where it is."""
    world.track(target=2.0)
    world.pass_s(17 * 60, in_flight=0)
    assert (world.copies(), world.instances()) == (0, 0)
    world.pass_s(10 * 60, in_flight=5)
    assert world.copies() == 0


def test_failed_invocation_wakes_from_zero(world: World) -> None:
    """One NoCapacityInvocationFailures in a minute: one copy; the same alarm adds no second one."""
    world.track(target=50.0)
    world.pass_s(17 * 60, in_flight=0)
    arn = world.step(WAKE, name="wake")
    world.alarm("no-capacity", "NoCapacityInvocationFailures", 1.0, arn, Statistic="Sum")
    world.put("AWS/SageMaker", "NoCapacityInvocationFailures", 1.0, {"InferenceComponentName": "chat-main"})
    world.pass_s(120)
    assert (world.copies(), world.instances()) == (1, 1)
    world.pass_s(300, in_flight=1)
    assert world.copies() == 1
    assert [one["Cause"] for one in world.activities()][
        -1
    ] == "monitor alarm no-capacity in state ALARM triggered policy wake"


def test_backlog_of_a_queue_wakes_from_zero(world: World) -> None:
    """SQS publishes what waits once a minute; a message in the queue starts the first copy."""
    world.track(target=2.0)
    world.pass_s(17 * 60, in_flight=0)
    engine = world.plane.sqs.engine
    arn = CALLER.arn("sqs", "requests")
    engine.create_queue(arn, {}, {})
    world.alarm(
        "backlog",
        "ApproximateNumberOfMessagesVisible",
        1.0,
        world.step(WAKE, name="wake"),
        Namespace="AWS/SQS",
        Dimensions=[{"Name": "QueueName", "Value": "requests"}],
    )
    world.pass_s(180)
    assert world.copies() == 0
    engine.send(engine.queue(arn), "{}", {}, sender="me")
    world.pass_s(180)
    assert world.copies() == 1


def test_step_adds_by_how_far_the_threshold_is_passed(world: World) -> None:
    """Threshold 4: 15 a copy is 11 past it, and the step from 10 adds three copies."""
    steps = [
        {"MetricIntervalLowerBound": 0.0, "MetricIntervalUpperBound": 10.0, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 10.0, "ScalingAdjustment": 3},
    ]
    world.alarm("busy", "ConcurrentRequestsPerCopy", 4.0, world.step(steps))
    world.pass_s(120, in_flight=15)
    assert world.copies() == 4


def test_step_in_its_cooldown_counts_what_it_added(world: World) -> None:
    """+1 from 1 makes 2; the same +1 within the cooldown still means 2; after it, with the load still there, 3."""
    world.alarm("busy", "ConcurrentRequestsPerCopy", 1.0, world.step(WAKE, Cooldown=300))
    world.pass_s(5 * 60, in_flight=8)
    assert world.copies() == 2
    world.pass_s(4 * 60, in_flight=8)
    assert world.copies() == 3


def test_largest_of_several_policies_wins(world: World) -> None:
    """The same load asks one policy for 2 copies and the other for 4; AWS takes one policy for each specification."""
    metric = {"Namespace": "AWS/SageMaker", "MetricName": "ConcurrentRequestsPerCopy", "Statistic": "Average"}
    calm = {"TargetValue": 4.0, "CustomizedMetricSpecification": {**metric, "Dimensions": DIMENSIONS}}
    world.policy("calm", "TargetTrackingScaling", calm)
    world.track(target=2.0, name="eager")
    world.pass_s(240, in_flight=8)
    assert world.copies() == 4
    assert world.activities()[0]["Cause"].endswith("policy eager")


def test_all_tracking_policies_must_agree_to_scale_in(world: World) -> None:
    """A policy whose metric never came has not agreed; once it may not scale in, the other decides alone."""
    world.track(target=2.0)
    other = {
        "TargetValue": 10.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerInferenceComponentInvocationsPerCopy"},
    }
    world.policy("silent", "TargetTrackingScaling", other)
    world.pass_s(20 * 60, in_flight=0)
    assert world.copies() == 1
    world.policy("silent", "TargetTrackingScaling", {**other, "DisableScaleIn": True})
    world.pass_s(5 * 60, in_flight=0)
    assert world.copies() == 0


def test_disabled_scale_in_and_suspended_scaling_do_nothing(world: World) -> None:
    world.track(target=2.0, DisableScaleIn=True)
    world.pass_s(20 * 60, in_flight=0)
    assert world.copies() == 1
    world.scaling("RegisterScalableTarget", SuspendedState={"DynamicScalingOutSuspended": True})
    world.pass_s(5 * 60, in_flight=8)
    assert world.copies() == 1
    world.scaling("RegisterScalableTarget", SuspendedState={"DynamicScalingOutSuspended": False})
    world.pass_s(2 * 60, in_flight=8)
    assert world.copies() == 4


def test_schedule_raises_the_minimum_at_its_hour(world: World) -> None:
    """The world begins at 08:02 in London on a Friday; cron(5 8 …) in that zone raises the minimum at 08:05."""
    world.scaling(
        "PutScheduledAction",
        ScheduledActionName="morning",
        Schedule="cron(5 8 ? * MON-FRI *)",
        Timezone="Europe/London",
        ScalableTargetAction={"MinCapacity": 3},
    )
    world.pass_s(120)
    assert world.copies() == 1
    world.pass_s(120)
    assert world.copies() == 3
    assert [(one["Description"], one["Cause"]) for one in world.activities()] == [
        ("Setting min capacity to 3", "scheduled action name morning was triggered"),
        ("Setting desired copy count to 3.", "minimum capacity was set to 3"),
    ]


@pytest.mark.parametrize(
    ("schedule", "zone", "after_s"),
    [
        ("at(2027-01-15T09:10:00)", "Europe/Paris", 480),
        ("rate(5 minutes)", None, 300),
        ("cron(0/10 8 15 1 ? 2027)", None, 480),
    ],
)
def test_schedules_of_every_form(world: World, schedule: str, zone: str | None, after_s: int) -> None:
    """From 08:02: 09:10 in Paris is 08:10, 5 minutes are up at 08:07, the next tenth minute is 08:10."""
    more = {"Timezone": zone} if zone else {}
    world.scaling(
        "PutScheduledAction",
        ScheduledActionName="s",
        Schedule=schedule,
        ScalableTargetAction={"MinCapacity": 2},
        **more,
    )
    world.pass_s(after_s - 10)
    assert world.activities() == []
    world.pass_s(40)
    assert world.copies() == 2


def test_schedule_that_lowers_the_maximum_scales_in(world: World) -> None:
    world.sagemaker(
        "UpdateInferenceComponentRuntimeConfig",
        InferenceComponentName="chat-main",
        DesiredRuntimeConfig={"CopyCount": 3},
    )
    world.scaling(
        "PutScheduledAction",
        ScheduledActionName="night",
        Schedule="rate(1 minute)",
        ScalableTargetAction={"MinCapacity": 0, "MaxCapacity": 0},
    )
    world.pass_s(180)
    assert world.copies() == 0
    assert "maximum capacity was set to 0" in [one["Cause"] for one in world.activities()]


def test_plain_variant_scales_its_instances(world: World) -> None:
    """A target on DesiredInstanceCount, through UpdateEndpointWeightsAndCapacities."""
    variant = {"VariantName": "AllTraffic", "ModelName": "model", "InstanceType": "ml.g5.2xlarge"}
    world.sagemaker(
        "CreateEndpointConfig", EndpointConfigName="plain", ProductionVariants=[{**variant, "InitialInstanceCount": 1}]
    )
    world.sagemaker("CreateEndpoint", EndpointName="plain", EndpointConfigName="plain")
    world.pass_s(60)
    target = {
        "ResourceId": "endpoint/plain/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    world.scaling("RegisterScalableTarget", **target, MinCapacity=1, MaxCapacity=3)
    metric = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    tracking = {"TargetValue": 4.0, "PredefinedMetricSpecification": {"PredefinedMetricType": metric}}
    world.scaling(
        "PutScalingPolicy",
        **target,
        PolicyName="track",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
    )
    for _ in range(12):
        dimensions = {"EndpointName": "plain", "VariantName": "AllTraffic"}
        world.put("AWS/SageMaker", "ConcurrentRequestsPerModel", 7.0, dimensions)
        world.pass_s(10)
    found = world.sagemaker("DescribeEndpoint", EndpointName="plain")["ProductionVariants"][0]
    assert found["CurrentInstanceCount"] == 2
    assert world.activities(ResourceId=target["ResourceId"])[0]["Description"] == "Setting desired instance count to 2."


def test_load_beyond_the_maximum_is_told_once(world: World) -> None:
    """64 in flight want 32 copies; 4 are the most. What is not scaled appears only where it is asked for."""
    world.track(target=2.0)
    world.pass_s(10 * 60, in_flight=64)
    assert world.copies() == 4
    assert len(world.activities()) == 1
    kept = [one for one in world.activities(IncludeNotScaledActivities=True) if "NotScaledReasons" in one]
    assert [one["NotScaledReasons"] for one in kept] == [
        [{"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 4, "CurrentCapacity": 4}]
    ]


def test_refusal_of_sagemaker_is_a_failed_activity(world: World) -> None:
    """A container that cannot start fails the component, and with it the activity."""
    world.plane.startable = lambda view: "no such image"
    world.track(target=2.0)
    world.pass_s(120, in_flight=8)
    (activity,) = world.activities()
    assert (activity["StatusCode"], activity["StatusMessage"]) == ("Failed", "no such image")


def test_deregistered_target_keeps_its_activities(world: World) -> None:
    world.track(target=2.0)
    world.pass_s(120, in_flight=8)
    world.scaling("DeregisterScalableTarget")
    world.pass_s(120, in_flight=64)
    assert len(world.activities()) == 1


def test_tracking_on_metric_math(world: World) -> None:
    """Backlog per copy: 12 messages, one copy, FILLed and guarded, target 2: ⌈1 · 12 / 2⌉ = 4 at most."""
    metrics: list[dict[str, Any]] = [
        {
            "Id": "waiting",
            "ReturnData": False,
            "MetricStat": {
                "Metric": {"Namespace": "Mine", "MetricName": "Waiting", "Dimensions": DIMENSIONS},
                "Stat": "Maximum",
            },
        },
        {
            "Id": "copies",
            "ReturnData": False,
            "MetricStat": {
                "Metric": {"Namespace": "Mine", "MetricName": "Copies", "Dimensions": DIMENSIONS},
                "Stat": "Maximum",
            },
        },
        {"Id": "each", "Expression": "FILL(waiting, REPEAT) / MAX([FILL(copies, REPEAT), TIME_SERIES(1)])"},
    ]
    world.policy(
        "backlog", "TargetTrackingScaling", {"TargetValue": 2.0, "CustomizedMetricSpecification": {"Metrics": metrics}}
    )
    for _ in range(4):
        for name, value in (("Waiting", 12.0), ("Copies", 1.0)):
            world.put("Mine", name, value, {"InferenceComponentName": "chat-main"})
        world.pass_s(60)
    assert world.copies() == 4
