"""CloudWatch in the small: metric queries and alarms as SageMaker's namespaces need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.resource import resource

SAGEMAKER: Final = "AWS/SageMaker"
ENDPOINT_INSTANCES: Final = "/aws/sagemaker/Endpoints"
COMPONENT_COPIES: Final = "/aws/sagemaker/InferenceComponents"

Comparison = Literal["GreaterThanThreshold", "GreaterThanOrEqualToThreshold", "LessThanOrEqualToThreshold"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One CloudWatch metric with a statistic. `statistic` is a name (`Sum`) or a percentile (`p95`)."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    statistic: str
    period_s: int = 60


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """When an alarm fires: `to_alarm` of `periods` data points past the threshold; missing data never does.

    SageMaker publishes nothing for a minute without requests, so missing data says that nobody asked.
    """

    threshold: float
    comparison: Comparison
    periods: int = 1
    to_alarm: int = 1


def alarm_on_metric(
    scope: Construct,
    construct_id: str,
    *,
    metric: Metric,
    rule: AlarmRule,
    description: str,
    actions: Sequence[str],
    tags: Mapping[str, str],
    name: str | None = None,
) -> CfnResource:
    """An alarm on one metric. `actions` are the ARNs told when it fires; without `name` CloudFormation makes one up."""
    properties = {
        **_said(rule, name, description, actions),
        **named(metric),
        "ExtendedStatistic" if metric.statistic.startswith("p") else "Statistic": metric.statistic,
        "Period": metric.period_s,
    }
    return resource(scope, construct_id, "CloudWatch::Alarm", properties, tags=tags)


def alarm_on_expression(
    scope: Construct,
    construct_id: str,
    *,
    expression: str,
    label: str,
    metrics: Mapping[str, Metric],
    rule: AlarmRule,
    description: str,
    actions: Sequence[str],
    tags: Mapping[str, str],
    name: str | None = None,
) -> CfnResource:
    """An alarm on metric math: `metrics` are the expression's variables by name."""
    result = {"Id": "result", "Expression": expression, "Label": label, "ReturnData": True}
    variables = [
        {
            "Id": variable,
            "MetricStat": {"Metric": named(metric), "Stat": metric.statistic, "Period": metric.period_s},
            "ReturnData": False,
        }
        for variable, metric in metrics.items()
    ]
    properties = {**_said(rule, name, description, actions), "Metrics": [result, *variables]}
    return resource(scope, construct_id, "CloudWatch::Alarm", properties, tags=tags)


def _said(rule: AlarmRule, name: str | None, description: str, actions: Sequence[str]) -> dict[str, Any]:
    return {
        "AlarmName": name,
        "AlarmDescription": description,
        "AlarmActions": list(actions),
        "Threshold": rule.threshold,
        "ComparisonOperator": rule.comparison,
        "EvaluationPeriods": rule.periods,
        "DatapointsToAlarm": rule.to_alarm,
        "TreatMissingData": "notBreaching",
    }


def named(metric: Metric) -> dict[str, Any]:
    """A metric without its statistic, as CloudFormation has it in alarms and in scaling policies."""
    return {
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in metric.dimensions.items()],
    }
