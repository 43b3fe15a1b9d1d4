"""The producer: requests into the queue, answers out of the bucket. Synchronous."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.buffer.bucket import ResultsBucket
from loadproof.invocation.buffer.calls import Calls
from loadproof.invocation.buffer.message import Message
from loadproof.invocation.buffer.places import Places, client, places_of
from loadproof.invocation.endpoints import Client
from loadproof.invocation.outcomes import Outcome, OutcomeKind, RetryClass

T = TypeVar("T")
Entry = dict[str, Any]  # of a batch, as SQS takes it

MOST_BATCH_BYTES: Final = 1_048_576  # SQS's bound on all bodies of one call
_BATCH: Final = 10
_FIRST_LOOK_S: Final = 0.1
_LONGEST_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one message: in the queue (`error` None), or not, and why. `key` is that of its result."""

    key: str
    error: str | None = None


class Producer:
    """Sends to one buffer and reads its results.

        producer = Producer.of_stack("loadproof-prod-chat", region="eu-west-1")
        key = producer.send({"inputs": "Once upon a time", "parameters": {"max_new_tokens": 64}}, tenant="blue")
        answer = producer.result(key, wait_s=60)

    Needs the rights docs/buffer.md lists. Sending twice is safe: the same key is answered once.
    """

    def __init__(self, places: Places, *, sqs: Client, s3: Client, calls: Calls | None = None) -> None:
        self.places = places
        self._sqs = sqs
        self._calls = calls or Calls()
        self._bucket = ResultsBucket(s3, places.bucket, self._calls)
        self._most_message_bytes: int | None = None

    @classmethod
    def of_stack(cls, stack: str, *, region: str | None = None, endpoint_url: str | None = None) -> Producer:
        """The buffer of a deployed profile. Raises CouldNotRunError."""
        return cls.at(places_of(stack, region=region, endpoint_url=endpoint_url), region, endpoint_url)

    @classmethod
    def at(cls, places: Places, region: str | None = None, endpoint_url: str | None = None) -> Producer:
        """The buffer at places known from elsewhere. Raises CouldNotRunError."""
        return cls(places, sqs=client("sqs", region, endpoint_url), s3=client("s3", region, endpoint_url))

    def send(self, request: Mapping[str, object] | Message, **fields: Any) -> str:
        """Queue one request, the model's own payload; `fields` are those of Message, and of a Message replace its own.

        Returns the key of its result. Raises MessageError for what no consumer would take, CouldNotRunError where it
        could not be queued.
        """
        message = replace(request, **fields) if isinstance(request, Message) else Message(request, **fields)
        (sent,) = self.send_many([message])
        if sent.error is not None:
            raise CouldNotRunError(f"{sent.key} was not sent: {sent.error}")
        return sent.key

    def send_many(self, messages: Iterable[Message]) -> Iterator[Sent]:
        """Queue many, up to ten a call, and say of each in its turn what became of it.

        Lazy: what is not taken from the iterator is not sent.
        """
        for group in grouped(map(self._fitted, messages), _length):
            entries = [_entry(at, message) for at, message in enumerate(group) if isinstance(message, Message)]
            errors = send_batch(self._sqs, self.places.queue_url, entries, self._calls)
            for at, one in enumerate(group):
                yield one if isinstance(one, Sent) else Sent(one.key or "", errors.get(str(at)))

    def result(self, key: str, wait_s: float = 0.0) -> dict[str, object] | None:
        """The stored result (docs/buffer.md says its fields); None when there is none after `wait_s`.

        A request in the dead-letter queue never gets one: ask `DeadLetters`. Raises CouldNotRunError, after an outage
        of the bucket of a minute, whatever `wait_s` is.
        """
        end_s, pause_s = self._calls.now_s() + wait_s, _FIRST_LOOK_S
        while (found := self._bucket.result(key)) is None and (left_s := end_s - self._calls.now_s()) > 0:
            self._calls.sleep(min(pause_s, left_s))
            pause_s = min(_LONGEST_LOOK_S, 1.5 * pause_s)
        return found

    def key_of(self, message: Message) -> str:
        """The key of a message's result. Raises MessageError, CouldNotRunError."""
        return self._bucket.key_of(message, self.places.revision)

    def _fitted(self, message: Message) -> Message | Sent:
        """With its key, and where it is too long for the queue with its request in the bucket."""
        try:
            message = replace(message, key=self.key_of(message))
            if message.request is None or len(message.body.encode()) <= self._message_bytes():
                return message
            return replace(message, request=None, request_s3=self._bucket.leave_request(message.request))
        except (InputError, CouldNotRunError) as error:
            return Sent(message.key or "", str(error))

    def _message_bytes(self) -> int:
        if self._most_message_bytes is None:
            self._most_message_bytes = longest_message(self._sqs, self.places.queue_url, self._calls)
        return self._most_message_bytes


def longest_message(sqs: Client, url: str, calls: Calls) -> int:
    """Bytes of the longest message with its attributes: the profile's `buffer.max_message_bytes`, asked of the queue.

    Raises CouldNotRunError.
    """
    wanted = ["MaximumMessageSize"]
    answer = calls("the queue", lambda: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted))
    return int(answer["Attributes"]["MaximumMessageSize"])


def grouped(items: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups that one call may carry: ten at most, and 1 MiB together."""
    group: list[T] = []
    size = 0
    for item in items:
        more = length(item)
        if len(group) == _BATCH or size + more > MOST_BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(item)
        size += more
    if group:
        yield group


def send_batch(sqs: Client, url: str, entries: Sequence[Entry], calls: Calls) -> dict[str, str]:
    """Send up to ten entries, and again those that failed by an accident. Returns errors by the entries' ids."""
    left, errors, attempts = {entry["Id"]: entry for entry in entries}, dict[str, str](), calls.begin()
    while left:
        try:
            answer = calls("the queue", lambda: sqs.send_message_batch(QueueUrl=url, Entries=[*left.values()]))
        except CouldNotRunError as error:
            return errors | dict.fromkeys(left, str(error))
        for sent in answer.get("Successful", ()):
            left.pop(sent["Id"], None)
        failed = answer.get("Failed", ())
        for fault in failed:
            if fault["SenderFault"] and left.pop(fault["Id"], None):
                errors[fault["Id"]] = f"{fault['Code']}: {fault.get('Message', '')}".rstrip(": ")
        accident = Outcome(OutcomeKind.INTERNAL, None, "partial failure", retry=RetryClass.TRY_AGAIN)
        if left and not calls.again(accident, attempts):
            told = {fault["Id"]: fault["Code"] for fault in failed}
            return errors | {one: f"failed again and again ({told.get(one, 'no answer')})" for one in left}
    return errors


def _entry(at: int, message: Message) -> Entry:
    group = {"MessageGroupId": message.tenant} if message.tenant is not None else {}
    return {"Id": str(at), "MessageBody": message.body} | group


def _length(one: Message | Sent) -> int:
    return len(one.body.encode()) if isinstance(one, Message) else 0
