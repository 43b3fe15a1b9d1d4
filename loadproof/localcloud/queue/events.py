"""The SQS event a function sees, and what its answer means for each message. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from loadproof.wire.documents import Document

Message = Document

_ATTRIBUTE_FIELDS = (
    ("StringValue", "stringValue"),
    ("BinaryValue", "binaryValue"),
    ("DataType", "dataType"),
)


def sqs_event(messages: Sequence[Message], queue_arn: str) -> Document:
    """Lambda's SQS event from ReceiveMessage's answer."""
    region = queue_arn.split(":")[3]
    return {"Records": [_record(message, queue_arn, region) for message in messages]}


def _record(message: Message, queue_arn: str, region: str) -> Document:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {
            name: {
                "stringListValues": [],
                "binaryListValues": [],
                **{ours: _text(value[theirs]) for theirs, ours in _ATTRIBUTE_FIELDS if theirs in value},
            }
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message.get("MD5OfBody", ""),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    }


def _text(value: str | bytes) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def done(messages: Sequence[Message], answer: object, *, report_failures: bool) -> list[Message]:
    """The messages Lambda deletes after a handler returned `answer`; the rest come back after the visibility time-out.

    With ReportBatchItemFailures: null, an empty answer or an empty list is success; an answer that is malformed, names
    no item or names an unknown one fails the whole batch.
    """
    if not report_failures or answer is None or answer == {}:
        return list(messages)
    failures = answer.get("batchItemFailures") if isinstance(answer, dict) else ()
    if failures is None or failures == []:
        return list(messages)
    if not isinstance(failures, list):
        return []
    named = {item.get("itemIdentifier") if isinstance(item, dict) else None for item in failures}
    if not named <= {message["MessageId"] for message in messages}:
        return []
    return [message for message in messages if message["MessageId"] not in named]
