"""The consumer's real core on a virtual clock: SQS's semantics by the local cloud's engine, the stores in memory.

A process may be killed at any call to a port, before it or after it. A killed process does nothing more: every further
call of its is killed as well, so that no `finally` does what `kill -9` would not let it do.
"""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from loadproof.constructs.buffer.runtime.consumer.callbacks import Callbacks
from loadproof.constructs.buffer.runtime.consumer.claims import KEPT_S, Claim, Taken
from loadproof.constructs.buffer.runtime.consumer.clock import Clock
from loadproof.constructs.buffer.runtime.consumer.deliveries import Delivery, Queue
from loadproof.constructs.buffer.runtime.consumer.emf import Metrics
from loadproof.constructs.buffer.runtime.consumer.generation import Generation
from loadproof.constructs.buffer.runtime.consumer.handler import delivery_of
from loadproof.constructs.buffer.runtime.consumer.lease import Lease
from loadproof.constructs.buffer.runtime.consumer.pace import Pace
from loadproof.constructs.buffer.runtime.consumer.settings import Settings
from loadproof.constructs.buffer.runtime.consumer.steering import Word
from loadproof.constructs.buffer.runtime.consumer.stores import StoreDownError
from loadproof.constructs.buffer.runtime.consumer.worker import Ending, Ports, Worker
from loadproof.localcloud.queue.sqs.engine import Engine
from loadproof.localcloud.queue.sqs.message import Message, State, checked_attributes
from loadproof.localcloud.queue.sqs.queue import Queue as EngineQueue
from loadproof.wire.message import MalformedError
from loadproof.wire.pace import Record, Traffic

LEASE_S = 60.0
FUNCTION_S = 505.0
VISIBILITY_S = 3030
RECEIVES = 5
_ARN = "arn:aws:sqs:us-east-1:123456789012:"


def settings(**changed: Any) -> Settings:
    base: dict[str, Any] = {
        "buffer": "chat",
        "endpoint": "chat",
        "component": None,
        "protocol": "tgi",
        "revision": "r1",
        "queue_url": "requests",
        "dead_letter_url": "dead-letters",
        "table": "claims",
        "bucket": "results-bucket",
        "prefix": "results/",
        "callbacks": frozenset(),
        "timeout_s": 300.0,
        "idle_timeout_s": 55.0,
        "lease_s": LEASE_S,
        "max_attempts": 8,
        "max_in_flight": 4,
        "context_tokens": 0,
        "retention_s": 1123200.0,
        "most_message_bytes": 1_048_576,
        "drain_s": 25.0,
    }
    return Settings(**base | changed)


class VirtualClock(Clock):
    """Time that passes when somebody sleeps. `during` runs once in each step, as other processes would."""

    def __init__(self, drain_s: float = 25.0) -> None:
        super().__init__(drain_s)
        self.time_s = 1_790_000_000.0
        self.during: list[Callable[[], None]] = []

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        end_s = self.time_s + max(0.0, seconds)
        while self.time_s < end_s:
            self.time_s = min(end_s, self.time_s + LEASE_S / 3)
            for beat in list(self.during):
                beat()


class Killed(BaseException):
    """`kill -9`: nobody catches it."""


class Life:
    """One process: counts its calls to the world and ends at the one it is told to."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls = 0
        self.dead = False
        self._dies_at = dies_at  # 2n: before the n-th call, 2n + 1: after it

    def call(self, effect: Callable[[], Any]) -> Any:
        self._step()
        done = effect()
        self._step()
        return done

    def _step(self) -> None:
        self.dead = self.dead or self.calls == self._dies_at
        self.calls += 1
        if self.dead:
            raise Killed


class World:
    """What outlives every process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        ids = iter(range(1 << 40))
        self.engine = Engine(self.clock.now_s, new_id=lambda: str(uuid.UUID(int=next(ids))))
        self.dead_letters = self.engine.create_queue(f"{_ARN}dead-letters", {"MessageRetentionPeriod": "1209600"}, {})
        policy = {"deadLetterTargetArn": self.dead_letters.arn, "maxReceiveCount": RECEIVES}
        self.requests = self.engine.create_queue(
            f"{_ARN}requests",
            {
                "VisibilityTimeout": str(VISIBILITY_S),
                "RedrivePolicy": json.dumps(policy),
                "MessageRetentionPeriod": "1209600",
            },
            {},
        )
        self.claims: dict[str, dict[str, Any]] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self.kept_requests: dict[str, str] = {}
        self.record = Record()
        self.generations: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.down: set[str] = set()
        self.told: list[str] = []

    def send(self, body: str, **more: Any) -> Message:
        return self.engine.send(self.engine.queue(self.requests.arn), body, {}, sender="test", **more)

    def queued(self, queue: EngineQueue) -> list[Message]:
        return [message for message in self.engine.queue(queue.arn) if message.state is not State.GONE]


class MemoryClaims:
    """The claims' table by its contract; tests/constructs/buffer/test_consumer_claims.py holds it beside DynamoDB."""

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life

    def take(self, key: str, owner: str, lease_s: float) -> Taken:
        return self._do(lambda: self._take(key, owner, lease_s))

    def renew(self, claim: Claim, lease_s: float) -> bool:
        return self._do(lambda: self._mine(claim, {"lease_s": self._world.clock.now_s() + lease_s}))

    def release(self, claim: Claim) -> bool:
        return self._do(lambda: self._mine(claim, {"phase": "released"}))

    def done(self, key: str) -> None:
        expires_s = self._world.clock.now_s() + KEPT_S
        self._do(lambda: self._world.claims.setdefault(key, {}).update(phase="done", expires_s=expires_s, holder=None))

    def reopen(self, key: str) -> None:
        def effect() -> None:
            if self._world.claims.get(key, {}).get("phase") == "done":
                self._world.claims[key] |= {"phase": "released", "attempts": 0, "suspicion": 0}

        self._do(effect)

    def _do(self, effect: Callable[[], Any]) -> Any:
        if "claims" in self._world.down:
            raise StoreDownError("the claims table is down (test)")
        return self._life.call(effect)

    def _take(self, key: str, owner: str, lease_s: float) -> Taken:
        now_s, before = self._world.clock.now_s(), self._world.claims.get(key)
        free = (
            before is None
            or before["phase"] == "released"
            or (before["phase"] == "claimed" and before["lease_s"] < now_s)
            or before["holder"] == owner
            or before["expires_s"] < now_s
        )
        if not free:
            assert before is not None
            if before["phase"] == "done":
                return Taken("done")
            return Taken("held", free_s=before["lease_s"])
        spent = before if before is not None and before["phase"] != "done" else {}
        claim = Claim(key, owner, before is None, spent.get("attempts", 0), spent.get("suspicion", 0))
        self._world.claims[key] = (before or {}) | {
            "phase": "claimed",
            "holder": owner,
            "lease_s": now_s + lease_s,
            "expires_s": now_s + KEPT_S,
        }
        return Taken("ours", claim)

    def _mine(self, claim: Claim, change: dict[str, Any]) -> bool:
        held = self._world.claims.get(claim.key)
        if held is None or held["phase"] != "claimed" or held["holder"] != claim.owner:
            return False
        held.update(change, attempts=claim.attempts, suspicion=claim.suspicion)
        return True


class MemoryResults:
    """The results' bucket."""

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life

    def uri(self, key: str) -> str:
        return f"s3://results-bucket/results/{key}.json"

    def exists(self, key: str) -> bool:
        return self._do(lambda: key in self._world.results)

    def put(self, key: str, result: dict[str, Any], *, until_s: float) -> bool:
        def effect() -> bool:
            if key in self._world.results:
                return False
            self._world.results[key] = result
            self._world.writes[key] += 1
            return True

        return self._do(effect)

    def read_request(self, place: str) -> str:
        found = self._do(lambda: self._world.kept_requests.get(place))
        if found is None:
            raise MalformedError("`request_s3` names nothing in the results bucket")
        return found

    def leave_request(self, place: str, request: dict[str, Any]) -> None:
        self._do(lambda: self._world.kept_requests.update({place: json.dumps(request)}))

    def _do(self, effect: Callable[[], Any]) -> Any:
        if "results" in self._world.down:
            raise StoreDownError("the results bucket is down (test)")
        return self._life.call(effect)


class MemoryBoard:
    """The shared record of the pace."""

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life

    def read(self) -> Record:
        return self._life.call(lambda: self._world.record)

    def cut(self, record: Record, *, started_ms: int) -> bool:
        news = {"answered_ms": record.answered_ms} if record.answered_ms == record.cut_ms else {}
        fits = lambda now: now.cut_ms < started_ms  # noqa: E731
        return self._set(fits, peak=record.peak, low=record.low, cut_ms=record.cut_ms, **news)

    def answered(self, now_ms: int, *, not_since_ms: int) -> bool:
        return self._set(lambda now: now.answered_ms < not_since_ms, answered_ms=now_ms)

    def close(self, record: Record, *, started_ms: int, lonely_since_ms: int | None) -> bool:
        def fits(now: Record) -> bool:
            lonely = lonely_since_ms is None or 0 < now.answered_ms < lonely_since_ms
            return now.gate_ms < started_ms and lonely

        return self._set(fits, **{name: getattr(record, name) for name in ("gate", "gate_ms", "probe_ms", "closed_ms")})

    def take_probe(self, seen_ms: int, next_ms: int) -> bool:
        return self._set(lambda now: now.probe_ms == seen_ms, probe_ms=next_ms)

    def open(self, now_ms: int, *, started_ms: int) -> bool:
        values = {"gate": "open", "gate_ms": now_ms, "served_ms": started_ms, "cut_ms": now_ms}
        return self._set(lambda now: 0 < now.gate_ms < started_ms, **values, peak=1.0, low=0.5)

    def count(self, answers: int, time_outs: int, now_ms: int) -> bool:
        now = self._world.record
        timed = {"timed_out_ms": now_ms} if time_outs else {}
        return self._set(lambda _: True, answers=now.answers + answers, time_outs=now.time_outs + time_outs, **timed)

    def stream(self, traffic: Traffic) -> bool:
        now = self._world.record.traffic
        values = {name: one + other for name, one, other in zip(Traffic._fields, now, traffic, strict=True)}
        return self._set(lambda _: True, **values)

    def steer(self, word: Word, *, seen_ms: int) -> bool:
        return self._set(
            lambda now: now.steered_ms in (0, seen_ms), top=word.top, steered_ms=word.now_ms, steerer=word.steerer
        )

    def _set(self, condition: Callable[[Record], bool], **values: Any) -> bool:
        def effect() -> bool:
            record = self._world.record
            if not condition(record):
                return False
            shown = {name: getattr(record, name) for name in Record.__slots__}
            self._world.record = Record(**shown | values)
            return True

        return self._life.call(effect)


class EngineSqs:
    """boto3's SQS client as far as `letters.Queue` uses it, on the engine."""

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> None:  # noqa: N803
        def effect() -> None:
            queue = self._queue(QueueUrl)
            for entry in Entries:
                try:
                    self._world.engine.change_visibility(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"])
                except Exception:
                    continue  # a failed entry of the batch

        self._life.call(effect)

    def send_message(self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any, **more: Any) -> None:  # noqa: N803
        if "queue" in self._world.down:
            raise StoreDownError("the queue is down (test)")
        self._life.call(
            lambda: self._world.engine.send(
                self._queue(QueueUrl),
                MessageBody,
                checked_attributes(MessageAttributes),
                sender="test",
                delay_s=more.get("DelaySeconds"),
                group=more.get("MessageGroupId"),
            )
        )

    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> None:  # noqa: N803
        self._life.call(lambda: self._world.engine.delete(self._queue(QueueUrl), ReceiptHandle))

    def _queue(self, name: str) -> EngineQueue:
        return self._world.engine.queue(f"{_ARN}{name}")


Answer = Callable[[dict[str, Any]], dict[str, Any]]


class MemoryModel:
    """Answers with what `answer` returns or raises; counts what was generated, by the request's `inputs`."""

    def __init__(self, world: World, life: Life, answer: Answer) -> None:
        self._world = world
        self._life = life
        self._answer = answer

    def answer(
        self, request: dict[str, Any], *, deadline_s: float, heard: Callable[[int], None] = lambda parts: None
    ) -> dict[str, Any]:
        def effect() -> dict[str, Any]:
            self._world.generations[request["inputs"]] += 1
            return self._answer(request)

        return self._life.call(effect)


class Process:
    """One consumer process; `receive` and `serve` are what Lambda does around the handler."""

    heartbeat = True
    claims_type: type[MemoryClaims] = MemoryClaims
    deletes_first = False

    def __init__(self, world: World, answer: Answer, *, dies_at: int | None = None, **changed: Any) -> None:
        self.world = world
        self.life = Life(dies_at)
        self.notes: list[tuple[str, dict[str, Any]]] = []
        chosen = settings(**changed)
        claims = self.claims_type(world, self.life)
        queue = Queue(
            EngineSqs(world, self.life),
            url="requests",
            dead_letter_url="dead-letters",
            clock=world.clock,
            most_bytes=chosen.most_message_bytes,
        )
        self.lease = Lease(queue, claims, chosen.lease_s, lambda words: None)
        self.pace = Pace(MemoryBoard(world, self.life), world.clock, max_in_flight=chosen.max_in_flight, seed=1)
        self.metrics = Metrics("chat")
        sns = SimpleNamespace(publish=lambda TopicArn, Message: world.told.append(Message))  # noqa: N803
        ports = Ports(
            queue=queue,
            claims=claims,
            results=MemoryResults(world, self.life),
            generation=Generation(
                MemoryModel(world, self.life, answer),
                self.pace,
                world.clock,
                self.metrics,
                timeout_s=chosen.timeout_s,
                max_attempts=chosen.max_attempts,
                seed=1,
            ),
            lease=self.lease,
            callbacks=Callbacks(None, sns, chosen.callbacks, world.clock),
            clock=world.clock,
            metrics=self.metrics,
            note=lambda event, delivery, **facts: self.notes.append((event, facts)),
        )
        self.worker = Worker(chosen, ports)

    def receive(self) -> Delivery | None:
        """One message as Lambda would hand it over."""
        queue = self.world.engine.queue(self.world.requests.arn)
        received = self.world.engine.receive(queue, 1)
        if not received:
            return None
        message, handle = received[0]
        return delivery_of(as_record(message, handle))

    def serve_one(self) -> Ending | None:
        """Receive, serve, delete. None when there was nothing, or the process was killed over it."""
        delivery = self.receive()
        return None if delivery is None else self.serve(delivery)

    def serve(self, delivery: Delivery) -> Ending | None:
        beat = self._beat
        queue = self.world.engine.queue(self.world.requests.arn)
        try:
            if self.heartbeat:
                self.world.clock.during.append(beat)
            if self.deletes_first:
                self.life.call(lambda: self.world.engine.delete(queue, delivery.receipt))
            self.lease.add([delivery.receipt])
            ending = self.worker.serve(delivery, end_s=self.world.clock.now_s() + FUNCTION_S)
            if ending is not Ending.RELEASED:
                self.life.call(lambda: self.world.engine.delete(queue, delivery.receipt))
        except Killed:
            return None
        finally:
            if beat in self.world.clock.during:
                self.world.clock.during.remove(beat)
        return ending

    def counts(self) -> dict[str, float]:
        """The metrics so far; taken out."""
        lines = [json.loads(line) for line in self.metrics.flush(self.world.clock.now_s())]
        return {name: value for line in lines for name, value in line.items() if name not in ("_aws", "Buffer")}

    def _beat(self) -> None:
        """Killed here, the process finds out at its next call: its time may be passing inside another's."""
        if not self.life.dead:
            with contextlib.suppress(Killed):
                self.lease.beat()


def as_record(message: Message, handle: str) -> Any:
    """Lambda's event record of an engine's message, as `SQSRecord` reads it."""
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    return SQSRecord(
        {
            "messageId": message.id,
            "receiptHandle": handle,
            "body": message.body,
            "attributes": message.system_attributes(),
            "messageAttributes": {
                name: {"dataType": value.data_type}
                | (
                    {"binaryValue": base64.b64encode(value.value).decode()}
                    if isinstance(value.value, bytes)
                    else {"stringValue": str(value.value)}
                )
                for name, value in message.attributes.items()
            },
        }
    )


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """The plainest model."""
    return {"choices": [{"index": 0, "text": f"answer to {request['inputs']}", "finish_reason": "stop"}], "usage": None}


def body_of(key: str, **more: Any) -> str:
    return json.dumps({"key": key, "request": {"inputs": key}} | more)
