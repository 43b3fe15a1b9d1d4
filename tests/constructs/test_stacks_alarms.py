"""Alarms: what CloudWatch can know of the objectives, and the buffer's health."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from stacks_support import ENVIRONMENT, Synthesized, profile, synthesize

from loadproof.constructs.observability.alarms import objectives_without_metric
from loadproof.profiles import load_environment, load_profile
from loadproof.profiles.schema import Objectives

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    file
    for environment in ("dev", "staging", "prod")
    for file in (ROOT / "deploy_profiles" / environment).glob("*.yaml")
    if file.name != "environment.yaml"
)
ALARM = "AWS::CloudWatch::Alarm"
COMPOSITE = "AWS::CloudWatch::CompositeAlarm"
KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
SCALED: dict[str, Any] = {
    "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8.0}]}
}
CAPACITY = ("no-capacity-main", "at-most-copies-main")
TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"


def named(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """The stack's own alarms by name."""
    alarms = stack.all(ALARM).values()
    return {body["Properties"]["AlarmName"]: body for body in alarms if "AlarmName" in body["Properties"]}


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
    found = {name: body["Properties"] for name, body in named(stack).items() if "-latency-" in name}
    assert {name: (alarm["Threshold"], alarm["Metrics"][1]["MetricStat"]["Stat"]) for name, alarm in found.items()} == {
        "loadproof-test-chat-latency-p50": (1000, "p50"),
        "loadproof-test-chat-latency-p99": (5000, "p99"),
    }


def test_objectives_without_metric_are_named_not_faked(tmp_path: Path) -> None:
    """SageMaker publishes no time to first token: no alarm pretends to, and the description says so."""
    objectives = Objectives(at_concurrency=4, ttft_p95_ms=300.0, e2e_p95_ms=3000.0, requests_per_s_min=2.0)
    assert objectives_without_metric(objectives) == ("ttft_p95_ms", "requests_per_s_min")
    stack = synthesize(profile(tmp_path, {"objectives": {"ttft_p95_ms": 300}}))
    assert not [name for name in named(stack) if "ttft" in name]
    assert "Not seen by CloudWatch, proven by the benchmark: ttft_p95_ms." in stack.only(COMPOSITE)["AlarmDescription"]


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
    """One dead letter is enough; the queue's age is measured against one visibility timeout (6 x 505 s),
    by SQS's own reckoning and by the consumer's, which remembers when a postponed message was sent first."""
    stack = synthesize(profile(tmp_path, {"buffer": {"max_concurrency": 2}}))
    dead = stack.named(ALARM, MetricName="ApproximateNumberOfMessagesVisible")["Properties"]
    assert (dead["Threshold"], dead["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    assert (dead["EvaluationPeriods"], dead["Namespace"]) == (1, "AWS/SQS")
    age = named(stack)["loadproof-test-chat-queue-age"]["Properties"]
    asked = {one["MetricStat"]["Metric"]["MetricName"] for one in age["Metrics"] if "MetricStat" in one}
    assert (age["Threshold"], asked) == (3030, {"ApproximateAgeOfOldestMessage", "Age"})


def test_one_alarm_speaks_for_the_objectives(tmp_path: Path) -> None:
    """What threatens the objectives tells nobody by itself: one alarm over them tells the topic, once."""
    stack = synthesize(profile(tmp_path, SCALED), ENVIRONMENT.model_copy(update={"alarm_topic_arn": TOPIC}))
    over = stack.only(COMPOSITE)
    assert over["AlarmActions"] == [TOPIC]
    silent = {name for name, body in named(stack).items() if not body["Properties"]["AlarmActions"]}
    assert silent == {f"loadproof-test-chat-{kind}" for kind in ("latency-p95", "error-rate", *CAPACITY)}
    assert set(over["AlarmRule"].split(" OR ")) == {f'ALARM("{name}")' for name in silent}


def test_the_alarm_over_others_waits_for_them(tmp_path: Path) -> None:
    """CloudWatch refuses a rule over an alarm that does not exist, and the rule is only a text."""
    stack = synthesize(profile(tmp_path, SCALED))
    (over,) = stack.all(COMPOSITE).values()
    assert len(over["DependsOn"]) == over["Properties"]["AlarmRule"].count("ALARM(") == 4


def test_what_the_objectives_do_not_say_speaks_for_itself(tmp_path: Path) -> None:
    """Refused requests, dead letters, a waiting queue and a failing consumer each have people to tell."""
    told = ENVIRONMENT.model_copy(update={"alarm_topic_arn": TOPIC})
    stack = synthesize(profile(tmp_path, {"buffer": {"max_concurrency": 2}}), told)
    telling = {name for name, body in named(stack).items() if body["Properties"]["AlarmActions"] == [TOPIC]}
    assert telling == {
        f"loadproof-test-chat-{kind}" for kind in ("rejected", "dead-letters", "queue-age", "consumer-errors")
    }


def test_without_topic_nobody_is_told(tmp_path: Path) -> None:
    """Alarms exist, and are seen on the dashboard; their lists of actions are empty."""
    stack = synthesize(profile(tmp_path))
    alarms = [*stack.all(ALARM).values(), *stack.all(COMPOSITE).values()]
    assert [body["Properties"]["AlarmActions"] for body in alarms] == [[]] * len(alarms)


def test_addresses_make_a_topic(tmp_path: Path) -> None:
    """Two addresses, one topic, encrypted with the environment's key; alarms of this account may write to it."""
    environment = ENVIRONMENT.model_copy(
        update={"alarm_emails": ("a@example.com", "b@example.com"), "kms_key_arn": KEY}
    )
    stack = synthesize(profile(tmp_path), environment)
    topic = stack.only("AWS::SNS::Topic")
    assert [entry["Endpoint"] for entry in topic["Subscription"]] == ["a@example.com", "b@example.com"]
    assert topic["KmsMasterKeyId"] == KEY
    allowed, denied = stack.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    assert (denied["Effect"], denied["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert stack.only(COMPOSITE)["AlarmActions"] == [{"Ref": stack.logical_id("AWS::SNS::Topic")}]


def test_waking_from_zero_is_no_fault(tmp_path: Path) -> None:
    """A component that sleeps may refuse requests while its first copy starts: 15 minutes, not 3 of 5."""
    asleep = {**SCALED, "copies": {"min": 0, "max": 2}, "endpoint": {"min_instances": 0}}
    asleep["scaling"] = {**SCALED["scaling"], "to_zero": {}}
    for changes, minutes in ((asleep, (15, 15)), ({}, (5, 3))):
        alarm = named(synthesize(profile(tmp_path, changes)))["loadproof-test-chat-no-capacity-main"]["Properties"]
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == minutes


def test_most_copies_are_told_only_where_something_scales(tmp_path: Path) -> None:
    """With 1..2 copies the alarm stands between 1 and 2; copies are requests over the shares they were counted by."""
    alarm = named(synthesize(profile(tmp_path, SCALED)))["loadproof-test-chat-at-most-copies-main"]["Properties"]
    assert alarm["Threshold"] == 1.5
    assert alarm["Metrics"][0]["Expression"] == "IF(shares > 0, invocations / shares, 0)"
    assert [query["MetricStat"]["Metric"]["MetricName"] for query in alarm["Metrics"][1:]] == [
        "Invocations",
        "InvocationsPerCopy",
    ]
    assert "loadproof-test-chat-at-most-copies-main" not in named(synthesize(profile(tmp_path)))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_alarm_has_its_section_in_the_runbook(file: Path) -> None:
    """The description's link leads to a heading that exists."""
    stack = synthesize(load_profile(file), load_environment(file.parent))
    alarms = [*stack.all(ALARM).values(), *stack.all(COMPOSITE).values()]
    headings = set(re.findall(r"^## ([a-z-]+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE))
    linked = [
        re.search(r"Runbook: docs/runbook\.md#([a-z-]+)$", body["Properties"]["AlarmDescription"]) for body in alarms
    ]
    own = [match for body, match in zip(alarms, linked, strict=True) if not is_scaling(body)]
    assert own and {match.group(1) for match in own if match} <= headings and None not in own


def is_scaling(alarm: dict[str, Any]) -> bool:
    """An alarm of a scaling policy acts by itself, so nobody has to."""
    return "AlarmName" not in alarm["Properties"]
