"""Messages waiting per copy, as CloudWatch metric math: no published metric says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from loadproof.constructs.cdk.cloudwatch import SAGEMAKER, Formula, Metric, named
from loadproof.wire.documents import Document

# SageMaker publishes a component's copies only as OpenTelemetry data, which neither alarms nor target tracking can
# read. But each request counts 1 in Invocations and 1 / copies in InvocationsPerCopy (or PerInstance), so that the
# quotient of their sums is 1 / copies. Multiplied, it needs no guard for zero copies.
# FILL(…, REPEAT) bridges minutes whose datum is late or, for invocations, absent; the outer FILL is for long silence:
# a queue without data is empty, and an endpoint without requests counts as one copy until the first request says more.
_EXPRESSION: Final = (
    "FILL(FILL(waiting, REPEAT), 0) * FILL(FILL(calls_per_copy, REPEAT), 1) / FILL(FILL(calls, REPEAT), 1)"
)


def backlog_per_copy(*, waiting: Metric, dimensions: Mapping[str, str], period_s: int = 60) -> Formula:
    """`dimensions` are the component's or the variant's, whose copies share the queue's messages."""
    per_copy = "InvocationsPerCopy" if "InferenceComponentName" in dimensions else "InvocationsPerInstance"
    return Formula(
        _EXPRESSION,
        "messages waiting per copy",
        {
            "waiting": replace(waiting, period_s=period_s),
            "calls": Metric(SAGEMAKER, "Invocations", dimensions, "Sum", period_s),
            "calls_per_copy": Metric(SAGEMAKER, per_copy, dimensions, "Sum", period_s),
        },
    )


def tracked(backlog: Formula) -> Document:
    """As the metric of a target tracking policy: Application Auto Scaling's periods are always a minute."""
    result = {"Id": "backlog_per_copy", "Expression": backlog.expression, "Label": backlog.label, "ReturnData": True}
    variables = [
        {"Id": name, "MetricStat": {"Metric": named(metric), "Stat": metric.statistic}, "ReturnData": False}
        for name, metric in backlog.metrics.items()
    ]
    return {"Metrics": [result, *variables]}
