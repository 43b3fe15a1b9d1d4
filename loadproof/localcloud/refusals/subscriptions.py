"""What SNS refuses of the attributes of topics and subscriptions: SNS API reference, SetTopicAttributes, Subscribe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from moto.core.utils import camelcase_to_underscores
from moto.sns.exceptions import SNSException

from loadproof.localcloud.refusals.rules import Moto, is_json_object, moto_of, require
from loadproof.localcloud.wire import AwsError, Caller

INVALID: Final = "InvalidParameter"
_MOST_DISPLAY_NAME: Final = 100
_CHOICES: Final = {
    "FifoTopic": ("true", "false"),
    "ContentBasedDeduplication": ("true", "false"),
    "FifoThroughputScope": ("Topic", "MessageGroup"),
    "SignatureVersion": ("1", "2"),
    "TracingConfig": ("PassThrough", "Active"),
    "RawMessageDelivery": ("true", "false"),
    "FilterPolicyScope": ("MessageAttributes", "MessageBody"),
}
_OF_FIFO: Final = ("ContentBasedDeduplication", "FifoThroughputScope", "ArchivePolicy", "ReplayPolicy")
_JSON: Final = {
    "Policy", "DeliveryPolicy", "ArchivePolicy", "DataProtectionPolicy", "FilterPolicy", "RedrivePolicy",
    "ReplayPolicy",
}  # fmt: skip
_DEFAULTS: Final = {
    "FifoTopic": "false", "ContentBasedDeduplication": "false", "FifoThroughputScope": "Topic",
    "SignatureVersion": "1", "TracingConfig": "PassThrough", "RawMessageDelivery": "false",
    "FilterPolicyScope": "MessageAttributes",
}  # fmt: skip
_FALSE_IN_ANY_CASE: Final = "RawMessageDelivery"
_RATE: Final = re.compile(r"\d{1,2}|100")
_QUEUE: Final = re.compile(r"arn:aws[\w-]*:sqs:[\w-]+:\d{12}:[\w-]{1,80}(\.fifo)?")


def check_value(name: str, value: str | None, fifo: bool) -> None:
    """One attribute of a topic or a subscription; none, or an empty one, is as if it were not there."""
    if not value:
        return
    told = value.lower() if name == _FALSE_IN_ANY_CASE else value
    allowed = _CHOICES.get(name, (told,))
    message = f"Invalid parameter: Attributes Reason: {name}: Invalid value [{value}]. Must be {' or '.join(allowed)}."
    require(told in allowed, INVALID, message)
    message = f"Invalid parameter: Attributes Reason: {name} can only be set for FIFO topics"
    require(fifo or name not in _OF_FIFO, INVALID, message)
    message = f"Invalid parameter: {name} Reason: must be at most {_MOST_DISPLAY_NAME} characters long"
    require(name != "DisplayName" or len(value) <= _MOST_DISPLAY_NAME, INVALID, message)
    message = f"Invalid parameter: Attributes Reason: {name}: from 0 to 100 per cent"
    require(not name.endswith("SampleRate") or _RATE.fullmatch(value), INVALID, message)
    message = f"Invalid parameter: Attributes Reason: {name}: failed to parse JSON."
    require(name not in _JSON or is_json_object(value), INVALID, message)
    if name == "RedrivePolicy":
        arn = str(json.loads(value).get("deadLetterTargetArn"))
        require(
            _QUEUE.fullmatch(arn), INVALID, "Invalid parameter: RedrivePolicy: deadLetterTargetArn is an invalid arn"
        )


def check_filter(caller: Caller, policy: str | None, scope: str | None) -> None:
    """A filter policy that is JSON, by moto's own rules, which come too late for a subscription that is not there."""
    if not policy:
        return
    try:
        moto_of("sns", caller)._validate_filter_policy(json.loads(policy), scope=scope)
    except SNSException as error:
        raise AwsError(INVALID, str(error.message)) from None


def topic_of(caller: Caller, arn: str) -> Moto:
    """moto's topic; None when there is none."""
    return moto_of("sns", caller).topics.get(arn)


def subscription_of(caller: Caller, **told: str) -> Moto:
    """moto's subscription that has these fields; None when there is none."""
    known = moto_of("sns", caller).subscriptions.values()
    return next((one for one in known if all(getattr(one, name) == value for name, value in told.items())), None)


def check_same_topic(topic: Moto, attributes: Mapping[str, str], tags: Mapping[str, str]) -> None:
    """To make a topic that is there is to name it; other attributes or tags than it has are refused."""
    kept = {name: getattr(topic, camelcase_to_underscores(name), None) for name in attributes}
    message = "Invalid parameter: Attributes Reason: Topic already exists with different attributes"
    require(_same(kept, attributes), INVALID, message)
    message = "Invalid parameter: Tags Reason: Topic already exists with different tags"
    require(tags.items() <= topic._tags.items(), INVALID, message)


def check_same_subscription(subscription: Moto, attributes: Mapping[str, str]) -> None:
    message = "Invalid parameter: Attributes Reason: Subscription already exists with different attributes"
    require(_same(subscription.attributes, attributes), INVALID, message)


def _same(kept: Mapping[str, object], asked: Mapping[str, str]) -> bool:
    return all(_plain(name, kept.get(name)) == _plain(name, value) for name, value in asked.items())


def _plain(name: str, value: object) -> object:
    """Comparable: what is not set is its default, and JSON is what it says."""
    text = str(value) if value not in (None, "", False) else _DEFAULTS.get(name, "")
    if text and name in _JSON:
        return json.loads(text)
    return text.lower() if text.lower() in ("true", "false") else text
