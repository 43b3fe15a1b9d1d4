"""Message move tasks: dead letters go back to their queues, or to another, at a rate."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from loadproof.localcloud.queue.sqs.errors import invalid
from loadproof.localcloud.queue.sqs.message import Message, State
from loadproof.localcloud.queue.sqs.queue import Queue
from loadproof.localcloud.wire import known
from loadproof.wire.documents import Document

RUNNING, COMPLETED, CANCELLED, FAILED = "RUNNING", "COMPLETED", "CANCELLED", "FAILED"


class MoveFailedError(Exception):
    """A message has nowhere to go; the text is the task's FailureReason."""


@dataclass(slots=True)
class MoveTask:
    """One task. Without `destination_arn` every message goes to the queue that it was a dead letter of."""

    id: str
    source: Queue
    destination_arn: str | None
    most_per_s: int | None
    started_s: float
    to_move: int
    moved: int = 0
    status: str = RUNNING
    failure: str | None = None

    @property
    def handle(self) -> str:
        text = json.dumps({"taskId": self.id, "sourceArn": self.source.arn})
        return base64.b64encode(text.encode()).decode()

    def advance(self, now_s: float, deliver: Callable[[MoveTask, Message], None]) -> None:
        """Move what is due by now; without a rate everything at once. `deliver` raises MoveFailedError."""
        due = self.to_move
        if self.most_per_s is not None:
            due = min(due, math.floor((now_s - self.started_s) * self.most_per_s))
        self.source.settle(now_s)
        while self.status == RUNNING and self.moved < due:
            message = self.source.next_visible()
            if message is None:
                break
            try:
                deliver(self, message)
            except MoveFailedError as error:
                self.status, self.failure = FAILED, str(error)
                return
            self.moved += 1
        if self.status == RUNNING and (self.moved >= self.to_move or not self.source.count(State.VISIBLE)):
            self.status = COMPLETED

    def next_move_s(self) -> float | None:
        """When the next message is due."""
        if self.status != RUNNING or self.most_per_s is None:
            return None
        return self.started_s + (self.moved + 1) / self.most_per_s

    def shown(self) -> Document:
        return known(
            TaskHandle=self.handle if self.status == RUNNING else None,
            Status=self.status,
            SourceArn=self.source.arn,
            DestinationArn=self.destination_arn,
            MaxNumberOfMessagesPerSecond=self.most_per_s,
            ApproximateNumberOfMessagesMoved=self.moved,
            ApproximateNumberOfMessagesToMove=self.to_move,
            FailureReason=self.failure,
            StartedTimestamp=int(self.started_s * 1000),
        )


def parsed_handle(handle: str) -> tuple[str, str]:
    """The task's id and its source's ARN. Raises for text that is no handle."""
    try:
        parsed = json.loads(base64.b64decode(handle, validate=True))
        return str(parsed["taskId"]), str(parsed["sourceArn"])
    except (ValueError, KeyError, TypeError):
        raise invalid("Value for parameter TaskHandle is invalid.") from None
