"""How fast all consumers together go: cuts, recovery, the gate and its probes, in a simulated fleet in virtual time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from consumer_memory import Life, MemoryBoard, World

from loadproof.constructs.buffer.runtime.consumer.failures import Kind
from loadproof.constructs.buffer.runtime.consumer.pace import Pace
from loadproof.constructs.buffer.runtime.consumer.stores import StoreDownError
from loadproof.wire.pace import Record


def test_the_share_follows_from_the_cut() -> None:
    """Peak 0.8, cut to 0.7 at 100 s: x=-0.5 gives 0.8 - 0.1/8 at 1.5 s, the peak at 3 s, 0.8 + 0.1 at 6 s."""
    record = Record(peak=0.8, low=0.7, cut_ms=100_000)
    assert record.share(100) == pytest.approx(0.7)
    assert record.share(101.5) == pytest.approx(0.7875)
    assert record.share(103) == pytest.approx(0.8)
    assert record.share(106) == pytest.approx(0.9)
    assert record.share(112) == 1.0
    assert Record().share(100) == 1.0


class Fleet:
    """`slots` consumers of one message at a time on an endpoint; each is its own process with its own view.

    `verdict(now_s, in_flight)` says what the endpoint answers to one more request: None to serve it.
    """

    def __init__(self, slots: int, verdict: Callable[[float, int], Kind | None], *, takes_s: float = 2.0) -> None:
        self.world = World()
        self.begun_s = self.world.clock.now_s()
        self._verdict = verdict
        self._takes_s = takes_s
        self._random = random.Random(7)
        self._paces = [
            Pace(MemoryBoard(self.world, Life()), self.world.clock, max_in_flight=slots, seed=seed)
            for seed in range(slots)
        ]
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.sent: list[tuple[float, int, Kind | None]] = []  # (seconds since the beginning, in flight before, answer)
        self.answered: list[float] = []
        self.in_flight = 0
        for slot in range(slots):
            self._at(self._random.random(), lambda slot=slot: self._try(slot, 0))

    def run(self, seconds: float) -> None:
        while self._events and self._events[0][0] <= self.begun_s + seconds:
            at_s, _, event = heapq.heappop(self._events)
            self.world.clock.time_s = max(self.world.clock.time_s, at_s)
            event()

    def attempts(self, from_s: float, to_s: float) -> int:
        return sum(from_s <= at_s < to_s for at_s, _, _ in self.sent)

    def rate(self, from_s: float, to_s: float) -> float:
        """Answers a second."""
        return sum(from_s <= at_s < to_s for at_s in self.answered) / (to_s - from_s)

    def _at(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.world.clock.now_s() + delay_s, next(self._order), event))

    def _try(self, slot: int, failures: int) -> None:
        """As Generation does it: ask the pace, invoke, pause with full jitter after a failure."""
        pace, now_s = self._paces[slot], self.world.clock.now_s()
        wait_s = pace.wait_s(slot)
        if wait_s:
            self._at(min(wait_s, 1.0), lambda: self._try(slot, failures))
            return
        kind = self._verdict(now_s - self.begun_s, self.in_flight)
        self.sent.append((now_s - self.begun_s, self.in_flight, kind))
        if kind is None:
            self.in_flight += 1
            takes_s = self._takes_s * self._random.uniform(0.5, 1.5)
            for half_seconds in range(1, int(2 * takes_s)):
                self._at(half_seconds / 2, pace.heard)
                self._at(half_seconds / 2, pace.tend)
            self._at(takes_s, lambda: self._answer(slot, now_s))
        else:
            self._at(0.05, lambda: self._refuse(slot, now_s, kind, failures + 1))

    def _answer(self, slot: int, started_s: float) -> None:
        self.in_flight -= 1
        self.answered.append(self.world.clock.now_s() - self.begun_s)
        self._paces[slot].answered(started_s)
        self._at(0.01, lambda: self._try(slot, 0))

    def _refuse(self, slot: int, started_s: float, kind: Kind, failures: int) -> None:
        self._paces[slot].refused(kind, started_s)
        pause_s = self._random.uniform(0, min(2.0, 0.5 * 2**failures))
        self._at(pause_s, lambda: self._try(slot, failures))


def at_most(
    limit: int, kind: Kind = Kind.SLOW_DOWN, *, after_s: float = 0.0, until_s: float = 1e9
) -> Callable[[float, int], Kind | None]:
    """An endpoint that refuses more than `limit` in flight between two times."""
    return lambda now_s, in_flight: kind if after_s <= now_s < until_s and in_flight >= limit else None


def test_nothing_is_held_back_where_nothing_is_refused() -> None:
    """16 slots of 2 s each give 8 answers a second, and the shared record is never written."""
    fleet = Fleet(16, at_most(16))
    fleet.run(60)
    assert fleet.rate(10, 60) == pytest.approx(8, rel=0.05)
    assert fleet.world.record == Record()


@pytest.mark.parametrize(("slots", "limit"), [(16, 8), (16, 4), (64, 20), (8, 6)])
def test_a_throttled_endpoint_is_kept_nearly_full(slots: int, limit: int) -> None:
    """Goodput of at least 90% of what the endpoint allows, with few refusals for each answer."""
    fleet = Fleet(slots, at_most(limit))
    fleet.run(600)
    assert fleet.rate(20, 600) >= 0.9 * limit / 2.0
    assert len(fleet.sent) < 2 * len(fleet.answered)


@pytest.mark.parametrize("takes_s", [6.0, 20.0])
def test_long_answers_do_not_make_a_throttled_endpoint_look_away(takes_s: float) -> None:
    """Nobody is answered for seconds while every stream goes on: the gate stays open, the places full."""
    fleet = Fleet(16, at_most(4), takes_s=takes_s)
    fleet.run(900)
    assert fleet.world.record.gate_ms == 0
    assert fleet.rate(60, 900) >= 0.9 * 4 / takes_s


def test_a_burst_of_throttling_halves_what_is_in_flight_and_passes() -> None:
    """From 16 to 8 allowed between 60 and 120 s: within 5 s no more than 8, and 20 s after the burst all again."""
    fleet = Fleet(16, at_most(8, after_s=60, until_s=120))
    fleet.run(180)
    assert all(in_flight <= 8 for at_s, in_flight, kind in fleet.sent if 65 <= at_s < 120)
    assert fleet.rate(65, 120) >= 0.9 * 4
    assert fleet.rate(140, 180) >= 0.95 * 8


def test_an_endpoint_that_is_away_is_asked_every_five_seconds() -> None:
    """100% 503 for two minutes: after two refusals a process closes the gate; then one probe in five seconds."""
    fleet = Fleet(16, at_most(0, Kind.UNAVAILABLE, after_s=30, until_s=150))
    fleet.run(240)
    probes = [at_s for at_s, _, kind in fleet.sent if kind is Kind.UNAVAILABLE and at_s > 35]
    assert fleet.attempts(30, 35) <= 3 * 16
    assert min(later - earlier for earlier, later in pairwise(probes)) >= 4.9
    assert max(later - earlier for earlier, later in pairwise(probes)) <= 7
    assert fleet.rate(165, 240) >= 0.95 * 8


def test_waking_from_zero_is_asked_for_about_three_times_a_minute() -> None:
    """No copy for ten minutes: the first refusal closes the gate, and the probes are what wakes the endpoint."""
    fleet = Fleet(16, at_most(0, Kind.NO_CAPACITY_YET, until_s=600))
    fleet.run(700)
    probes = [at_s for at_s, _, kind in fleet.sent if kind is not None and at_s > 5]
    assert all(2 <= sum(minute <= at_s < minute + 60 for at_s in probes) <= 4 for minute in range(10, 540, 60))
    assert len([at_s for at_s, _, _ in fleet.sent if at_s < 5]) <= 16
    assert fleet.rate(640, 700) >= 0.95 * 8


def test_a_model_that_answers_only_429_is_probed_too() -> None:
    """A server that throttles everything is away, whatever it calls itself: the gate closes within half a minute."""
    fleet = Fleet(16, at_most(0, Kind.SLOW_DOWN, until_s=300))
    fleet.run(300)
    assert fleet.attempts(60, 300) <= 240 / 5 + 1
    assert fleet.attempts(60, 300) >= 240 / 8


def test_now_and_then_a_refusal_closes_nothing() -> None:
    """1% of 503s at random: no gate, and at least 95% of the rate."""
    chance = random.Random(3)
    fleet = Fleet(16, lambda now_s, in_flight: Kind.UNAVAILABLE if chance.random() < 0.01 else None)
    fleet.run(200)
    assert fleet.rate(10, 200) >= 0.95 * 8


def test_a_prober_that_dies_holds_nobody_up() -> None:
    """The probe's turn is a time, not a lock: the next process takes the next one."""
    world = World()
    begun_s = world.clock.now_s()
    world.record = Record(gate="unavailable", gate_ms=int(begun_s * 1000), probe_ms=int(begun_s * 1000))
    first, second = (Pace(MemoryBoard(world, Life()), world.clock, max_in_flight=4, seed=seed) for seed in (1, 2))
    assert first.wait_s(0) == 0
    assert second.wait_s(0) > 0
    world.clock.sleep(6)
    assert second.wait_s(0) == 0
    world.clock.sleep(1)
    second.answered(world.clock.now_s() - 0.5)
    assert world.record.gate == "open"


def test_a_gate_says_since_when_it_is_closed() -> None:
    """Each probe that fails moves the next one, not the beginning; closed anew, it begins anew."""
    world = World()
    pace, begun_s = Pace(MemoryBoard(world, Life()), world.clock, max_in_flight=4, seed=1), world.clock.now_s()

    def refused_at(seconds: float) -> None:
        world.clock.time_s = begun_s + seconds
        pace.refused(Kind.NO_CAPACITY_YET, world.clock.now_s() - 0.5)

    refused_at(10)
    refused_at(30)
    refused_at(50)
    assert (world.record.closed_ms, world.record.gate_ms) == (int((begun_s + 10) * 1000), int((begun_s + 50) * 1000))
    world.clock.time_s += 10
    pace.answered(world.clock.now_s() - 0.5)
    refused_at(90)
    assert world.record.closed_ms == int((begun_s + 90) * 1000)


def test_after_a_time_out_all_know_what_others_meet() -> None:
    """One answer before it is nobody's business; those after it are told once a second, and known a second later."""
    world = World()
    one, other = (Pace(MemoryBoard(world, Life()), world.clock, max_in_flight=4, seed=seed) for seed in (1, 2))
    other.answered(world.clock.now_s())
    assert world.record == Record()
    one.refused(Kind.TIMED_OUT, world.clock.now_s() - 1)
    before = one.met()
    world.clock.sleep(2)
    other.met()  # looks at the record, as whoever invokes does
    for _ in range(3):
        world.clock.sleep(1.5)
        other.answered(world.clock.now_s() - 1)
    world.clock.sleep(2)
    assert one.met().since(before) == (3, 0)
    assert other.met() == (4, 1)


def test_the_own_counts_need_no_table() -> None:
    """What this process met is known at once, though nothing can be written."""

    class Down(MemoryBoard):
        def read(self) -> Record:
            raise StoreDownError("test")

        def count(self, answers: int, time_outs: int, now_ms: int) -> bool:
            raise StoreDownError("test")

    world = World()
    pace = Pace(Down(world, Life()), world.clock, max_in_flight=4, seed=1)
    pace.refused(Kind.TIMED_OUT, world.clock.now_s() - 1)
    pace.answered(world.clock.now_s() - 1)
    assert pace.met() == (1, 1)
