"""The messages of one queue and who is next. Pure: every method is told what time it is.

Everything but a purge is O(log n) in the number of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from loadproof.localcloud.queue.sqs.attributes import QueueAttributes
from loadproof.localcloud.queue.sqs.errors import invalid_value
from loadproof.localcloud.queue.sqs.heap import LazyHeap
from loadproof.localcloud.queue.sqs.message import Message, Receipt, State, handle_of, not_a_handle
from loadproof.localcloud.wire import AwsError

MOST_VISIBILITY_S = 43_200  # from a receive until the message is visible again, extensions included
IN_FLIGHT_LIMIT = 120_000
# Received this often and not deleted, a message goes to the back and no longer counts as the oldest.
_POISON_RECEIVES = 3
_PURGE_EVERY_S = 60
_HIDDEN = (State.DELAYED, State.IN_FLIGHT)


class _Tenant:
    """The visible messages of one MessageGroupId, by order, and how many of it are in flight."""

    def __init__(self) -> None:
        self.visible = LazyHeap[tuple[int, Message]](
            lambda entry: entry[1].state is State.VISIBLE and entry[1].order == entry[0]
        )
        self.in_flight = 0

    @property
    def head(self) -> Message | None:
        entry = self.visible.first()
        return None if entry is None else entry[1]


class Queue:
    """A standard queue: nearly in order, and fair between the message groups (its tenants).

    Next is the oldest visible message of the tenant with the fewest in flight. Messages without a group are each a
    tenant of their own, so a queue without groups goes by age alone.
    """

    def __init__(self, queue_id: int, name: str, arn: str, attributes: QueueAttributes, created_s: float) -> None:
        self.id, self.name, self.arn = queue_id, name, arn
        self.attributes = attributes
        self.created_s = self.modified_s = created_s
        self.tags: dict[str, str] = {}
        self.traffic: Counter[str] = Counter()  # what CloudWatch counts since it last asked
        self.purged_s: float | None = None
        self._clear()

    def _clear(self) -> None:
        self._messages: dict[str, Message] = {}
        self._tenants: dict[str | None, _Tenant] = {}
        self._counts: Counter[State] = Counter()
        self._serial = 0
        # (in flight of the tenant, order of its first message, tenant): whose turn it is
        self._turns = LazyHeap[tuple[int, int, str | None]](lambda entry: entry == self._turn_of(entry[2]))
        # (visible at, serial, message)
        self._hidden = LazyHeap[tuple[float, int, Message]](
            lambda entry: entry[2].state in _HIDDEN and entry[2].visible_at_s == entry[0]
        )
        # (when sent, or come here; serial; message)
        self._by_sending = LazyHeap[tuple[float, int, Message]](lambda entry: entry[2].state is not State.GONE)
        self._by_age = LazyHeap[tuple[float, int, Message]](
            lambda entry: entry[2].state is not State.GONE and entry[2].receives_here < _POISON_RECEIVES
        )

    def count(self, state: State) -> int:
        return self._counts[state]

    def put(self, message: Message, delay_s: float = 0.0) -> None:
        """A message arrives at its `arrived_s`."""
        message.order = self._next_serial()
        self._messages[message.id] = message
        self._by_sending.push((message.sent_s, message.order, message))
        self._by_age.push((message.arrived_s, message.order, message))
        self._counts[message.state] += 1  # taken back by the move below
        if delay_s > 0:
            self._hide(message, State.DELAYED, message.arrived_s + delay_s)
        else:
            self._show(message)

    def settle(self, now_s: float) -> None:
        """Bring the queue to this moment: show what was hidden long enough, drop what was kept long enough."""
        while (hidden := self._hidden.first()) is not None and hidden[0] <= now_s:
            self._show(hidden[2])
        sent_before_s = now_s - self.attributes.number("MessageRetentionPeriod")
        while (oldest := self._by_sending.first()) is not None and oldest[0] <= sent_before_s:
            self._drop(oldest[2])

    def next_visible_s(self) -> float | None:
        """When a hidden message will become visible."""
        first = self._hidden.first()
        return None if first is None else first[0]

    def next_visible(self) -> Message | None:
        """The visible message whose turn it is."""
        turn = self._turns.first()
        return None if turn is None else self._tenants[turn[2]].head

    def receive(self, message: Message, now_s: float, visibility_s: float) -> str:
        """Hand out a visible message. Returns the receipt handle."""
        message.receives += 1
        message.receives_here += 1
        message.received_s = now_s
        message.first_received_s = message.first_received_s or now_s
        self._hide(message, State.IN_FLIGHT, now_s + visibility_s)
        return handle_of(Receipt(self.id, message.id, message.receives, now_s))

    def delete(self, receipt: Receipt, handle: str, now_s: float) -> bool:
        """Whether a message went. A receipt from before the message's last receive deletes nothing, without an error.

        A message whose visibility has ended is still deleted by its last receipt.
        """
        message = self._received(receipt, handle, now_s)
        if message is None:
            return False
        self._drop(message)
        return True

    def change_visibility(self, receipt: Receipt, handle: str, now_s: float, visibility_s: int) -> None:
        """Hide the message from now on for `visibility_s`; the receive, not this call, begins the total of 12 hours.

        Deleted or received again: refused. Visible again: AWS answers well and does nothing, and so does this.
        """
        message = self._received(receipt, handle, now_s)
        if message is None:
            reason = "Message does not exist or is not available for visibility timeout change."
            raise invalid_value(handle, "ReceiptHandle", reason)
        if now_s + visibility_s - message.received_s > MOST_VISIBILITY_S:
            reason = f"Total VisibilityTimeout for the message is beyond the limit [{MOST_VISIBILITY_S} seconds]"
            raise invalid_value(visibility_s, "VisibilityTimeout", reason)
        if message.state is State.IN_FLIGHT:
            self._hide(message, State.IN_FLIGHT, now_s + visibility_s)
            self.settle(now_s)

    def move_out(self, message: Message) -> Message:
        """Take a message away to another queue. Returns it as it arrives there."""
        self._drop(message)
        return replace(message, state=State.VISIBLE, visible_at_s=0.0, receives_here=0)

    def purge(self, now_s: float) -> None:
        if self.purged_s is not None and now_s < self.purged_s + _PURGE_EVERY_S:
            raise AwsError(
                "PurgeQueueInProgress",
                f"Only one PurgeQueue operation on {self.name} is allowed every 60 seconds.",
                403,
            )
        for message in self._messages.values():
            message.state = State.GONE
        self._clear()
        self.purged_s = now_s

    def age_of_oldest_s(self, now_s: float) -> float:
        """Seconds since the oldest message came here; messages received three times no longer count. 0 without any.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
        """
        oldest = self._by_age.first()
        return 0.0 if oldest is None else max(0.0, now_s - oldest[0])

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def _received(self, receipt: Receipt, handle: str, now_s: float) -> Message | None:
        """The message of a receipt, None when it is gone or was received again. Raises for a receipt of no use."""
        if receipt.queue_id != self.id:
            raise not_a_handle(handle)
        if now_s - receipt.received_s > MOST_VISIBILITY_S:
            raise invalid_value(handle, "ReceiptHandle", "The receipt handle has expired.")
        message = self._messages.get(receipt.message_id)
        return message if message is not None and message.receives == receipt.receives else None

    def _show(self, message: Message) -> None:
        if message.receives_here >= _POISON_RECEIVES:
            message.order = self._next_serial()
        self._move(message, State.VISIBLE)

    def _hide(self, message: Message, state: State, until_s: float) -> None:
        message.visible_at_s = until_s
        self._move(message, state)
        self._hidden.push((until_s, self._next_serial(), message))

    def _drop(self, message: Message) -> None:
        self._move(message, State.GONE)
        del self._messages[message.id]

    def _move(self, message: Message, state: State) -> None:
        """Change a message's state, and with it the counts and its tenant's turn."""
        before, message.state = message.state, state
        self._counts[before] -= 1
        self._counts[state] += state is not State.GONE
        tenant = self._tenants.setdefault(message.group, _Tenant())
        if state is State.VISIBLE:
            tenant.visible.push((message.order, message))
        tenant.in_flight += (state is State.IN_FLIGHT) - (before is State.IN_FLIGHT)
        turn = self._turn_of(message.group)
        if turn is not None:
            self._turns.push(turn)
        elif not tenant.in_flight:
            del self._tenants[message.group]

    def _turn_of(self, group: str | None) -> tuple[int, int, str | None] | None:
        """A tenant's place among the others, None without a visible message."""
        tenant = self._tenants.get(group)
        head = tenant.head if tenant is not None else None
        if tenant is None or head is None:
            return None
        return (tenant.in_flight if group is not None else 0, head.order, group)

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial
