"""Alarms: whether anybody hears them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.preflight.account import UnseenError
from loadproof.preflight.needs import AlarmTopic
from loadproof.preflight.policies import Asker, answer_of
from loadproof.preflight.rules.keys import key_answer_to
from loadproof.preflight.rules.rule import Found, alarms_rule

_GONE: Final = ("NotFound", "NotFoundException")
_PENDING: Final = "PendingConfirmation"
_CLOUDWATCH: Final = "cloudwatch.amazonaws.com"


@alarms_rule(
    "LA181",
    "Alarms tell nobody",
    reason="The environment names neither a topic nor an address: alarms change their colour in a console that nobody "
    "looks at.",
    mend="Set `alarm_topic_arn` or `alarm_emails` in environment.yaml.",
    severity="warning",
)
def nobody_named(need: AlarmTopic) -> Iterator[Found]:
    environment = need.environment
    if environment.alarm_topic_arn is None and not environment.alarm_emails:
        yield Found(
            "alarms",
            "environment.yaml has neither alarm_topic_arn nor alarm_emails",
            f"aws sns create-topic --name alarms --region {need.account.region}, then alarm_topic_arn: its ARN",
            needed="one of them",
        )


@alarms_rule(
    "LA182",
    "The alarms' topic is not there",
    reason="CloudWatch takes any ARN as an alarm's action and says nothing when it leads nowhere.",
    mend="Make the topic, or name the right one.",
)
def topic_missing(need: AlarmTopic) -> Iterator[Found]:
    topic = need.environment.alarm_topic_arn
    if topic is not None and _attributes(need, topic) is None:
        name = topic.rpartition(":")[2]
        yield Found(
            topic,
            "there is no such topic",
            f"aws sns create-topic --name {name} --region {need.account.region}",
            needed="the topic that alarms notify",
        )


@alarms_rule(
    "LA183",
    "Nobody has confirmed the topic's subscription",
    reason="SNS delivers to an address only after somebody followed the link in its first message. Until then an alarm "
    "fires and nobody hears it.",
    mend="Follow the link in the message, or subscribe somebody.",
    severity="warning",
)
def nobody_listens(need: AlarmTopic) -> Iterator[Found]:
    for topic in _topics(need):
        if _attributes(need, topic) is None:
            continue
        found = need.account.listed("sns", "list_subscriptions_by_topic", "Subscriptions", {"TopicArn": topic})
        waiting = sorted(one["Endpoint"] for one in found if one["SubscriptionArn"] == _PENDING)
        if len(waiting) < len(found):
            continue
        said = f"none is confirmed; {', '.join(waiting)} did not answer" if waiting else "it has no subscription"
        yield Found(
            topic,
            said,
            f"aws sns subscribe --topic-arn {topic} --protocol email --notification-endpoint ADDRESS "
            f"--region {need.account.region}, then follow the link in the message",
            needed="one subscription that is confirmed",
        )


@alarms_rule(
    "LA184",
    "CloudWatch may not tell the topic",
    reason="A topic's policy decides who may publish. Alarms come from the service cloudwatch.amazonaws.com.",
    mend="Let the topic's policy name cloudwatch.amazonaws.com.",
    severity="warning",
)
def topic_refuses(need: AlarmTopic) -> Iterator[Found]:
    topic = need.environment.alarm_topic_arn
    attributes = None if topic is None else _attributes(need, topic)
    if topic is None or attributes is None:
        return
    # The default policy of a topic allows whoever belongs to the owner's account, alarms among them.
    context = {
        "aws:SourceAccount": need.account.id,
        "AWS:SourceOwner": need.account.id,
        "aws:SecureTransport": "true",
    }
    answer = answer_of(attributes["Policy"], Asker(need.account.id, _CLOUDWATCH, context), "sns:Publish", topic)
    if answer == "unclear":
        raise UnseenError(f"the policy of {topic} has conditions that cannot be judged from outside")
    if answer != "allowed":
        yield Found(
            topic,
            "its policy lets no alarm publish",
            f"aws sns add-permission is for accounts only; edit the policy: aws sns set-topic-attributes --topic-arn "
            f"{topic} --attribute-name Policy --attribute-value file://policy.json --region {need.account.region}",
            needed="sns:Publish for Service cloudwatch.amazonaws.com",
        )


@alarms_rule(
    "LA185",
    "CloudWatch may not use the topic's key",
    reason="Alarms publish to an encrypted topic as the service cloudwatch.amazonaws.com, which the key's policy must "
    "name. The policy of AWS's own key (alias/aws/sns) does not and cannot be changed.",
    mend="Encrypt the topic with a key of your own whose policy names cloudwatch.amazonaws.com.",
    severity="warning",
)
def key_left_out(need: AlarmTopic) -> Iterator[Found]:
    """Of the topic that the environment names: those of our stacks have its key, of which LA133 speaks."""
    topic = need.environment.alarm_topic_arn
    key = None if topic is None else (_attributes(need, topic) or {}).get("KmsMasterKeyId")
    if topic is None or not key:
        return
    if key.endswith("alias/aws/sns"):
        said = f"it is encrypted with {key}, AWS's own key, whose policy names no CloudWatch"
    elif _may_use(need, key):
        return
    else:
        said = f"the policy of its key {key} does not let cloudwatch.amazonaws.com use it"
    yield Found(
        topic,
        said,
        f"aws sns set-topic-attributes --topic-arn {topic} --attribute-name KmsMasterKeyId --attribute-value KEY "
        f"--region {need.account.region}, KEY's policy allowing that service",
        needed="kms:Decrypt and kms:GenerateDataKey* for Service cloudwatch.amazonaws.com",
    )


def _may_use(need: AlarmTopic, key: str) -> bool:
    """A key that is not there is allowed. Raises UnseenError where it cannot be judged."""
    found = need.account.read("kms", "describe_key", {"KeyId": key}, _GONE)  # which takes aliases
    return found is None or key_answer_to(_CLOUDWATCH, need.account, found["KeyMetadata"]["Arn"]) == "allowed"


def _attributes(need: AlarmTopic, topic: str) -> dict[str, str] | None:
    found = need.account.read("sns", "get_topic_attributes", {"TopicArn": topic}, _GONE)
    return None if found is None else found["Attributes"]


def _topics(need: AlarmTopic) -> Iterator[str]:
    """The environment's own, or those that its stacks have made already."""
    environment = need.environment
    if environment.alarm_topic_arn is not None:
        yield environment.alarm_topic_arn
    elif environment.alarm_emails:
        for stack in need.stacks:
            params, absent = {"StackName": stack}, ("ValidationError: Stack",)
            for one in need.account.listed(
                "cloudformation", "list_stack_resources", "StackResourceSummaries", params, absent
            ):
                if one["ResourceType"] == "AWS::SNS::Topic" and one.get("PhysicalResourceId"):
                    yield one["PhysicalResourceId"]
