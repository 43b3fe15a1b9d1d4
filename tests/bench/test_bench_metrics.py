"""Metrics against numbers worked by hand."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from bench_records import MS, grouped, record
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.measure.intervals import quantile_interval, ratio_interval
from loadproof.bench.measure.latencies import itl_gaps_ns, lag_ms, tpot_ms, ttft_ms
from loadproof.bench.measure.metrics import duration_s, is_good, measure_level
from loadproof.bench.measure.statistics import Spread, percentile, spread, spread_above_zeros
from loadproof.bench.objectives import Objective


def test_latencies_of_one_request() -> None:
    """Intended at 100, sent at 103, tokens at 150, 170, 200, end at 210: TTFT 50, gaps 20 and 30, TPOT 30, lag 3."""
    one = record(intended_ms=100, lag_ms=3, token_ms=(150, 170, 200), end_ms=210)
    assert ttft_ms(one) == 50
    assert itl_gaps_ns(one).tolist() == [20 * MS, 30 * MS]
    assert tpot_ms(one) == (110 - 50) / 2 == 30
    assert lag_ms(one) == 3


def test_tokens_that_come_together_end_one_gap() -> None:
    """Four tokens at 10, 30, 30, 70 ms have the gaps 20 and 40: no gap of 0, and none divided."""
    assert itl_gaps_ns(record(token_ms=(10, 30, 30, 70), end_ms=70)).tolist() == [20 * MS, 40 * MS]


def test_a_chunk_of_several_tokens_is_one_gap_and_all_its_tokens() -> None:
    """Two chunks of 8 tokens 80 ms apart: one gap of 80 ms; TPOT (100 − 20) / 15 = 5.33 ms; 8 tokens an arrival."""
    one = record(token_ms=(20, 100), end_ms=100, output_tokens=16, tokens_at=(8, 8))
    assert itl_gaps_ns(one).tolist() == [80 * MS]
    assert tpot_ms(one) == pytest.approx(80 / 15)
    assert measure_level(1, [one]).tokens_per_arrival == 8


def test_a_level() -> None:
    """Two good requests of 3 and 2 tokens and a failed one in 2 s: 2.5 tokens/s, 1 request/s, one error of three."""
    level = measure_level(
        2,
        [
            record(0, token_ms=(100, 200, 300), end_ms=300),
            record(1, intended_ms=500, token_ms=(900, 1000), end_ms=1000, input_tokens=12),
            record(
                2, intended_ms=1000, end_ms=2000, outcome="truncated", token_ms=(1100,), error_message="no end marker"
            ),
        ],
        usd_per_hour=3.6,
    )
    assert (level.requests, level.errors, level.errors_by_kind, level.unfinished) == (3, 1, {"truncated": 1}, 0)
    assert level.error_examples == {"truncated": "no end marker"}
    assert level.duration_s == 2
    assert level.output_tokens_per_s == 2.5
    assert level.mean_in_flight == (0.3 + 0.5 + 1) / 2
    assert level.requests_per_s == level.goodput_per_s == 1
    assert level.input_tokens_per_s == (10 + 12) / 2
    assert level.input_token_source == "estimate"
    # 3.60 USD an hour is 0.001 USD a second for 2.5 tokens: 400 USD a million.
    assert level.cost_per_million_output_tokens_usd == pytest.approx(400)
    # 22 input and 5 output tokens in 2 s are 13.5 tokens/s; one request a second costs 0.001 USD.
    assert level.cost_per_million_tokens_usd == pytest.approx(0.001 / 13.5 * 1e6)
    assert level.cost_per_thousand_requests_usd == pytest.approx(1)
    assert level.error_rate == 1 / 3
    assert (level.ttft_ms.p50, level.ttft_ms.max) == (250, 400)
    assert (level.itl_ms.p50, level.itl_ms.mean) == (100, 100)


def test_failed_requests_are_in_no_latency() -> None:
    """A truncated stream counts once, as an error, and its first token is nobody's TTFT."""
    level = measure_level(1, [record(token_ms=(5,), end_ms=9, outcome="truncated")])
    assert (level.errors, level.requests) == (1, 1)
    assert level.ttft_ms == level.itl_ms == level.e2e_ms == Spread()
    assert level.token_source == "none"


def test_no_data_is_none() -> None:
    """A level without records has no figure that could be mistaken for a fast endpoint."""
    level = measure_level(1, [])
    assert level.ttft_ms.p99 is None and level.output_tokens_per_s is None and level.duration_s is None
    assert level.goodput_per_s is None and level.cost_per_million_output_tokens_usd is None
    assert spread(np.empty(0)) == Spread()
    assert quantile_interval(*grouped([]), 95) is None and ratio_interval(np.empty(0), np.empty(0), 1, seed=0) is None


def test_unfinished_requests_are_counted_apart() -> None:
    """A request cut off by the end of the run is neither a success nor the endpoint's failure."""
    level = measure_level(1, [record(0, token_ms=(5,), end_ms=9), record(1, end_ms=12, outcome="canceled")])
    assert (level.requests, level.errors, level.unfinished) == (1, 0, 1)


def test_an_unknown_token_count_makes_the_rate_unknown() -> None:
    """One answer without any count: tokens per second would be a part passed off as the whole."""
    counted = record(0, token_ms=(5, 6), end_ms=9)
    uncounted = replace(record(1, end_ms=9), output_tokens=None, token_source="none")
    level = measure_level(1, [counted, uncounted])
    assert level.output_tokens_per_s is None
    assert level.token_source == "none"


def test_one_token_has_no_tpot() -> None:
    """(E2E − TTFT) / (1 − 1) is no number."""
    assert tpot_ms(record(token_ms=(5,), end_ms=5)) is None


def test_the_pause_between_sessions_is_not_duration() -> None:
    """0..1 s in the first session, 61..63 s in the second: 3 s of load."""
    records = [record(0, end_ms=1000), record(1, intended_ms=61_000, end_ms=63_000, session=1)]
    assert duration_s(records) == 3


def test_goodput_needs_every_bound() -> None:
    """A request inside TTFT but beyond E2E is not good; with no bounds at all every success is."""
    one = record(token_ms=(100, 110), end_ms=400)
    assert is_good(one, [Objective("ttft_p95_ms", 100)])
    assert not is_good(one, [Objective("ttft_p95_ms", 100), Objective("e2e_p50_ms", 399)])
    assert is_good(one, [])
    assert not is_good(record(outcome="timeout"), [])


def test_percentiles_interpolate_linearly() -> None:
    """Of 10, 20, 30, 40 the p50 lies at rank 1.5 (25) and the p90 at rank 2.7 (37)."""
    found = spread(np.asarray([40.0, 10.0, 30.0, 20.0]))
    assert (found.p50, found.p90, found.max, found.mean) == (25, 37, 40, 25)


@given(st.integers(0, 400), st.lists(st.floats(0, 1e4, width=32), max_size=40))
def test_zeros_that_are_counted_are_as_good_as_zeros_that_are_held(zeros: int, late: list[float]) -> None:
    """Percentiles, mean and maximum agree with those of an array that has every zero in it."""
    held = spread(np.concatenate([np.zeros(zeros), np.asarray(late, dtype=np.float64)]))
    counted = spread_above_zeros(zeros, np.asarray(late, dtype=np.float64))
    assert asdict(counted) == pytest.approx(asdict(held), abs=2e-9)


@given(st.lists(st.floats(0, 1e4, width=32), min_size=1, max_size=40), st.floats(0, 100))
def test_a_percentile_is_numpys_linear_one(values: list[float], rank_percent: float) -> None:
    """At every rank, the ends included."""
    samples = np.asarray(values, dtype=np.float64)
    assert percentile(samples, rank_percent) == pytest.approx(float(np.percentile(samples, rank_percent)), abs=2e-9)
