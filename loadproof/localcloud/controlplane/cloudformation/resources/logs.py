"""AWS::Logs::LogGroup, LogStream and ResourcePolicy."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.resources.base import Made, Properties, Work, tag_map
from loadproof.localcloud.documents import Document


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

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        logs = work.client("logs")
        if "RetentionInDays" in new:
            logs.put_retention_policy(logGroupName=physical_id, retentionInDays=int(new["RetentionInDays"]))
        elif "RetentionInDays" in old:
            logs.delete_retention_policy(logGroupName=physical_id)
        return {"Arn": work.caller.arn("logs", f"log-group:{physical_id}:*")}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("logs").delete_log_group(logGroupName=physical_id)


class ResourcePolicy:
    """Kept, like every policy here."""

    type_name = "AWS::Logs::ResourcePolicy"
    supported = frozenset({"PolicyDocument", "PolicyName"})
    name_property = "PolicyName"

    def create(self, work: Work, properties: Properties) -> Made:
        self.update(work, properties["PolicyName"], {}, properties)
        return Made(properties["PolicyName"])

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        document = new["PolicyDocument"]
        text = document if isinstance(document, str) else json.dumps(document)
        work.client("logs").put_resource_policy(policyName=physical_id, policyDocument=text)
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("logs").delete_resource_policy(policyName=physical_id)


class LogStream:
    type_name = "AWS::Logs::LogStream"
    supported = frozenset({"LogGroupName", "LogStreamName"})
    name_property = "LogStreamName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("LogStreamName") or work.generated_name(512)
        work.client("logs").create_log_stream(logGroupName=properties["LogGroupName"], logStreamName=name)
        return Made(name)

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document | None:
        return None

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("logs").delete_log_stream(logGroupName=properties["LogGroupName"], logStreamName=physical_id)
