"""CloudWatch in the small: metric queries and alarms as SageMaker's namespaces need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

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
    name: str | None = None,
) -> cloudwatch.CfnAlarm:
    """An alarm on one metric. `actions` are the ARNs told when it fires; without `name` CloudFormation makes one up."""
    percentile = metric.statistic.startswith("p")
    return cloudwatch.CfnAlarm(
        scope,
        construct_id,
        alarm_name=name,
        alarm_description=description,
        namespace=metric.namespace,
        metric_name=metric.name,
        dimensions=_dimensions(metric),
        statistic=None if percentile else metric.statistic,
        extended_statistic=metric.statistic if percentile else None,
        period=metric.period_s,
        **_rule(rule),
        alarm_actions=list(actions),
    )


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
    name: str | None = None,
) -> cloudwatch.CfnAlarm:
    """An alarm on metric math: `metrics` are the expression's variables by name."""
    query = cloudwatch.CfnAlarm.MetricDataQueryProperty
    queries = [query(id="result", expression=expression, label=label, return_data=True)]
    for variable, metric in metrics.items():
        stat = cloudwatch.CfnAlarm.MetricStatProperty(
            metric=cloudwatch.CfnAlarm.MetricProperty(
                namespace=metric.namespace, metric_name=metric.name, dimensions=_dimensions(metric)
            ),
            stat=metric.statistic,
            period=metric.period_s,
        )
        queries.append(query(id=variable, metric_stat=stat, return_data=False))
    return cloudwatch.CfnAlarm(
        scope,
        construct_id,
        alarm_name=name,
        alarm_description=description,
        metrics=queries,
        **_rule(rule),
        alarm_actions=list(actions),
    )


def _rule(rule: AlarmRule) -> dict[str, Any]:
    return {
        "threshold": rule.threshold,
        "comparison_operator": rule.comparison,
        "evaluation_periods": rule.periods,
        "datapoints_to_alarm": rule.to_alarm,
        "treat_missing_data": "notBreaching",
    }


def _dimensions(metric: Metric) -> list[cloudwatch.CfnAlarm.DimensionProperty]:
    return [cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value) for name, value in metric.dimensions.items()]
