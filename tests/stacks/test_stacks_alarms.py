"""Alarms: what CloudWatch can know of the objectives, and the buffer's health."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stacks_support import ENVIRONMENT, Synthesized, profile, synthesize

from loadproof.profiles.schema import Objectives
from stacks.alarms import objectives_without_metric

ALARM = "AWS::CloudWatch::Alarm"
TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"


def with_metrics(stack: Synthesized, *names: str) -> dict[str, Any]:
    """The alarm whose metric math reads exactly these metrics."""
    (found,) = [
        body["Properties"]
        for body in stack.all(ALARM).values()
        if [
            query["MetricStat"]["Metric"]["MetricName"]
            for query in body["Properties"].get("Metrics", [])
            if "MetricStat" in query
        ]
        == list(names)
    ]
    return found


def test_latency_alarm_compares_milliseconds(tmp_path: Path) -> None:
    """ModelLatency and OverheadLatency are microseconds: their sum is divided by 1000 before it meets 3000 ms."""
    alarm = with_metrics(synthesize(profile(tmp_path)), "ModelLatency", "OverheadLatency")
    result, model, overhead = alarm["Metrics"]
    assert (result["Expression"], result["ReturnData"]) == ("(model + overhead) / 1000", True)
    assert [query["MetricStat"]["Stat"] for query in (model, overhead)] == ["p95", "p95"]
    assert model["MetricStat"]["Metric"]["Dimensions"] == [
        {"Name": "InferenceComponentName", "Value": "loadproof-test-chat-main"}
    ]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (3000, "GreaterThanThreshold")
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (5, 3)
    assert alarm["TreatMissingData"] == "notBreaching"


def test_each_end_to_end_percentile_has_an_alarm(tmp_path: Path) -> None:
    """Two bounds, two alarms, each with its own statistic."""
    objectives = {"e2e_p50_ms": 1000, "e2e_p99_ms": 5000, "e2e_p95_ms": None, "error_rate_max": None}
    stack = synthesize(profile(tmp_path, {"objectives": objectives}))
    alarms = [body["Properties"] for body in stack.all(ALARM).values()]
    assert sorted((alarm["Threshold"], alarm["Metrics"][1]["MetricStat"]["Stat"]) for alarm in alarms) == [
        (1000, "p50"),
        (5000, "p99"),
    ]


def test_objectives_without_metric_are_named_not_faked(tmp_path: Path) -> None:
    """SageMaker publishes no time to first token: no alarm pretends to, and the description says so."""
    objectives = Objectives(at_concurrency=4, ttft_p95_ms=300.0, e2e_p95_ms=3000.0, requests_per_s_min=2.0)
    assert objectives_without_metric(objectives) == ("ttft_p95_ms", "requests_per_s_min")
    stack = synthesize(profile(tmp_path, {"objectives": {"ttft_p95_ms": 300}}))
    assert len(stack.all(ALARM)) == 2
    description = with_metrics(stack, "ModelLatency", "OverheadLatency")["AlarmDescription"]
    assert description.endswith("Not seen by CloudWatch, proven by the benchmark: ttft_p95_ms.")


def test_error_rate_counts_broken_streams(tmp_path: Path) -> None:
    """Model errors and broken streams over invocations; a minute without invocations is a good one."""
    names = ("InvocationModelErrors", "MidStreamErrors", "Invocations")
    alarm = with_metrics(synthesize(profile(tmp_path)), *names)
    assert alarm["Metrics"][0]["Expression"] == (
        "IF(invocations > 0, (FILL(failed, 0) + FILL(broken, 0)) / invocations, 0)"
    )
    assert alarm["Threshold"] == 0.01


def test_plain_variant_is_watched_by_endpoint_and_variant(tmp_path: Path) -> None:
    """Without components the metrics hang on endpoint and variant."""
    changes = {"endpoint": {"hosting": "plain_variant", "max_instances": 1}, "copies": {"max": 1}}
    alarm = with_metrics(synthesize(profile(tmp_path, changes)), "ModelLatency", "OverheadLatency")
    assert alarm["Metrics"][1]["MetricStat"]["Metric"]["Dimensions"] == [
        {"Name": "EndpointName", "Value": "loadproof-test-chat"},
        {"Name": "VariantName", "Value": "AllTraffic"},
    ]


def test_buffer_alarms(tmp_path: Path) -> None:
    """One dead letter is enough; the queue's age is measured against one visibility timeout (6 x 330 s)."""
    stack = synthesize(profile(tmp_path, {"buffer": {"max_concurrency": 2}}))
    dead = stack.named(ALARM, MetricName="ApproximateNumberOfMessagesVisible")["Properties"]
    assert (dead["Threshold"], dead["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    assert (dead["EvaluationPeriods"], dead["Namespace"]) == (1, "AWS/SQS")
    age = stack.named(ALARM, MetricName="ApproximateAgeOfOldestMessage")["Properties"]
    assert (age["Threshold"], age["Statistic"]) == (1980, "Maximum")


def test_alarms_tell_the_topic(tmp_path: Path) -> None:
    """With a topic every alarm notifies it; without one the list of actions is empty."""
    told = synthesize(profile(tmp_path), ENVIRONMENT.model_copy(update={"alarm_topic_arn": TOPIC}))
    assert [body["Properties"]["AlarmActions"] for body in told.all(ALARM).values()] == [[TOPIC], [TOPIC]]
    quiet = synthesize(profile(tmp_path))
    assert [body["Properties"]["AlarmActions"] for body in quiet.all(ALARM).values()] == [[], []]
