"""One message: what may be in it, its digests, its size, and the handle that each receive gives out."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from loadproof.localcloud.queue.sqs.errors import invalid, invalid_value, missing
from loadproof.localcloud.wire import AwsError, known
from loadproof.wire.documents import Document

_ALLOWED = "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
_NOT_ALLOWED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"(?!(?i:aws\.|amazon\.))(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)\Z")
_TYPE = re.compile(r"(String|Number|Binary)(\..{1,249})?\Z")
_GROUP = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}\Z")
_MOST_ATTRIBUTES = 10
_TRACE = "AWSTraceHeader"


class Attribute(NamedTuple):
    """One of the sender's attributes; `value` is bytes for the type Binary."""

    data_type: str
    value: str | bytes

    @property
    def raw(self) -> bytes:
        return self.value if isinstance(self.value, bytes) else self.value.encode()

    def shown(self) -> Document:
        kind = "BinaryValue" if isinstance(self.value, bytes) else "StringValue"
        return {kind: self.value, "DataType": self.data_type}


Attributes = Mapping[str, Attribute]


class State(Enum):
    DELAYED = "delayed"  # sent, not to be seen yet
    VISIBLE = "visible"
    IN_FLIGHT = "in flight"  # received, hidden until `visible_at_s`
    GONE = "gone"  # deleted, expired or moved to another queue


@dataclass(slots=True, eq=False)
class Message:
    """A message in one queue. `sent_s` is when it was first sent, `arrived_s` when it came into this queue.

    `order` says who is next among the visible ones; `visible_at_s` holds while it is delayed or in flight. `receives`
    counts over all queues, `receives_here` in this one.
    """

    id: str
    body: str
    attributes: Attributes
    trace: str | None
    group: str | None
    sender: str
    sent_s: float
    arrived_s: float
    order: int = 0
    state: State = State.VISIBLE
    visible_at_s: float = 0.0
    receives: int = 0
    receives_here: int = 0
    received_s: float = 0.0
    first_received_s: float = 0.0
    dead_letter_source: str | None = None
    md5_of_body: str = field(init=False)

    def __post_init__(self) -> None:
        self.md5_of_body = _md5(self.body.encode())

    def system_attributes(self) -> dict[str, str]:
        """What SQS itself says of a message; timestamps are milliseconds of Unix time."""
        return known(
            SenderId=self.sender,
            SentTimestamp=str(int(self.sent_s * 1000)),
            ApproximateReceiveCount=str(self.receives),
            ApproximateFirstReceiveTimestamp=str(int(self.first_received_s * 1000)),
            MessageGroupId=self.group,
            AWSTraceHeader=self.trace,
            DeadLetterQueueSourceArn=self.dead_letter_source,
        )


def checked_body(body: str | None) -> str:
    """Raises when the body is missing or holds a character that SQS refuses."""
    if not body:
        raise missing("MessageBody")
    _check_text(body, "message body")
    return body


def checked_group(group: str | None) -> str | None:
    if group is not None and not _GROUP.match(group):
        reason = "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length"
        raise invalid_value(group, "MessageGroupId", f"{reason}.")
    return group


def checked_attributes(given: Mapping[str, Document] | None) -> dict[str, Attribute]:
    """The sender's attributes as the API has them. Raises for names, types and values that SQS refuses."""
    given = given or {}
    if len(given) > _MOST_ATTRIBUTES:
        raise invalid(f"Number of message attributes [{len(given)}] exceeds the allowed maximum [{_MOST_ATTRIBUTES}].")
    return {name: _attribute(name, value) for name, value in given.items()}


def checked_trace(given: Mapping[str, Document] | None) -> str | None:
    """The one system attribute that a sender may set."""
    for name in given or {}:
        if name != _TRACE:
            raise invalid(f"Message system attribute name '{name}' is invalid.")
    trace = (given or {}).get(_TRACE, {}).get("StringValue")
    return None if trace is None else str(trace)


def _attribute(name: str, given: Document) -> Attribute:
    if not _NAME.match(name):
        raise invalid(
            f"Message (user) attribute name '{name}' is invalid: 1 to 256 of A-Z a-z 0-9 _ - . are allowed, no period "
            "first, last or twice in a row, and not AWS. or Amazon. at its beginning."
        )
    data_type = str(given.get("DataType", ""))
    if not _TYPE.match(data_type):
        raise invalid(
            f"The type of message (user) attribute '{name}' is invalid. "
            "You must use only the following supported type prefixes: Binary, Number, String."
        )
    value = given.get("BinaryValue" if data_type.startswith("Binary") else "StringValue")
    if not value:
        raise invalid(f"Message (user) attribute '{name}' must contain a non-empty value of type '{data_type}'.")
    if not data_type.startswith("Binary"):
        _check_text(str(value), f"message attribute '{name}'")
        if data_type.startswith("Number"):
            _check_number(name, str(value))
        return Attribute(data_type, str(value))
    try:
        return Attribute(data_type, value if isinstance(value, bytes) else base64.b64decode(value, validate=True))
    except binascii.Error:
        raise invalid(f"Message (user) attribute '{name}' is not base64.") from None


def _check_number(name: str, value: str) -> None:
    try:
        float(value)
    except ValueError:
        raise invalid(f"Can't cast the value of message (user) attribute '{name}' to a number.") from None


def _check_text(text: str, what: str) -> None:
    found = _NOT_ALLOWED.search(text)
    if found:
        raise AwsError(
            "InvalidMessageContents",
            f"Invalid binary character '#x{ord(found.group()):X}' was found in the {what}, "
            f"the set of allowed characters is {_ALLOWED}",
        )


def size_of(body: str, attributes: Attributes) -> int:
    """Bytes that count towards the limits: the body, and of each attribute its name, type and value."""
    return len(body.encode()) + sum(
        len(name.encode()) + len(one.data_type) + len(one.raw) for name, one in attributes.items()
    )


def md5_of_attributes(attributes: Attributes) -> str:
    """SQS's digest of attributes, by name: length and bytes of name and type, 1 (text) or 2 (binary), the value.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
    """
    packed = bytearray()
    for name in sorted(attributes):
        one = attributes[name]
        packed += _counted(name.encode()) + _counted(one.data_type.encode())
        packed += (b"\x02" if isinstance(one.value, bytes) else b"\x01") + _counted(one.raw)
    return _md5(bytes(packed))


def _counted(part: bytes) -> bytes:
    return struct.pack(">I", len(part)) + part


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class Receipt(NamedTuple):
    """One receive of one message: what a receipt handle stands for."""

    queue_id: int
    message_id: str
    receives: int
    received_s: float


_PACKED = struct.Struct(">3sQ16sIdI")
_MARK = b"LP1"


def handle_of(receipt: Receipt) -> str:
    """The receipt as clients carry it: opaque text with a checksum."""
    plain = _PACKED.pack(_MARK, receipt[0], uuid.UUID(receipt[1]).bytes, receipt[2], receipt[3], 0)
    return base64.urlsafe_b64encode(plain[:-4] + struct.pack(">I", binascii.crc32(plain[:-4]))).decode()


def receipt_of(handle: str) -> Receipt:
    """Raises ReceiptHandleIsInvalid for text that no receive ever gave out."""
    try:
        plain = base64.urlsafe_b64decode(handle.encode())
        mark, queue_id, message_id, receives, received_s, checksum = _PACKED.unpack(plain)
    except (ValueError, struct.error):
        raise not_a_handle(handle) from None
    if mark != _MARK or checksum != binascii.crc32(plain[:-4]):
        raise not_a_handle(handle)
    return Receipt(queue_id, str(uuid.UUID(bytes=message_id)), receives, received_s)


def not_a_handle(handle: str) -> AwsError:
    return AwsError("ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.')
