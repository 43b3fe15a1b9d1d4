"""One simulated run: consumers behind a queue, what goes wrong, and whether the contract held."""

from __future__ import annotations

import json
import sys
import uuid
from collections import Counter
from dataclasses import dataclass
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, Final

import sim_judges
from sim_cloud import Table, clients
from sim_kernel import BEGIN_S, RUNNING, Host, Kernel, Killed
from sim_package import Changes, Package, blamed
from sim_schedule import Fault, Schedule, Send

LEASE_S, FUNCTION_S, RECEIVES = 60.0, 260.0, 5
MOST_BYTES: Final = 4096  # of a message with its attributes: SQS's own bound in small
_ARN: Final = "arn:aws:sqs:us-east-1:123456789012:"
_TOPIC: Final = "arn:aws:sns:us-east-1:123456789012:done"
_VARIABLES: Final = {
    "ENDPOINT_NAME": "chat", "PROTOCOL": "tgi", "MODEL_REVISION": "r1", "QUEUE_URL": "requests",
    "DEAD_LETTER_URL": "dead-letters", "CLAIMS_TABLE": "claims", "RESULTS_BUCKET": "bucket",
    "RESULTS_PREFIX": "results/", "INVOCATION_TIMEOUT_S": "120", "IDLE_TIMEOUT_S": "30", "LEASE_S": str(LEASE_S),
    "MAX_MESSAGE_BYTES": str(MOST_BYTES), "CALLBACKS": _TOPIC,
}  # fmt: skip


class Version:
    """The consumer's code and the queue's, loaded once for many runs."""

    def __init__(self, changes: Changes | None = None) -> None:
        changes = changes or {}
        queue = Package("sqs", {name: change for name, change in changes.items() if name.startswith("sqs/")})
        self.engine, self.message = queue.module("engine"), queue.module("message")
        consumer = Package("consumer", {name: one for name, one in changes.items() if name.startswith("consumer/")})
        self.handler: ModuleType = consumer.module("handler")
        consumer.module("deliveries").MOST_BYTES = MOST_BYTES  # type: ignore[attr-defined]


@dataclass(eq=False, slots=True)
class Ask:
    """One request to the model."""

    process: Process
    send: Send
    began_s: float
    ended_s: float | None = None
    complete: bool = False  # its answer was sent to the end
    refused: bool = False
    failed: bool = False  # neither answered nor refused
    timed_out: bool = False  # in that way
    in_time: bool = False  # complete, and the consumer had the time to take it
    excused: bool = False  # its process was killed or frozen before the answer was stored


class Process(Host):
    """One consumer process, from its start to its end."""

    def __init__(self, world: World, version: Version, slot: int) -> None:
        super().__init__(world.skews.get(slot, 0.0))
        self.version, self.slot = version, slot
        self.stopped = False
        self.futures: list[Any] = []
        self.hurt = False  # in this batch
        self.received: list[tuple[Any, str]] = []  # messages and handles of this batch
        self.batch_s = 0.0  # when it began
        self.lost: dict[str, float] = {}  # when it was told that a claim of this key is somebody else's
        self.sent_on: set[str] = set()  # ids of messages of this batch
        self.answer: Any = None
        module = version.handler
        module.os = SimpleNamespace(  # type: ignore[attr-defined]
            environ=_VARIABLES
            | {
                "MAX_IN_FLIGHT": str(world.schedule.consumers * world.schedule.batch),
                "MAX_ATTEMPTS": str(world.schedule.attempts),
                "RETENTION_S": str(world.schedule.retention_s),
            }
        )
        module.boto3 = clients(world, self)  # type: ignore[attr-defined]
        module.logger = SimpleNamespace(  # type: ignore[attr-defined]
            info=lambda *_, **__: None, warning=lambda *_, **__: None, exception=world.fault_of_ours
        )
        module.Config = lambda **_: None  # type: ignore[attr-defined]  # costs more than the rest of a client
        module.print = lambda *_: None  # type: ignore[attr-defined]
        self.consumer = module.Consumer.from_variables()

    def run(self, event: Any, end_s: float) -> None:
        module = self.version.handler
        module._consumer = lambda: self.consumer  # type: ignore[attr-defined]
        left_ms = (end_s - RUNNING.kernel.now_s) * 1000
        self.answer = module.handler(event, SimpleNamespace(get_remaining_time_in_millis=lambda: left_ms))


class World:
    """Everything that outlives a process, and the truth about what happened."""

    IDLE_S: ClassVar[float] = 30.0
    ANSWER_S: ClassVar[float] = 120.0

    def __init__(self, schedule: Schedule, versions: tuple[Version, Version]) -> None:
        self.schedule = schedule
        self.random = RUNNING.random = Random(schedule.seed)
        self.kernel = RUNNING.kernel = Kernel(Random(schedule.seed + 1))
        self.versions = versions  # before and after a deployment
        self.wrong: list[str] = []
        self.sends = {send.key: send for send in reversed(schedule.sends)}
        self.sent_s: dict[str, float] = {}
        self.requests: dict[str, Any] = {}  # as sent, by key
        self.last_ask: tuple[float, str] = (0.0, "")  # and the gate then
        self._faults: dict[str, list[Fault]] = {}
        for fault in schedule.faults:
            self._faults.setdefault(fault.kind, []).append(fault)
        self.skews = {fault.target: fault.share for fault in self._faults.get("skew", [])}
        self._calls: Counter[str] = Counter()
        deaths = self._faults.get("crash at a call", [])
        self.dies_before = {fault.target for fault in deaths if not fault.share}
        self.dies_after = {fault.target for fault in deaths if fault.share}
        self.lies = {fault.target for fault in self._faults.get("lie", [])}
        loops = [fault.target for fault in self._faults.get("crash loop", [])]
        self._dooms = {send.key: times for send, times in zip(schedule.sends, loops, strict=False)}
        self._conflicts = {fault.target for fault in self._faults.get("conflict", [])}
        self.table = Table(self._record_changed)
        self.objects: dict[str, bytes] = {}
        self.removed: dict[str, float] = {}  # when a result was taken away
        self.missed: dict[str, float] = {}  # when S3 last said of a result that it is not there
        self.told: list[str] = []
        self.asks: dict[str, list[Ask]] = {}
        self.in_flight = 0
        ids = iter(range(1, 1 << 40))
        version = versions[1]
        self.engine = version.engine.Engine(lambda: self.kernel.now_s, new_id=lambda: str(uuid.UUID(int=next(ids))))
        self.dead = self.engine.create_queue(
            f"{_ARN}dead-letters", {"MessageRetentionPeriod": "1209600", "MaximumMessageSize": str(MOST_BYTES)}, {}
        )
        policy = json.dumps({"deadLetterTargetArn": self.dead.arn, "maxReceiveCount": RECEIVES})
        more = {"VisibilityTimeout": "1560", "RedrivePolicy": policy, "MessageRetentionPeriod": "1209600"}
        more["MaximumMessageSize"] = str(MOST_BYTES)
        self.queue = self.engine.create_queue(f"{_ARN}requests", more, {})
        self.unexcused: Counter[str] = Counter()  # receives by message id that ended without a delete, for no reason
        self.redriven = self.harmed = False
        self.hidden: set[str] = set()  # receipts that a consumer has hidden itself
        self.given_back: set[str] = set()  # and those that it gave back
        self.lied_s = float("-inf")  # when the table last answered an error after it did what was asked
        self.busy = 0
        self.changed = versions[1].handler.threading.Event()

    def fault_of_ours(self, *_: object, **__: object) -> None:
        error = sys.exc_info()[1]
        assert error is not None
        self.violated(blamed(error))

    def violated(self, words: str) -> None:
        self.wrong.append(words)
        self.kernel.stop()

    # --- what goes wrong

    def during(self, kind: str, slack_s: float = 0.0, at_s: float | None = None) -> Fault | None:
        """The fault of that kind that lasts at a time (None: now), or ended at most `slack_s` before."""
        since_s = (self.kernel.now_s if at_s is None else at_s) - BEGIN_S
        for fault in self._faults.get(kind, ()):
            if fault.at_s <= since_s < fault.at_s + fault.for_s + slack_s:
                return fault
        return None

    def overlaps(self, kind: str, from_s: float, least_s: float = 0.0) -> bool:
        """Whether one of at least that length lasted some time between then and now."""
        return any(
            fault.for_s >= least_s
            and fault.at_s <= self.kernel.now_s - BEGIN_S
            and fault.at_s + fault.for_s >= from_s - BEGIN_S
            for fault in self._faults.get(kind, ())
        )

    def met(self, kind: str) -> bool:
        fault = self.during(kind)
        return fault is not None and self.random.random() < fault.share

    def count_call(self, store: str) -> int:
        self._calls["all"] += 1
        return self._calls["all"]

    def conflicts(self) -> bool:
        self._calls["put"] += 1
        return self._calls["put"] in self._conflicts

    def latency_s(self) -> float:
        return self.random.uniform(1, 4) if self.during("slow store") else 0.02 * self.random.random()

    def die(self, process: Process) -> None:
        """The running task's own process is killed."""
        self.harm(process)
        self.kernel.kill(process, but=self.kernel.current)
        raise Killed

    def harm(self, process: Process) -> None:
        """It is killed or frozen: what it was asked for and has not stored may be asked for again."""
        process.hurt = self.harmed = True
        for asks in self.asks.values():
            for ask in asks:
                if ask.process is process and not self.stored(ask.send.key):
                    ask.excused = True

    # --- what is done

    def stored(self, key: str) -> bool:
        return f"results/{key}.json" in self.objects

    def written(self, key: str, body: bytes) -> None:
        before = self.objects.get(key)
        if before is not None and (before != body or key.startswith("results/")):
            self.violated(f"{key} is written over")
        self.objects[key] = body

    def hide(self, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            try:
                self.engine.change_visibility(
                    self.engine.queue(self.queue.arn), entry["ReceiptHandle"], entry["VisibilityTimeout"]
                )
                self.hidden.add(entry["ReceiptHandle"])
                if entry["VisibilityTimeout"] < LEASE_S:
                    self.given_back.add(entry["ReceiptHandle"])
            except self.versions[1].engine.AwsError:
                continue  # a failed entry of the batch
        self.changed_now()

    def delete(self, receipt: str) -> None:
        self.engine.delete(self.engine.queue(self.queue.arn), receipt)
        self.changed_now()

    def send(
        self, url: str, body: str, attributes: Any = None, *, delay_s: int | None = None, group: str | None = None
    ) -> Any:
        queue = self.engine.queue(f"{_ARN}{url}")
        checked = self.versions[1].message.checked_attributes(attributes)
        sent = self.engine.send(queue, body, checked, sender="test", delay_s=delay_s, group=group)
        self.changed_now()
        return sent

    def changed_now(self) -> None:
        self.changed._waiters.wake()

    def asked(self, process: Process, key: str) -> Ask:
        now_s, send = self.kernel.now_s, self.sends[key]
        for earlier in self.asks.get(key, ()):
            if not process.hurt:  # one that froze over its lease finds out only when it puts its answer
                self._check_repeat(earlier)
        ask = Ask(process, send, now_s)
        self.asks.setdefault(key, []).append(ask)
        self.in_flight += 1
        if self._dooms.get(key, 0):
            self._dooms[key] -= 1
            self.die(process)
        return ask

    def _check_repeat(self, earlier: Ask) -> None:
        key, now_s = earlier.send.key, self.kernel.now_s
        if earlier.excused or (earlier.ended_s is not None and not earlier.complete):
            return
        excused = (
            (earlier.process.hurt and earlier.ended_s is None)  # frozen, it goes on with a claim that has ended
            or self.removed.get(key, 0.0) >= earlier.began_s
            or self.overlaps("outage of the table", earlier.began_s - 25, 10)
            or (self.overlaps("outage of the bucket", earlier.began_s, 10) and self._gave_up(earlier, now_s))
            or self.overlaps("stale listing", earlier.began_s)
        )
        if not excused:
            self.violated(f"{key} is asked for again, {'answered' if earlier.complete else 'being answered'} before")

    def _gave_up(self, earlier: Ask, now_s: float) -> bool:
        """An answer that could not be stored is lost with its process, or when its claim has ended."""
        return earlier.process.dead or now_s > (earlier.ended_s or now_s) + 850

    def ask_ended(self, ask: Ask) -> None:
        if ask.ended_s is None:
            ask.ended_s = self.kernel.now_s
            self.in_flight -= 1
            sim_judges.judge_ended(self, ask)

    def _record_changed(self, key: str, before: dict[str, Any] | None, after: dict[str, Any], who: Any) -> None:
        """No claim that somebody holds is taken away, and nothing that is done is undone while its result is there."""
        if before is None or key == "#pace":
            return
        phase, now_phase = before["phase"]["S"], after["phase"]["S"]
        if phase == "claimed" and now_phase == "claimed" and before["holder"] != after["holder"]:
            left_s = int(before["lease_ms"]["N"]) / 1000 - self.kernel.now_s
            if left_s > 31:  # clocks are at most 30 s apart
                self.violated(f"the claim of {key} is taken {left_s:.0f} s before its lease ends")
        if phase == "claimed" and now_phase == "released" and who != before["holder"]:
            self.violated(f"the claim of {key} is let go by another")
        if phase == "done" and now_phase != "done" and self.stored(key) and not self._thought_gone(key):
            self.violated(f"{key} is done and begun again")

    def _thought_gone(self, key: str) -> bool:
        """Whoever was told that a result is gone, and says so while another stores it, looks again before it asks."""
        return bool(self.during("stale listing", 10)) or self.missed.get(key, 0.0) > self.kernel.now_s - 10
