"""What streams bring steers how many slots invoke: whole fleets on simulated servers, in virtual time."""

from __future__ import annotations

import pytest
from consumer_fleet import ConsumerFleet
from consumer_memory import Life, MemoryBoard, World
from server_shapes import Shape, work_of

from loadproof.constructs.buffer.runtime.consumer.pace import Pace
from loadproof.constructs.buffer.runtime.consumer.steering import LEASE_S, Steering, Streams
from loadproof.wire.pace import Record, Traffic

SQUARE = Shape("slows with the square", token_s=0.022, knee=15, power=2)


def test_slots_that_slow_each_other_down_are_kept_idle() -> None:
    """15 at a time bring most and 38 slots are there, which refuse nothing: twice the throughput of all of them."""
    work = work_of(800, (80, 400), (60, 220), 31)
    steered, all_of_them = (ConsumerFleet(SQUARE, work, 38, steered=one).complete() for one in (True, False))
    assert steered.tokens_per_s >= 1.5 * all_of_them.tokens_per_s
    assert steered.most_after(150) <= 30


def test_slots_that_are_all_worth_it_are_all_used() -> None:
    """16 slots on a server that serves 64 as fast as one: trying fewer costs at most 15% in the first two minutes."""
    shape, work = Shape("wide", token_s=0.02, slots=64), work_of(700, (80, 400), (60, 220), 32)
    steered, free = (ConsumerFleet(shape, work, 16, steered=one).complete() for one in (True, False))
    assert steered.tokens_per_s >= 0.85 * free.tokens_per_s


def test_what_streams_bring_is_counted_in_time_and_parts() -> None:
    """Two streams from 0 s, one speaks at 2 s and ends at 5 s: 2 · 5 s in flight, 5 + 2 of them silent."""
    streams = Streams()
    streams.change(0.0, began=2)
    streams.change(2.0, parts=1, first=1)
    streams.change(5.0, parts=3, ended=1)
    assert streams.report() == Traffic(parts=4, busy_ms=10_000, silent_ms=7_000, ended=1)
    streams.change(6.0)
    assert streams.report() == Traffic(parts=0, busy_ms=1_000, silent_ms=1_000, ended=0)


def test_one_steers_and_another_takes_over_where_it_falls_silent() -> None:
    """Within the lease nobody else speaks; after it another does, from the share that stands."""
    record = Record(top=0.5, steered_ms=100_000, steerer="one", busy_ms=1)
    other = Steering(40, "other")
    assert other.word(record, 100 + LEASE_S - 1, 1.0) is None
    word = other.word(record, 100 + LEASE_S, 1.0)
    assert word is not None
    assert (word.top, word.now_ms, word.steerer) == (0.5, 120_000, "other")


def test_what_was_found_long_ago_is_not_relied_on() -> None:
    """Five minutes after the last word the endpoint may be another one: all slots again."""
    record = Record(top=0.2, steered_ms=100_000, steerer="one", busy_ms=1)
    word = Steering(40, "one").word(record, 401, 1.0)
    assert word is not None and word.top == 1.0


def test_of_two_that_take_over_at_once_one_does() -> None:
    """A word stands only where nobody spoke since it was thought of."""
    world = World()
    board = MemoryBoard(world, Life())
    words = [Steering(40, name).word(Record(busy_ms=1), 1000, 1.0) for name in ("one", "other")]
    assert [word is not None and board.steer(word, seen_ms=0) for word in words] == [True, False]


def test_who_reads_a_stream_waits_for_no_store() -> None:
    """A slow store would make it read late, and take a whole answer for a time-out: what it hears is told elsewhere."""
    world, asked = World(), list[str]()

    class Watched(MemoryBoard):
        def read(self) -> Record:
            asked.append("read")
            return super().read()

    pace = Pace(Watched(world, Life()), world.clock, max_in_flight=16, seed=1)
    stream = pace.begin()
    for _ in range(5):
        world.clock.sleep(5.0)
        stream.heard()
    assert not asked
    pace.tend()
    assert asked == ["read"]
    assert world.record.parts == 5


def test_short_answers_write_nothing() -> None:
    """A stream of a second leaves the shared record as it was."""
    world = World()
    pace = Pace(MemoryBoard(world, Life()), world.clock, max_in_flight=16, seed=1)
    stream = pace.begin()
    world.clock.sleep(1.0)
    stream.heard()
    stream.over()
    assert pace.wait_s(0) == 0.0
    assert world.record == Record()


@pytest.mark.parametrize("refused", [0.25, 1.0])
def test_low_priority_waits_for_refusals_alone(refused: float) -> None:
    """Few of the slots are worth using: that is no want of capacity. Refusals are."""
    world = World()
    now_ms = round(world.clock.now_s() * 1000)
    world.record = Record(top=0.3, steered_ms=now_ms, steerer="x", peak=refused, low=refused, cut_ms=now_ms)
    pace = Pace(MemoryBoard(world, Life()), world.clock, max_in_flight=16, seed=1)
    assert pace.limited == (refused < 1)
