"""Autoscaling in virtual time: what the policies decide, how copies come and go, and who waits meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation_fleet import WIDE, CountedMs

from loadproof.errors import InputError
from loadproof.profiles.schema import ScheduledScaling
from loadproof.simulation import (
    Autoscaler,
    BoundsChange,
    ClosedLoop,
    ElasticCopies,
    Machines,
    OpenLoop,
    RefusedRequest,
    SimulatedRequest,
    StartUp,
    StepScaling,
    TargetTracking,
    WakeUp,
    arrival_times_ms,
    scheduler_for,
    simulate_fleet,
)
from loadproof.simulation.scaling import Policy, Sample
from loadproof.simulation.schedules import changes_of

ROOM_FOR_SIX = Machines(2, 1, 3)
CONCURRENCY = TargetTracking("concurrent_requests_per_copy", 4)


def decided(scaler: Autoscaler, samples: list[tuple[int, int]], start_s: int = 10) -> list[int]:
    """The desired copies after each (in flight, copies in service), one every 10 s."""
    return [
        scaler.look(Sample((start_s + 10 * index) * 1000.0, in_flight, in_flight, 0, serving))
        for index, (in_flight, serving) in enumerate(samples)
    ]


def autoscaler(*policies: Policy, least: int = 1, most: int = 10, **more: object) -> Autoscaler:
    return Autoscaler(policies, min_copies=least, max_copies=most, **more)  # type: ignore[arg-type]


def test_target_tracking_grows_to_the_load_over_the_target_at_the_third_value_above() -> None:
    """18 in flight over one copy with a target of 4: ⌈18/4⌉ = 5 after 30 s, not before."""
    assert decided(autoscaler(CONCURRENCY), [(18, 1)] * 4) == [1, 1, 5, 5]


def test_a_value_at_the_target_breaks_the_row() -> None:
    """Two above, one at 4, two above: nothing happens."""
    assert decided(autoscaler(CONCURRENCY), [(18, 1), (18, 1), (4, 1), (18, 1), (18, 1)])[-1] == 1


def test_copies_on_their_way_are_counted() -> None:
    """Five are wanted and one serves: a load of 18 wants no more, one of 30 wants eight; ten is the most."""
    scaler = autoscaler(CONCURRENCY)
    assert decided(scaler, [(18, 1)] * 6 + [(30, 1), (300, 1)]) == [1, 1, 5, 5, 5, 5, 8, 10]


def test_target_tracking_shrinks_after_fifteen_low_minutes_to_what_their_largest_load_needs() -> None:
    """Five copies, 3 in flight, once 5: below 90% of 4 a copy. The 15th minute ends at 900 s and is seen at 930 s:
    two copies remain for the 5. The next step down waits 300 s more and finds one copy enough."""
    scaler = autoscaler(CONCURRENCY, initial_copies=5)
    found = decided(scaler, [(3, 5)] * 50 + [(5, 5)] + [(3, 5)] * 42 + [(3, 2)] * 150)
    assert found.index(2) == 92  # the sample of 930 s
    assert found.index(1) - 92 >= 30
    assert decided(autoscaler(replace(CONCURRENCY, scale_in=False), initial_copies=5), [(0, 5)] * 200)[-1] == 5


def test_invocations_are_summed_by_the_minute_and_seen_half_a_minute_later() -> None:
    """10 invocations every 10 s are 60 a minute over one copy, target 20: three minutes end at 180 s, seen at 210."""
    scaler = autoscaler(TargetTracking("invocations_per_copy", 20))
    found = decided(scaler, [(10, 1)] * 22)
    assert found.index(3) == 20  # the sample of 210 s


def test_steps_add_by_how_far_the_alarm_is_past_and_then_rest() -> None:
    """Threshold 5, steps +1 from 0 and +3 from 10 above; 60 s periods and cooldown: at 16 in flight +3 at 90 s (seen
    half a minute late), +3 again at 150 s."""
    policy = StepScaling("concurrent_requests_per_copy", 5, ((0, 1), (10, 3)))
    found = decided(autoscaler(policy), [(16, 1)] * 15)
    assert (found[7], found[8], found[13], found[14]) == (1, 4, 4, 7)
    below = StepScaling("concurrent_requests_per_copy", 5, ((0, -1),), above=False)
    assert decided(autoscaler(below, initial_copies=3), [(0, 3)] * 9)[-1] == 2


def test_scheduled_changes_move_the_bounds_and_with_them_the_copies() -> None:
    """From one copy to at least three, and later to at most two."""
    scaler = autoscaler(schedule=[BoundsChange(60_000.0, 3, None), BoundsChange(120_000.0, 1, 2)])
    assert (scaler.next_change_ms, scaler.change_bounds(60_000.0)) == (60_000.0, 3)
    assert scaler.change_bounds(120_000.0) == 2


def elastic(scaler: Autoscaler, start: StartUp, machines: Machines = ROOM_FOR_SIX) -> ElasticCopies:
    return ElasticCopies(scaler, lambda: scheduler_for(CountedMs(), WIDE), start, machines)


def test_a_copy_that_is_wanted_serves_after_its_start_up() -> None:
    """A third of a closed loop's 9 clients fits one copy's target of 4: three copies wanted at 30 s. The second goes
    beside the first and serves at 30 + 40; the third needs an instance: 30 + 100 + 40."""
    copies = elastic(autoscaler(CONCURRENCY), StartUp(100.0, 40.0))
    list(simulate_fleet(copies, ClosedLoop(9), ((10, 100) for _ in iter(int, 1)), until_ms=200_000.0))
    serving = {row.serving: row.at_ms for row in reversed(copies.history)}
    assert serving == {1: 0.0, 2: 70_000.0, 3: 170_000.0}
    assert copies.instance_hours(200_000.0) == pytest.approx((200 + 170) / 3600)


def test_zero_copies_refuse_until_one_is_woken() -> None:
    """A request every 5 s from 0: the failures of the first minute are seen at 90 s, a copy serves at 90 + 30 + 20; the
    28 requests from 0 to 135 s are refused, the one at 140 s comes with the copy."""
    scaler = autoscaler(WakeUp(), least=0, most=1)
    copies = elastic(scaler, StartUp(30.0, 20.0), Machines(1, 0, 1))
    times = [5000.0 * index for index in range(40)]
    results = list(simulate_fleet(copies, OpenLoop(times), [(10, 10)] * 40))
    refused = [r for r in results if isinstance(r, RefusedRequest)]
    assert {(r.reason, r.copy) for r in refused} == {("no_capacity", -1)}
    assert [r.sent_ms for r in refused] == times[:28]
    assert min(r.sent_ms for r in results if isinstance(r, SimulatedRequest)) == 140_000.0


def test_a_copy_that_is_taken_away_ends_what_it_holds() -> None:
    """Two copies each begin an answer of 100 s at 0; at 50 s the bounds leave one: the other takes nothing more, and is
    gone, instance and all, when its answer is done."""
    scaler = autoscaler(least=2, most=2, schedule=[BoundsChange(50_000.0, 1, 1)])
    copies = elastic(scaler, StartUp(0.0, 0.0), Machines(1, 0, 2))
    sizes = [(1, 100_000), (1, 100_000), (1, 10), (1, 10)]
    results = list(simulate_fleet(copies, OpenLoop([0.0, 0.0, 60_000.0, 130_000.0]), sizes))
    late = {r.copy for r in results if isinstance(r, SimulatedRequest) and r.sent_ms >= 60_000}
    assert late == {0}
    assert len(results) == 4
    assert [tuple(row[1:]) for row in copies.history] == [(2, 0, 0, 2), (1, 0, 1, 2), (1, 0, 0, 1)]


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.2, 20),
    st.integers(0, 3),
    st.sampled_from([0.0, 15.0, 120.0]),
    st.sampled_from([50.0, 4000.0, 1e9]),
    st.integers(0, 3),
)
def test_whatever_copies_do_every_request_ends_exactly_once(
    requests_per_s: float, least: int, start_s: float, patience_ms: float, seed: int
) -> None:
    """Served, refused or given up; copies within their bounds, instances within theirs."""
    policies: list[Policy] = [TargetTracking("concurrent_requests_per_copy", 2, scale_in_cooldown_s=10), WakeUp()]
    copies = elastic(autoscaler(*policies, least=least, most=5), StartUp(start_s, start_s / 2), Machines(2, 0, 2))
    times = [at for _, at in zip(range(300), arrival_times_ms("poisson", requests_per_s, seed=seed), strict=False)]
    results = list(simulate_fleet(copies, OpenLoop(times), [(10, 300)] * 300, give_up_after_ms=patience_ms, seed=seed))
    assert Counter(r.sent_ms for r in results) == Counter(times)
    assert all(slot.outstanding == 0 for slot in copies.slots)
    for row in copies.history:
        assert row.serving + row.starting <= 4  # two instances of two
        assert row.instances <= 2


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("cron(30 7 ? * MON-FRI *)", [390, 390 + 1440]),  # 07:30 in Berlin is 06:30 UTC in January
        ("cron(0/30 6 5 JAN ? 2026)", [300, 330]),
        ("at(2026-01-05T02:00:00)", [60]),
        ("rate(12 hours)", [720, 1440, 2160]),
        ("cron(0 0 1 * ? *)", []),
    ],
)
def test_schedules_are_read_as_aws_reads_them(schedule: str, due: list[int]) -> None:
    """Two days from Monday 5 January 2026, 00:00 UTC, in Berlin's time."""
    policy = ScheduledScaling(type="scheduled", name="s", schedule=schedule, timezone="Europe/Berlin", min_copies=2)
    changes = changes_of(policy, datetime(2026, 1, 5, tzinfo=UTC), 2 * 1440)
    assert [change.at_ms / 60_000 for change in changes] == due


def test_a_schedule_that_is_not_simulated_says_so() -> None:
    """The last Friday of the month."""
    policy = ScheduledScaling(type="scheduled", name="pay-day", schedule="cron(0 8 ? * 6L *)", min_copies=2)
    with pytest.raises(InputError, match="pay-day: `cron\\(0 8 \\? \\* 6L \\*\\)` is not simulated"):
        changes_of(policy, datetime(2026, 1, 5, tzinfo=UTC), 60)
