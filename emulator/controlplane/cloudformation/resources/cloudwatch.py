"""AWS::CloudWatch::Alarm, CompositeAlarm and Dashboard, AWS::Logs::LogGroup."""

from __future__ import annotations

from typing import Any

from emulator.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    Work,
    picked,
    tag_list,
    tag_map,
)


class Alarm:
    """Kept and described; nothing evaluates it yet."""

    type_name = "AWS::CloudWatch::Alarm"
    _plain = (
        "ActionsEnabled", "AlarmActions", "AlarmDescription", "ComparisonOperator", "DatapointsToAlarm", "Dimensions",
        "EvaluateLowSampleCountPercentile", "EvaluationPeriods", "ExtendedStatistic", "InsufficientDataActions",
        "MetricName", "Metrics", "Namespace", "OKActions", "Period", "Statistic", "Threshold", "ThresholdMetricId",
        "TreatMissingData", "Unit",
    )  # fmt: skip
    supported = frozenset({*_plain, "AlarmName", "Tags"})
    name_property = "AlarmName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("AlarmName") or work.generated_name(255)
        self._put(work, name, properties)
        return Made(name, {"Arn": work.caller.arn("cloudwatch", f"alarm:{name}")})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> dict[str, Any]:
        self._put(work, physical_id, new)
        return {"Arn": work.caller.arn("cloudwatch", f"alarm:{physical_id}")}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("cloudwatch").delete_alarms(AlarmNames=[physical_id])

    def _put(self, work: Work, name: str, properties: Properties) -> None:
        _check_alarm(properties)
        request = picked(properties, *self._plain)
        tags = tag_list(work, properties)
        work.client("cloudwatch").put_metric_alarm(AlarmName=name, **request, **({"Tags": tags} if tags else {}))


def _check_alarm(properties: Properties) -> None:
    """What CloudWatch refuses and moto takes."""
    stats = [one["MetricStat"] for one in properties.get("Metrics", []) if "MetricStat" in one]
    for period_s in [int(one["Period"]) for one in [properties, *stats] if "Period" in one]:
        if period_s not in (10, 20, 30) and (period_s < 60 or period_s % 60):
            raise ResourceFailedError(f"Period must be 10, 20, 30 or a multiple of 60, found {period_s}.")
    if int(properties.get("DatapointsToAlarm", 1)) > int(properties.get("EvaluationPeriods", 1)):
        raise ResourceFailedError("DatapointsToAlarm must be less than or equal to EvaluationPeriods.")


class CompositeAlarm:
    type_name = "AWS::CloudWatch::CompositeAlarm"
    _plain = ("ActionsEnabled", "AlarmActions", "AlarmDescription", "AlarmRule", "InsufficientDataActions", "OKActions")
    supported = frozenset({*_plain, "AlarmName", "Tags"})
    name_property = "AlarmName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("AlarmName") or work.generated_name(255)
        self.update(work, name, {}, properties)
        return Made(name, {"Arn": work.caller.arn("cloudwatch", f"alarm:{name}")})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> dict[str, Any]:
        work.client("cloudwatch").put_composite_alarm(AlarmName=physical_id, **picked(new, *self._plain))
        return {"Arn": work.caller.arn("cloudwatch", f"alarm:{physical_id}")}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("cloudwatch").delete_alarms(AlarmNames=[physical_id])


class Dashboard:
    type_name = "AWS::CloudWatch::Dashboard"
    supported = frozenset({"DashboardBody", "DashboardName"})
    name_property = "DashboardName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("DashboardName") or work.generated_name(255)
        self.update(work, name, {}, properties)
        return Made(name)

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> dict[str, Any]:
        work.client("cloudwatch").put_dashboard(DashboardName=physical_id, DashboardBody=new["DashboardBody"])
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])


class LogGroup:
    type_name = "AWS::Logs::LogGroup"
    supported = frozenset({"KmsKeyId", "LogGroupClass", "LogGroupName", "RetentionInDays", "Tags"})
    name_property = "LogGroupName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("LogGroupName") or work.generated_name(512)
        tags = tag_map(work, properties)
        request = {"kmsKeyId": properties["KmsKeyId"]} if "KmsKeyId" in properties else {}
        work.client("logs").create_log_group(logGroupName=name, **request, **({"tags": tags} if tags else {}))
        return Made(name, self.update(work, name, {}, properties))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> dict[str, Any]:
        logs = work.client("logs")
        if "RetentionInDays" in new:
            logs.put_retention_policy(logGroupName=physical_id, retentionInDays=int(new["RetentionInDays"]))
        elif "RetentionInDays" in old:
            logs.delete_retention_policy(logGroupName=physical_id)
        return {"Arn": work.caller.arn("logs", f"log-group:{physical_id}:*")}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("logs").delete_log_group(logGroupName=physical_id)
