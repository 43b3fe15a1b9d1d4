"""SQS's operations by their API names: parameters in, the engine's answer out. `ReceiveMessage` never waits here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moto.core.utils import get_service_model

from loadproof.localcloud.queue.sqs.attributes import COMPUTED, check_known
from loadproof.localcloud.queue.sqs.batches import BATCH_LIMIT, check_bytes, each, entries_of
from loadproof.localcloud.queue.sqs.engine import Engine
from loadproof.localcloud.queue.sqs.errors import invalid, invalid_value, missing, no_resource
from loadproof.localcloud.queue.sqs.message import (
    Message,
    State,
    checked_attributes,
    checked_body,
    checked_group,
    checked_trace,
    md5_of_attributes,
)
from loadproof.localcloud.queue.sqs.queue import MOST_VISIBILITY_S, Queue
from loadproof.localcloud.wire import MOST_TAGS, AwsError, Caller, Params
from loadproof.wire.documents import Document

_PAGE = 1000
_SYSTEM = frozenset(
    name
    for shape in ("MessageSystemAttributeName", "QueueAttributeName")
    for name in get_service_model("sqs").shape_for(shape).enum
)
_COUNTED = {
    "ApproximateNumberOfMessages": State.VISIBLE,
    "ApproximateNumberOfMessagesDelayed": State.DELAYED,
    "ApproximateNumberOfMessagesNotVisible": State.IN_FLIGHT,
}
Result = Document


class SqsApi:
    """Handles the operations that `wire` hands over by name. `url_of` gives a queue's address: (account, name)."""

    def __init__(self, engine: Engine, url_of: Callable[[str, str], str]) -> None:
        self.engine = engine
        self._url_of = url_of

    def queue_of(self, caller: Caller, params: Params) -> Queue:
        """The queue of a request, by the last two parts of its URL."""
        url = params.get("QueueUrl")
        if not url:
            raise missing("QueueUrl")
        account, _, name = "/".join(url.rstrip("/").split("/")[-2:]).rpartition("/")
        if not account.isdigit():
            raise AwsError("InvalidAddress", f"The address {url} is not valid for this endpoint.", 404)
        return self.engine.queue(f"arn:aws:sqs:{caller.region}:{account}:{name}")

    def CreateQueue(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        arn = caller.arn("sqs", params["QueueName"])
        queue = self.engine.create_queue(arn, params.get("Attributes") or {}, params.get("tags") or {})
        return {"QueueUrl": self._url(queue)}

    def DeleteQueue(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self.engine.delete_queue(self.queue_of(caller, params))

    def GetQueueUrl(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        account = params.get("QueueOwnerAWSAccountId") or caller.account
        queue = self.engine.queue(f"arn:aws:sqs:{caller.region}:{account}:{params['QueueName']}")
        return {"QueueUrl": self._url(queue)}

    def ListQueues(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        prefix = caller.arn("sqs", params.get("QueueNamePrefix") or "")
        return self._page("QueueUrls", (one for one in self.engine.queues() if one.arn.startswith(prefix)), params)

    def ListDeadLetterSourceQueues(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        return self._page("queueUrls", self.engine.sources_of(self.queue_of(caller, params)), params)

    def GetQueueAttributes(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        queue = self.queue_of(caller, params)
        names = params.get("AttributeNames") or []
        check_known(names)
        found = queue.attributes.shown() | {
            "CreatedTimestamp": str(int(queue.created_s)),
            "LastModifiedTimestamp": str(int(queue.modified_s)),
            "QueueArn": queue.arn,
            **{name: str(queue.count(state)) for name, state in _COUNTED.items()},
        }
        if "All" not in names:
            found = {name: value for name, value in found.items() if name in names}
        return {"Attributes": found} if found else {}

    def SetQueueAttributes(self, caller: Caller, params: Params) -> None:  # noqa: N802
        queue = self.queue_of(caller, params)
        given = params.get("Attributes") or {}
        for name in given:
            if name in COMPUTED:
                raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        self.engine.set_attributes(queue, given)

    def TagQueue(self, caller: Caller, params: Params) -> None:  # noqa: N802
        if any(name.lower().startswith("aws:") for name in params["Tags"]):
            raise invalid("Tag keys that start with aws: are reserved.")
        tags = self.queue_of(caller, params).tags
        if len(tags | params["Tags"]) > MOST_TAGS:
            raise invalid(f"Too many tags added for queue {params['QueueUrl'].rpartition('/')[2]}.")
        tags.update(params["Tags"])

    def UntagQueue(self, caller: Caller, params: Params) -> None:  # noqa: N802
        tags = self.queue_of(caller, params).tags
        for key in params["TagKeys"]:
            tags.pop(key, None)

    def ListQueueTags(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        tags = self.queue_of(caller, params).tags
        return {"Tags": dict(tags)} if tags else {}

    def PurgeQueue(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self.engine.purge(self.queue_of(caller, params))

    def SendMessage(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        return self._send(caller, self.queue_of(caller, params), params)

    def SendMessageBatch(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        queue = self.queue_of(caller, params)
        entries = entries_of(params, "SendMessageBatchRequestEntry")
        check_bytes(entries)
        return each(entries, lambda entry: self._send(caller, queue, entry))

    def ReceiveMessage(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        queue = self.queue_of(caller, params)
        most = params.get("MaxNumberOfMessages")
        if most is not None and not 1 <= most <= BATCH_LIMIT:
            raise invalid_value(most, "MaxNumberOfMessages", f"Must be between 1 and {BATCH_LIMIT}, if provided.")
        for name in (*(params.get("AttributeNames") or ()), *(params.get("MessageSystemAttributeNames") or ())):
            if name not in _SYSTEM:
                raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        self.wait_s(queue, params)
        visibility_s = params.get("VisibilityTimeout")
        if visibility_s is not None:
            _check_visibility(visibility_s)
        received = self.engine.receive(queue, 1 if most is None else most, visibility_s)
        return {"Messages": [_shown(message, handle, params) for message, handle in received]} if received else {}

    def wait_s(self, queue: Queue, params: Params) -> int:
        """How long a receive may wait for a message: as asked, else as the queue says."""
        given = params.get("WaitTimeSeconds")
        if given is None:
            return queue.attributes.number("ReceiveMessageWaitTimeSeconds")
        if not 0 <= given <= 20:
            raise invalid_value(given, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
        return int(given)

    def DeleteMessage(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self.engine.delete(self.queue_of(caller, params), params["ReceiptHandle"])

    def DeleteMessageBatch(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        queue = self.queue_of(caller, params)
        return each(
            entries_of(params, "DeleteMessageBatchRequestEntry"),
            lambda entry: self.engine.delete(queue, entry["ReceiptHandle"]),
        )

    def ChangeMessageVisibility(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._change_visibility(self.queue_of(caller, params), params)

    def ChangeMessageVisibilityBatch(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        queue = self.queue_of(caller, params)
        return each(
            entries_of(params, "ChangeMessageVisibilityBatchRequestEntry"),
            lambda entry: self._change_visibility(queue, entry),
        )

    def StartMessageMoveTask(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        rate = params.get("MaxNumberOfMessagesPerSecond")
        if rate is not None and not 1 <= rate <= 500:
            raise invalid_value(rate, "MaxNumberOfMessagesPerSecond", "Must be between 1 and 500, if provided.")
        task = self.engine.start_move(self._source(params), params.get("DestinationArn"), rate)
        return {"TaskHandle": task.handle}

    def ListMessageMoveTasks(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        most = params.get("MaxResults") or 1
        if not 1 <= most <= BATCH_LIMIT:
            raise invalid_value(most, "MaxResults", f"Must be between 1 and {BATCH_LIMIT}, if provided.")
        return {"Results": [task.shown() for task in self.engine.moves_of(self._source(params))[:most]]}

    def CancelMessageMoveTask(self, caller: Caller, params: Params) -> Result:  # noqa: N802
        return {"ApproximateNumberOfMessagesMoved": self.engine.cancel_move(params["TaskHandle"]).moved}

    def _send(self, caller: Caller, queue: Queue, entry: Params) -> Result:
        if entry.get("MessageDeduplicationId") is not None:
            reason = "The request include parameter that is not valid for this queue type."
            raise invalid_value(entry["MessageDeduplicationId"], "MessageDeduplicationId", reason)
        delay_s = entry.get("DelaySeconds")
        if delay_s is not None and not 0 <= delay_s <= 900:
            raise invalid_value(delay_s, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
        attributes = checked_attributes(entry.get("MessageAttributes"))
        message = self.engine.send(
            queue,
            checked_body(entry.get("MessageBody")),
            attributes,
            sender=caller.access_key or caller.account,
            delay_s=delay_s,
            group=checked_group(entry.get("MessageGroupId")),
            trace=checked_trace(entry.get("MessageSystemAttributes")),
        )
        digest = {"MD5OfMessageAttributes": md5_of_attributes(attributes)} if attributes else {}
        return {"MessageId": message.id, "MD5OfMessageBody": message.md5_of_body, **digest}

    def _change_visibility(self, queue: Queue, entry: Params) -> None:
        visibility_s = entry.get("VisibilityTimeout")
        if visibility_s is None:
            raise missing("VisibilityTimeout")
        _check_visibility(visibility_s)
        self.engine.change_visibility(queue, entry["ReceiptHandle"], visibility_s)

    def _source(self, params: Params) -> Queue:
        try:
            return self.engine.queue(params["SourceArn"])
        except AwsError:
            raise no_resource("The resource that you specified for the SourceArn parameter doesn't exist.") from None

    def _url(self, queue: Queue) -> str:
        return self._url_of(queue.arn.split(":")[4], queue.name)

    def _page(self, key: str, queues: Iterable[Queue], params: Params) -> Result:
        urls = sorted(self._url(queue) for queue in queues)
        start, most = params.get("NextToken") or "0", params.get("MaxResults")
        if most is not None and not 1 <= most <= _PAGE:
            raise invalid_value(most, "MaxResults", f"Must be an integer value between 1 and {_PAGE}")
        if not start.isdigit():
            raise invalid("Invalid or expired next token.")
        stop = int(start) + (most or _PAGE)
        more = {"NextToken": str(stop)} if most and stop < len(urls) else {}
        return {key: urls[int(start) : stop], **more} if urls else {}


def _shown(message: Message, handle: str, params: Params) -> Document:
    """A message as a receive answers it: with the attributes that were asked for."""
    found: Document = {
        "MessageId": message.id,
        "ReceiptHandle": handle,
        "MD5OfBody": message.md5_of_body,
        "Body": message.body,
    }
    wanted = {*(params.get("AttributeNames") or ()), *(params.get("MessageSystemAttributeNames") or ())}
    system = message.system_attributes()
    if "All" not in wanted:
        system = {name: value for name, value in system.items() if name in wanted}
    if system:
        found["Attributes"] = system
    patterns = params.get("MessageAttributeNames") or ()
    attributes = {name: one for name, one in message.attributes.items() if _asked_for(name, patterns)}
    if attributes:
        found["MessageAttributes"] = {name: one.shown() for name, one in attributes.items()}
        found["MD5OfMessageAttributes"] = md5_of_attributes(attributes)
    return found


def _asked_for(name: str, patterns: Iterable[str]) -> bool:
    """`All`, `.*`, a name, or a beginning with `.*` or `*` after it."""
    return any(
        pattern in ("All", name) or (pattern.endswith("*") and name.startswith(pattern[:-1].removesuffix(".")))
        for pattern in patterns
    )


def _check_visibility(visibility_s: int) -> None:
    if not 0 <= visibility_s <= MOST_VISIBILITY_S:
        raise invalid_value(visibility_s, "VisibilityTimeout", f"Must be >= 0 and <= {MOST_VISIBILITY_S}, if provided.")
