"""Resampled figures against what can be worked by hand: binomials, known block lengths, ratios of known runs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from bench_records import record

from loadproof.bench.measure.bootstrap import (
    NOTHING,
    RESAMPLES,
    Resampled,
    _first_reached,
    block_length,
    percentile_resampled,
    rate_resampled,
    ratio_resampled,
)
from loadproof.bench.measure.latencies import Pool
from loadproof.bench.measure.levels import measured_level
from loadproof.bench.measure.resampling import LevelSamples
from loadproof.bench.objectives import Objective
from loadproof.bench.plan import RunPlan, planned_in_full
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens


def p(rank: float, values: object, side: int = 0) -> Resampled:
    samples = np.asarray(values, dtype=np.float64)
    count = samples.size
    return percentile_resampled(Pool(samples, np.arange(1, count + 1)), rank, np.arange(count), (7, side))


def shuffled(values: object) -> np.ndarray:
    return np.random.default_rng(3).permutation(np.asarray(values, dtype=np.float64))


def lognormal(seed: int, count: int) -> np.ndarray:
    return 100 * np.exp(0.2 * np.random.default_rng(seed).standard_normal(count))


def test_a_medians_resamples_follow_the_binomial() -> None:
    """Of 1..100 the resampled 50th smallest is at most k when 50 or more of 100 draws are: 2.5% lie below 40, 2.5%
    above 60 (P(X ≥ 50) is 0.017 for Bin(100, 0.39), 0.027 for 0.40; 0.973 for 0.59, 0.983 for 0.60)."""
    found = p(50, shuffled(range(1, 101)))
    assert found.estimates.size == RESAMPLES == 2000
    low, high = np.percentile(found.estimates, (2.5, 97.5))
    assert low == pytest.approx(40, abs=1) and high == pytest.approx(60, abs=1)


@pytest.mark.parametrize("thresholds", [1, 2, 3, 7, 16, 100, 511, 512])
def test_the_first_threshold_reached_is_found_as_by_looking_at_all(thresholds: int) -> None:
    """30 units' counts that rise, some not at all; resamples that reach it at once, in between and never."""
    random = np.random.default_rng(thresholds)
    counts = np.cumsum(random.integers(0, 3, (30, thresholds)), axis=1).astype(np.float32)
    weights = random.integers(0, 4, (200, 30)).astype(np.float32)
    wanted = random.uniform(-0.1, 1.1, 200) * (weights @ counts)[:, -1]
    reached = weights @ counts >= wanted[:, None]
    reached[:, -1] = True
    assert _first_reached(weights, counts, wanted).tolist() == np.argmax(reached, axis=1).tolist()


def test_the_same_run_twice_has_not_changed() -> None:
    """The ratio is 1 and its interval holds 1."""
    ratio, low, high = ratio_resampled(p(95, lognormal(1, 200), 0), p(95, lognormal(1, 200), 1))
    assert ratio == 1 and low is not None and high is not None and low < 1 < high


def test_twice_the_latency_is_a_ratio_of_two() -> None:
    """Exactly: every sample doubled doubles the percentile; the interval is that of no change, doubled."""
    before = p(95, lognormal(1, 200), 0)
    same = ratio_resampled(before, p(95, lognormal(1, 200), 1))
    assert ratio_resampled(before, p(95, 2 * lognormal(1, 200), 1)) == pytest.approx([2 * one or 0 for one in same])


def test_latencies_that_never_vary_have_an_interval_of_no_width() -> None:
    """100 ms each against 150 ms each: ×1.5, from 1.5 to 1.5."""
    assert ratio_resampled(p(95, [100.0] * 80), p(95, [150.0] * 80)) == (1.5, 1.5, 1.5)


def test_a_rate_of_equal_requests_is_known_to_the_digit() -> None:
    """10 requests/s against 8: ×0.8 without doubt, for requests that are all alike."""
    ones = np.ones(50)
    before, after = (rate_resampled(rate, ones, ones, np.arange(50), (1, side)) for side, rate in ((0, 10.0), (1, 8.0)))
    assert ratio_resampled(before, after) == pytest.approx((0.8, 0.8, 0.8))


def test_a_rate_varies_with_the_time_in_service() -> None:
    """Half of 200 requests take 1 s, half 3 s: their mean's relative standard error is 1 / (2·√200) = 3.5%."""
    busy_s = shuffled([1.0, 3.0] * 100)
    found = rate_resampled(5.0, np.ones(200), busy_s, np.arange(200), (1,))
    assert found.estimates.std() / 5 == pytest.approx(0.0354, rel=0.15)


def test_a_closed_loops_rate_varies_with_how_it_ends() -> None:
    """One request in eight takes 9 s, the others 1 s, on 4 slots. Drawn early the long one ends after 9 s, drawn late
    after 10 s; without any it takes 2 s. Rates of 8/9, 8/10 and 8/2 all occur, and none above."""
    busy_s = np.asarray([9.0, *[1.0] * 7])
    found = rate_resampled(8 / 9, np.ones(8), busy_s, np.arange(8), (1,), slots=4)
    rates = set(np.round(found.estimates, 6))
    assert {round(8 / 9, 6), round(8 / 10, 6), round(8 / 2, 6)} <= rates
    assert max(rates) == 4


def test_equal_requests_in_a_closed_loop_vary_in_nothing() -> None:
    """48 requests of 2 s on 4 slots: 24 s however they are drawn."""
    found = rate_resampled(2.0, np.ones(48), np.full(48, 2.0), np.arange(48), (1,), slots=4)
    assert set(found.estimates) == {2.0} and found.low_known and found.high_known


def test_too_many_requests_to_play_again_and_too_few_a_slot_say_nothing_of_a_rate() -> None:
    """2,400 requests on 512 slots are five a slot: how the level ended counts, and is not known. On 16 it does not."""
    crowded, roomy = (
        rate_resampled(1.0, np.ones(2400), np.ones(2400), np.arange(2400), (1,), slots=slots) for slots in (512, 16)
    )
    assert (crowded.low_known, crowded.high_known) == (False, False)
    assert (roomy.low_known, roomy.high_known) == (True, True)


def test_what_has_no_data_has_no_ratio() -> None:
    """None, never 0 or 1."""
    assert p(95, []) is NOTHING
    assert ratio_resampled(NOTHING, p(95, [1.0] * 80)) == (None, None, None)


def test_too_few_requests_leave_an_end_open() -> None:
    """71 requests bound no p95 from above (0.95^71 > 2.5%), 72 do; so a change from 71 on has no lower end."""
    assert not p(95, lognormal(1, 71)).high_known and p(95, lognormal(1, 72)).high_known
    ratio, low, high = ratio_resampled(p(95, lognormal(1, 71)), p(95, lognormal(2, 400)))
    assert ratio is not None and low is None and high is not None


def test_independent_requests_are_drawn_one_by_one() -> None:
    """Of 40 series of 300 independent samples nine in ten have a block length of 1; equal samples always."""
    lengths = [block_length(np.random.default_rng(seed).standard_normal(300)) for seed in range(40)]
    assert lengths.count(1) >= 36
    assert block_length(np.ones(300)) == 1


def test_autoregressive_requests_have_the_published_block_length() -> None:
    """Politis and White: b = (6ρ² / (1 − ρ²)²)^⅓ · n^⅓ for an autoregressive series; 13.9 for ρ = ½ and n = 1,000."""
    lengths = []
    for seed in range(30):
        values = np.random.default_rng(seed).standard_normal(1000)
        for before, after in pairwise(range(1000)):
            values[after] += 0.5 * values[before]
        lengths.append(block_length(values))
    assert np.median(lengths) == pytest.approx(13.9, rel=0.25)


def test_neighbours_that_rise_together_widen_the_interval() -> None:
    """32 rounds of 16 equal latencies are worth about 32 requests: four times (√16) the width of shuffled ones, not
    less than half of that."""
    rounds = np.repeat(lognormal(4, 32), 16)
    together, apart = (np.log(p(50, values).estimates).std() for values in (rounds, shuffled(rounds)))
    assert p(50, rounds).blocks <= 64 < p(50, shuffled(rounds)).blocks
    assert together > 2 * apart


def test_drift_of_a_steady_server_is_none() -> None:
    """Latencies that rise by 4% over the run hang together, and by too little to count: each is drawn by itself."""
    assert p(50, np.linspace(100, 104, 200)).low_known and p(95, np.linspace(100, 104, 200)).high_known


def test_a_streams_gaps_are_drawn_together() -> None:
    """200 streams of 50 equal gaps vary as 200 samples do: their median's spread is that of one gap each."""
    each = lognormal(5, 200)
    gaps = np.repeat((each * 1e6).astype(np.uint32), 50)
    streams = percentile_resampled(Pool(gaps, 50 * np.arange(1, 201), 1e6), 50, np.arange(200), (7, 0))
    assert streams.estimates.std() == pytest.approx(p(50, each).estimates.std(), rel=0.1)
    assert streams.estimates.mean() == pytest.approx(p(50, each).estimates.mean(), rel=0.01)


def test_many_requests_are_drawn_in_batches_and_vary_as_much() -> None:
    """The median of 20,000 lognormal latencies has a relative standard error of 0.2·√(π/2)/√20,000 = 0.177%."""
    found = p(50, lognormal(6, 20_000))
    assert found.blocks == 2000
    assert found.estimates.std() / 100 == pytest.approx(0.00177, rel=0.15)


def test_conversations_are_drawn_whole() -> None:
    """100 conversations of two equal turns vary as 100 requests do; one that lost a turn is still one."""
    turns = [
        record(
            index, intended_ms=10 * index, token_ms=(10 * index + ttft, 10 * index + ttft + 5), end_ms=10 * index + 99
        )
        for index, ttft in enumerate(np.repeat(lognormal(7, 100), 2) / 20)
    ]
    turns[0] = record(0, intended_ms=0, end_ms=50, outcome="internal")
    spec = BenchmarkSpec(
        Target("openai", "http://localhost:1", "openai"), WorkloadSpec(fixed_tokens(10), fixed_tokens(2)), (1,), 200
    )
    plan = planned_in_full(RunPlan("run", "2026-11-21T10:00:00Z", 0, spec, {}, ()))
    level = measured_level(plan, 0, turns)
    objective = Objective("ttft_p50_ms", 1)
    whole, single = (LevelSamples(level, count, (1,)).resampled(objective) for count in (2, 1))
    assert (whole.blocks, whole.observed) == (100, single.observed)
    assert whole.estimates.std() == pytest.approx(p(50, lognormal(7, 100) / 20).estimates.std(), rel=0.1)


def test_the_same_seed_gives_the_same_interval() -> None:
    """To the last digit; another seed gives another one."""
    one, again, other = (
        percentile_resampled(Pool(lognormal(1, 200), np.arange(1, 201)), 95, np.arange(200), (seed,))
        for seed in (1, 1, 2)
    )
    assert (one.estimates == again.estimates).all() and (one.estimates != other.estimates).any()
