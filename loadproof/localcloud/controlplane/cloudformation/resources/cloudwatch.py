"""AWS::CloudWatch::Alarm, CompositeAlarm and Dashboard; AWS::Logs::LogGroup, LogStream and ResourcePolicy."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    PutType,
    ResourceFailedError,
    ResourceType,
    Work,
    as_text,
    names,
    picked,
    tag_map,
    tagged,
)
from loadproof.wire.documents import Document, Json


class Alarm(PutType):
    type_name = "AWS::CloudWatch::Alarm"
    operation = "put_metric_alarm"
    _plain = names(
        "ActionsEnabled AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions "
        "EvaluateLowSampleCountPercentile EvaluationPeriods ExtendedStatistic InsufficientDataActions MetricName "
        "Metrics Namespace OKActions Period Statistic Threshold ThresholdMetricId TreatMissingData Unit"
    )
    supported = _plain | {"AlarmName", "Tags"}
    name_property = "AlarmName"
    longest_name = 255

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        put = getattr(work.client("cloudwatch"), self.operation)
        put(AlarmName=name, **picked(new, *self._plain), **tagged(work, new))
        return {"Arn": work.caller.arn("cloudwatch", f"alarm:{name}")}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("cloudwatch").delete_alarms(AlarmNames=[physical_id])


class CompositeAlarm(Alarm):
    type_name = "AWS::CloudWatch::CompositeAlarm"
    operation = "put_composite_alarm"
    _plain = names("ActionsEnabled AlarmActions AlarmDescription AlarmRule InsufficientDataActions OKActions")
    supported = _plain | {"AlarmName", "Tags"}


class Dashboard(PutType):
    type_name = "AWS::CloudWatch::Dashboard"
    supported = names("DashboardBody DashboardName Tags")
    name_property = "DashboardName"
    longest_name = 255

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        faults = list(_dashboard_faults(new["DashboardBody"]))
        if faults:
            raise ResourceFailedError(
                f"The dashboard body is invalid, there are {len(faults)} validation errors: {'; '.join(faults)}"
            )
        work.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=new["DashboardBody"], **tagged(work, new)
        )
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])


def _dashboard_faults(text: str) -> Iterator[str]:
    """What CloudWatch refuses of a dashboard's body and moto takes. Source: dashboard body structure, API reference."""
    try:
        body = json.loads(text)
    except ValueError as error:
        yield f"Invalid JSON: {error}"
        return
    if not isinstance(body, dict) or not isinstance(body.get("widgets"), list):
        yield 'The body must be an object with a list "widgets"'
        return
    for index, widget in enumerate(body["widgets"]):
        yield from (f"/widgets/{index}: {fault}" for fault in _widget_faults(widget))


_WIDGETS = ("alarm", "custom", "explorer", "log", "metric", "text")
_GRID = {"x": (0, 23), "y": (0, 1_000_000), "width": (1, 24), "height": (1, 1000)}


def _widget_faults(widget: Json) -> Iterator[str]:
    if not isinstance(widget, dict) or widget.get("type") not in _WIDGETS:
        yield f"type must be one of {', '.join(_WIDGETS)}"
        return
    for name, (low, high) in _GRID.items():
        value = widget.get(name, low)
        if not isinstance(value, int) or not low <= value <= high:
            yield f"{name} must be between {low} and {high}, found {value}"
    properties = widget.get("properties")
    if not isinstance(properties, dict):
        yield "properties is required"
        return
    if widget["type"] == "text" and not properties.get("markdown"):
        yield "properties.markdown is required"
    if widget["type"] == "metric":
        if not properties.get("region") and not properties.get("annotations", {}).get("alarms"):
            yield "properties.region is required"
        for row in properties.get("metrics", []):
            if not isinstance(row, list) or not row or len([part for part in row if isinstance(part, str)]) == 1:
                yield f"metrics must be lists of a namespace, a name and dimensions, found {row}"


class LogGroup(PutType):
    type_name = "AWS::Logs::LogGroup"
    supported = names("KmsKeyId LogGroupClass LogGroupName RetentionInDays Tags")
    name_property = "LogGroupName"
    longest_name = 512
    deletion = ("logs", "delete_log_group", "logGroupName")

    def create(self, work: Work, properties: Properties) -> Made:
        name, tags = self.name(work, properties), tag_map(work, properties)
        request = {"kmsKeyId": properties["KmsKeyId"]} if "KmsKeyId" in properties else {}
        work.client("logs").create_log_group(logGroupName=name, **request, **({"tags": tags} if tags else {}))
        return Made(name, self.put(work, name, {}, properties))

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        logs = work.client("logs")
        if "RetentionInDays" in new:
            logs.put_retention_policy(logGroupName=name, retentionInDays=int(new["RetentionInDays"]))
        elif "RetentionInDays" in old:
            logs.delete_retention_policy(logGroupName=name)
        return {"Arn": work.caller.arn("logs", f"log-group:{name}:*")}


class ResourcePolicy(PutType):
    """Kept, like every policy here."""

    type_name = "AWS::Logs::ResourcePolicy"
    supported = names("PolicyDocument PolicyName")
    name_property = "PolicyName"
    deletion = ("logs", "delete_resource_policy", "policyName")

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        work.client("logs").put_resource_policy(policyName=name, policyDocument=as_text(new["PolicyDocument"]))
        return {}


class LogStream(ResourceType):
    type_name = "AWS::Logs::LogStream"
    supported = names("LogGroupName LogStreamName")
    name_property = "LogStreamName"
    longest_name = 512

    def create(self, work: Work, properties: Properties) -> Made:
        name = self.name(work, properties)
        work.client("logs").create_log_stream(logGroupName=properties["LogGroupName"], logStreamName=name)
        return Made(name)

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("logs").delete_log_stream(logGroupName=properties["LogGroupName"], logStreamName=physical_id)
