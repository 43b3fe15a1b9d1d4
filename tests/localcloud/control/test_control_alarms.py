"""CloudWatch's alarms in process: evaluation over time, actions, history, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from scaling_world import CALLER, DIMENSIONS, World, scaling_world

from loadproof.localcloud.wire import AwsError


@pytest.fixture
def world() -> Iterator[World]:
    with scaling_world() as made:
        yield made


def minute(world: World, value: float | None, name: str = "ModelLatency") -> None:
    if value is not None:
        world.put("AWS/SageMaker", name, value, {"InferenceComponentName": "chat-main"})
    world.pass_s(60)


def refusal(world: World, action: str, **params: Any) -> str:
    with pytest.raises(AwsError) as caught:
        world.cloudwatch(action, **params)
    return caught.value.message


def test_alarm_goes_from_no_data_to_ok_to_alarm_and_back(world: World) -> None:
    """Two minutes of two at 5 or more; states as they follow, and the history of them."""
    world.alarm("slow", "ModelLatency", 5.0, EvaluationPeriods=2)
    states = [world.state("slow")]
    for value in (1.0, 9.0, 9.0, 1.0):
        minute(world, value)
        states.append(world.state("slow"))
    assert states == ["INSUFFICIENT_DATA", "OK", "OK", "ALARM", "OK"]
    rows = world.cloudwatch("DescribeAlarmHistory", AlarmName="slow", HistoryItemType="StateUpdate")
    assert [row["HistorySummary"] for row in rows["AlarmHistoryItems"]] == [
        "Alarm updated from ALARM to OK",
        "Alarm updated from OK to ALARM",
        "Alarm updated from INSUFFICIENT_DATA to OK",
    ]
    found = world.cloudwatch("DescribeAlarms", AlarmNames=["slow"])["MetricAlarms"][0]
    assert "1 out of the last 2 datapoints [1.0, 9.0]" in found["StateReason"]
    assert json.loads(found["StateReasonData"])["recentDatapoints"] == [9.0, 1.0]


def test_percentile_alarm(world: World) -> None:
    """p95 of 19 ones and a hundred lies at 5.95: (20 - 1) · 0.95 = 18.05, a twentieth of the way from 1 to 100."""
    world.alarm("tail", "ModelLatency", 5.9, Statistic=None, ExtendedStatistic="p95")
    for value in [1.0] * 19 + [100.0]:
        world.put("AWS/SageMaker", "ModelLatency", value, {"InferenceComponentName": "chat-main"})
    world.pass_s(60)
    assert world.state("tail") == "ALARM"
    world.alarm("tail", "ModelLatency", 6.0, Statistic=None, ExtendedStatistic="p95")
    world.pass_s(60)
    assert world.state("tail") == "OK"


def test_data_of_another_unit_do_not_count(world: World) -> None:
    """ModelLatency comes in microseconds: an alarm on milliseconds never sees it."""
    world.alarm("slow", "ModelLatency", 5.0, Unit="Milliseconds")
    for _ in range(3):
        world.plane.directory.record_metric(
            "AWS/SageMaker", "ModelLatency", 9.0, {"InferenceComponentName": "chat-main"}, unit="Microseconds"
        )
        world.pass_s(60)
    assert world.state("slow") == "INSUFFICIENT_DATA"
    world.alarm("slow", "ModelLatency", 5.0, Unit="Microseconds")
    world.pass_s(60)
    assert world.state("slow") == "ALARM"


def test_alarm_on_an_error_rate(world: World) -> None:
    """1 failed of 4 is 0.25, above 0.2; nothing failed and nothing invoked is 0, not missing."""
    names = {"failed": "InvocationModelErrors", "broken": "MidStreamErrors", "invocations": "Invocations"}
    metrics = [
        {
            "Id": query_id,
            "ReturnData": False,
            "MetricStat": {
                "Metric": {"Namespace": "AWS/SageMaker", "MetricName": name, "Dimensions": DIMENSIONS},
                "Period": 60,
                "Stat": "Sum",
            },
        }
        for query_id, name in names.items()
    ]
    expression = "IF(invocations > 0, (FILL(failed, 0) + FILL(broken, 0)) / invocations, 0)"
    world.cloudwatch(
        "PutMetricAlarm",
        AlarmName="errors",
        Metrics=[*metrics, {"Id": "rate", "Expression": expression}],
        EvaluationPeriods=1,
        Threshold=0.2,
        ComparisonOperator="GreaterThanThreshold",
    )
    world.put("AWS/SageMaker", "InvocationModelErrors", 1.0, {"InferenceComponentName": "chat-main"})
    minute(world, 4.0, "Invocations")
    assert world.state("errors") == "ALARM"
    minute(world, 4.0, "Invocations")
    assert world.state("errors") == "OK"


def test_composite_alarm_tells_a_topic_once(world: World) -> None:
    """Only when both are in ALARM; the topic's queue gets one message however long it lasts."""
    world.plane.clients.endpoint_url = "https://sns.us-east-1.amazonaws.com"  # moto's, within this test
    topic = world.moto("sns").create_topic(Name="oncall")["TopicArn"]
    url = world.moto("sqs").create_queue(QueueName="told")["QueueUrl"]
    arn = "arn:aws:sqs:us-east-1:123456789012:told"
    world.moto("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    world.alarm("slow", "ModelLatency", 5.0)
    world.alarm("busy", "Invocations", 5.0)
    rule = 'ALARM("slow") AND ALARM("busy")'
    world.cloudwatch("PutCompositeAlarm", AlarmName="at-risk", AlarmRule=rule, AlarmActions=[topic])
    minute(world, 9.0)
    assert (world.state("slow"), world.state("at-risk")) == ("ALARM", "OK")
    for _ in range(3):
        world.put("AWS/SageMaker", "ModelLatency", 9.0, {"InferenceComponentName": "chat-main"})
        minute(world, 9.0, "Invocations")
    assert world.state("at-risk") == "ALARM"
    messages = world.moto("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    bodies = [json.loads(json.loads(one["Body"])["Message"]) for one in messages]
    assert [(one["AlarmName"], one["NewStateValue"]) for one in bodies] == [("at-risk", "ALARM")]


def test_alarm_under_a_composite_one_stays(world: World) -> None:
    world.alarm("slow", "ModelLatency", 5.0)
    world.cloudwatch("PutCompositeAlarm", AlarmName="at-risk", AlarmRule="ALARM(slow)")
    assert "Composite alarm at-risk looks at slow" in refusal(world, "DeleteAlarms", AlarmNames=["slow"])
    world.cloudwatch("DeleteAlarms", AlarmNames=["slow", "at-risk"])
    assert world.cloudwatch("DescribeAlarms")["MetricAlarms"] == []
    missing = refusal(world, "PutCompositeAlarm", AlarmName="c", AlarmRule="ALARM(gone)")
    assert "alarms that do not exist: gone" in missing


def test_disabled_actions_call_nothing(world: World) -> None:
    arn = world.step([{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}])
    world.alarm("busy", "ConcurrentRequestsPerCopy", 1.0, arn, ActionsEnabled=False)
    world.pass_s(120, in_flight=8)
    assert (world.state("busy"), world.copies()) == ("ALARM", 1)
    world.cloudwatch("EnableAlarmActions", AlarmNames=["busy"])
    world.pass_s(120, in_flight=8)
    assert world.copies() == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"AlarmActions": ["arn:aws:automate:us-east-1:ec2:stop"]},
            "calls scaling policies of Application Auto Scaling",
        ),
        ({"Statistic": None, "ExtendedStatistic": "tm101"}, "The statistic tm101 is invalid"),
        ({"ComparisonOperator": "LessThanLowerThreshold"}, "anomaly detection"),
        ({"DatapointsToAlarm": 2}, "must be less than or equal to EvaluationPeriods"),
        ({"Period": 45}, "Period must be 10, 20, 30 or a multiple of 60, found 45"),
        ({"EvaluateLowSampleCountPercentile": "ignore"}, "does not provide EvaluateLowSampleCountPercentile ignore"),
        ({"TreatMissingData": "never"}, "TreatMissingData must be breaching"),
        ({"MetricName": None}, "Exactly one of MetricName and Metrics"),
    ],
)
def test_alarm_that_could_not_be_evaluated_is_refused(world: World, change: dict[str, Any], message: str) -> None:
    with pytest.raises(AwsError) as caught:
        world.alarm("a", "ModelLatency", 1.0, **change)
    assert message in caught.value.message


def test_metrics_of_periods_and_percentiles(world: World) -> None:
    """1 and 3 in one minute, 5 in the next: sums 4 and 5, medians 2 and 5; the newest first, as AWS has it."""
    start_s = world.clock.now_s()
    for value in (1.0, 3.0):
        world.put("AWS/SageMaker", "ModelLatency", value, {"InferenceComponentName": "chat-main"})
    world.pass_s(60)
    minute(world, 5.0)
    metric = {"Namespace": "AWS/SageMaker", "MetricName": "ModelLatency", "Dimensions": DIMENSIONS}
    queries = [
        {"Id": "total", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}},
        {"Id": "middle", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "p50"}},
        {"Id": "more", "Expression": "total * 2", "Label": "twice"},
    ]
    asked = {"StartTime": start_s, "EndTime": start_s + 120}
    rows = world.cloudwatch("GetMetricData", MetricDataQueries=queries, **asked)["MetricDataResults"]
    assert {row["Id"]: row["Values"] for row in rows} == {
        "total": [5.0, 4.0],
        "middle": [5.0, 2.0],
        "more": [10.0, 8.0],
    }
    assert [at.timestamp() for at in rows[0]["Timestamps"]] == [start_s + 60, start_s]
    assert rows[2]["Label"] == "twice"
    for statistic, value in ({"Statistics": ["Maximum"]}, 5.0), ({"ExtendedStatistics": ["p50"]}, 3.0):
        found = world.cloudwatch("GetMetricStatistics", **metric, Period=120, **statistic, **asked)["Datapoints"]
        assert [one.get("Maximum", one.get("ExtendedStatistics", {}).get("p50")) for one in found] == [value]
    listed = world.cloudwatch("ListMetrics", Namespace="AWS/SageMaker", MetricName="ModelLatency")["Metrics"]
    assert listed == [metric]


def test_own_metrics_can_be_put_and_those_of_aws_cannot(world: World) -> None:
    datum = {"MetricName": "m", "Values": [1.0, 2.0], "Counts": [2.0, 1.0], "Timestamp": world.clock.now_s()}
    world.cloudwatch("PutMetricData", Namespace="Mine", MetricData=[datum])
    found = world.cloudwatch(
        "GetMetricStatistics",
        Namespace="Mine",
        MetricName="m",
        Period=60,
        Statistics=["Sum", "SampleCount"],
        StartTime=world.clock.now_s() - 60,
        EndTime=world.clock.now_s() + 60,
    )["Datapoints"]
    assert [(one["Sum"], one["SampleCount"]) for one in found] == [(4.0, 3.0)]
    assert "AWS/" in refusal(world, "PutMetricData", Namespace="AWS/SageMaker", MetricData=[datum])


def test_alarm_shows_what_was_put_and_its_tags(world: World) -> None:
    tag = {"Key": "team", "Value": "llm"}
    world.alarm("slow", "ModelLatency", 5.0, AlarmDescription="see the runbook", Tags=[tag])
    found = world.cloudwatch("DescribeAlarms", AlarmNamePrefix="sl")["MetricAlarms"][0]
    assert (found["AlarmDescription"], found["Threshold"], found["ActionsEnabled"]) == ("see the runbook", 5.0, True)
    assert world.cloudwatch("ListTagsForResource", ResourceARN=found["AlarmArn"])["Tags"] == [tag]
    assert CALLER.account in found["AlarmArn"]


def test_clients_of_the_query_protocol_are_answered(world: World) -> None:
    """What older SDKs send as a form: an alarm is put, and described in XML; a refusal has its code."""
    form = {
        "AlarmName": "slow",
        "Namespace": "AWS/SageMaker",
        "MetricName": "ModelLatency",
        "Dimensions.member.1.Name": "InferenceComponentName",
        "Dimensions.member.1.Value": "chat-main",
        "Statistic": "Maximum",
        "Period": "60",
        "EvaluationPeriods": "1",
        "Threshold": "5.5",
        "ComparisonOperator": "GreaterThanThreshold",
    }

    def sent(action: str, **fields: str) -> str:
        body = urlencode({"Action": action, "Version": "2010-08-01", **fields}).encode()
        authorization = "AWS4-HMAC-SHA256 Credential=AKIA/20270115/us-east-1/monitoring/aws4_request, Signature=x"
        reply = world.plane.answer({"Authorization": authorization}, body)
        assert reply is not None
        return reply.body.decode()

    assert "PutMetricAlarmResponse" in sent("PutMetricAlarm", **form)
    minute(world, 9.0)
    described = sent("DescribeAlarms", **{"AlarmNames.member.1": "slow"})
    assert "<StateValue>ALARM</StateValue>" in described
    assert "<Threshold>5.5</Threshold>" in described
    assert "<StateUpdatedTimestamp>2027-01-15T" in described
    assert "<Code>ValidationError</Code>" in sent("PutMetricAlarm", **{**form, "Period": "45"})
    asked = {name: form[name] for name in form if name[:6] in ("Namesp", "Metric", "Dimens", "Period")}
    found = sent(
        "GetMetricStatistics",
        **asked,
        **{"Statistics.member.1": "Maximum"},
        StartTime="2027-01-15T08:00:00Z",
        EndTime="2027-01-15T09:00:00Z",
    )
    assert "<Maximum>9.0</Maximum>" in found
