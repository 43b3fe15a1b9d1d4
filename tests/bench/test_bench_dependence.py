"""How far requests hang together, on series whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from bench_records import autoregressive

from loadproof.bench.measure.dependence import INDEPENDENT, dependence, seen, seen_by_ranks, student
from loadproof.bench.measure.intervals import quantile_interval
from loadproof.bench.measure.statistics import Samples


def one_each(size: int) -> np.ndarray:
    return np.arange(1, size + 1)


def spells(*starts: int, size: int = 1000, length: int = 20) -> Samples:
    """1 beyond 0.5 for `length` requests from each start on, else 0."""
    values = np.zeros(size)
    for start in starts:
        values[start : start + length] = 1.0
    return values


@pytest.mark.parametrize(("freedom", "published"), [(1, 12.706), (2, 4.303), (10, 2.228), (30, 2.042), (120, 1.980)])
def test_students_t_is_that_of_the_tables(freedom: int, published: float) -> None:
    """To within half a hundredth, from ten degrees of freedom on."""
    assert student(freedom) == pytest.approx(published, abs=0.005)


def test_students_t_has_two_terms_of_its_series() -> None:
    """z = 1.959964, z³ = 7.52925, z⁵ = 28.9236: of 3 it is z + 9.48921 / 12 + 270.966 / 864 = 3.06435."""
    assert student(3) == pytest.approx(3.06435, abs=2e-5)
    assert student(0) == float("inf")


def test_an_autoregression_has_its_known_effect() -> None:
    """Of 0.5 it is (1 + 0.5) / (1 − 0.5) = 3, of 0.8 it is 9."""
    for phi, effect in ((0.5, 3.0), (0.8, 9.0)):
        found = [dependence(autoregressive(phi, 4000, seed)).effect for seed in range(20)]
        assert np.median(found) == pytest.approx(effect, rel=0.15)


def test_what_chance_may_explain_is_no_dependence() -> None:
    """Independent samples, equal ones, and fewer than ten."""
    assert dependence(np.random.default_rng(1).standard_normal(400)) == INDEPENDENT
    assert dependence(np.ones(400)) == INDEPENDENT
    assert dependence(np.arange(9.0)) == INDEPENDENT


def test_neighbours_that_take_turns_tell_no_less() -> None:
    """Fast and slow by turns: their sum varies less than that of independent ones, which is not made use of."""
    assert dependence(np.tile([0.0, 1.0], 100)).effect == 1.0


def test_every_request_tells_where_none_lies_beyond() -> None:
    """There is nothing that they could share."""
    assert seen(np.zeros(100), one_each(100), 0.5).independent == 100


def test_one_spell_tells_as_much_as_one_request() -> None:
    """20 of 1,000 beyond the bound, in one spell: at most 1 / (0.02 · 0.98) = 51, before few looks shrink it."""
    assert seen(spells(400), one_each(1000), 0.5).independent < 51


def test_spells_far_apart_each_count() -> None:
    """Ten of ten requests among 1,000 tell more than two of fifty, which are as many slow requests."""
    ten, two = spells(*range(40, 1000, 100), length=10), spells(200, 700, length=50)
    assert seen(ten, one_each(1000), 0.5).independent > 3 * seen(two, one_each(1000), 0.5).independent


def test_a_later_half_that_is_unlike_the_earlier_is_drift() -> None:
    """40 of the later 500 requests lie beyond the bound and none of the earlier; steady ones seldom seem to drift."""
    random = np.random.default_rng(7)
    late = np.concatenate([np.zeros(500, bool), random.permutation(500) < 40])
    assert seen(late.astype(np.float64), one_each(1000), 0.5).drift
    assert sum(seen_by_ranks(random.standard_normal(1000)).drift for _ in range(100)) <= 3


def test_equal_samples_share_their_rank() -> None:
    """A steady server's equal answers are no trend; ranks by order would make them one."""
    found = seen_by_ranks(np.ones(100))
    assert (found.independent, found.drift) == (100, False)


def test_a_drifting_run_is_not_settled_by_its_early_part() -> None:
    """2% of 2,000 requests lie beyond the bound, and 4% of the later half: the whole would pass for a p95, the later
    half of it leaves the p95 open."""
    random = np.random.default_rng(3)
    slow = np.concatenate([np.zeros(1000, bool), random.permutation(1000) < 40])
    found = quantile_interval(np.where(slow, 9.0, random.random(2000)), one_each(2000), 95, 5.0)
    assert found is not None and found.drifts
    assert found.high == 9.0 and found.low is not None and found.low < 1


@pytest.mark.parametrize(("phi", "size"), [(0.9, 1000), (0.99, 1000), (0.99, 4000)])
def test_long_correlation_seldom_gives_a_wrong_verdict(phi: float, size: int) -> None:
    """The bound is the true p95, 1.6449: of 100 runs at most 7 say PASS, and at most 9 FAIL (3% and 5%, and chance)."""
    found = [quantile_interval(autoregressive(phi, size, seed), one_each(size), 95, 1.6449) for seed in range(100)]
    assert sum(one is not None and one.high is not None and one.high <= 1.6449 for one in found) <= 7
    assert sum(one is not None and one.low is not None and one.low > 1.6449 for one in found) <= 9
