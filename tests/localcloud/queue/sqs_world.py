"""An engine on a clock that the test moves, and the few calls that tests make."""

from __future__ import annotations

from itertools import count

from loadproof.localcloud.queue.sqs.api import SqsApi
from loadproof.localcloud.queue.sqs.engine import Engine
from loadproof.localcloud.queue.sqs.message import Message, State
from loadproof.localcloud.queue.sqs.queue import Queue
from loadproof.localcloud.wire import Caller

CALLER = Caller("123456789012", "us-east-1", "AKIATEST")


class World:
    """One engine; time stands still until `pass_s`."""

    def __init__(self, **options: object) -> None:
        self.now_s = 1_790_000_000.0
        numbers = count(1)
        self.engine = Engine(
            lambda: self.now_s,
            new_id=lambda: f"00000000-0000-0000-0000-{next(numbers):012d}",
            **options,  # type: ignore[arg-type]
        )
        self.api = SqsApi(self.engine, lambda account, name: f"http://localhost/{account}/{name}")

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds

    def queue(self, queue_name: str = "q", **attributes: object) -> Queue:
        return self.engine.create_queue(
            CALLER.arn("sqs", queue_name), {name: str(value) for name, value in attributes.items()}, {}
        )

    def send(self, queue: Queue, body: str = "x", **options: object) -> Message:
        return self.engine.send(self.settled(queue), body, {}, sender="me", **options)  # type: ignore[arg-type]

    def receive(self, queue: Queue, most: int = 10, visibility_s: int | None = None) -> list[tuple[Message, str]]:
        return self.engine.receive(self.settled(queue), most, visibility_s)

    def bodies(self, queue: Queue, most: int = 10) -> list[str]:
        return [message.body for message, _ in self.receive(queue, most)]

    def counts(self, queue: Queue) -> tuple[int, int, int]:
        """Visible, in flight, delayed."""
        settled = self.settled(queue)
        return settled.count(State.VISIBLE), settled.count(State.IN_FLIGHT), settled.count(State.DELAYED)

    def settled(self, queue: Queue) -> Queue:
        return self.engine.queue(queue.arn)

    def call(self, action: str, **params: object) -> dict[str, object]:
        return dict(getattr(self.api, action)(CALLER, params) or {})
