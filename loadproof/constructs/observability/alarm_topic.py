"""Whom alarms tell: the environment's own topic, or one made here for its e-mail addresses."""

from __future__ import annotations

from aws_cdk import aws_sns as sns
from constructs import Construct

from loadproof.constructs.cdk.statements import Statement, document
from loadproof.profiles.schema import Environment


def topic_arn(scope: Construct, environment: Environment) -> str | None:
    """The topic's ARN; None where the environment names neither a topic nor addresses.

    A topic made here is encrypted with the environment's key, if it has one: alarms cannot use SNS's own key, so
    without one it is not encrypted. An alarm's text says names and thresholds, never what anybody asked a model.
    """
    if environment.alarm_topic_arn is not None:
        return environment.alarm_topic_arn
    if not environment.alarm_emails:
        return None
    topic = sns.CfnTopic(
        scope,
        "Topic",
        kms_master_key_id=environment.kms_key_arn,
        subscription=[
            sns.CfnTopic.SubscriptionProperty(protocol="email", endpoint=address)
            for address in environment.alarm_emails
        ],
    )
    sns.CfnTopicPolicy(
        scope,
        "TopicPolicy",
        topics=[topic.ref],
        policy_document=document(_from_alarms(topic.ref, environment.account), _encrypted_only(topic.ref)),
    )
    return topic.ref


def _from_alarms(topic: str, account: str) -> Statement:
    return {
        "Sid": "AlarmsOfThisAccount",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": topic,
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }


def _encrypted_only(topic: str) -> Statement:
    return {
        "Sid": "EncryptedOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sns:Publish",
        "Resource": topic,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
