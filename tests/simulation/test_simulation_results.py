"""Summaries in constant memory: how exact they are, and what they say of nothing."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.simulation import Latencies, RefusedRequest, SimulatedRequest, summarise


@given(st.lists(st.floats(1e-3, 1e7), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 95, 99, 100]))
def test_percentiles_are_within_a_quarter_percent(values: list[float], percent: int) -> None:
    """Against the sorted sample at the nearest rank."""
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[ceil(percent * len(values) / 100) - 1]
    assert latencies.percentile_ms(percent) == pytest.approx(exact, rel=0.00251)


def test_nothing_is_none_and_not_zero() -> None:
    """No value: no mean, no extremes, no percentile, no rate."""
    assert [Latencies().mean_ms, Latencies().max_ms, Latencies().percentile_ms(99)] == [None, None, None]
    summary = summarise([RefusedRequest(0.0, "queue_full", 1, 1, 0)])
    assert (summary.refused, summary.output_tokens_per_s, summary.requests_per_s) == (1, None, None)


def test_zero_latencies_are_counted() -> None:
    """Two zeros and 10 ms: the median is 0, the mean 10/3, the largest 10."""
    latencies = Latencies()
    for value in (0.0, 10.0, 0.0):
        latencies.add(value)
    assert (latencies.percentile_ms(50), latencies.max_ms) == (0.0, 10.0)
    assert latencies.mean_ms == pytest.approx(10 / 3)


def test_a_summary_of_two_requests_by_hand() -> None:
    """TTFT 100 and 200; E2E 500 and 1,100; TPOT 400/4 and none for a single token; 6 tokens in 2 s."""
    summary = summarise(
        [SimulatedRequest(0.0, 100.0, 500.0, 5, 10, 0), SimulatedRequest(900.0, 1100.0, 2000.0, 1, 20, 0)]
    )
    assert (summary.ttft.mean_ms, summary.e2e.mean_ms) == (150.0, 800.0)
    assert (summary.tpot.count, summary.tpot.max_ms) == (1, 100.0)
    assert (summary.output_tokens_per_s, summary.requests_per_s, summary.input_tokens) == (3.0, 1.0, 30)
