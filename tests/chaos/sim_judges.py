"""What docs/buffer.md promises of single acts, judged when they are done: a request to the model, an answer that is
stored, a message that is sent on. `sim_world` and `sim_run` judge what needs the whole run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sim_kernel import BEGIN_S

if TYPE_CHECKING:
    from sim_world import Ask, Process, World

_FIRST_SENT, _REASON = "first_sent_ms", "reason"
_OURS: Final = (_FIRST_SENT, _REASON, "attempts", "postponed")
_KEPT_ATTRIBUTES: Final = 7  # of a sender's own
_LONGEST_PART_S: Final = 15.0  # between two parts of a stream
_TOGETHER_S: Final = 0.5  # what times out so soon after is in it, too
_PROBE_S: Final = {"unavailable": 5.0, "no_capacity": 20.0}
_KNOWN_S: Final = 1.5  # a closed gate by all: a view of the pace is a second old
_BLINDING: Final = ("outage of the table", "slow store", "stale pace", "lie", "skew", "freeze")  # to the pace


def answer_of(key: str) -> str:
    return f"answer to {key}"


# --- a request to the model


def judge_ask(world: World, ask: Ask, payload: dict[str, Any]) -> None:
    """It is what was sent, in time by the process's own clock, of a key that is not known to be somebody else's."""
    key, process, now_s = ask.send.key, ask.process, world.kernel.now_s
    if any(payload.get(name) != value for name, value in world.requests[key].items()):
        world.violated(f"the model is asked for something else than {key}")
    deadline_s = world.sent_s[key] + ask.send.deadline_s
    if ask.send.deadline_s and now_s + process.skew_s > deadline_s + 0.01:
        world.violated(f"{key} is asked for after its deadline")
    if now_s > process.lost.get(key, now_s):
        world.violated(f"{key} is asked for by who knows that its claim is lost")
    outage = world.during("outage of the bucket")
    if outage is not None and BEGIN_S + outage.at_s < process.batch_s and unsaved(world, process):
        world.violated(f"{key} is asked for while an answer cannot be stored")
    _judge_probe(world)


def unsaved(world: World, process: Process) -> set[str]:
    """Keys whose answers a process has had since before this batch, and which are not stored."""
    return {
        key
        for key, asks in world.asks.items()
        for ask in asks
        if ask.process is process
        and ask.in_time
        and not ask.excused
        and (ask.ended_s or process.batch_s) < process.batch_s
        and not world.stored(key)
        and key not in world.removed
    }


def _judge_probe(world: World) -> None:
    """While nothing is served, one probe goes out every 5 s; at no capacity, every 20 s."""
    before_s, gate_before = world.last_ask
    item, now_s = world.table.items.get("#pace", {}), world.kernel.now_s
    gate = item.get("gate", {"S": "open"})["S"]
    world.last_ask = now_s, gate
    if gate == "open" or before_s < int(item["closed_ms"]["N"]) / 1000 + _KNOWN_S:
        return
    least_s = _PROBE_S[gate] if gate == gate_before else _PROBE_S["unavailable"]
    if now_s - before_s < least_s - 0.5 and not _blind(world, before_s - 5):
        world.violated(f"two probes within {now_s - before_s:.1f} s, {gate}")


def _blind(world: World, since_s: float) -> bool:
    """Whether somebody may not have known the pace as it is."""
    kinds = {fault.kind for fault in world.schedule.faults}
    return bool(kinds & {"skew", "lie"}) or any(world.overlaps(kind, since_s) for kind in _BLINDING)


def judge_ended(world: World, ask: Ask) -> None:
    """No answer takes longer than `invocation_timeout_s`, as far as a part that is waited for can be ended."""
    took_s = world.kernel.now_s - ask.began_s
    ask.in_time = ask.complete and took_s < world.ANSWER_S - 1
    if took_s > world.ANSWER_S + _LONGEST_PART_S + 1 and not (ask.excused or ask.process.hurt or ask.process.dead):
        world.violated(f"{ask.send.key} is waited for {took_s:.0f} s")


def attempts_spent(world: World, key: str) -> int:
    """Failures that may count against a message: no time-out that three others or more share."""
    asks = world.asks.get(key, ())
    return sum((ask.failed and not _shared(world, ask)) or (ask.excused and not ask.complete) for ask in asks)


def _shared(world: World, ask: Ask) -> bool:
    if not ask.timed_out or ask.ended_s is None or _blind(world, ask.began_s):
        return False
    others = [
        other
        for asks in world.asks.values()
        for other in asks
        if other is not ask and other.timed_out and other.ended_s is not None
    ]
    return sum(ask.began_s < (other.ended_s or 0.0) < ask.ended_s + _TOGETHER_S for other in others) >= 3


# --- an answer


def judge_result(world: World, place: str, body: bytes) -> None:
    result = json.loads(body)
    key = place.removeprefix("results/").removesuffix(".json")
    if result["key"] != key or result["answer"]["choices"][0]["text"] != answer_of(key):
        world.violated(f"the result of {key} is another's")


def judge_told(world: World, told: dict[str, Any]) -> None:
    """Whoever is told of a result finds it."""
    key = told["key"]
    world.told.append(key)
    if told["result"] != f"s3://bucket/results/{key}.json" or not (world.stored(key) or key in world.removed):
        world.violated(f"somebody is told of a result of {key} that is not there")


def judge_kept(world: World, process: Process) -> None:
    """An answer that the bucket did not take is stored when its message comes back to who has it."""
    if process.hurt or process.dead:
        return
    disturbed = ("outage of the bucket", "outage of the table", "slow store", "freeze")
    if any(world.overlaps(kind, process.batch_s) for kind in disturbed):
        return
    for key in unsaved(world, process) & {_key_of(message) for message, _ in process.received}:
        world.violated(f"the answer to {key} was kept, and is not stored")


# --- a message that is sent on


def judge_sent_on(world: World, process: Process, url: str, sent: Any) -> None:
    """It is one that the process has in hand: content, attributes, group, and when it was first sent."""
    key = _key_of(sent)
    found = {message.id: _differing(world, message, sent) for message, _ in process.received if _key_of(message) == key}
    if not found:
        world.violated(f"{key} is sent on by who does not have it in hand")
        return
    differing = min(found.values(), key=len)
    if differing:
        world.violated(f"{key} is sent on with another {' and '.join(differing)}")
        return
    if len(found) == 1:
        process.sent_on.update(found)
    letter = url == "dead-letters"
    if letter != (_REASON in sent.attributes) or letter != ("attempts" in sent.attributes):
        world.violated(f"{key} is sent to {url} {'without' if letter else 'with'} a reason and attempts")
    age_s = world.kernel.now_s - int(sent.attributes[_FIRST_SENT].value) / 1000
    if not letter and age_s > world.schedule.retention_s + 36 and not (process.hurt or world.overlaps("freeze", 0)):
        world.violated(f"{key} is sent again at an age of {age_s:.0f} s")


def _differing(world: World, received: Any, sent: Any) -> list[str]:
    """In what a message that is sent on is not the one that was received."""
    sent_ms = str(int(received.sent_s * 1000))
    first = received.attributes.get(_FIRST_SENT) if _REASON not in received.attributes else None
    theirs = {name: one for name, one in received.attributes.items() if name not in _OURS}
    carried = {name: one for name, one in sent.attributes.items() if name not in _OURS}
    enough = len(carried) >= min(_KEPT_ATTRIBUTES, len(theirs))
    told = sent.attributes.get(_FIRST_SENT)
    same = {
        "content": sent.body == received.body or _shortened(world, received, sent),
        "set of attributes": enough and all(theirs.get(name) == one for name, one in carried.items()),
        "group": sent.group == received.group,
        "time of its first sending": told is not None and told.value == (sent_ms if first is None else first.value),
    }
    return [name for name, holds in same.items() if not holds]


def _shortened(world: World, received: Any, sent: Any) -> bool:
    """The same but for the request, which lies in the bucket: only where the queue would not take it otherwise."""
    before, after = json.loads(received.body), json.loads(sent.body)
    place = after.pop("request_s3", None)
    request = before.pop("request", None)
    size_of, most = world.versions[1].message.size_of, sent_bytes(world)
    return bool(
        before == after
        and place in world.objects
        and json.loads(world.objects[place]) == request
        and size_of(received.body, sent.attributes) > most
    )


def sent_bytes(world: World) -> int:
    """What a queue takes of a message."""
    return int(world.queue.attributes.number("MaximumMessageSize"))


def judge_deleted(world: World, process: Process, doubled: set[str]) -> None:
    """What was sent on is deleted at once, not with its batch: else a crash until then leaves two of it."""
    if process.hurt or process.dead or world.overlaps("outage of the queue", process.batch_s):
        return
    left = {message.id for message in world.engine.queue(world.queue.arn)}
    for message_id in (process.sent_on & left) - doubled:
        world.violated(f"message {message_id} was sent on, and is still there when its batch ends")


def _key_of(message: Any) -> str:
    return str(json.loads(message.body)["key"])
