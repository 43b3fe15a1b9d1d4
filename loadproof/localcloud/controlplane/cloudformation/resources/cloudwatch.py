"""AWS::CloudWatch::Alarm, CompositeAlarm and Dashboard; AWS::Logs::LogGroup, LogStream and ResourcePolicy."""

from __future__ import annotations

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
from loadproof.wire.documents import Document


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

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get(self.name_property)
        if name is not None:  # PutMetricAlarm would change one of that name
            kinds = ["MetricAlarm", "CompositeAlarm"]
            found = work.client("cloudwatch").describe_alarms(AlarmNames=[name], AlarmTypes=kinds)
            if found["MetricAlarms"] or found["CompositeAlarms"]:
                raise ResourceFailedError(f"{name} already exists")
        return super().create(work, properties)

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
        work.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=new["DashboardBody"], **tagged(work, new)
        )
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])


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
