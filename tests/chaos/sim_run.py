"""Runs one schedule: what Lambda and the operator do around the consumers, and the contract at the end."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

from sim_judges import judge_deleted, judge_kept
from sim_kernel import BEGIN_S, Host
from sim_letters import Letters
from sim_package import blamed
from sim_schedule import Fault, Schedule, Send
from sim_world import FUNCTION_S, LEASE_S, MOST_BYTES, Process, Version, World

_HORIZON_S: Final = 6 * 3600.0
# A sender's own, of each type; SQS takes ten.
_ATTRIBUTES: Final = [
    (f"a{at}", {"DataType": "Number.int", "StringValue": str(at)})
    if at % 3 == 1
    else (f"a{at}", {"DataType": "Binary", "BinaryValue": bytes([at, 255])})
    if at % 3 == 2
    else (f"a{at}", {"DataType": "String", "StringValue": f"v{at}"})
    for at in range(10)
]
_TOPIC: Final = "arn:aws:sns:us-east-1:123456789012:done"


def violations(schedule: Schedule, versions: tuple[Version, Version]) -> list[str]:
    """What of the contract did not hold. `versions`: the code before a deployment, and after it."""
    world = World(schedule, versions)
    run = Run(world)
    run.begin()
    world.kernel.run()
    if world.kernel.restless:
        world.violated("the consumer never comes to rest")
    if not world.wrong and world.kernel.broke is None:
        run.check_end()
    run.end()
    if world.kernel.broke is not None:
        return [*world.wrong, blamed(world.kernel.broke)]
    return world.wrong


class Run:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._outside = Host()
        self._slots: dict[int, Process | None] = dict.fromkeys(range(world.schedule.consumers))
        self._deployed = not any(fault.kind == "deploy" for fault in world.schedule.faults)
        self._all: list[Process] = []
        self._deletes = self._reports = 0
        # By message: who has it in hand since when, its key, and the receipt.
        self._hands: dict[str, tuple[Process, float, str, str]] = {}
        self._doubled: set[str] = set()  # messages that SQS handed out twice
        self._letters = Letters(world)
        self._last_s = BEGIN_S  # until which something is still to happen from outside
        self._undeleted = {fault.target for fault in world.schedule.faults if fault.kind == "undeleted"}
        self._unreported = {fault.target for fault in world.schedule.faults if fault.kind == "unreported"}

    def begin(self) -> None:
        for send in self._world.schedule.sends:
            self._at(send.at_s, lambda send=send: self._send(send))
        for fault in self._world.schedule.faults:
            work = self._works().get(fault.kind)
            if work is not None:
                self._at(fault.at_s, lambda fault=fault, work=work: work(fault))
            self._last_s = max(self._last_s, BEGIN_S + fault.at_s + fault.for_s)
        for slot in self._slots:
            self._kernel.spawn(self._outside, lambda slot=slot: self._poll(slot))
        self._kernel.at(BEGIN_S + _HORIZON_S, lambda: self._world.violated("messages are not settled after 6 hours"))

    def end(self) -> None:
        """All tasks are brought to their end."""
        self._kernel.end_s = self._kernel.most_turns = float("inf")
        self._kernel.forget()
        for host in [self._outside, *self._all]:
            self._kernel.kill(host)
        self._kernel.run()

    def _at(self, at_s: float, work: Callable[[], None]) -> None:
        self._last_s = max(self._last_s, BEGIN_S + at_s)
        self._kernel.at(BEGIN_S + at_s, work)

    def _send(self, send: Send) -> None:
        world = self._world
        key = send.key
        content: dict[str, Any] = {"key": key}
        world.sent_s.setdefault(key, self._kernel.now_s)
        if send.deadline_s:
            content["deadline_ms"] = int((world.sent_s[key] + send.deadline_s) * 1000)
        if send.low:
            content["priority"] = "low"
        if send.callback:
            content["callback"] = _TOPIC
        if send.tenant:
            content["tenant"] = send.tenant
        attributes = dict(_ATTRIBUTES[: send.attributes])
        if send.by_bucket:
            content["request_s3"] = f"requests/{key}"
            if send.kind != "malformed":
                world.requests[key] = {"inputs": key}
                world.objects[f"requests/{key}"] = json.dumps(world.requests[key]).encode()
        else:
            content["request"] = world.requests[key] = self._request(send, content, attributes)
        body, group = json.dumps(content), send.tenant or None
        world.send("requests", body, attributes, delay_s=send.delay_s, group=group)

    def _request(self, send: Send, content: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """What makes the message as long as it is to be."""
        request: dict[str, Any] = {"inputs": send.key, "user": ""}
        malformed = send.kind == "malformed"
        message = self._world.versions[1].message
        body = json.dumps(content | {"request": [""] if malformed else request})
        spare_bytes = MOST_BYTES - message.size_of(body, message.checked_attributes(attributes))
        words = "x" * (spare_bytes - send.spare_bytes) if send.spare_bytes >= 0 else ""
        return [words] if malformed else request | {"user": words}

    # --- Lambda's part

    def _poll(self, slot: int) -> None:
        world = self._world
        while True:
            queue = world.engine.queue(world.queue.arn)
            received = world.engine.receive(queue, world.schedule.batch)
            if received:
                self._batch(slot, received)
                continue
            change_s = world.engine.next_change_s(queue)
            if change_s is None and not world.busy and self._kernel.now_s > self._last_s and not self._settling():
                world.kernel.stop()
            until_s = (
                change_s if change_s is not None else self._last_s + 1 if self._kernel.now_s <= self._last_s else None
            )
            world.changed.wait(None if until_s is None else max(0.001, until_s - self._kernel.now_s))

    def _settling(self) -> bool:
        return any(message for message in self._world.engine.queue(self._world.queue.arn))

    def _batch(self, slot: int, received: list[tuple[Any, str]]) -> None:
        world, began_s = self._world, self._kernel.now_s
        process = self._slots[slot]
        if process is None or process.dead:
            process = self._slots[slot] = Process(world, world.versions[self._deployed], slot)
            self._all.append(process)
        process.hurt, process.answer = process.stopped, None
        process.received, process.batch_s = received, began_s
        process.sent_on.clear()
        self._take(process, received)
        event = {"Records": [_record(message, handle) for message, handle in received]}
        over = world.changed.__class__()
        world.busy += 1

        def work() -> None:
            try:
                process.run(event, began_s + FUNCTION_S)
            finally:
                over.set()

        self._kernel.spawn(process, work)
        over.wait(FUNCTION_S)
        world.busy -= 1
        late = not over.is_set()
        if late:
            self._out_of_time(process, began_s)
        if process.stopped or late:
            world.harm(process)
            self._kernel.kill(process)
        judge_deleted(world, process, self._doubled)
        self._settle(process, received, began_s)
        judge_kept(world, process)
        self._check_back(process, received, began_s)
        if process.dead:
            self._kernel.sleep(1)  # a new one begins

    def _take(self, process: Process, received: list[tuple[Any, str]]) -> None:
        for message, handle in received:
            other, since_s, _, before = self._hands.get(message.id, (None, 0.0, "", ""))
            excused = message.id in self._doubled or before in self._world.given_back
            excused = excused or self._world.overlaps("outage of the queue", since_s)
            if other is not None and not other.hurt and not excused:
                self._world.violated("a message is handed out while somebody has it in hand")
            self._hands[message.id] = process, self._kernel.now_s, json.loads(message.body)["key"], handle

    def _check_back(self, process: Process, received: list[tuple[Any, str]], began_s: float) -> None:
        """What a dead consumer had in hand comes back after a lease; what one that was stopped had, at once.

        One that dies before its first heartbeat leaves it hidden for as long as the queue does.
        """
        world, now_s = self._world, self._kernel.now_s
        queue = {one.id: one for one in world.engine.queue(world.queue.arn)}
        disturbed = any(world.overlaps(kind, began_s) for kind in ("outage of the queue", "slow store", "freeze"))
        for message, handle in received:
            holder, *_ = self._hands.get(message.id, (None,))
            if holder is not process:
                continue
            del self._hands[message.id]
            self._check_claim(json.loads(message.body)["key"], began_s)
            left = queue.get(message.id)
            if left is None or disturbed or not process.dead or left.state.value != "in flight":
                continue
            if process.stopped and process.answer is not None and self._reports not in self._unreported:
                named = {item["itemIdentifier"] for item in process.answer.get("batchItemFailures", [])}
                if message.id in named and left.visible_at_s > now_s + 31:
                    world.violated("what a stopped consumer gives back stays hidden")
            elif handle in world.hidden and left.visible_at_s > now_s + LEASE_S + 6:
                world.violated("what a dead consumer had in hand stays hidden for longer than a lease")

    def _check_claim(self, key: str, began_s: float) -> None:
        """A key is held while it is in hand, or for a lease; longer for an answer that could not be stored.

        A claim that was refused and yet made is nobody's, until its lease ends.
        """
        world, now_s = self._world, self._kernel.now_s
        record = world.table.items.get(key)
        if record is not None and record["phase"]["S"] == "claimed" and not world.overlaps("outage of the bucket", 0):
            held = any(of == key for _, _, of, _ in self._hands.values())  # deleted by now, perhaps, and soon let go
            lied = world.lied_s + LEASE_S >= began_s
            if not (held or lied or self._doubled or world.harmed or self._outage()):
                world.violated(f"{key} is claimed and in nobody's hand")
            left_s = int(record["lease_ms"]["N"]) / 1000 - now_s
            if left_s > LEASE_S + 16:
                self._world.violated(f"{key} is claimed for {left_s:.0f} s")

    def _outage(self) -> bool:
        return any(self._world.overlaps(kind, 0) for kind in ("outage of the table", "outage of the queue"))

    def _out_of_time(self, process: Process, began_s: float) -> None:
        slow = ("freeze", "outage of the table", "outage of the bucket", "outage of the queue", "slow store")
        if not process.hurt and not any(self._world.overlaps(kind, began_s) for kind in slow):
            self._world.violated("a function ran out of time")

    def _settle(self, process: Process, received: list[tuple[Any, str]], began_s: float) -> None:
        world = self._world
        self._reports += 1
        excused = process.hurt or world.overlaps("outage of the queue", began_s) or self._reports in self._unreported
        failed = {item["itemIdentifier"] for item in (process.answer or {}).get("batchItemFailures", [])}
        for message, handle in received:
            answered = process.answer is not None and message.id not in failed and self._reports not in self._unreported
            self._deletes += answered
            if answered and self._deletes in self._undeleted:
                continue
            if answered:
                self._delete(message, handle, began_s)
            elif not excused:
                world.unexcused[message.id] += 1
        world.changed_now()

    def _delete(self, message: Any, handle: str, began_s: float) -> None:
        world = self._world
        world.engine.delete(world.engine.queue(world.queue.arn), handle)
        key = json.loads(message.body)["key"]
        queues = (world.queue.arn, world.dead.arn)
        left = [one for arn in queues for one in world.engine.queue(arn) if f'"{key}"' in one.body]
        if not left and not world.stored(key) and world.removed.get(key, 0.0) < began_s:
            world.violated(f"{key} is lost")

    # --- what goes wrong

    def _works(self) -> dict[str, Callable[[Fault], None]]:
        return {
            "crash": self._crash,
            "stop": self._stop,
            "freeze": self._freeze,
            "duplicate": lambda fault: self._duplicate(),
            "expiry": lambda fault: self._expire(),
            "redrive": lambda fault: self._redrive(),
            "deploy": lambda fault: self._deploy(),
        }

    def _crash(self, fault: Fault) -> None:
        process = self._slots.get(fault.target)
        if process is not None and not process.dead:
            self._world.harm(process)
            self._kernel.kill(process)

    def _stop(self, fault: Fault) -> None:
        process = self._slots.get(fault.target)
        if process is None or process.dead or process.stopped:
            return
        process.stopped = process.hurt = self._world.harmed = True

        def stop() -> None:
            try:
                process.consumer.stop()
            except SystemExit:
                self._kernel.kill(process, but=self._kernel.current)
            for future in process.futures:
                future.look()

        self._kernel.spawn(process, stop)

    def _freeze(self, fault: Fault) -> None:
        process = self._slots.get(fault.target)
        if process is None or process.dead:
            return
        process.frozen_until_s = self._kernel.now_s + fault.for_s
        if fault.for_s > 8:
            self._world.harm(process)

    def _duplicate(self) -> None:
        """SQS hands out a message once more, while somebody works on it."""
        world = self._world
        queue = world.engine.queue(world.queue.arn)
        for message in sorted(queue, key=lambda one: one.id):
            if message.state.value == "in flight":
                self._doubled.add(message.id)
                message.visible_at_s = self._kernel.now_s
                queue._hidden.push((message.visible_at_s, 0, message))
                world.changed_now()
                return

    def _expire(self) -> None:
        """A result is taken away."""
        results = sorted(key for key in self._world.objects if key.startswith("results/"))
        if results:
            key = self._world.random.choice(results)
            del self._world.objects[key]
            self._world.removed[key.removeprefix("results/").removesuffix(".json")] = self._kernel.now_s

    def _redrive(self) -> None:
        self._letters.check()
        world = self._world
        world.redriven = True
        dead = world.engine.queue(world.dead.arn)
        if any(True for _ in dead):
            world.engine.start_move(dead, world.queue.arn, None)
        world.changed_now()

    def _deploy(self) -> None:
        """From now on new processes run the new code; every second old one ends when it is idle."""
        self._deployed = True
        for slot, process in self._slots.items():
            if process is not None and slot % 2 == 0:
                self._stop(Fault("stop", target=slot))

    # --- the contract

    def check_end(self) -> None:
        world = self._world
        self._letters.check()
        dead = {json.loads(one.body)["key"] for one in world.engine.queue(world.dead.arn)}
        for key, send in world.sends.items():
            if send.kind == "healthy" and not world.stored(key) and key not in dead and key not in world.removed:
                world.violated(f"{key} is lost")
            if send.kind != "healthy" and key not in dead:
                world.violated(f"{key} ({send.kind}) is no dead letter")
            if send.kind != "healthy" and world.stored(key):
                world.violated(f"{key} ({send.kind}) has a result")
            if send.callback and world.stored(key) and key not in dead and key not in world.told:
                world.violated(f"nobody was told of {key}")
            failed = sum(ask.failed for ask in world.asks.get(key, ()))
            hurt = sum(ask.excused for ask in world.asks.get(key, ()))
            if (
                send.kind == "broken"
                and not world.redriven
                and failed > world.schedule.attempts * (self._letters.lives(key) + hurt)
            ):
                world.violated(f"{key} is asked for {failed} times")


def _record(message: Any, handle: str) -> dict[str, Any]:
    """Lambda's, of a message of the queue."""
    return {
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
