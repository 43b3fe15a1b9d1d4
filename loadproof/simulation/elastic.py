"""Copies that appear and drain: what an autoscaler wants, as instances and containers can give it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from loadproof.capacity.start_up import StartUp
from loadproof.simulation.scaling import TICK_MS, Autoscaler, Sample
from loadproof.simulation.scheduling import Scheduler


@dataclass(frozen=True, slots=True)
class Machines:
    """The endpoint's instances: how many copies fit on one, and how many there may be."""

    copies_per_instance: int
    min_instances: int
    max_instances: int


class CopyCount(NamedTuple):
    """Copies and instances from `at_ms` on."""

    at_ms: float
    serving: int
    starting: int
    draining: int
    instances: int


class _Instance:
    __slots__ = ("copies", "ready_ms")

    def __init__(self, ready_ms: float) -> None:
        self.ready_ms = ready_ms
        self.copies = 0


class ElasticCopies:
    """A changing number of copies for `simulate_fleet`; `history` holds one row for each change.

    A copy goes to the first instance with room, else to a new one. Scaling in takes the youngest copies: those that
    start are given up, those that serve take no more requests and go when their last one ended. An instance goes with
    its last copy, down to `min_instances`; SageMaker keeps it some minutes longer, which costs a little more.
    """

    def __init__(
        self, autoscaler: Autoscaler, make_copy: Callable[[], Scheduler], start_up: StartUp, machines: Machines
    ) -> None:
        self._autoscaler, self._make_copy, self._start_up, self._machines = autoscaler, make_copy, start_up, machines
        self.slots: list[Scheduler] = []
        self.serving: list[int] = []
        self.invocations = self.without_capacity = 0
        self._draining: list[int] = []
        self._free: list[int] = []
        self._homes: dict[int, _Instance] = {}  # by slot
        self._starting: list[tuple[float, _Instance]] = []  # (when it serves, where), in order of start
        self._instances = [_Instance(0.0) for _ in range(machines.min_instances)]
        self._next_tick_ms = TICK_MS
        self.history: list[CopyCount] = []
        self._instance_ms = self._counted_ms = 0.0
        for _ in range(autoscaler.desired):
            if (instance := self._room(0.0)) is None:
                break
            instance.ready_ms = 0.0  # what runs when the simulation begins has started before
            instance.copies += 1
            self._serve(instance)
        self._note(0.0)

    @property
    def next_ms(self) -> float:
        ready_ms = min((ready for ready, _ in self._starting), default=inf)
        return min(ready_ms, self._next_tick_ms, self._autoscaler.next_change_ms)

    def instance_hours(self, until_ms: float) -> float:
        """Hours of instances, from their start to their release, up to `until_ms`."""
        return (self._instance_ms + len(self._instances) * (until_ms - self._counted_ms)) / 3.6e6

    def advance(self, now_ms: float) -> None:
        """Copies that are ready serve, those that are empty go, and every 10 s the policies are asked."""
        self._instance_ms += len(self._instances) * (now_ms - self._counted_ms)
        self._counted_ms = now_ms
        for ready in [entry for entry in self._starting if entry[0] <= now_ms]:
            self._starting.remove(ready)
            self._serve(ready[1])
        for slot in [slot for slot in self._draining if not self.slots[slot].outstanding]:
            self._draining.remove(slot)
            self._free.append(slot)
            self._leave(self._homes.pop(slot))
        desired = self._autoscaler.change_bounds(now_ms)
        if now_ms >= self._next_tick_ms:
            desired = self._autoscaler.look(self._sample(now_ms))
            self.invocations = self.without_capacity = 0
            self._next_tick_ms += TICK_MS
        self._resize(now_ms, desired)
        self._note(now_ms)

    def _sample(self, now_ms: float) -> Sample:
        in_flight = sum(self.slots[slot].outstanding for slot in (*self.serving, *self._draining))
        return Sample(now_ms, in_flight, self.invocations, self.without_capacity, len(self.serving))

    def _resize(self, now_ms: float, desired: int) -> None:
        while len(self.serving) + len(self._starting) > desired:
            if self._starting:
                self._leave(self._starting.pop()[1])
            else:
                self._draining.append(self.serving.pop())
        while len(self.serving) + len(self._starting) < desired:
            instance = self._room(now_ms)
            if instance is None:
                return  # wanted, but every instance is full and there may be no more
            instance.copies += 1
            self._starting.append((max(now_ms, instance.ready_ms) + self._start_up.copy_s * 1000, instance))

    def _room(self, now_ms: float) -> _Instance | None:
        for instance in self._instances:
            if instance.copies < self._machines.copies_per_instance:
                return instance
        if len(self._instances) >= self._machines.max_instances:
            return None
        self._instances.append(_Instance(now_ms + self._start_up.instance_s * 1000))
        return self._instances[-1]

    def _serve(self, instance: _Instance) -> None:
        if self._free:
            slot = self._free.pop()
            self.slots[slot] = self._make_copy()
        else:
            slot = len(self.slots)
            self.slots.append(self._make_copy())
        self._homes[slot] = instance
        self.serving.append(slot)

    def _leave(self, instance: _Instance) -> None:
        instance.copies -= 1
        if not instance.copies and len(self._instances) > self._machines.min_instances:
            self._instances.remove(instance)

    def _note(self, now_ms: float) -> None:
        row = CopyCount(now_ms, len(self.serving), len(self._starting), len(self._draining), len(self._instances))
        if not self.history or self.history[-1][1:] != row[1:]:
            self.history.append(row)
