"""Messages waiting per copy, as CloudWatch metric math: no published metric says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from aws_cdk import aws_applicationautoscaling as autoscaling

from stacks.cloudwatch import SAGEMAKER, Metric

LABEL: Final = "messages waiting per copy"
# SageMaker publishes a component's copies only as OpenTelemetry data, which neither alarms nor target tracking can
# read. But each request counts 1 in Invocations and 1 / copies in InvocationsPerCopy (or PerInstance), so that the
# quotient of their sums is 1 / copies. Multiplied, it needs no guard for zero copies.
# FILL(…, REPEAT) bridges minutes whose datum is late or, for invocations, absent; the outer FILL is for long silence:
# a queue without data is empty, and an endpoint without requests counts as one copy until the first request says more.
_EXPRESSION: Final = (
    "FILL(FILL(waiting, REPEAT), 0) * FILL(FILL(calls_per_copy, REPEAT), 1) / FILL(FILL(calls, REPEAT), 1)"
)


@dataclass(frozen=True, slots=True)
class BacklogPerCopy:
    """An expression over named metrics: for an alarm, or as the metric of a target tracking policy."""

    expression: str
    metrics: Mapping[str, Metric]

    def specification(self) -> autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty:
        """The same for Application Auto Scaling, whose periods are always a minute."""
        policy = autoscaling.CfnScalingPolicy
        query = policy.TargetTrackingMetricDataQueryProperty
        return policy.CustomizedMetricSpecificationProperty(
            metrics=[
                query(id="backlog_per_copy", expression=self.expression, label=LABEL, return_data=True),
                *(
                    query(
                        id=name,
                        metric_stat=policy.TargetTrackingMetricStatProperty(
                            metric=policy.TargetTrackingMetricProperty(
                                namespace=metric.namespace,
                                metric_name=metric.name,
                                dimensions=[
                                    policy.TargetTrackingMetricDimensionProperty(name=key, value=value)
                                    for key, value in metric.dimensions.items()
                                ],
                            ),
                            stat=metric.statistic,
                        ),
                        return_data=False,
                    )
                    for name, metric in self.metrics.items()
                ),
            ]
        )


def backlog_per_copy(*, waiting: Metric, dimensions: Mapping[str, str], period_s: int = 60) -> BacklogPerCopy:
    """`dimensions` are the component's or the variant's, whose copies share the queue's messages."""
    per_copy = "InvocationsPerCopy" if "InferenceComponentName" in dimensions else "InvocationsPerInstance"
    return BacklogPerCopy(
        _EXPRESSION,
        {
            "waiting": replace(waiting, period_s=period_s),
            "calls": Metric(SAGEMAKER, "Invocations", dimensions, "Sum", period_s),
            "calls_per_copy": Metric(SAGEMAKER, per_copy, dimensions, "Sum", period_s),
        },
    )
