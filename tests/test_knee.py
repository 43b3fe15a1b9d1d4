"""Three rules for one word: half-latency, the objectives' bound, and what marginal gain says of the same curve."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.knee import find_knee, half_latency_knee, objective_knee


def test_half_latency_ends_where_latency_is_twice_its_mean_so_far() -> None:
    """Throughput 10, 20, 30 at 100, 110, 400 ms: the mean up to 20/s is (10·100 + 10·105)/20 = 102.5, and 110 is less
    than twice that; up to 30/s it is (2050 + 10·255)/30 = 153.3, and 400 is more than twice that."""
    knee = half_latency_knee([(1, 10.0, 100.0), (2, 20.0, 110.0), (4, 30.0, 400.0)])
    assert knee is not None
    assert (knee.concurrency, knee.rule, knee.reached, knee.output_tokens_per_s) == (2, "half-latency", True, 20.0)
    assert knee.reason == "at 4 in flight latency is 400 ms, at least twice the mean of 153 ms over all lower loads"


def test_half_latency_of_an_mm1_queue_is_at_seventy_one_and_a_half_percent() -> None:
    """w(x) = 1/(1-x); -ln(1-x)/x = 1/(2(1-x)) holds at x = 0.7153 (Patel 2015)."""
    rows = [(step, step / 1000, 1000 / (1 - step / 1000)) for step in range(1, 1000)]
    knee = half_latency_knee(rows)
    assert knee is not None
    assert knee.concurrency == pytest.approx(715, abs=1)


def test_half_latency_is_not_reached_on_a_flat_curve() -> None:
    """Latency that barely grows is never twice its mean."""
    knee = half_latency_knee([(1, 10.0, 100.0), (2, 20.0, 101.0)])
    assert knee is not None
    assert (knee.concurrency, knee.reached) == (2, False)


def test_falling_throughput_adds_nothing_to_the_mean() -> None:
    """Past saturation (20/s, then 15/s at 190 ms) the mean stays (1000 + 1050)/20 = 102.5: 190 is below 205, 210 is
    not."""
    rows = [(1, 10.0, 100.0), (2, 20.0, 110.0), (4, 15.0, 190.0)]
    below = half_latency_knee(rows)
    assert below is not None
    assert not below.reached
    over = half_latency_knee([*rows, (8, 15.0, 210.0)])
    assert over is not None
    assert (over.concurrency, over.reached) == (4, True)


@pytest.mark.parametrize("rows", [[], [(1, 5.0, 1.0)], [(1, 0.0, 1.0), (2, 0.0, 1.0)]])
def test_without_two_levels_or_throughput_half_latency_says_nothing(rows: list[tuple[int, float, float]]) -> None:
    """None, not a guess."""
    assert half_latency_knee(rows) is None


def test_the_objective_bound_is_the_last_level_before_the_first_miss() -> None:
    """A later level that meets by chance does not count."""
    knee = objective_knee([(1, 5.0, None), (2, 9.0, None), (4, 12.0, "ttft_p95_ms is over"), (8, 13.0, None)])
    assert knee is not None
    assert (knee.concurrency, knee.output_tokens_per_s, knee.reached) == (2, 9.0, True)
    assert knee.reason == "at 4 in flight ttft_p95_ms is over"


def test_an_objective_missed_by_the_first_request_leaves_no_level() -> None:
    """Concurrency 0: there is no load at which it is met."""
    knee = objective_knee([(1, 5.0, "tpot_p95_ms is over")])
    assert knee is not None
    assert (knee.concurrency, knee.output_tokens_per_s) == (0, None)


def test_objectives_met_everywhere_have_no_bound_in_sight() -> None:
    """The knee lies beyond what was tried."""
    knee = objective_knee([(1, 5.0, None), (2, 9.0, None)])
    assert knee is not None
    assert (knee.concurrency, knee.reached) == (2, False)
    assert objective_knee([]) is None


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 1e4), st.floats(0.1, 1e5)), min_size=2, max_size=12))
def test_every_rule_names_a_level_of_the_curve(rows: list[tuple[int, float, float]]) -> None:
    """Whatever was measured, in whatever order: the knee is one of its levels, and only the last is unreached."""
    rows = list({row[0]: row for row in rows}.values())
    for knee in (find_knee(rows), half_latency_knee(rows)):
        if knee is not None:
            assert knee.concurrency in {row[0] for row in rows}
            assert knee.reached or knee.concurrency == max(row[0] for row in rows)
