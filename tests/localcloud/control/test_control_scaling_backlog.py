"""The stacks' own expression for the backlog per copy, evaluated and applied, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scaling_world import COMPONENT, World, scaling_world

from loadproof.constructs.cdk.cloudwatch import Metric
from loadproof.constructs.scaling.backlog import backlog_per_copy

QUEUE = {"QueueName": "chat-requests"}
COPIES = {"InferenceComponentName": "chat-main"}


@pytest.fixture
def world() -> Iterator[World]:
    """Tracks 10 waiting messages a copy, as a stack's policy has it."""
    backlog = backlog_per_copy(
        waiting=Metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", QUEUE, "Maximum"), dimensions=COPIES
    )
    metrics = [{"Id": "backlog_per_copy", "Expression": backlog.expression, "ReturnData": True}]
    for name, metric in backlog.metrics.items():
        dimensions = [{"Name": key, "Value": value} for key, value in metric.dimensions.items()]
        read = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
        metrics.append({"Id": name, "MetricStat": {"Metric": read, "Stat": metric.statistic}, "ReturnData": False})
    with scaling_world(fewest=1) as made:
        made.policy(
            "backlog",
            "TargetTrackingScaling",
            {"TargetValue": 10.0, "CustomizedMetricSpecification": {"Metrics": metrics}, "ScaleInCooldown": 0},
        )
        yield made


def minutes(world: World, count: int, *, waiting: int | None, calls: int = 0) -> None:
    """SQS publishes once a minute (None: not at all); each call counts 1, and 1 / copies."""
    for _ in range(count):
        if waiting is not None:
            world.put("AWS/SQS", "ApproximateNumberOfMessagesVisible", float(waiting), QUEUE)
        for _ in range(calls):
            world.put("AWS/SageMaker", "Invocations", 1.0, COPIES)
            world.put("AWS/SageMaker", "InvocationsPerCopy", 1.0 / world.copies(), COPIES)
        world.pass_s(60)


def run_copies(world: World, count: int) -> None:
    world.sagemaker("UpdateInferenceComponentRuntimeConfig", **COMPONENT, DesiredRuntimeConfig={"CopyCount": count})
    world.pass_s(60)


def test_backlog_is_shared_by_the_copies(world: World) -> None:
    """30 waiting for 2 copies are 15 each, target 10: ⌈2 · 15 / 10⌉ = 3; taken for one copy it were ⌈2 · 30 / 10⌉."""
    run_copies(world, 2)
    minutes(world, 5, waiting=30, calls=20)
    assert world.copies() == 3


def test_backlog_within_the_target_adds_nothing(world: World) -> None:
    """19 waiting for 2 copies are fewer than 10 each."""
    run_copies(world, 2)
    minutes(world, 5, waiting=19, calls=20)
    assert world.copies() == 2


def test_minutes_without_a_request_repeat_the_copies_of_the_last(world: World) -> None:
    """19 waiting for 2 copies, and no request for 4 minutes: still reckoned with 2, so nothing is added."""
    minutes(world, 20, waiting=19, calls=20)
    assert world.copies() == 2
    minutes(world, 4, waiting=19)
    assert world.copies() == 2


def test_empty_queue_scales_in_though_nobody_calls(world: World) -> None:
    """Without a single request, and later without a word from SQS, 15 minutes of nothing waiting take copies away."""
    run_copies(world, 3)
    minutes(world, 2, waiting=0, calls=20)
    minutes(world, 6, waiting=0)
    minutes(world, 14, waiting=None)
    assert world.copies() == 1
