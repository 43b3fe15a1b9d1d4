"""AWS::SQS::Queue and QueuePolicy, AWS::SNS::Topic, TopicPolicy and Subscription."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    Work,
    picked,
    tag_list,
    tag_map,
)
from loadproof.localcloud.documents import Document, Json


class Queue:
    type_name = "AWS::SQS::Queue"
    _plain = (
        "ContentBasedDeduplication", "DeduplicationScope", "DelaySeconds", "FifoQueue", "FifoThroughputLimit",
        "KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "MaximumMessageSize", "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds", "SqsManagedSseEnabled", "VisibilityTimeout",
    )  # fmt: skip
    supported = frozenset({*_plain, "QueueName", "RedriveAllowPolicy", "RedrivePolicy", "Tags"})
    name_property = "QueueName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("QueueName") or work.generated_name(80)
        alike = work.client("sqs").list_queues(QueueNamePrefix=name).get("QueueUrls", [])
        if any(url.endswith(f"/{name}") for url in alike):
            raise ResourceFailedError(f"{name} already exists")
        url = work.client("sqs").create_queue(
            QueueName=name, Attributes=self._attributes(properties), tags=tag_map(work, properties)
        )["QueueUrl"]
        return Made(url, self._shown(work, url, name))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        sqs = work.client("sqs")
        wanted = self._attributes(new)
        for gone in self._attributes(old).keys() - wanted.keys():
            wanted[gone] = _QUEUE_DEFAULTS.get(gone, "")
        sqs.set_queue_attributes(QueueUrl=physical_id, Attributes=wanted)
        if tag_map(work, new):
            sqs.tag_queue(QueueUrl=physical_id, Tags=tag_map(work, new))
        return self._shown(work, physical_id, physical_id.rsplit("/", 1)[1])

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("sqs").delete_queue(QueueUrl=physical_id)

    def _attributes(self, properties: Properties) -> dict[str, str]:
        if properties.get("KmsMasterKeyId") and properties.get("SqsManagedSseEnabled"):
            raise ResourceFailedError("You can use one type of server-side encryption (SSE) at one time.")
        attributes = {name: _text(properties[name]) for name in self._plain if name in properties}
        for name in ("RedrivePolicy", "RedriveAllowPolicy"):
            if name in properties:
                value = properties[name]
                attributes[name] = value if isinstance(value, str) else json.dumps(value)
        return attributes

    def _shown(self, work: Work, url: str, name: str) -> Document:
        return {"Arn": work.caller.arn("sqs", name), "QueueName": name, "QueueUrl": url}


_QUEUE_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
}


def _text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class QueuePolicy:
    type_name = "AWS::SQS::QueuePolicy"
    supported = frozenset({"PolicyDocument", "Queues"})
    name_property = None

    def create(self, work: Work, properties: Properties) -> Made:
        self._set(work, properties["Queues"], json.dumps(properties["PolicyDocument"]))
        name = work.generated_name(80)
        return Made(name, {"Id": name})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._set(work, [url for url in old["Queues"] if url not in new["Queues"]], "")
        self._set(work, new["Queues"], json.dumps(new["PolicyDocument"]))
        return {"Id": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        self._set(work, properties["Queues"], "")

    def _set(self, work: Work, urls: list[str], policy: str) -> None:
        for url in urls:
            work.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


class Topic:
    type_name = "AWS::SNS::Topic"
    supported = frozenset({"DisplayName", "KmsMasterKeyId", "Subscription", "Tags", "TopicName"})
    name_property = "TopicName"

    def create(self, work: Work, properties: Properties) -> Made:
        sns = work.client("sns")
        name = properties.get("TopicName") or work.generated_name(256)
        attributes = {key: str(value) for key, value in picked(properties, "DisplayName", "KmsMasterKeyId").items()}
        arn = sns.create_topic(Name=name, Attributes=attributes, Tags=tag_list(work, properties))["TopicArn"]
        for one in properties.get("Subscription", []):
            sns.subscribe(TopicArn=arn, Protocol=one["Protocol"], Endpoint=one["Endpoint"])
        return Made(arn, {"TopicArn": arn, "TopicName": name})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document | None:
        if old.get("Subscription") != new.get("Subscription"):
            return None
        for name in ("DisplayName", "KmsMasterKeyId"):
            value = str(new.get(name, ""))
            work.client("sns").set_topic_attributes(TopicArn=physical_id, AttributeName=name, AttributeValue=value)
        return {"TopicArn": physical_id, "TopicName": physical_id.rsplit(":", 1)[1]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("sns").delete_topic(TopicArn=physical_id)


class TopicPolicy:
    type_name = "AWS::SNS::TopicPolicy"
    supported = frozenset({"PolicyDocument", "Topics"})
    name_property = None

    def create(self, work: Work, properties: Properties) -> Made:
        self.update(work, "", properties, properties)
        name = work.generated_name(80)
        return Made(name, {"Id": name})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        for arn in new["Topics"]:
            work.client("sns").set_topic_attributes(
                TopicArn=arn, AttributeName="Policy", AttributeValue=json.dumps(new["PolicyDocument"])
            )
        return {"Id": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        return None  # AWS puts the topic's default policy back, which allows its owner


class Subscription:
    type_name = "AWS::SNS::Subscription"
    supported = frozenset({"Endpoint", "FilterPolicy", "Protocol", "RawMessageDelivery", "TopicArn"})
    name_property = None

    def create(self, work: Work, properties: Properties) -> Made:
        attributes = {}
        if "FilterPolicy" in properties:
            attributes["FilterPolicy"] = json.dumps(properties["FilterPolicy"])
        if "RawMessageDelivery" in properties:
            attributes["RawMessageDelivery"] = _text(properties["RawMessageDelivery"])
        arn = work.client("sns").subscribe(
            Attributes=attributes, ReturnSubscriptionArn=True, **picked(properties, "TopicArn", "Protocol", "Endpoint")
        )["SubscriptionArn"]
        return Made(arn, {"Arn": arn})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document | None:
        return None

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("sns").unsubscribe(SubscriptionArn=physical_id)
