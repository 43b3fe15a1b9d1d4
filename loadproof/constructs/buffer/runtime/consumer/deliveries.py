"""The queue as one consumer sees it: letters, how long they stay hidden, and where they go without an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from loadproof.wire.documents import Document
from loadproof.wire.message import ATTEMPTS, FIRST_SENT, POSTPONED, REASON

from .stores import Time, persevere

LONGEST_DELAY_S: Final = 900  # SQS's own bound on a message's delay
LONGEST_VISIBILITY_S: Final = 43200
_MOST_ATTRIBUTES: Final = 10
MOST_BYTES: Final = 1_048_576  # of a message with its attributes, by SQS; a queue may take less
_OURS: Final = (FIRST_SENT, POSTPONED, REASON, ATTEMPTS)
_BATCH: Final = 10


@dataclass(frozen=True, slots=True)
class Delivery:
    """One received message. `attributes` are the sender's own, as (type, value)."""

    message_id: str
    receipt: str
    body: str
    first_sent_ms: int
    postponed: int = 0
    group: str | None = None
    attributes: Mapping[str, tuple[str, str | bytes]] = field(default_factory=dict)


class TooLargeError(Exception):
    """With what must be added the message is longer than its queue takes."""


class Queue:
    """Lambda deletes what the handler does not report; everything else about the queue happens here."""

    def __init__(self, sqs: Any, *, url: str, dead_letter_url: str, clock: Time, most_bytes: int = MOST_BYTES) -> None:
        """`most_bytes`: of a message in the queue; the dead-letter queue takes what SQS takes."""
        self._sqs = sqs
        self._most_bytes = {dead_letter_url: MOST_BYTES, url: most_bytes}
        self._url = url
        self._dead_letter_url = dead_letter_url
        self._clock = clock

    def hide(self, receipts: Iterable[str], seconds: float) -> None:
        """Hide messages for so long from now; a receipt that is no longer valid is passed over.

        Raises StoreDownError, ClientError.
        """
        hidden = list(receipts)
        timeout_s = max(0, min(LONGEST_VISIBILITY_S, round(seconds)))
        for start in range(0, len(hidden), _BATCH):
            entries = [
                {"Id": str(at), "ReceiptHandle": receipt, "VisibilityTimeout": timeout_s}
                for at, receipt in enumerate(hidden[start : start + _BATCH])
            ]
            persevere("the queue", lambda: self._hide(entries), self._clock)  # noqa: B023 (called before the next turn)

    def postpone(self, delivery: Delivery, body: str, delay_s: float) -> None:
        """Send it anew: receives spent so far are forgotten, the age is kept. Raises StoreDownError, TooLargeError."""
        ours = {FIRST_SENT: delivery.first_sent_ms, POSTPONED: delivery.postponed + 1}
        more: Document = {"MessageGroupId": delivery.group} if delivery.group else {}
        more["DelaySeconds"] = max(0, min(LONGEST_DELAY_S, round(delay_s)))
        self._send(self._url, body, delivery, ours, more)

    def dead_letter(self, delivery: Delivery, body: str, reason: str, attempts: int) -> None:
        """Send it to the dead-letter queue with its reason. Raises StoreDownError, TooLargeError."""
        ours: dict[str, str | int] = {FIRST_SENT: delivery.first_sent_ms, REASON: reason, ATTEMPTS: attempts}
        more = {"MessageGroupId": delivery.group} if delivery.group else {}
        self._send(self._dead_letter_url, body, delivery, ours, more)

    def delete(self, receipt: str) -> None:
        """A message that was sent on, now: Lambda deletes it with its whole batch, and each crash until then would
        leave two. Raises what boto3 raises; then Lambda's deletion is the one that counts.
        """
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)

    def _hide(self, entries: list[Document]) -> None:
        self._sqs.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)

    def _send(
        self, url: str, body: str, delivery: Delivery, ours: Mapping[str, str | int], more: Mapping[str, Any]
    ) -> None:
        attributes: dict[str, dict[str, str | bytes]] = {
            name: {"DataType": "String" if isinstance(value, str) else "Number", "StringValue": str(value)}
            for name, value in ours.items()
        }
        for name, (kind, value) in delivery.attributes.items():
            if name not in _OURS and len(attributes) < _MOST_ATTRIBUTES:
                attributes[name] = {
                    "DataType": kind,
                    "BinaryValue" if isinstance(value, bytes) else "StringValue": value,
                }
        if len(body.encode()) + _bytes_of(attributes) > self._most_bytes[url]:
            raise TooLargeError(f"the message and its attributes exceed {self._most_bytes[url]:,} bytes")
        persevere(
            "the queue",
            lambda: self._sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes, **more),
            self._clock,
        )


def _bytes_of(attributes: Mapping[str, Mapping[str, str | bytes]]) -> int:
    """What attributes take of a message: name, type and value."""
    parts = ([name, *value.values()] for name, value in attributes.items())
    return sum(len(part.encode() if isinstance(part, str) else part) for attribute in parts for part in attribute)
