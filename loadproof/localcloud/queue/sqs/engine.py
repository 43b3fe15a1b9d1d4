"""All queues of one local cloud: names, sending and receiving, dead letters, move tasks.

Pure: no threads, no network; the clock and the source of ids are passed in, so the same calls give the same answers.
Standard queues only. What AWS leaves to chance is decided here: every visible message is found by every receive, and
nothing is delivered twice but by its visibility's end.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from loadproof.localcloud.queue.sqs.attributes import QueueAttributes
from loadproof.localcloud.queue.sqs.errors import invalid, invalid_value, no_queue, no_resource, unsupported
from loadproof.localcloud.queue.sqs.message import Attributes, Message, State, receipt_of, size_of
from loadproof.localcloud.queue.sqs.moves import CANCELLED, RUNNING, MoveFailedError, MoveTask, parsed_handle
from loadproof.localcloud.queue.sqs.queue import IN_FLIGHT_LIMIT, Queue
from loadproof.localcloud.wire import AwsError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
_NAME_REUSE_S = 60.0
_KEPT_TASKS = 10


class Engine:
    """`now_s` is Unix time in seconds. `name_reuse_s`: how long a deleted queue's name cannot be taken again."""

    def __init__(
        self,
        now_s: Callable[[], float],
        *,
        name_reuse_s: float = _NAME_REUSE_S,
        in_flight_limit: int = IN_FLIGHT_LIMIT,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._now_s = now_s
        self._name_reuse_s = name_reuse_s
        self._in_flight_limit = in_flight_limit
        self._new_id = new_id
        self._queues: dict[str, Queue] = {}  # by ARN
        self._deleted_s: dict[str, float] = {}
        self._tasks: dict[str, list[MoveTask]] = {}  # by the source's ARN, oldest first
        self._ids = count(1)

    def queues(self) -> Iterator[Queue]:
        """All queues, as they are now."""
        for queue in list(self._queues.values()):
            self._settle(queue)
            yield queue

    def queue(self, arn: str) -> Queue:
        """As it is now. Raises QueueDoesNotExist."""
        queue = self._queues.get(arn)
        if queue is None:
            raise no_queue()
        self._settle(queue)
        return queue

    def create_queue(self, arn: str, attributes: Mapping[str, str], tags: Mapping[str, str]) -> Queue:
        """A new queue, or the one that is there with the same attributes."""
        name = arn.rpartition(":")[2]
        if name.endswith(".fifo"):
            raise unsupported(f"The local cloud provides standard queues only, found {name}.")
        if not _NAME.match(name):
            raise invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
        known = self._queues.get(arn)
        if known is not None:
            different = known.attributes.differing(attributes)
            if different is None:
                return known
            raise AwsError(
                "QueueNameExists",
                f"A queue already exists with the same name and a different value for attribute {different}",
            )
        if self._now_s() < self._deleted_s.get(arn, float("-inf")) + self._name_reuse_s:
            raise AwsError(
                "QueueDeletedRecently",
                "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
            )
        wanted = QueueAttributes(attributes)
        self._check_dead_letters(arn, wanted)
        queue = self._queues[arn] = Queue(next(self._ids), name, arn, wanted, self._now_s())
        queue.tags.update(tags)
        return queue

    def delete_queue(self, queue: Queue) -> None:
        del self._queues[queue.arn]
        self._tasks.pop(queue.arn, None)
        self._deleted_s[queue.arn] = self._now_s()

    def set_attributes(self, queue: Queue, given: Mapping[str, str]) -> None:
        wanted = QueueAttributes(queue.attributes.shown())
        wanted.set(given)
        self._check_dead_letters(queue.arn, wanted)
        queue.attributes, queue.modified_s = wanted, self._now_s()

    def sources_of(self, queue: Queue) -> list[Queue]:
        """The queues whose dead letters come here."""
        return [
            one
            for one in self._queues.values()
            if one.attributes.redrive is not None and one.attributes.redrive.target_arn == queue.arn
        ]

    def send(
        self,
        queue: Queue,
        body: str,
        attributes: Attributes,
        *,
        sender: str,
        delay_s: int | None = None,
        group: str | None = None,
        trace: str | None = None,
    ) -> Message:
        """The body and attributes are checked already (see `message`), their size is not."""
        most = queue.attributes.number("MaximumMessageSize")
        if size_of(body, attributes) > most:
            raise invalid(f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.")
        now_s = self._now_s()
        message = Message(
            self._new_id(), body, attributes, trace, group, sender, sent_s=now_s, arrived_s=now_s
        )  # fmt: skip
        queue.put(message, queue.attributes.number("DelaySeconds") if delay_s is None else delay_s)
        queue.traffic["NumberOfMessagesSent"] += 1
        return message

    def receive(self, queue: Queue, most: int, visibility_s: int | None = None) -> list[tuple[Message, str]]:
        """Up to `most` messages with their receipt handles. Those received often enough become dead letters instead."""
        now_s = self._now_s()
        room = self._in_flight_limit - queue.count(State.IN_FLIGHT)
        if room <= 0:
            raise AwsError("OverLimit", f"Too many messages in flight: {self._in_flight_limit} are allowed.", 403)
        hidden_s = queue.attributes.number("VisibilityTimeout") if visibility_s is None else visibility_s
        received: list[tuple[Message, str]] = []
        while len(received) < min(most, room) and (message := self._next_alive(queue, now_s)) is not None:
            received.append((message, queue.receive(message, now_s, hidden_s)))
        queue.traffic["NumberOfMessagesReceived"] += len(received)
        return received

    def delete(self, queue: Queue, handle: str) -> None:
        deleted = queue.delete(receipt_of(handle), handle, self._now_s())
        queue.traffic["NumberOfMessagesDeleted"] += deleted

    def change_visibility(self, queue: Queue, handle: str, visibility_s: int) -> None:
        queue.change_visibility(receipt_of(handle), handle, self._now_s(), visibility_s)

    def purge(self, queue: Queue) -> None:
        queue.purge(self._now_s())

    def next_change_s(self, queue: Queue) -> float | None:
        """When a message may become visible by itself: one that is hidden, or one that a task moves here."""
        moves = [task.next_move_s() for tasks in self._tasks.values() for task in tasks if task.status == RUNNING]
        times = [at_s for at_s in (queue.next_visible_s(), *moves) if at_s is not None]
        return min(times, default=None)

    def start_move(self, source: Queue, destination_arn: str | None, most_per_s: int | None) -> MoveTask:
        """Begin to move dead letters. A queue has one task at a time."""
        if not self.sources_of(source):
            raise invalid("Source queue must be configured as a Dead Letter Queue.")
        if destination_arn is not None and destination_arn not in self._queues:
            raise no_resource("The resource that you specified for the DestinationArn parameter doesn't exist.")
        tasks = self._tasks.setdefault(source.arn, [])
        if any(task.status == RUNNING for task in tasks):
            raise invalid(
                "There is already a task running. "
                "Only one active task is allowed for a source queue arn at a given time."
            )
        task = MoveTask(self._new_id(), source, destination_arn, most_per_s, self._now_s(), source.count(State.VISIBLE))
        tasks.append(task)
        del tasks[:-_KEPT_TASKS]
        self._advance()
        return task

    def moves_of(self, source: Queue) -> list[MoveTask]:
        """The latest tasks, newest first."""
        return self._tasks.get(source.arn, [])[::-1]

    def cancel_move(self, handle: str) -> MoveTask:
        task_id, source_arn = parsed_handle(handle)
        if source_arn not in self._queues:
            raise no_resource("The resource that you specified for the SourceArn parameter doesn't exist.")
        self._advance()
        task = next((one for one in self._tasks.get(source_arn, []) if one.id == task_id), None)
        if task is None:
            raise no_resource("Task does not exist.")
        if task.status != RUNNING:
            raise invalid(f"Only a task in RUNNING can be cancelled, found {task.status}.")
        task.status = CANCELLED
        return task

    def _settle(self, queue: Queue) -> None:
        self._advance()
        queue.settle(self._now_s())

    def _advance(self) -> None:
        for tasks in self._tasks.values():
            for task in tasks:
                if task.status == RUNNING:
                    task.advance(self._now_s(), self._deliver)

    def _deliver(self, task: MoveTask, message: Message) -> None:
        """A message moved by a task is a new one: new id, new time, never received."""
        arn = task.destination_arn or message.dead_letter_source
        if arn is None:
            raise MoveFailedError("CouldNotDetermineMessageSource")
        if arn not in self._queues:
            raise MoveFailedError("AWS.SimpleQueueService.NonExistentQueue")
        task.source.move_out(message)
        now_s = self._now_s()
        self._queues[arn].put(
            Message(
                self._new_id(), message.body, message.attributes, message.trace, message.group, message.sender,
                sent_s=now_s, arrived_s=now_s,
            )
        )  # fmt: skip

    def _next_alive(self, queue: Queue, now_s: float) -> Message | None:
        """The next visible message; those before it that were received too often go to the dead-letter queue."""
        while (message := queue.next_visible()) is not None:
            redrive = queue.attributes.redrive
            dead = None if redrive is None else self._queues.get(redrive.target_arn)
            if redrive is None or dead is None or message.receives_here < redrive.most_receives:
                return message
            letter = queue.move_out(message)
            letter.dead_letter_source, letter.arrived_s = queue.arn, now_s
            dead.put(letter)
        return None

    def _check_dead_letters(self, arn: str, wanted: QueueAttributes) -> None:
        redrive = wanted.redrive
        if redrive is None:
            return
        policy = wanted.shown()["RedrivePolicy"]
        target = self._queues.get(redrive.target_arn)
        if target is None:
            raise invalid_value(policy, "RedrivePolicy", "Dead letter target does not exist.")
        if not target.attributes.allows_dead_letters_of(arn):
            raise invalid_value(policy, "RedrivePolicy", f"{target.name} does not allow {arn} as a source.")
