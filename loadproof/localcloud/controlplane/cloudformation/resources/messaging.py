"""AWS::SQS::Queue and QueuePolicy, AWS::SNS::Topic, TopicPolicy and Subscription."""

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
    tag_rows,
)
from loadproof.wire.documents import Document


class Queue(ResourceType):
    type_name = "AWS::SQS::Queue"
    _attributes = names(
        "ContentBasedDeduplication DeduplicationScope DelaySeconds FifoQueue FifoThroughputLimit "
        "KmsDataKeyReusePeriodSeconds KmsMasterKeyId MaximumMessageSize MessageRetentionPeriod "
        "ReceiveMessageWaitTimeSeconds RedriveAllowPolicy RedrivePolicy SqsManagedSseEnabled VisibilityTimeout"
    )
    supported = _attributes | {"QueueName", "Tags"}
    name_property = "QueueName"
    longest_name = 80
    deletion = ("sqs", "delete_queue", "QueueUrl")

    def create(self, work: Work, properties: Properties) -> Made:
        sqs, name = work.client("sqs"), self.name(work, properties)
        alike = sqs.list_queues(QueueNamePrefix=name).get("QueueUrls", [])
        if any(url.endswith(f"/{name}") for url in alike):
            raise ResourceFailedError(f"{name} already exists")
        attributes, tags = self._attributes_of(properties), tag_map(work, properties)
        url = sqs.create_queue(QueueName=name, Attributes=attributes, tags=tags)["QueueUrl"]
        return Made(url, self._shown(work, url))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        sqs = work.client("sqs")
        wanted = self._attributes_of(new)
        for gone in self._attributes_of(old).keys() - wanted.keys():
            wanted[gone] = _QUEUE_DEFAULTS.get(gone, "")
        sqs.set_queue_attributes(QueueUrl=physical_id, Attributes=wanted)
        if tag_map(work, new):
            sqs.tag_queue(QueueUrl=physical_id, Tags=tag_map(work, new))
        return self._shown(work, physical_id)

    def _attributes_of(self, properties: Properties) -> dict[str, str]:
        return {name: as_text(value) for name, value in picked(properties, *self._attributes).items()}

    def _shown(self, work: Work, url: str) -> Document:
        name = url.rsplit("/", 1)[1]
        return {"Arn": work.caller.arn("sqs", name), "QueueName": name, "QueueUrl": url}


_QUEUE_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
}


class QueuePolicy(PutType):
    type_name = "AWS::SQS::QueuePolicy"
    supported = names("PolicyDocument Queues")
    longest_name = 80

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        self._set(work, [url for url in old.get("Queues", []) if url not in new["Queues"]], "")
        self._set(work, new["Queues"], as_text(new["PolicyDocument"]))
        return {"Id": name}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        self._set(work, properties["Queues"], "")

    def _set(self, work: Work, urls: list[str], policy: str) -> None:
        for url in urls:
            work.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


class Topic(ResourceType):
    type_name = "AWS::SNS::Topic"
    supported = names("DisplayName KmsMasterKeyId Subscription Tags TopicName")
    name_property = "TopicName"
    longest_name = 256
    deletion = ("sns", "delete_topic", "TopicArn")

    def create(self, work: Work, properties: Properties) -> Made:
        sns, name = work.client("sns"), self.name(work, properties)
        attributes = {key: str(value) for key, value in picked(properties, "DisplayName", "KmsMasterKeyId").items()}
        arn = sns.create_topic(Name=name, Attributes=attributes, Tags=tag_rows(work, properties))["TopicArn"]
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


class TopicPolicy(PutType):
    type_name = "AWS::SNS::TopicPolicy"
    supported = names("PolicyDocument Topics")
    longest_name = 80

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        policy = {"AttributeName": "Policy", "AttributeValue": as_text(new["PolicyDocument"])}
        for arn in new["Topics"]:
            work.client("sns").set_topic_attributes(TopicArn=arn, **policy)
        return {"Id": name}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        return None  # AWS puts the topic's default policy back, which allows its owner


class Subscription(ResourceType):
    type_name = "AWS::SNS::Subscription"
    supported = names("Endpoint FilterPolicy Protocol RawMessageDelivery TopicArn")
    deletion = ("sns", "unsubscribe", "SubscriptionArn")

    def create(self, work: Work, properties: Properties) -> Made:
        attributes = picked(properties, "FilterPolicy", "RawMessageDelivery")
        arn = work.client("sns").subscribe(
            Attributes={name: as_text(value) for name, value in attributes.items()},
            ReturnSubscriptionArn=True,
            **picked(properties, "TopicArn", "Protocol", "Endpoint"),
        )["SubscriptionArn"]
        return Made(arn, {"Arn": arn})
