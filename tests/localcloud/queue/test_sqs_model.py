"""The engine against a model that is obviously right: lists, looked through from end to end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from sqs_world import World

from loadproof.localcloud.wire import AwsError

VISIBILITY_S, MOST_RECEIVES, RETENTION_S = 10, 4, 100


@dataclass
class Plain:
    """A message of the model."""

    body: str
    group: str | None
    sent_s: float
    order: int
    visible_at_s: float
    hidden_as: int
    receives: int = 0
    received_s: float = 0.0
    waits: bool = False  # hidden, and not shown since

    @property
    def in_flight(self) -> bool:
        return self.waits and self.receives > 0


@dataclass
class Model:
    """One queue and its dead letters. Every question is answered by looking at every message."""

    now_s: float
    queue: list[Plain] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    serial: int = 0

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def settle(self) -> None:
        due = [one for one in self.queue if one.waits and one.visible_at_s <= self.now_s]
        for one in sorted(due, key=lambda one: (one.visible_at_s, one.hidden_as)):
            one.waits = False
            if one.receives >= 3:
                one.order = self.next_serial()
        self.queue = [one for one in self.queue if one.sent_s + RETENTION_S > self.now_s]

    def send(self, body: str, group: str | None, delay_s: int) -> None:
        order = self.next_serial()
        message = Plain(body, group, self.now_s, order, self.now_s + delay_s, self.next_serial(), waits=delay_s > 0)
        self.queue.append(message)

    def turn(self, one: Plain) -> tuple[int, int]:
        busy = sum(other.in_flight for other in self.queue if other.group == one.group)
        return (busy if one.group is not None else 0, one.order)

    def receive(self, most: int, visibility_s: int) -> list[Plain]:
        received: list[Plain] = []
        while len(received) < most and (visible := [one for one in self.queue if not one.waits]):
            one = min(visible, key=self.turn)
            if one.receives >= MOST_RECEIVES:
                self.queue.remove(one)
                self.dead.append(one.body)
                continue
            one.receives += 1
            one.received_s = self.now_s
            self.hide(one, visibility_s)
            received.append(one)
        return received

    def hide(self, one: Plain, visibility_s: int) -> None:
        one.waits, one.visible_at_s, one.hidden_as = True, self.now_s + visibility_s, self.next_serial()

    def delete(self, body: str, receives: int) -> None:
        self.queue = [one for one in self.queue if (one.body, one.receives) != (body, receives)]

    def change(self, body: str, receives: int, visibility_s: int) -> bool:
        """False: refused."""
        for one in self.queue:
            if (one.body, one.receives) == (body, receives):
                if one.waits:
                    self.hide(one, visibility_s)
                return True
        return False

    def counts(self) -> tuple[int, int, int]:
        in_flight = sum(one.in_flight for one in self.queue)
        waiting = sum(one.waits for one in self.queue)
        return len(self.queue) - waiting, in_flight, waiting - in_flight

    def age_of_oldest_s(self) -> float:
        return max((self.now_s - one.sent_s for one in self.queue if one.receives < 3), default=0.0)


groups = st.sampled_from([None, None, "a", "b", "c"])
seconds = st.integers(0, 15)
anyone = st.integers(0, 1000)
steps = st.one_of(
    st.tuples(st.just("send"), groups, st.sampled_from([0, 0, 0, 7])),
    st.tuples(st.just("receive"), st.integers(1, 10), seconds),
    st.tuples(st.just("receive"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("delete"), anyone, st.just(0)),
    st.tuples(st.just("change"), anyone, seconds),
    st.tuples(st.just("pass"), seconds, st.just(0)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(steps, max_size=80))
def test_the_engine_does_what_the_model_does(story: list[tuple[str, object, int]]) -> None:
    """The same messages in the same order, the same refusals, counts, age and dead letters after every step."""
    world = World()
    dead = world.queue("dead")
    policy = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": MOST_RECEIVES})
    queue = world.queue(
        RedrivePolicy=policy, VisibilityTimeout=VISIBILITY_S, MessageRetentionPeriod=RETENTION_S
    )  # fmt: skip
    model = Model(world.now_s)
    handles: list[tuple[str, str, int]] = []  # (handle, body, receives) of every receive ever
    for number, (step, argument, more) in enumerate(story):
        world.settled(queue)
        if step == "send":
            world.send(queue, f"m{number}", group=argument, delay_s=more)
            model.send(f"m{number}", argument, more)  # type: ignore[arg-type]
        elif step == "receive":
            received = world.receive(queue, argument, more)  # type: ignore[arg-type]
            expected = model.receive(argument, more)  # type: ignore[arg-type]
            assert [message.body for message, _ in received] == [one.body for one in expected]
            handles += [(handle, message.body, message.receives) for message, handle in received]
        elif step == "pass":
            world.pass_s(argument)  # type: ignore[arg-type]
            model.now_s = world.now_s
        elif handles:
            handle, body, receives = handles[argument % len(handles)]  # type: ignore[operator]
            if step == "delete":
                world.engine.delete(queue, handle)
                model.delete(body, receives)
            else:
                try:
                    world.engine.change_visibility(queue, handle, more)
                    accepted = True
                except AwsError:
                    accepted = False
                assert accepted == model.change(body, receives, more)
        model.settle()
        assert world.counts(queue) == model.counts()
        assert queue.age_of_oldest_s(world.now_s) == model.age_of_oldest_s()
        assert sorted(message.body for message in dead) == sorted(model.dead)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 10))
def test_every_message_is_received_once_while_all_are_deleted(tenants: list[int], most: int) -> None:
    """Whatever the tenants: receive and delete until nothing comes, and each was seen exactly once."""
    world = World()
    queue = world.queue()
    sent = [world.send(queue, str(index), group=f"g{tenant}").id for index, tenant in enumerate(tenants)]
    seen: list[str] = []
    while received := world.receive(queue, most):
        for message, handle in received:
            seen.append(message.id)
            world.engine.delete(queue, handle)
    assert sorted(seen) == sorted(sent)
    assert world.counts(queue) == (0, 0, 0)
