"""What was not answered: looking at the dead-letter queue, and sending back what deserves another life."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from loadproof.invocation.aws_errors import ClientError
from loadproof.invocation.buffer.bucket import ResultsBucket
from loadproof.invocation.buffer.calls import Calls
from loadproof.invocation.buffer.message import Message, MessageError, read_message
from loadproof.invocation.buffer.places import Places, client
from loadproof.invocation.buffer.producer import Entry, grouped, longest_message, send_batch
from loadproof.invocation.endpoints import Answer, Client
from loadproof.wire.answers import code_of
from loadproof.wire.message import ATTEMPTS, FIRST_SENT, POSTPONED, REASON

NOT_SAID: Final = "moved by SQS after too many receives: each time its consumer died"
_HIDDEN_S: Final = 900  # how long letters in hand are hidden from others if this process is killed
_BATCH: Final = 10


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that was given up. `key` None: it is not a message, or its request is gone. Times: Unix ms.

    `body` holds what somebody asked, and is there only for who asks for it.
    """

    message_id: str
    key: str | None
    reason: str
    attempts: int
    first_sent_ms: int
    tenant: str | None
    body: str | None = field(default=None, repr=False)


@dataclass(slots=True)
class Redriven:
    """How many were sent back, how many were deleted because their result is there, and what was left, by why."""

    sent: int = 0
    done: int = 0
    left: Counter[str] = field(default_factory=Counter)


Fate = Literal["send", "done"]


@dataclass(frozen=True, slots=True)
class _InHand:
    """A received letter. `fate`: what to do with it, or why it is left where it is."""

    letter: DeadLetter
    receipt: str
    body: str
    attributes: Mapping[str, Answer]
    message: Message | None


class DeadLetters:
    """The dead-letter queue of one buffer. Every method raises CouldNotRunError."""

    def __init__(
        self, places: Places, *, sqs: Client, s3: Client, dynamodb: Client, calls: Calls | None = None
    ) -> None:
        self._places = places
        self._sqs = sqs
        self._dynamodb = dynamodb
        self._calls = calls or Calls()
        self._bucket = ResultsBucket(s3, places.bucket, self._calls)

    @classmethod
    def at(cls, places: Places, region: str | None = None, endpoint_url: str | None = None) -> DeadLetters:
        sqs, s3, dynamodb = (client(service, region, endpoint_url) for service in ("sqs", "s3", "dynamodb"))
        return cls(places, sqs=sqs, s3=s3, dynamodb=dynamodb)

    def look(
        self, *, most: int | None = None, with_bodies: bool = False, seen: Callable[[int], None] = lambda count: None
    ) -> list[DeadLetter]:
        """The `most` oldest letters (None: all), oldest first. All are looked at, for a queue has no order; while it
        looks they are hidden from others, then they are back. `seen` hears how many there were."""
        receipts, letters = list[str](), list[DeadLetter]()
        try:
            for batch in self._received():
                receipts += [one.receipt for one in batch]
                letters += [one.letter if with_bodies else replace(one.letter, body=None) for one in batch]
                if most is not None and len(letters) > 2 * most:  # bodies are not kept for what will not be shown
                    letters = _oldest(letters, most)
                seen(len(receipts))
        finally:
            self._unhide(receipts)
        return _oldest(letters, most)

    def redrive(self, where: Callable[[DeadLetter], bool] = lambda letter: True) -> Redriven:
        """Give letters another life: those whose result is there are deleted, the others go back into the queue.

        Sent first and deleted then, so that an interruption loses nothing; what it leaves twice has one key, and is
        answered once. What is sent back has its reason still in its attributes, and no failures on its key's record.
        Letters that would only come back (not a message, past their deadline) stay.
        """
        redriven, in_hand, sent_keys = Redriven(), set[str](), set[str]()
        try:
            for batch in self._received():
                in_hand.update(one.receipt for one in batch)
                with ThreadPoolExecutor(_BATCH) as pool:
                    fates = list(pool.map(lambda one: self._fate(one, where, sent_keys), batch))
                chosen = [one for one, fate in zip(batch, fates, strict=True) if fate == "send"]
                done = [one for one, fate in zip(batch, fates, strict=True) if fate == "done"]
                errors = self._send_back(chosen, sent_keys)
                sent = [one for one in chosen if one.receipt not in errors]
                gone = [one.receipt for one in (*sent, *done)]
                self._delete(gone)
                in_hand.difference_update(gone)
                redriven.sent += len(sent)
                redriven.done += len(done)
                redriven.left.update(fate for fate in fates if fate not in ("send", "done"))
                redriven.left.update(f"not sent ({error})" for error in errors.values())
        finally:
            self._unhide(sorted(in_hand))
        return redriven

    def _fate(self, one: _InHand, where: Callable[[DeadLetter], bool], sent_keys: set[str]) -> Fate | str:
        """`send`, `done`, or why it stays."""
        if not where(one.letter):
            return "not chosen"
        if one.message is None or one.letter.key is None:
            return "not a message that could be answered"
        if self._bucket.has_result(one.letter.key):  # the record's `done` may outlive the result
            return "done"
        if one.letter.key in sent_keys:
            return "back again since"  # a poisonous one returns faster than a long queue is gone through
        if one.message.deadline_ms is not None and one.message.deadline_ms <= time.time() * 1000:
            return "past its deadline"
        return "send"

    def _forget_failures(self, key: str) -> None:
        """Its attempts begin again. A key without a record, or done in this moment, needs nothing."""
        try:
            self._calls(
                "the claims table",
                lambda: self._dynamodb.update_item(
                    TableName=self._places.claims_table,
                    Key={"id": {"S": key}},
                    UpdateExpression="SET attempts = :none, suspicion = :none",
                    ConditionExpression="attribute_exists(id) AND phase <> :done",
                    ExpressionAttributeValues={":none": {"N": "0"}, ":done": {"S": "done"}},
                ),
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise

    def _send_back(self, chosen: Sequence[_InHand], sent_keys: set[str]) -> dict[str, str]:
        """Errors by receipt."""
        errors = {}
        for group in grouped(map(self._fitted, chosen), _bytes_of):
            for one in group:
                assert one.letter.key is not None  # else it would not have been chosen
                self._forget_failures(one.letter.key)
            sent = send_batch(
                self._sqs, self._places.queue_url, [_entry(at, one) for at, one in enumerate(group)], self._calls
            )
            errors.update({group[int(at)].receipt: error for at, error in sent.items()})
            sent_keys.update(one.letter.key or "" for one in group)
        return errors

    def _fitted(self, one: _InHand) -> _InHand:
        """Where body and attributes are longer than the queue takes, with its request in the bucket."""
        if one.message is None or one.message.request is None or _bytes_of(one) <= self._message_bytes:
            return one
        place = self._bucket.leave_request(one.message.request)
        return replace(one, body=replace(one.message, request=None, request_s3=place, key=one.letter.key).body)

    @cached_property
    def _message_bytes(self) -> int:
        return longest_message(self._sqs, self._places.queue_url, self._calls)

    def _received(self) -> Iterator[list[_InHand]]:
        """Batches until the queue gives no more, or only what was seen. A long poll asks all of SQS's servers."""
        seen = set[str]()
        while True:
            answer = self._calls(
                "the dead-letter queue",
                lambda: self._sqs.receive_message(
                    QueueUrl=self._places.dead_letter_url,
                    MaxNumberOfMessages=_BATCH,
                    VisibilityTimeout=_HIDDEN_S,
                    WaitTimeSeconds=1,
                    MessageSystemAttributeNames=["All"],
                    MessageAttributeNames=["All"],
                ),
            )
            received = answer.get("Messages", [])
            if all(message["MessageId"] in seen for message in received):
                self._unhide([message["ReceiptHandle"] for message in received])
                return
            seen.update(message["MessageId"] for message in received)
            yield [self._in_hand(message) for message in received]

    def _in_hand(self, received: Answer) -> _InHand:
        body, system = received["Body"], received.get("Attributes", {})
        attributes = received.get("MessageAttributes", {})
        texts = {name: str(value.get("StringValue", "")) for name, value in attributes.items()}
        message, key = None, None
        try:
            message = read_message(body)
            key = self._bucket.key_of(message, self._places.revision)
        except MessageError:
            pass  # the letter says so itself, by its missing key
        sent_ms = int(system.get("SentTimestamp", 0))
        letter = DeadLetter(
            message_id=received["MessageId"],
            key=key,
            reason=texts.get(REASON, NOT_SAID),
            attempts=_number(texts.get(ATTEMPTS), 0),
            first_sent_ms=_number(texts.get(FIRST_SENT), sent_ms),
            tenant=system.get("MessageGroupId"),
            body=body,
        )
        return _InHand(letter, received["ReceiptHandle"], body, attributes, message)

    def _unhide(self, receipts: Sequence[str]) -> None:
        for start in range(0, len(receipts), _BATCH):
            entries = [
                {"Id": str(at), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                for at, receipt in enumerate(receipts[start : start + _BATCH])
            ]
            self._calls(
                "the dead-letter queue",
                lambda: self._sqs.change_message_visibility_batch(  # called before the next turn
                    QueueUrl=self._places.dead_letter_url,
                    Entries=entries,  # noqa: B023
                ),
            )

    def _delete(self, receipts: Sequence[str]) -> None:
        """One that fails to be deleted comes back, and is then done or sent again: both harmless."""
        if not receipts:
            return
        entries = [{"Id": str(at), "ReceiptHandle": receipt} for at, receipt in enumerate(receipts)]
        self._calls(
            "the dead-letter queue",
            lambda: self._sqs.delete_message_batch(QueueUrl=self._places.dead_letter_url, Entries=entries),
        )


def _oldest(letters: list[DeadLetter], most: int | None) -> list[DeadLetter]:
    return sorted(letters, key=lambda letter: letter.first_sent_ms)[:most]


def _entry(at: int, one: _InHand) -> Entry:
    """The letter as it was, without its age: what begins a new life is not too old for it."""
    attributes = {
        name: {part: value[part] for part in ("DataType", "StringValue", "BinaryValue") if part in value}
        for name, value in one.attributes.items()
        if name not in (FIRST_SENT, POSTPONED)
    }
    more: Entry = {"MessageAttributes": attributes} if attributes else {}
    if one.letter.tenant is not None:
        more["MessageGroupId"] = one.letter.tenant
    return {"Id": str(at), "MessageBody": one.body} | more


def _bytes_of(one: _InHand) -> int:
    """Body and attributes: name, type and value."""
    values = (
        len(name) + sum(len(part.encode() if isinstance(part, str) else part) for part in value.values() if part)
        for name, value in one.attributes.items()
    )
    return len(one.body.encode()) + sum(values)


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 16 else default
