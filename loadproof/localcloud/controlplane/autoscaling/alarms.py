"""The two CloudWatch alarms behind a target tracking policy, as the service makes them.

High: above the target for 3 periods. Low: below 90% of the target for 15 minutes. Periods are a minute; the high alarm
of a high-resolution metric has 10 s, its low alarm does not: scale-in is no faster with it. Source: Application Auto
Scaling user guide, target tracking; SageMaker developer guide, automatic scaling.
"""

from __future__ import annotations

import uuid

from loadproof.wire.documents import Document

# metric type -> (CloudWatch metric, statistic, period in seconds)
PREDEFINED = {
    "SageMakerVariantInvocationsPerInstance": ("InvocationsPerInstance", "Sum", 60),
    "SageMakerInferenceComponentInvocationsPerCopy": ("InvocationsPerCopy", "Sum", 60),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": ("ConcurrentRequestsPerModel", "Maximum", 10),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": (
        "ConcurrentRequestsPerCopy",
        "Maximum",
        10,
    ),
    "SageMakerVariantProvisionedConcurrencyUtilization": (
        "ServerlessProvisionedConcurrencyUtilization",
        "Maximum",
        60,
    ),
}


def dimensions_of(resource_id: str) -> list[dict[str, str]]:
    """CloudWatch dimensions of a scalable target: a component's or a variant's."""
    parts = resource_id.split("/")
    if parts[0] == "inference-component":
        return [{"Name": "InferenceComponentName", "Value": parts[1]}]
    return [{"Name": "EndpointName", "Value": parts[1]}, {"Name": "VariantName", "Value": parts[3]}]


def tracking_alarms(resource_id: str, policy_arn: str, configuration: Document) -> list[Document]:
    """PutMetricAlarm requests for one policy: high, and low unless scale-in is off."""
    target = float(configuration["TargetValue"])
    metric = _metric(resource_id, configuration)
    high = {**metric, **_alarm("High", "GreaterThanThreshold", target, 3)}
    low = {**metric, **_alarm("Low", "LessThanThreshold", round(target * 0.9, 6), 15)}
    if "Period" in low:
        low["Period"] = 60
    return [
        {
            **alarm,
            "AlarmName": f"TargetTracking-{resource_id}-Alarm{alarm['AlarmName']}-{uuid.uuid4()}",
            "AlarmDescription": "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy " + policy_arn + ".",
            "AlarmActions": [policy_arn],
        }
        for alarm in ([high] if configuration.get("DisableScaleIn") else [high, low])
    ]


def _alarm(side: str, comparison: str, threshold: float, periods: int) -> Document:
    return {
        "AlarmName": side,
        "ComparisonOperator": comparison,
        "Threshold": threshold,
        "EvaluationPeriods": periods,
    }


def _metric(resource_id: str, configuration: Document) -> Document:
    predefined = configuration.get("PredefinedMetricSpecification")
    if predefined:
        name, statistic, period_s = PREDEFINED[predefined["PredefinedMetricType"]]
        return {
            "Namespace": "AWS/SageMaker",
            "MetricName": name,
            "Dimensions": dimensions_of(resource_id),
            "Statistic": statistic,
            "Period": period_s,
        }
    custom = configuration["CustomizedMetricSpecification"]
    if "Metrics" in custom:
        queries = [{**one} for one in custom["Metrics"]]
        for query in queries:
            if "MetricStat" in query:
                query["MetricStat"] = {**query["MetricStat"], "Period": 60}
        return {"Metrics": queries}
    return {
        "Namespace": custom["Namespace"],
        "MetricName": custom["MetricName"],
        "Dimensions": custom.get("Dimensions", []),
        "Statistic": custom["Statistic"],
        "Period": 60,
    }
