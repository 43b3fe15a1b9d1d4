"""What the client itself may have added to one request's figures, by its own stamps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_records import MS, record

from loadproof.bench.measure.client_share import (
    Added,
    added,
    away_ns,
    faster_without,
    longest_gaps_ns,
    offered,
    sent_late_ns,
    shortest_gaps_ns,
    widths,
)
from loadproof.bench.measure.latencies import pooled
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.records import token_times
from loadproof.bench.measure.statistics import Spread

KERNEL = {"read_lag_max_ns": 1}  # the kernel stamped its arrivals
STALL = {"stalls_ns": (28 * MS, 23 * MS, 18 * MS)}  # the client looked at nothing for 28 to 35 ms


def steps(*gaps_ms: float) -> np.ndarray:
    return np.asarray([gap * MS for gap in gaps_ms], dtype=np.uint32)


def in_ms(gaps: np.ndarray) -> list[float]:
    return sorted(gaps / MS)


def test_opening_a_connection_is_the_networks() -> None:
    """Let go 4 ms late, written 40 ms after that: 4 are the client's, and 35 more only where its loop stood still."""
    one = replace(record(lag_ms=4, end_ms=100), sent_ns=44 * MS)
    assert sent_late_ns(one) == 4 * MS
    assert sent_late_ns(replace(one, **STALL)) == 39 * MS
    assert sent_late_ns(replace(one, sent_ns=None, **STALL)) == 4 * MS


def test_a_loop_stood_still_for_a_tick_longer_than_its_latest_one() -> None:
    """The tick that fell due first in it is 5 ms or less after its beginning, and 2 ms lie between two looks."""
    assert away_ns(record(**STALL)) == 35 * MS
    assert away_ns(record()) == 0


def test_what_may_be_added_to_each_figure() -> None:
    """4 ms late, the first of five tokens perhaps 8 ms earlier than its stamp."""
    one = record(lag_ms=4, token_ms=(50, 60, 70, 80, 90), end_ms=90, first_token_early_max_ns=8 * MS, **KERNEL)
    assert added("ttft", one) == Added(12, 0)
    assert added("e2e", one) == Added(4, 0)
    assert added("tpot", one) == Added(0, 2)


def test_reads_without_the_kernels_stamp_are_late_by_a_stall() -> None:
    """35 ms at the first token and at the last one."""
    one = record(lag_ms=4, token_ms=(50, 60, 70, 80, 90), end_ms=90, **STALL)
    assert added("ttft", one) == added("e2e", one) == Added(39, 0)
    assert added("tpot", one) == Added(8.75, 8.75)


def test_a_gap_that_ends_in_one_read_of_three_tokens_hides_three() -> None:
    """60 ms, while the loop was away for 35: 25 ms or more to the first of them, the other two within the rest."""
    one = record(**STALL, **KERNEL)
    assert in_ms(shortest_gaps_ns(steps(10, 60, 0, 0, 20), one)) == [10, 17.5, 17.5, 20, 25]


def test_one_of_three_gaps_is_a_third_of_all_or_longer() -> None:
    """30 ms while the loop was away for 35: ten each at least."""
    assert in_ms(shortest_gaps_ns(steps(30, 0, 0), record(**STALL, **KERNEL))) == [10, 10, 10]


def test_tokens_that_come_with_the_first_have_no_gap() -> None:
    """Two tokens in the first read, then one 20 ms later."""
    one = record(**STALL, **KERNEL)
    assert in_ms(shortest_gaps_ns(steps(0, 20), one)) == in_ms(longest_gaps_ns(steps(0, 20), one, 5 * MS)) == [20]
    assert in_ms(shortest_gaps_ns(steps(0, 20, 30, 0), one)) == [15, 15, 20]


def test_one_token_has_no_gap_however_long_the_client_stood_still() -> None:
    """Nor have two in one read."""
    for none in (steps(), steps(0)):
        one = record(**STALL, **KERNEL)
        assert in_ms(shortest_gaps_ns(none, one)) == in_ms(longest_gaps_ns(none, one, 5 * MS)) == []


def test_gaps_of_a_punctual_client_are_as_they_were_counted() -> None:
    """A server may send three tokens at once."""
    one = record(**KERNEL)
    assert in_ms(shortest_gaps_ns(steps(10, 60, 0, 0), one)) == [10, 60]
    assert in_ms(longest_gaps_ns(steps(10, 60, 0, 0), one, 5 * MS)) == [10, 60]


@pytest.mark.parametrize(
    ("bound_ms", "beyond"),
    [
        (36, 1),  # the loop was away for less: only the first gap can exceed it
        (34, 1),  # of 60 ms there is no second stretch of 34
        (30, 2),
        (20, 2),  # in 35 ms one more that is longer than 20
        (17, 3),
    ],
)
def test_as_many_gaps_exceed_a_bound_as_find_room(bound_ms: float, beyond: int) -> None:
    """A gap of 60 ms that ends in a read of four tokens, the loop having been away for 35."""
    found = longest_gaps_ns(steps(60, 0, 0, 0), record(**STALL, **KERNEL), bound_ms * MS)
    assert in_ms(found) == [60] * beyond


def test_no_second_gap_is_as_long_as_the_loop_was_away() -> None:
    """35 ms away, a bound of 35: of 80 ms in four tokens one gap exceeds it."""
    assert in_ms(longest_gaps_ns(steps(80, 0, 0, 0), record(**STALL, **KERNEL), 35 * MS)) == [80]


def test_gaps_without_the_kernels_stamp_have_the_stall_both_ways() -> None:
    """35 ms more or less, none below zero."""
    one = record(**STALL)
    assert in_ms(shortest_gaps_ns(steps(20, 100), one)) == [0, 65]
    assert in_ms(longest_gaps_ns(steps(20, 100), one, 5 * MS)) == [55, 135]
    assert in_ms(longest_gaps_ns(steps(4290), one, 5 * MS)) == [pytest.approx((2**32 - 1) / MS)]  # of four bytes


def test_pools_of_gaps_have_both_ends() -> None:
    """Two streams of which one was read late."""
    late = record(0, token_ms=(10, 70, 70, 80), end_ms=80, **STALL, **KERNEL)
    good = record(1, token_ms=(10, 20), end_ms=20, **KERNEL)
    late, good = (replace(one, token_times_ns=token_times([*one.token_times_ns])) for one in (late, good))
    assert in_ms(pooled("itl", [late, good]).values) == [10, 10, 60]
    assert in_ms(pooled("itl", [late, good], "shortest").values) == [10, 10, 30, 30]
    assert in_ms(pooled("itl", [late, good], "longest", 20).values) == [10, 10, 60, 60]


def test_a_closed_loop_offers_the_time_in_which_its_requests_were_out() -> None:
    """Of two slots of 100 ms 4 and 8 were empty: 188 of 200."""
    two = [record(i, intended_ms=900, lag_ms=lag, end_ms=1000) for i, lag in enumerate((4, 8))]
    assert offered(two, is_open=False) == pytest.approx(0.94)
    assert offered([], is_open=False) is None


def test_an_open_loop_offers_its_rate() -> None:
    """Eleven requests a tenth of a second apart: the last one 250 ms late, they took 1.25 s where one was asked for."""
    sent = [record(i, intended_ms=500 + 100 * i, lag_ms=250 if i == 10 else 0, end_ms=2000) for i in range(11)]
    assert offered(sent, is_open=True) == pytest.approx(0.8)
    assert offered(sent[:1], is_open=True) == 1
    assert offered([], is_open=True) is None


def test_a_stall_midway_makes_an_open_loop_no_slower() -> None:
    """Bunched, but all of them within the second: their lateness is in their latencies."""
    sent = [record(i, intended_ms=100 * i, lag_ms=250 if i == 5 else 0, end_ms=2000) for i in range(11)]
    assert offered(sent, is_open=True) == 1


def test_an_open_loops_rate_is_that_of_its_arrivals() -> None:
    """In ten seconds, of which the last request's 250 ms may be the client's."""
    sent = [record(i, intended_ms=700, lag_ms=lag, end_ms=1700) for i, lag in enumerate((250, 0))]
    assert faster_without(sent, is_open=True, duration_s=10) == pytest.approx(10 / 9.75)
    assert faster_without(sent, is_open=True, duration_s=None) == 1
    assert faster_without(sent, is_open=False, duration_s=10) == pytest.approx(2 / 1.75)
    assert faster_without([], is_open=True, duration_s=None) == faster_without([], is_open=False, duration_s=None) == 1


def test_the_share_of_a_level_is_its_distance_statistic_by_statistic() -> None:
    """Three requests of 100 ms, of which one left 30 ms late: nothing of the median's, 30 of the largest's."""
    level = measure_level(1, [record(i, token_ms=(100,), end_ms=100, lag_ms=30 * (i == 2)) for i in range(3)])
    assert level.ttft_ms.max == 100
    assert (level.client_share.ttft_ms.p50, level.client_share.ttft_ms.max) == (0, 0), "the largest are still 100"
    assert level.client_share.e2e_ms.mean == pytest.approx(10)
    assert level.client_share.tpot_ms == Spread()
    assert widths(Spread(p50=3), Spread(p50=1)) == Spread(p50=2)
