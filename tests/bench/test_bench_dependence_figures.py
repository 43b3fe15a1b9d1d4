"""Dependence against its definition, added up term by term (no FFT), and what few spells and few looks leave of n."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log10, sqrt

import numpy as np
import pytest
from bench_records import autoregressive, grouped

from loadproof.bench.measure import dependence as module
from loadproof.bench.measure.dependence import (
    INDEPENDENT,
    Dependence,
    Seen,
    _clusters,
    _drift,
    _last_lag,
    block_length,
    dependence,
    seen,
    seen_by_ranks,
    student,
    sums,
)
from loadproof.bench.measure.statistics import Samples

Z = 1.959964
T_OF_ONE = 12.706


def by_definition(series: Samples, lag: int = 0) -> Dependence:
    """Politis and White (2004, corrected 2009), as in the paper: mhat is the last lag before K_N that are chance."""
    size, deviations = len(series), [float(one) for one in series - np.mean(series)]

    def correlation(apart: int) -> float:
        pairs = zip(deviations, deviations[apart:], strict=False)
        return sum(one * other for one, other in pairs) / sum(one * one for one in deviations)

    k_n, chance = max(5, ceil(sqrt(log10(size)))), 2 * sqrt(log10(size) / size)
    most = min(ceil(sqrt(size)) + k_n, size - 1)
    beyond = [abs(correlation(apart)) >= chance for apart in range(1, most + 1)]
    quiet = [at for at in range(most - k_n + 1) if not any(beyond[at : at + k_n])]
    m_hat = max(lag, quiet[0] if quiet else max((at + 1 for at, one in enumerate(beyond) if one), default=0))
    if not m_hat:
        return INDEPENDENT
    window = min(2 * m_hat, 2 * most, size - 1)
    terms = [(apart, min(1.0, 2 - 2 * apart / window) * correlation(apart)) for apart in range(1, window + 1)]
    spectrum, slope = 1 + 2 * sum(one for _, one in terms), 2 * sum(apart * one for apart, one in terms)
    longest = min(3 * sqrt(size), size / 3)
    wanted = (1.5 * slope**2 / spectrum**2 * size) ** (1 / 3) if spectrum > 0 else longest
    block = max(1, ceil(min(longest, wanted)))
    if block == 1:
        return INDEPENDENT
    in_blocks = 1 + 2 * sum((1 - apart / block) * correlation(apart) for apart in range(1, block))
    effect = max(spectrum, in_blocks)
    return Dependence(block, effect / (1 - block / size) if effect > 1 else 1.0, m_hat)


SERIES = {
    "weak": autoregressive(0.4, 300, 1),
    "middling": autoregressive(0.8, 200, 2),
    "strong": autoregressive(0.97, 150, 3),
    "short": autoregressive(0.8, 24, 4),
    "as short as may be": np.asarray([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    "by turns": np.tile([0.0, 1.0], 60),
    "in threes": np.tile([0.0, 0.0, 1.0], 50),
    "spells": np.repeat((np.random.default_rng(5).random(40) < 0.2).astype(float), 8),
    "a trend": np.linspace(0, 1, 90) + np.random.default_rng(6).normal(0, 0.2, 90),
    "long": autoregressive(0.6, 1200, 7),
    "negative": autoregressive(-0.6, 200, 8),
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("lag", [0, 3, 12])
def test_dependence_is_what_its_definition_adds_up_to(name: str, lag: int) -> None:
    found, wanted = dependence(SERIES[name], lag), by_definition(SERIES[name], lag)
    assert (found.length, found.lag) == (wanted.length, wanted.lag)
    assert found.effect == pytest.approx(wanted.effect, rel=1e-9)
    assert block_length(SERIES[name]) == by_definition(SERIES[name]).length


def test_nine_requests_say_nothing_of_their_dependence() -> None:
    """Ten do: two in each of five blocks."""
    assert dependence(np.arange(9.0), 3) == INDEPENDENT
    assert dependence(np.arange(10.0)) != INDEPENDENT


def one_spell(size: int, length: int) -> Samples:
    values = np.zeros(size)
    values[size // 2 : size // 2 + length] = 9.0
    return values


def test_one_spell_counts_as_one_cluster_seen_twice() -> None:
    """10 of 1,000: one cluster tells 1 / (0.01 · 0.99) = 101.01 where n / D tells more, and its two looks leave
    (z / t of one degree)² of that."""
    values = one_spell(1000, 10)
    by_effect = 1000 / by_definition(values / 9 - 0.01).effect
    wanted = min(101.0101, by_effect) * (Z / T_OF_ONE) ** 2
    assert seen(values, np.arange(1, 1001), 5.0).independent == pytest.approx(wanted, rel=1e-4)


def test_two_spells_count_as_two_clusters_where_they_lie_apart() -> None:
    """Two of five requests 300 apart: 2 / (0.01 · 0.99) = 202.02, and of four looks (z / t of three)²."""
    values = np.zeros(1000)
    values[100:105] = values[400:405] = 9.0
    by_effect = 1000 / by_definition(values / 9 - 0.01).effect
    wanted = min(202.0202, by_effect) * (Z / 3.06435) ** 2
    assert seen(values, np.arange(1, 1001), 5.0).independent == pytest.approx(wanted, rel=1e-3)


def test_where_most_lie_beyond_the_clusters_are_of_those_that_do_not() -> None:
    """A fast spell among slow requests tells as little as a slow one among fast."""
    values, ends = one_spell(1000, 10), np.arange(1, 1001)
    assert seen(9.0 - values, ends, 5.0).independent == pytest.approx(seen(values, ends, 5.0).independent, rel=1e-9)


def test_on_the_bound_is_not_beyond_it() -> None:
    """All at the bound: nobody lies beyond, and each counts."""
    assert seen(np.full(40, 5.0), np.arange(1, 41), 5.0).independent == 40


def test_all_beyond_tell_as_much_as_none() -> None:
    assert seen(np.full(40, 6.0), np.arange(1, 41), 5.0).independent == 40


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 8192, 9000])
def test_samples_are_added_up_request_by_request_across_pieces(size: int) -> None:
    """The k-th request has 1 + k mod 3 samples, numbered on from 0."""
    counts = 1 + np.arange(size) % 3
    ends = np.cumsum(counts)
    values = np.arange(int(ends[-1]))
    wanted = [sum(range(end - count, end)) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]
    assert sums(values, ends).tolist() == wanted


def test_equal_values_share_the_middle_of_their_ranks() -> None:
    """Ten of a short series with ties hang together as their middle ranks do."""
    values = np.asarray([1.0, 1, 2, 2, 2, 3, 3, 4, 5, 5] * 3)
    middle = {1.0: 3.0, 2.0: 10.5, 3.0: 18.0, 4.0: 22.5, 5.0: 27.0}
    found = by_definition(np.asarray([middle[one] for one in values]))
    assert seen_by_ranks(values).independent == pytest.approx(30 / found.effect)


def halves(first: int, second: int, size: int, seed: int) -> Samples:
    """So many beyond 5 in each half, well mixed."""
    random = np.random.default_rng(seed)
    return np.concatenate([9.0 * (random.permutation(size // 2) < number) for number in (first, second)])


@pytest.mark.parametrize(("second", "drifts"), [(38, True), (30, False)])
def test_halves_differ_from_three_standard_errors_on(second: int, drifts: bool) -> None:
    """12 of 500 and then 38 or 30 of 500: half their difference is 13 or 9; three times half the root of Σ d², which is
    50 · 0.95 or 42 · 0.958, is 10.3 or 9.5."""
    values = next(
        one for seed in range(50) if by_definition((one := halves(12, second, 1000, seed)) - one.mean()) == INDEPENDENT
    )
    assert seen(values, np.arange(1, 1001), 5.0).drift is drifts


def test_streams_that_hang_together_tell_less_than_their_streams() -> None:
    """A spell of ten slow streams among forty of four gaps each: no more than ten spells would."""
    streams = [np.full(4, 9.0 if 10 <= at < 20 else 1.0) for at in range(40)]
    values, ends = grouped(streams)
    deviations = np.asarray([4.0 * (10 <= at < 20) - 1.0 for at in range(40)])
    effect = by_definition(deviations).effect
    assert effect > 2
    assert seen(values, ends, 5.0).independent < 40 / effect


# ------------------------------------------------------------------------------------------ each part by itself


def test_what_nothing_is_said_of_is_independent() -> None:
    assert (INDEPENDENT.length, INDEPENDENT.effect, INDEPENDENT.lag) == (1, 1.0, 0)
    assert (Seen(3).drift, Seen(3).lag) == (False, 0)


def given(monkeypatch: pytest.MonkeyPatch, found: Dependence) -> list[list[float]]:
    """`dependence` says this, whatever it is asked of; returns what that was."""
    asked: list[list[float]] = []

    def dependence(series: Samples, lag: int = 0) -> Dependence:
        asked.append([*series.tolist(), lag])
        return found

    monkeypatch.setattr(module, "dependence", dependence)
    return asked


def at(places: Sequence[int], size: int) -> Samples:
    """2 at these places, which is beyond 1; 0 elsewhere."""
    values = np.zeros(size)
    values[list(places)] = 2.0
    return values


@pytest.mark.parametrize(
    ("places", "size", "length", "told", "looks"),
    [
        # 20 / 1.5 = 13.3; two clusters more than 4 apart: 2 / (0.2 · 0.8) = 12.5; of five blocks twice two looks count
        ((0, 1, 10, 11), 20, 4, 12.5, 4),
        # 21 / 1.5 = 14; three clusters: 3 / (1/7 · 6/7) = 24.5; five blocks of 4
        ((0, 7, 14), 21, 4, 14.0, 5),
        # 1 / 0.25 = 4 apart, though blocks are of 6: four clusters, 4 / (0.25 · 0.75) = 21.3; three blocks
        ((0, 2, 7, 12, 17), 20, 6, 20 / 1.5, 3),
        # the same, of those that are not beyond
        (sorted({*range(20)} - {0, 2, 7, 12, 17}), 20, 6, 20 / 1.5, 3),
        # half of them, in one cluster, where the others make two: 1 / 0.25
        (range(5, 15), 20, 3, 4.0, 2),
        # 0.3 of them in one cluster: 1 / (0.3 · 0.7)
        (range(6, 12), 20, 3, 1 / 0.21, 2),
    ],
)
def test_what_hangs_together_tells_as_much_as_its_clusters(
    monkeypatch: pytest.MonkeyPatch, places: Sequence[int], size: int, length: int, told: float, looks: int
) -> None:
    """And less by (z / t)², t of one freedom fewer than looks."""
    given(monkeypatch, Dependence(length, 1.5))
    found = seen(at(places, size), np.arange(1, size + 1), 1.0)
    assert found.independent == pytest.approx(told * (Z / student(looks - 1)) ** 2)


def test_of_streams_looks_and_gaps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six streams of two gaps, three with both beyond, three with none: deviations of ±1, 6/5 · 6 / 12² = 0.05; told
    are 6 / 1.5 = 4 or 0.25 / (0.05 · 1.5) = 3.33, shrunk by t of three looks: the larger."""
    given(monkeypatch, Dependence(2, 1.5))
    values = np.repeat([0.0, 2.0, 0.0, 2.0, 0.0, 2.0], 2)
    assert seen(values, np.arange(2, 13, 2), 1.0).independent == pytest.approx(4 * (Z / student(2)) ** 2)


def test_a_sample_at_the_threshold_is_not_beyond_it() -> None:
    """Of 1 and 3 half are beyond 1; none beyond 3, and all beyond 0: then each request counts once."""
    values, ends = np.asarray([1.0, 3.0] * 4), np.arange(2, 9, 2)
    assert [seen(values, ends, threshold).independent for threshold in (1.0, 3.0, 0.0)] == [8, 4, 4]


def test_two_requests_may_tell_as_much_as_their_samples() -> None:
    """One below and one above in each."""
    assert seen(np.asarray([1.0, 3.0, 3.0, 1.0]), np.asarray([2, 4]), 2.0).independent == 4


def test_no_lag_is_looked_at_unless_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = given(monkeypatch, INDEPENDENT)
    values, ends = at([1], 2), np.arange(1, 3)
    seen(values, ends, 1.0)
    seen(values, ends, 1.0, lag=7)
    assert [one[-1] for one in asked] == [0, 7]


def test_equal_ones_share_the_middle_of_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 5 lie at 0 to 2, in the middle at 1; four of 7 at 2 to 6, so at 4; 9 at 6.5."""
    asked = given(monkeypatch, Dependence(3, 2.0, lag=5))
    found = seen_by_ranks(np.asarray([7.0, 5.0, 7.0, 9.0, 7.0, 5.0, 7.0]))
    assert asked == [[4, 1, 4, 6.5, 4, 1, 4, 0]]
    assert found == Seen(3.5, drift=False, lag=5)


def test_a_series_that_drifts_has_no_lag_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty low ones, then twenty high ones: 20 · 10 of √(40 · 10²) / 2 = 31.6, six times it."""
    given(monkeypatch, Dependence(1, 1.0, lag=5))
    assert seen_by_ranks(np.repeat([1.0, 2.0], 20)) == Seen(40, drift=True, lag=0)


@pytest.mark.parametrize(("unit", "drifts"), [(1.0, True), (0.001, True), (0.0, False)])
def test_a_drift_is_one_in_any_unit(unit: float, drifts: bool) -> None:
    assert _drift(unit * np.repeat([1.0, -1.0], 20), INDEPENDENT) is drifts


@pytest.mark.parametrize(
    ("beyond", "last"),
    [
        ("x.....x", 1),  # five in a row are chance from the second on
        ("x....x", 6),  # no five are
        ("...", 0),
        (".....x", 0),
    ],
)
def test_the_last_lag_before_five_that_are_chance(beyond: str, last: int) -> None:
    assert _last_lag(np.asarray([one == "x" for one in beyond]), 5) == last


def test_clusters_are_more_apart_than_that() -> None:
    """Three places apart are one cluster at 3, and two at 2.9."""
    marked = np.asarray([True, False, False, True])
    assert (_clusters(marked, 3), _clusters(marked, 2.9)) == (1, 2)
