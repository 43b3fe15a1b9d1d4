"""Sessions in the twin: steps wait for answers and pauses, branches run side by side, ends and breaks are counted."""

from __future__ import annotations

from collections import Counter
from itertools import islice, takewhile
from random import Random

import pytest

from loadproof.capacity import BatchLimits
from loadproof.sessions import DrawnStep, Mixture, SessionClass, Step
from loadproof.simulation.chunked import Chunked
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.results import RefusedRequest, Result, SimulatedRequest, TimedOutRequest
from loadproof.simulation.routing import Prefixes
from loadproof.simulation.sessions import Session, sessions_of
from loadproof.simulation.traffic import ClosedLoop, OpenLoop, shaped_times_ms, week_of
from loadproof.token_counts import TokenCounts

BLOCK = 16
LIMITS = BatchLimits("chunked", 64, 100_000, None, None, 10_000, kv_token_capacity=1_000_000)


class Steps:
    """A step takes 10 ms, whatever is in it: an answer of n tokens takes n · 10 ms."""

    def step_ms(self, **beside: float) -> float:
        return 10.0


def fixed(count: int) -> TokenCounts:
    return TokenCounts("fixed", float(count))


def run(sessions: list[Session], load: ClosedLoop | OpenLoop, **more: float) -> list[Result]:
    return list(simulate_fleet([Chunked(Steps(), LIMITS)], load, sessions, **more))  # type: ignore[arg-type]


def chain(number: int, *pauses_s: float) -> Session:
    """Requests of 100 tokens and answers of 5 that follow each other after these pauses."""
    steps = [DrawnStep(100, 5)]
    steps += [DrawnStep(100, 5, 0, (place,), pause_s) for place, pause_s in enumerate(pauses_s)]
    return Session(number, 0, steps)


def test_a_turn_waits_for_the_answer_before_it_and_for_its_reader() -> None:
    """Answers take 50 ms: sent at 0, at 50 + 2,000 and at 2,100 + 1,000 ms."""
    found = run([chain(0, 2.0, 1.0)], OpenLoop([0.0]))
    assert [one.sent_ms for one in found] == [0, 2_050, 3_100]


def test_a_closed_loop_holds_sessions_and_begins_another_when_one_is_over() -> None:
    """One client: the second session begins when the first one's last answer came, at 2,100 ms."""
    found = run([chain(0, 2.0), chain(1)], ClosedLoop(1))
    assert [one.sent_ms for one in found] == [0, 2_050, 2_100]


def test_sessions_under_way_are_finished_when_no_other_begins() -> None:
    """Of two clients the second's session is over at 50 ms, and there is no third; the first's goes on for 2 s."""
    found = run([chain(0, 2.0), chain(1)], ClosedLoop(2))
    assert [one.sent_ms for one in found] == [0, 0, 2_050]


def test_branches_are_sent_together_and_a_join_waits_for_the_slowest() -> None:
    """Three branches after 50 ms, of 5, 5 and 20 tokens; their join at 50 + 200 and a pause of 100 ms."""
    steps = [DrawnStep(10, 5), *(DrawnStep(10, tokens, 0, (0,)) for tokens in (5, 5, 20))]
    found = run([Session(0, 0, [*steps, DrawnStep(10, 5, 0, (1, 2, 3), 0.1)])], OpenLoop([0.0]))
    assert sorted(one.sent_ms for one in found) == [0, 50, 50, 50, 350]


def test_a_session_without_an_answer_goes_no_further_and_its_client_begins_another() -> None:
    """The first answer would take 100 s; its client gives up after 60 and sends the next session."""
    slow = Session(0, 0, [DrawnStep(10, 10_000), DrawnStep(10, 5, 0, (0,))])
    found = run([slow, chain(1)], ClosedLoop(1), give_up_after_ms=60_000)
    assert [type(one) for one in found] == [TimedOutRequest, SimulatedRequest]
    assert found[1].sent_ms == 60_000


def test_a_refused_step_ends_its_session() -> None:
    """A second turn that no memory holds; the client comes back a second later with another."""
    long = Session(0, 0, [DrawnStep(10, 5), DrawnStep(2_000_000, 5, 0, (0,))])
    found = run([long, chain(1)], ClosedLoop(1))
    assert [type(one) for one in found] == [SimulatedRequest, RefusedRequest, SimulatedRequest]
    assert [one.sent_ms for one in found] == [0, 50, 1_050]


def test_nothing_is_sent_after_the_end() -> None:
    """Not even the turn that a reader still thinks about."""
    found = run([chain(0, 2.0), chain(1)], OpenLoop([0.0, 10.0]), until_ms=1_000)
    assert [one.sent_ms for one in found] == [0, 10]


def test_a_turn_finds_the_blocks_of_all_before_it() -> None:
    """Prompts and answers of 160: turn 2 of 480 finds 304, turn 3 of 800 624; an answer's last token has no KV."""
    step = Step(fixed(160), fixed(160))
    one = SessionClass((step, Step(fixed(160), fixed(160), (0,)), Step(fixed(160), fixed(160), (1,))))
    prefixes = Prefixes(BLOCK)
    sessions = islice(sessions_of(Mixture((one,)), block_tokens=BLOCK), 1)
    list(simulate_fleet([Chunked(Steps(), LIMITS)], OpenLoop([0.0]), sessions, prefixes=prefixes))
    assert prefixes.counts.prompt_tokens == 160 + 480 + 800
    assert prefixes.counts.found_tokens == 304 + 624


def test_sessions_of_a_class_share_its_prefix_and_classes_do_not() -> None:
    """64 tokens of 160: each session but the first of its class finds them."""
    classes = tuple(
        SessionClass((Step(fixed(160), fixed(16)),), name, 0.5, shared_prefix_tokens=64) for name in ("a", "b")
    )
    prefixes = Prefixes(BLOCK)
    drawn = list(islice(sessions_of(Mixture(classes), 1, BLOCK), 20))
    assert {one.part for one in drawn} == {0, 1}
    list(simulate_fleet([Chunked(Steps(), LIMITS)], ClosedLoop(1), drawn, prefixes=prefixes))
    assert prefixes.counts.found_tokens == 18 * 64


def test_conversations_end_by_chance() -> None:
    """Each turn but the first with a chance of 0.5, four at most: 1 + 0.5 + 0.25 + 0.125 turns in the mean."""
    turns = (Step(fixed(1), fixed(1)), *(Step(fixed(1), fixed(1), (place,)) for place in range(3)))
    one = SessionClass(turns, continues=0.5)
    chance = Random(0)
    lengths = [len(one.drawn(chance)) for _ in range(4_000)]
    assert one.requests == 1.875
    assert sum(lengths) / 4_000 == pytest.approx(1.875, abs=0.05)
    assert max(lengths) == 4


def test_in_flight_by_littles_law() -> None:
    """8 chains of 2 steps of 1 s with 8 s between: 8 · 2 / (2 + 8); 8 with 3 branches in the middle: 8 · 5 / 3."""
    pausing = SessionClass((Step(fixed(1), fixed(1)), Step(fixed(1), fixed(1), (0,), 8.0)))
    assert Mixture((pausing,)).in_flight(8, 1.0) == pytest.approx(1.6)
    middle = [Step(fixed(1), fixed(1), (0,)) for _ in range(3)]
    branching = SessionClass((Step(fixed(1), fixed(1)), *middle, Step(fixed(1), fixed(1), (1, 2, 3))))
    assert Mixture((branching,)).in_flight(8, 1.0) == pytest.approx(40 / 3)


def test_a_week_has_the_shape_it_is_given() -> None:
    """Nights of 0, days of 2 and a Sunday of half: requests of each hour by hand, over a week of 10 an hour."""
    hours, days = (0.0,) * 12 + (2.0,) * 12, (1.0,) * 6 + (0.5,)
    times = shaped_times_ms("constant", 10 / 3600, week_of(hours, days), from_hour=0)
    counted = Counter(int(at_ms // 3_600_000) for at_ms in takewhile(lambda at_ms: at_ms < 7 * 86_400_000, times))
    assert all(abs(counted[hour] - 20 * 7 / 6.5) <= 1 for hour in range(12, 24))
    assert all(abs(counted[144 + hour] - 10 * 7 / 6.5) <= 1 for hour in range(12, 24))
    assert not any(counted[24 * day + hour] for day in range(7) for hour in range(1, 11))
    assert sum(counted.values()) == pytest.approx(1680, abs=2)


def test_a_week_may_begin_anywhere() -> None:
    """From Monday noon on the first request of a busy afternoon comes at once, a night's half a day later."""
    week = week_of((0.0,) * 12 + (2.0,) * 12, ())
    times = islice(shaped_times_ms("constant", 1 / 60, week, from_hour=23.5), 62)
    hours = [at_ms / 3_600_000 for at_ms in times]
    assert hours[0] == 0
    assert hours[59] < 0.5
    assert 12.5 <= hours[61] < 12.6
