"""AWS::Logs::LogGroup, LogStream and ResourcePolicy."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    PutType,
    ResourceType,
    Work,
    as_text,
    names,
    tag_map,
)
from loadproof.localcloud.documents import Document


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
