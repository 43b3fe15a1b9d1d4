"""CloudWatch in the small: metric queries and alarms as SageMaker's namespaces need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.resource import resource
from loadproof.wire.documents import Document

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
class Formula:
    """Metric math: `metrics` are the expression's variables by name."""

    expression: str
    label: str
    metrics: Mapping[str, Metric]

    def queries(self) -> list[Document]:
        """As an alarm asks for it."""
        variables = [
            {
                "Id": variable,
                "MetricStat": {"Metric": named(metric), "Stat": metric.statistic, "Period": metric.period_s},
                "ReturnData": False,
            }
            for variable, metric in self.metrics.items()
        ]
        return [{"Id": "result", "Expression": self.expression, "Label": self.label, "ReturnData": True}, *variables]


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """When an alarm fires: `to_alarm` of `periods` data points past the threshold; missing data never does.

    SageMaker publishes nothing for a minute without requests, so missing data says that nobody asked.
    """

    threshold: float
    comparison: Comparison
    periods: int = 1
    to_alarm: int = 1


def alarm(
    scope: Construct,
    construct_id: str,
    *,
    on: Metric | Formula,
    rule: AlarmRule,
    description: str,
    actions: Sequence[str],
    tags: Mapping[str, str],
    name: str | None = None,
) -> CfnResource:
    """`actions` are the ARNs told when it fires; without `name` CloudFormation makes one up."""
    properties = {
        "AlarmName": name,
        "AlarmDescription": description,
        "AlarmActions": list(actions),
        "Threshold": rule.threshold,
        "ComparisonOperator": rule.comparison,
        "EvaluationPeriods": rule.periods,
        "DatapointsToAlarm": rule.to_alarm,
        "TreatMissingData": "notBreaching",
        **(_watching(on) if isinstance(on, Metric) else {"Metrics": on.queries()}),
    }
    return resource(scope, construct_id, "CloudWatch::Alarm", properties, tags=tags)


def _watching(metric: Metric) -> Document:
    statistic = "ExtendedStatistic" if metric.statistic.startswith("p") else "Statistic"
    return {**named(metric), statistic: metric.statistic, "Period": metric.period_s}


def named(metric: Metric) -> Document:
    """A metric without its statistic, as CloudFormation has it in alarms and in scaling policies."""
    return {
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in metric.dimensions.items()],
    }
