"""What SNS refuses beyond its service model, which says nearly nothing."""

from __future__ import annotations

import json
import re

from loadproof.localcloud.refusals.rules import Rule, check_tags, is_json_object, require
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

_INVALID = "InvalidParameter"
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
    require(_NAME.fullmatch(name), _INVALID, "Invalid parameter: Topic Name")
    fifo = attributes.get("FifoTopic") == "true"
    message = "Invalid parameter: Fifo Topic names must end with .fifo and must be made up of only uppercase and "
    require(
        fifo == name.endswith(".fifo"),
        _INVALID,
        f"{message}lowercase ASCII letters, numbers, underscores, and hyphens.",
    )
    for attribute, value in attributes.items():
        known = attribute in _TOPIC_ATTRIBUTES or _FEEDBACK.fullmatch(attribute)
        require(known, _INVALID, f"Invalid parameter: Attributes Reason: Unknown attribute: {attribute}")
        _check_policy(attribute, value)
    check_tags([tag["Key"] for tag in params.get("Tags") or []], _INVALID, most="TagLimitExceeded")


def _set_topic(caller: Caller, params: Params) -> None:
    name = params["AttributeName"]
    known = name in _TOPIC_ATTRIBUTES or _FEEDBACK.fullmatch(name)
    require(known, _INVALID, "Invalid parameter: AttributeName")
    _check_policy(name, params.get("AttributeValue"))


def _check_policy(attribute: str, value: str | None) -> None:
    if attribute != "Policy" or not value:
        return
    require(is_json_object(value), _INVALID, "Invalid parameter: Policy Error: null")


def _publish(caller: Caller, params: Params) -> None:
    require(params.get("Message"), _INVALID, "Invalid parameter: Empty message")
    subject = params.get("Subject")
    valid = subject is None or (0 < len(subject) <= 100 and subject.isprintable())
    require(valid, _INVALID, "Invalid parameter: Subject")
    if params.get("MessageStructure") == "json":
        message = "Invalid parameter: Message Structure - "
        try:
            body = json.loads(params["Message"])
        except ValueError:
            body = None
        require(isinstance(body, dict), _INVALID, f"{message}JSON message body failed to parse")
        require("default" in body, _INVALID, f"{message}No default entry in JSON message body")
    for name, attribute in (params.get("MessageAttributes") or {}).items():
        kind = str(attribute.get("DataType", "")).partition(".")[0]
        message = (
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type "
            "prefixes is Binary, Number, and String."
        )
        require(kind in _DATA_TYPES, "ParameterValueInvalid", message)


def _subscribe(caller: Caller, params: Params) -> None:
    protocol, endpoint = params["Protocol"], params.get("Endpoint") or ""
    require(
        protocol in _PROTOCOLS,
        _INVALID,
        "Invalid parameter: Amazon SNS does not support this protocol string: " + protocol,
    )
    if protocol.startswith("email"):
        require(re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", endpoint), _INVALID, "Invalid parameter: Email address")
    if protocol in ("http", "https"):
        message = "Invalid parameter: Endpoint must match the specified protocol"
        require(endpoint.startswith(f"{protocol}://"), _INVALID, message)
    if protocol in ("sqs", "lambda", "firehose"):
        require(endpoint.startswith("arn:"), _INVALID, f"Invalid parameter: {protocol.upper()} endpoint ARN")
    attributes: Document = params.get("Attributes") or {}
    for name in attributes:
        require(
            name in _SUBSCRIPTION_ATTRIBUTES,
            _INVALID,
            f"Invalid parameter: Attributes Reason: Unknown attribute: {name}",
        )
    _check_filter(attributes.get("FilterPolicy"))
    raw = str(attributes.get("RawMessageDelivery", "")).lower() == "true"
    message = (
        f"Invalid parameter: Attributes Reason: Delivery protocol [{protocol}] does not support raw message delivery."
    )
    require(not raw or protocol in _RAW, _INVALID, message)


def _check_filter(policy: str | None) -> None:
    known = not policy or is_json_object(policy)
    require(known, _INVALID, "Invalid parameter: Attributes Reason: FilterPolicy: failed to parse JSON.")


def _set_subscription(caller: Caller, params: Params) -> None:
    if params["AttributeName"] == "FilterPolicy":
        _check_filter(params.get("AttributeValue"))


def _tag(caller: Caller, params: Params) -> None:
    check_tags([tag["Key"] for tag in params["Tags"]], _INVALID, most="TagLimitExceeded")


def _unsubscribe(caller: Caller, params: Params) -> None:
    parts = params["SubscriptionArn"].split(":")
    message = f"Invalid parameter: SubscriptionArn Reason: An ARN must have at least 6 elements, not {len(parts)}"
    require(len(parts) > 5, _INVALID, message)


RULES: dict[str, Rule] = {
    "CreateTopic": _create,
    "SetTopicAttributes": _set_topic,
    "TagResource": _tag,
    "Publish": _publish,
    "Subscribe": _subscribe,
    "Unsubscribe": _unsubscribe,
    "SetSubscriptionAttributes": _set_subscription,
}
