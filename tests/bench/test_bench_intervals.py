"""Intervals against binomial tables, closed forms, and distributions whose percentiles are known."""

from __future__ import annotations

from math import comb, log
from statistics import NormalDist

import numpy as np
import pytest
from bench_records import grouped
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.measure.intervals import (
    binomial_quantile,
    effective_size,
    quantile_interval,
    ranks,
    ratio_interval,
)
from loadproof.bench.measure.statistics import Samples


def one_each(values: Samples) -> list[Samples]:
    return list(values.reshape(-1, 1))


def test_ranks_are_those_of_the_published_table() -> None:
    """95% for the median of n: the 2nd and 9th of 10, the 6th and 15th of 20 (Conover, Practical Nonparametric
    Statistics, after table A3), and the r-th with 2·P(X < r) ≤ 5% of fair coins, counted here."""
    assert ranks(10, 0.5) == (2, 9)
    assert ranks(20, 0.5) == (6, 15)
    below = [sum(comb(50, k) for k in range(r)) / 2**50 for r in range(51)]
    first = max(r for r in range(51) if below[r] <= 0.025)
    assert ranks(50, 0.5) == (first, 51 - first)


@given(st.integers(1, 400), st.floats(0.01, 0.99), st.floats(0.001, 0.999))
def test_the_binomial_quantile_is_the_first_to_reach(samples: int, share: float, probability: float) -> None:
    """P(X ≤ k) reaches the probability and P(X ≤ k − 1) does not, summed exactly term by term."""
    found = binomial_quantile(samples, share, probability)
    terms = [comb(samples, k) * share**k * (1 - share) ** (samples - k) for k in range(samples + 1)]
    assert sum(terms[: found + 1]) >= probability - 1e-9
    assert found == 0 or sum(terms[:found]) < probability + 1e-9


def coverage(draw: object, truth: float, rank_percent: float, runs: int) -> float:
    """The share of intervals that hold the truth; an end that is missing excludes nothing."""
    held = 0
    for seed in range(runs):
        found = quantile_interval(*grouped(draw(np.random.default_rng(seed))), rank_percent)  # type: ignore[operator]
        assert found is not None
        held += (found.low is None or found.low <= truth) and (found.high is None or truth <= found.high)
    return held / runs


@pytest.mark.parametrize(("size", "rank_percent"), [(30, 50.0), (80, 95.0), (400, 99.0), (1000, 95.0)])
def test_coverage_of_independent_requests(size: int, rank_percent: float) -> None:
    """Of exponential latencies (quantile −ln(1 − p)) at least 95% of the intervals hold the truth, but for chance."""
    truth = -log(1 - rank_percent / 100)
    assert coverage(lambda random: one_each(random.exponential(size=size)), truth, rank_percent, 500) >= 0.93


def test_coverage_of_neighbours_that_resemble_each_other() -> None:
    """An autoregression of 0.7 (variance 1): 400 requests tell as much as some 70, and the interval knows it."""

    def draw(random: np.random.Generator) -> list[Samples]:
        values = np.empty(400)
        values[0] = random.normal()
        for index, shock in enumerate(random.normal(scale=(1 - 0.49) ** 0.5, size=399), start=1):
            values[index] = 0.7 * values[index - 1] + shock
        return one_each(values)

    assert coverage(draw, NormalDist().inv_cdf(0.9), 90.0, 200) >= 0.9


def test_coverage_of_gaps_that_share_their_stream() -> None:
    """Streams of 30 gaps, each with a level of its own as spread as the gaps in it: Normal(0, 2) pooled."""

    def draw(random: np.random.Generator) -> list[Samples]:
        return [level + random.normal(size=30) for level in random.normal(size=60)]

    truth = NormalDist(0, 2**0.5).inv_cdf(0.95)
    assert coverage(draw, truth, 95.0, 300) >= 0.92


def test_equal_gaps_within_streams_count_as_streams() -> None:
    """Forty streams of 25 equal gaps tell as much as 40 samples; gaps that owe nothing to their stream all count."""
    random = np.random.default_rng(1)
    assert effective_size(*grouped(np.full(25, value) for value in random.normal(size=40)), 0.5) == 40
    assert effective_size(*grouped(random.normal(size=25) for _ in range(40)), 0.5) > 600


def test_a_first_round_a_few_percent_slower_is_no_dependence_where_no_bound_is() -> None:
    """Rounds of four at 1,380 and 1,361 ms before 64 answers near 1,347 ms, all within 5%: 72 count as 72."""
    e2e_ms = np.asarray([1380.0] * 4 + [1361.0] * 4 + [1346.0, 1346.0, 1348.0, 1348.0] * 16)
    assert effective_size(*grouped(one_each(e2e_ms)), 0.95) == 72
    assert effective_size(*grouped(one_each(e2e_ms)), 0.95, 1350.0) < 72


def hanging_together(size: int, share: float, random: np.random.Generator) -> Samples:
    """Lognormal latencies of median 400 and a spread of 3%, each like the one before to that `share`."""
    values = random.standard_normal(size)
    for index in range(1, size):
        values[index] = share * values[index - 1] + (1 - share**2) ** 0.5 * values[index]
    return 400 * np.exp(0.03 * values)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("size", [72, 200])
def test_a_bound_that_is_the_true_percentile_seldom_passes(size: int, share: float) -> None:
    """The p95 of such latencies is 400·e^(0.03·1.645) = 420.2 ms; at most 5% of runs may say that 420.2 holds."""
    passed = 0
    for seed in range(200):
        values = hanging_together(size, share, np.random.default_rng(seed))
        found = quantile_interval(*grouped(one_each(values)), 95, 420.2)
        assert found is not None
        passed += found.high is not None and found.high <= 420.2
    assert passed <= 10


def test_a_bound_far_beyond_every_request_counts_each() -> None:
    """72 requests that hang together, none above 450 ms, settle a p95 of 2,000 ms; one just above them not."""
    values = hanging_together(72, 0.9, np.random.default_rng(1))
    assert values.max() < 450
    far = quantile_interval(*grouped(one_each(values.copy())), 95, 2000.0)
    near = quantile_interval(*grouped(one_each(values.copy())), 95, 1.02 * values.max())
    assert far is not None and far.effective == 72 and far.high == pytest.approx(values.max())
    assert near is not None and near.effective < 72 and near.high is None


def test_coverage_of_a_rate() -> None:
    """Σ tokens / Σ seconds of independent pairs with means 50 and 2: the truth is 25."""
    held = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        found = ratio_interval(random.gamma(5, 10, 60), random.gamma(4, 0.5, 60), 1.0, seed)
        assert found is not None
        held += found[0] <= 25 <= found[1]
    assert held / 200 >= 0.9


def test_many_requests_are_added_up_piece_by_piece() -> None:
    """10,000 requests of 1 to 4 gaps in whole nanoseconds: as many effective samples as of the same gaps in ms."""
    random = np.random.default_rng(2)
    gaps_ns = [random.integers(1, 10**9, size) for size in random.integers(1, 5, 10_000)]
    whole, ends = grouped(gaps_ns)
    assert effective_size(whole.astype(np.uint32), ends, 0.9) == effective_size(whole / 1e6, ends, 0.9) > 10_000
