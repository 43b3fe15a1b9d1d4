"""What SNS refuses beyond its service model, which says nearly nothing."""

from __future__ import annotations

import json
import re

from loadproof.localcloud.refusals.rules import Rule, check_tags, require
from loadproof.localcloud.refusals.subscriptions import (
    INVALID,
    check_filter,
    check_same_subscription,
    check_same_topic,
    check_value,
    subscription_of,
    topic_of,
)
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

_NAME = re.compile(r"[\w-]{1,256}(\.fifo)?")
_PROTOCOLS = {"http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose"}
_TOPIC_ATTRIBUTES = {
    "DeliveryPolicy", "DisplayName", "Policy", "TracingConfig", "KmsMasterKeyId", "SignatureVersion", "FifoTopic",
    "ContentBasedDeduplication", "FifoThroughputScope", "ArchivePolicy", "DataProtectionPolicy",
}  # fmt: skip
_RAW = {"http", "https", "sqs", "firehose"}
_FEEDBACK = re.compile(
    r"(HTTP|Firehose|Lambda|Application|SQS)(SuccessFeedbackRoleArn|SuccessFeedbackSampleRate|FailureFeedbackRoleArn)"
)
_SUBSCRIPTION_ATTRIBUTES = {
    "DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy", "SubscriptionRoleArn",
    "ReplayPolicy",
}  # fmt: skip
_DATA_TYPES = ("String", "Number", "Binary")


def _create(caller: Caller, params: Params) -> None:
    name, attributes = params["Name"], params.get("Attributes") or {}
    require(_NAME.fullmatch(name), INVALID, "Invalid parameter: Topic Name")
    fifo = attributes.get("FifoTopic") == "true"
    message = "Invalid parameter: Fifo Topic names must end with .fifo and must be made up of only uppercase and "
    require(
        fifo == name.endswith(".fifo"),
        INVALID,
        f"{message}lowercase ASCII letters, numbers, underscores, and hyphens.",
    )
    for attribute, value in attributes.items():
        known = attribute in _TOPIC_ATTRIBUTES or _FEEDBACK.fullmatch(attribute)
        require(known, INVALID, f"Invalid parameter: Attributes Reason: Unknown attribute: {attribute}")
        check_value(attribute, value, fifo)
    tags = {tag["Key"]: tag.get("Value", "") for tag in params.get("Tags") or []}
    check_tags([tag["Key"] for tag in params.get("Tags") or []], INVALID, most="TagLimitExceeded")
    known = topic_of(caller, caller.arn("sns", name))
    if known is not None:
        check_same_topic(known, attributes, tags)


def _set_topic(caller: Caller, params: Params) -> None:
    name = params["AttributeName"]
    known = name in _TOPIC_ATTRIBUTES or _FEEDBACK.fullmatch(name)
    require(known, INVALID, "Invalid parameter: AttributeName")
    check_value(name, params.get("AttributeValue"), params["TopicArn"].endswith(".fifo"))


def _publish(caller: Caller, params: Params) -> None:
    require(params.get("Message"), INVALID, "Invalid parameter: Empty message")
    subject = params.get("Subject")
    valid = subject is None or (0 < len(subject) <= 100 and subject.isprintable())
    require(valid, INVALID, "Invalid parameter: Subject")
    if params.get("MessageStructure") == "json":
        message = "Invalid parameter: Message Structure - "
        try:
            body = json.loads(params["Message"])
        except ValueError:
            body = None
        require(isinstance(body, dict), INVALID, f"{message}JSON message body failed to parse")
        require("default" in body, INVALID, f"{message}No default entry in JSON message body")
    for name, attribute in (params.get("MessageAttributes") or {}).items():
        kind = str(attribute.get("DataType", "")).partition(".")[0]
        message = (
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type "
            "prefixes is Binary, Number, and String."
        )
        require(kind in _DATA_TYPES, "ParameterValueInvalid", message)
    _check_order(caller, params)


def _check_order(caller: Caller, params: Params) -> None:
    """What a FIFO topic needs of a message, and what a standard one does not take."""
    topic = topic_of(caller, params.get("TopicArn") or params.get("TargetArn") or "")
    if topic is None:
        return
    fifo, given = topic.arn.endswith(".fifo"), params.get("MessageDeduplicationId")
    message = "Invalid parameter: The MessageGroupId parameter is required for FIFO topics"
    require(not fifo or params.get("MessageGroupId"), INVALID, message)
    message = (
        "Invalid parameter: The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
        "provided explicitly"
    )
    by_content = str(topic.content_based_deduplication).lower() == "true"
    require(not fifo or given or by_content, INVALID, message)
    message = (
        "Invalid parameter: The request includes MessageDeduplicationId parameter that is not valid for this topic type"
    )
    require(fifo or not given, INVALID, message)


def _subscribe(caller: Caller, params: Params) -> None:
    protocol, endpoint = params["Protocol"], params.get("Endpoint") or ""
    require(
        protocol in _PROTOCOLS,
        INVALID,
        "Invalid parameter: Amazon SNS does not support this protocol string: " + protocol,
    )
    if protocol.startswith("email"):
        require(re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", endpoint), INVALID, "Invalid parameter: Email address")
    if protocol in ("http", "https"):
        message = "Invalid parameter: Endpoint must match the specified protocol"
        require(endpoint.startswith(f"{protocol}://"), INVALID, message)
    if protocol in ("sqs", "lambda", "firehose"):
        require(endpoint.startswith("arn:"), INVALID, f"Invalid parameter: {protocol.upper()} endpoint ARN")
    _check_kinds(protocol, endpoint, params["TopicArn"].endswith(".fifo"))
    attributes: Document = params.get("Attributes") or {}
    for name, value in attributes.items():
        message = f"Invalid parameter: Attributes Reason: Unknown attribute: {name}"
        require(name in _SUBSCRIPTION_ATTRIBUTES, INVALID, message)
        check_value(name, value, params["TopicArn"].endswith(".fifo"))
    check_filter(caller, attributes.get("FilterPolicy"), attributes.get("FilterPolicyScope"))
    _check_raw(protocol, attributes.get("RawMessageDelivery"))
    message = "Invalid parameter: Attributes Reason: SubscriptionRoleArn is required for the protocol firehose"
    require(protocol != "firehose" or attributes.get("SubscriptionRoleArn"), INVALID, message)
    known = subscription_of(caller, topic_arn=params["TopicArn"], protocol=protocol, endpoint=endpoint)
    if known is not None:
        check_same_subscription(known, attributes)


def _check_kinds(protocol: str, endpoint: str, fifo: bool) -> None:
    """SNS developer guide, "Message delivery for FIFO topics": they deliver to queues, and only they to FIFO queues."""
    message = "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"
    require(fifo or protocol != "sqs" or not endpoint.endswith(".fifo"), INVALID, f"Invalid parameter: {message}")
    require(
        not fifo or protocol == "sqs", INVALID, "Invalid parameter: Protocol Reason: FIFO topics deliver to SQS only"
    )


def _check_raw(protocol: str, value: str | None) -> None:
    message = (
        f"Invalid parameter: Attributes Reason: Delivery protocol [{protocol}] does not support raw message delivery."
    )
    require(str(value).lower() != "true" or protocol in _RAW, INVALID, message)


def _set_subscription(caller: Caller, params: Params) -> None:
    name, value = params["AttributeName"], params.get("AttributeValue")
    known = subscription_of(caller, arn=params["SubscriptionArn"])
    if known is None or name not in _SUBSCRIPTION_ATTRIBUTES:
        return
    check_value(name, value, known.topic_arn.endswith(".fifo"))
    if name == "FilterPolicy":
        check_filter(caller, value, known.attributes.get("FilterPolicyScope"))
    if name == "RawMessageDelivery":
        _check_raw(known.protocol, value)


def _tag(caller: Caller, params: Params) -> None:
    found = topic_of(caller, params["ResourceArn"])
    kept = found._tags if found is not None else ()
    check_tags([tag["Key"] for tag in params["Tags"]], INVALID, most="TagLimitExceeded", kept=kept)


def _permit(caller: Caller, params: Params) -> None:
    foreign = [one for one in params["AWSAccountId"] if not re.fullmatch(r"\d{12}", one)]
    require(not foreign, INVALID, f"Invalid parameter: AWSAccountId Reason: no account's id: {', '.join(foreign)}")


def _unsubscribe(caller: Caller, params: Params) -> None:
    parts = params["SubscriptionArn"].split(":")
    message = f"Invalid parameter: SubscriptionArn Reason: An ARN must have at least 6 elements, not {len(parts)}"
    require(len(parts) > 5, INVALID, message)


RULES: dict[str, Rule] = {
    "CreateTopic": _create,
    "SetTopicAttributes": _set_topic,
    "TagResource": _tag,
    "AddPermission": _permit,
    "Publish": _publish,
    "Subscribe": _subscribe,
    "Unsubscribe": _unsubscribe,
    "SetSubscriptionAttributes": _set_subscription,
}
