"""SNS as it treats addresses: nothing is delivered before somebody follows the link in the first message.

moto takes every subscription as confirmed. The token that AWS would send is here the address itself:
`aws sns confirm-subscription --topic-arn ARN --token on-call@example.com`.
"""

from __future__ import annotations

from typing import Any, Final

from moto.core.responses import ActionResult
from moto.sns import models, responses
from moto.sns.exceptions import SNSInvalidParameter

PENDING: Final = "PendingConfirmation"
_ASKED: Final = ("email", "email-json", "http", "https")


def install() -> None:
    """Once a process, before moto serves; again it changes nothing."""
    subscription: Any = models.Subscription
    backend: Any = models.SNSBackend
    response: Any = responses.SNSResponse
    publish = subscription.publish
    if publish.__name__ == "publish_if_confirmed":
        return
    by_topic, everywhere = backend.list_subscriptions_by_topic, backend.list_subscriptions

    def publish_if_confirmed(self: Any, *given: object, **named: object) -> None:
        if is_confirmed(self):
            publish(self, *given, **named)

    def listed_by_topic(self: Any, *given: object, **named: object) -> Any:
        found, more = by_topic(self, *given, **named)
        return [_listed(one) for one in found], more

    def listed(self: Any, *given: object, **named: object) -> Any:
        found, more = everywhere(self, *given, **named)
        return [_listed(one) for one in found], more

    def confirm(self: Any) -> Any:
        topic, token = self._get_param("TopicArn"), self._get_param("Token")
        for one in self.backend.subscriptions.values():
            if one.topic_arn == topic and one.endpoint == token:
                one.confirmed = True
                return ActionResult({"SubscriptionArn": one.arn})
        raise SNSInvalidParameter("Invalid parameter: Token")

    subscription.publish = publish_if_confirmed
    backend.list_subscriptions_by_topic, backend.list_subscriptions = listed_by_topic, listed
    response.confirm_subscription = confirm


def is_confirmed(subscription: Any) -> bool:
    """Queues, functions and telephones need not ask anybody."""
    return bool(subscription.confirmed) or subscription.protocol not in _ASKED


def _listed(subscription: Any) -> Any:
    """One that is not confirmed has no ARN yet."""
    if is_confirmed(subscription):
        return subscription
    return {
        "SubscriptionArn": PENDING,
        "Owner": subscription.owner,
        "Protocol": subscription.protocol,
        "Endpoint": subscription.endpoint,
        "TopicArn": subscription.topic_arn,
    }
