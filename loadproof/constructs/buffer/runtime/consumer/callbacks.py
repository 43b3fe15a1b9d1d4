"""Telling somebody that a result is there."""

from __future__ import annotations

import json
from typing import Any

from loadproof.wire.message import MalformedError

from .stores import Time, persevere


class Callbacks:
    """The queues and topics that the profile names; no message can name another."""

    def __init__(self, sqs: Any, sns: Any, allowed: frozenset[str], clock: Time) -> None:
        self._sqs = sqs
        self._sns = sns
        self._allowed = allowed
        self._clock = clock

    def check(self, arn: str | None) -> None:
        """Raises MalformedError for an ARN that is not among `buffer.callbacks`."""
        if arn is not None and arn not in self._allowed:
            raise MalformedError("`callback` is not among the profile's buffer.callbacks")

    def tell(self, arn: str, key: str, uri: str) -> None:
        """At least once, after the result is stored. Raises StoreDownError, ClientError."""
        text = json.dumps({"key": key, "result": uri})
        _, _, service, _, account, name = arn.split(":", 5)
        if service == "sns":
            persevere("the topic of the callback", lambda: self._sns.publish(TopicArn=arn, Message=text), self._clock)
            return
        url = f"{self._sqs.meta.endpoint_url}/{account}/{name}"
        persevere(
            "the queue of the callback",
            lambda: self._sqs.send_message(QueueUrl=url, MessageBody=text),
            self._clock,
        )
