"""Figures of intervals worked by hand: ranks, effective sizes, block effects, and how many requests settle a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from bench_records import grouped

from loadproof.bench.measure import intervals
from loadproof.bench.measure.dependence import Dependence, Seen, student
from loadproof.bench.measure.intervals import (
    QuantileInterval,
    binomial_quantile,
    effective_size,
    fail_tail,
    quantile_interval,
    ranks,
    ratio_interval,
    requests_to_settle,
    requests_to_settle_rate,
    unseen_spells,
)
from loadproof.bench.measure.statistics import Samples
from loadproof.sizing import fewest_requests


def singly(values: Sequence[float] | Samples) -> tuple[Samples, np.ndarray]:
    """One sample a request."""
    return np.asarray(values, dtype=np.float64), np.arange(1, len(values) + 1)


def test_of_ten_samples_the_second_and_the_ninth_enclose_the_median() -> None:
    """Ten requests tell as much as ten, and their values are left in order."""
    values, ends = singly([7, 3, 10, 1, 9, 4, 6, 2, 8, 5])
    found = quantile_interval(values, ends, 50)
    assert found is not None and (found.low, found.high, found.effective) == (2, 9, 10)
    assert values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_no_samples_have_no_interval() -> None:
    """None, for there is nothing to enclose."""
    assert quantile_interval(*singly([]), 95) is None


def test_an_end_of_an_interval_is_kept_to_nine_places() -> None:
    """Thirds and two thirds, in whatever unit the samples have."""
    found = quantile_interval(*singly([1 / 3, 2 / 3] * 5), 50)
    assert found is not None and (found.low, found.high) == (0.333333333, 0.666666667)


def test_streams_of_equal_gaps_are_ranked_as_streams() -> None:
    """Forty streams of 25 gaps of k ms, k from 1 to 40: the 14th and the 27th stream enclose the median."""
    order = [(17 * k) % 41 for k in range(1, 41)]
    found = quantile_interval(*grouped(np.full(25, float(k)) for k in order), 50)
    assert found is not None and (found.low, found.high, found.effective) == (14, 27, 40)


def test_ranks_between_samples_widen_the_interval() -> None:
    """25 gaps that tell as much as 13 samples, of which the 3rd and the 11th enclose the median: two are below,
    so 2 · 25/13 = 3.8 gaps, and the 4th is taken; 11 · 25/13 = 21.2, and the 22nd is."""
    assert ranks(13, 0.5) == (3, 11)
    values = np.asarray([float(3 * k % 26) for k in range(1, 26)])  # 1 to 25, well mixed
    ends = np.asarray([1 + 2 * k for k in range(13)])  # one gap, then twelve times two
    found = quantile_interval(values, ends, 50)
    assert found is not None and (found.low, found.high, found.effective) == (4, 22, 13)


def test_six_requests_are_the_fewest_that_enclose_a_median() -> None:
    """Of five coins none is heads in 1 of 32 cases, more than 2.5%; of six in 1 of 64."""
    assert ranks(5, 0.5) == (0, None)
    assert ranks(6, 0.5) == (1, 6)
    found = quantile_interval(*singly([1, 2, 3, 4, 5]), 50)
    assert found is not None and (found.low, found.high) == (None, None)


def test_a_smaller_tail_takes_the_lower_rank_further_out() -> None:
    """Of ten, P(X < 1) = 1/1024 is within 0.5%, P(X < 2) = 11/1024 is not; the upper rank stays that of 2.5%."""
    assert ranks(10, 0.5, 0.005) == (1, 9)


def test_how_many_requests_a_percentile_needs() -> None:
    """0.5^6 = 1.6%, 0.95^72 = 2.49%, 0.99^368 = 2.48%; one fewer is above 2.5%."""
    assert [fewest_requests(percent) for percent in (50, 95, 99)] == [6, 72, 368]


def test_up_to_twenty_thousand_samples_are_counted_exactly() -> None:
    """The 97.5% point of Binomial(20,000, 0.99) is 19,827; the normal one would be 19,800 + 1.96 · 14.07 = 19,828. Of
    20,001 it is the normal one: 19,800.99 + 1.96 · 14.07 = 19,828.57, so 19,829."""
    assert binomial_quantile(20_000, 0.99, 0.975) == 19_827
    assert binomial_quantile(20_001, 0.99, 0.975) == 19_829


def test_a_probability_that_is_just_reached_is_reached() -> None:
    """One coin shows no head in half of the cases, and at most one always."""
    assert binomial_quantile(1, 0.5, 0.5) == 0
    assert binomial_quantile(1, 0.5, 1.0) == 1


def test_a_sum_that_rounding_leaves_short_reaches_at_the_last_sample() -> None:
    """Were more asked for than all of it, three of three is all there is."""
    assert binomial_quantile(3, 0.5, 1.5) == 3


def test_one_request_tells_as_much_as_one() -> None:
    """With one gap or with five."""
    assert effective_size(*singly([5.0]), 0.5) == 1
    assert effective_size(*grouped([np.arange(1.0, 6.0)]), 0.5) == 1


def test_two_requests_have_a_variance_between_them() -> None:
    """One with two gaps below the median and one with two above it: 2 · (1 + 1) / 4² = 0.25, so 0.25 / 0.25 shrunk is
    less than one; there are two requests all the same."""
    assert effective_size(*grouped([np.asarray([1.0, 1.0]), np.asarray([9.0, 9.0])]), 0.5) == 2


def test_gaps_that_are_all_equal_count_as_streams() -> None:
    """Forty streams of 25 gaps of 10 ms."""
    assert effective_size(*grouped([np.full(25, 10.0)] * 40), 0.95) == 40


def test_streams_that_are_all_alike_count_gap_by_gap() -> None:
    """Each has one gap below the median and one above it: nothing varies between them."""
    assert effective_size(*grouped([np.asarray([1.0, 9.0])] * 10), 0.5) == 20


def mixed(times: int) -> list[Samples]:
    """Ten streams: three below the median, three above it, three astride it, one with two gaps on each side."""
    below, above, astride = np.asarray([1.0, 1.0]), np.asarray([9.0, 9.0]), np.asarray([1.0, 9.0])
    return [*[below, above, astride] * 3, np.asarray([1.0, 1.0, 9.0, 9.0])] * times


def test_streams_that_partly_hang_together_count_as_something_between() -> None:
    """Six of ten streams are one gap off the half: 10/9 · 6 / 22² = 0.013774; 0.25 / 0.013774 = 18.15, and Student's t
    of 9 shrinks it by (1.960 / 2.258)² = 0.7532: 13.67, so 13 of 22."""
    assert effective_size(*grouped(mixed(1)), 0.5) == 13


def test_ten_thousand_streams_are_added_up_piece_by_piece() -> None:
    """A thousand times the ten streams: 0.25 · 22,000² / (10,000/9,999 · 6,000) = 20,164.65, shrunk by (1.959964 /
    1.960201)² = 0.999758: 20,159."""
    assert effective_size(*grouped(mixed(1000)), 0.5) == 20_159


@pytest.mark.parametrize("within", [1.0, 0.0])
def test_five_alike_need_a_sixth(within: float) -> None:
    """All six inside settle a p50; after five of five the sixth is inside with 5.5/6 = 92%. None inside is the same."""
    assert requests_to_settle(within, 0.5, 5, 5) == 6


@pytest.mark.parametrize("within", [1.0, 0.0])
def test_four_alike_need_eight_more(within: float) -> None:
    """6, 7, 8, 10 and 11 in all settle in 82, 77, under 77, 84.8 and 82% of the cases. 12 do where 10 are inside: 6, 7
    or 8 of the eight to come, 10.3 + 20.5 + 58.9 = 89.7%. Eight requests that tell as much as four need twice that."""
    assert requests_to_settle(within, 0.5, 4, 4) == 12
    assert requests_to_settle(within, 0.5, 8, 4) == 24


def test_a_number_to_settle_is_found_to_a_percent() -> None:
    """368 of 368 settle a p99. After 300 of 300 that takes 68 more, each likely: tried are 381, 354, 367, 374 and 370,
    and within 3 of 367 is near enough."""
    assert requests_to_settle(1.0, 0.99, 300, 300) == 370


def test_what_is_settled_needs_one_more_at_the_most() -> None:
    """61 of 101 are enough for a p50, and 61 are inside already."""
    assert ranks(101, 0.5) == (41, 61)
    assert requests_to_settle(0.61, 0.5, 100, 100) == 101


def test_a_million_is_the_most_that_is_advised() -> None:
    """Half of 333,332 inside a p50: two more do not settle it, and then no number of sense does."""
    assert requests_to_settle(0.5, 0.5, 333_332, 333_332) is None


def test_a_rate_at_the_edge_of_its_interval_needs_three_times_the_requests() -> None:
    """Distance z, standard error 1, r the requests' share in all: z · (1 - √r) / √(1 - r) ≥ 1.036 (85%) from r = 0.3172
    on, 315.2 requests for 100. By steps of a fiftieth: 100, 102 ... 150, 153 ... 201, 205 ... 253, 258 ... 303, 309,
    315, 321."""
    assert requests_to_settle_rate(1.959964, 2 * 1.959964, 100) == 321


def test_a_rate_far_from_its_bound_needs_one_step() -> None:
    """A fiftieth more, at least one request."""
    assert requests_to_settle_rate(3.0, 2 * 1.959964, 100) == 102
    assert requests_to_settle_rate(3.0, 2 * 1.959964, 40) == 41


def test_a_rate_is_looked_for_up_to_a_million_requests() -> None:
    """From a million the next step is tried, from one more none."""
    assert requests_to_settle_rate(3.0, 2 * 1.959964, 1_000_000) == 1_020_000
    assert requests_to_settle_rate(3.0, 2 * 1.959964, 1_000_001) is None


def test_a_rate_without_spread_has_no_number() -> None:
    """An interval of no width says nothing of how it would shrink."""
    assert requests_to_settle_rate(1.0, 0.0, 100) is None


@pytest.mark.parametrize(("objectives", "tail"), [(0, 0.025), (1, 0.025), (2, 0.025), (4, 0.0125), (10, 0.005)])
def test_several_objectives_share_one_chance_of_a_false_fail(objectives: int, tail: float) -> None:
    """5% among all of them, and never more than one end's 2.5%."""
    assert fail_tail(objectives) == pytest.approx(tail)


@pytest.mark.parametrize(("requests", "rarer"), [(300, 100), (302, 100), (2, 1), (0, 1)])
def test_spells_rarer_than_a_third_of_the_requests_stay_unseen(requests: int, rarer: int) -> None:
    """(1 - 3/n)^n is about e^-3, 5%."""
    assert unseen_spells(requests) == rarer


def test_two_requests_leave_a_rate_open_by_students_t_of_one_degree() -> None:
    """0 and 2 tokens in a second each, a ratio of 1: of a thousand pairs drawn a quarter are 0 and a quarter 2, and
    t / z = 12.706 / 1.959964 = 6.48277 times as far from 1 the ends lie, ten times that in the unit asked for."""
    found = ratio_interval(np.asarray([0.0, 2.0]), np.ones(2), 10.0, seed=1)
    assert found == pytest.approx((10 * (1 - 6.482772), 10 * (1 + 6.482772)), abs=1e-4)


def test_a_rate_that_never_varies_has_no_width() -> None:
    """Three tokens in half a second, whatever the request."""
    assert ratio_interval(np.full(40, 3.0), np.full(40, 0.5), 1.0, seed=1) == (6.0, 6.0)


def test_a_rate_is_kept_to_nine_places() -> None:
    """A third, and never an end on its other side."""
    assert ratio_interval(np.ones(12), np.full(12, 3.0), 1.0, seed=1) == (0.333333333, 0.333333333)


@pytest.mark.parametrize("durations", [np.zeros(3), np.full(3, -1.0)])
def test_no_time_has_no_rate(durations: Samples) -> None:
    assert ratio_interval(np.ones(3), durations, 1.0, seed=1) is None


def test_independent_requests_have_the_standard_error_of_a_mean() -> None:
    """400 of 0 or 2 tokens a second: 1 ± 1.96 · 1/20, by a bootstrap of a thousand to a tenth of its half width."""
    amounts = 2.0 * (np.random.default_rng(3).permutation(400) % 2)
    found = ratio_interval(amounts, np.ones(400), 1.0, seed=1)
    assert found == pytest.approx((1 - 0.098, 1 + 0.098), abs=0.01)


def test_a_larger_tail_above_lowers_the_upper_end_alone() -> None:
    """A tenth above it instead of a fortieth: 1.2816 standard errors instead of 1.96."""
    amounts = 2.0 * (np.random.default_rng(3).permutation(400) % 2)
    usual = ratio_interval(amounts, np.ones(400), 1.0, seed=1)
    found = ratio_interval(amounts, np.ones(400), 1.0, seed=1, high_tail=0.1)
    assert usual is not None and found is not None and found[0] == usual[0]
    assert found[1] - 1 == pytest.approx(0.0641, abs=0.01)


def test_requests_that_come_in_spells_widen_a_rate() -> None:
    """Forty spells of 25 equal requests: √25 times the standard error that a thousand independent ones have, √(1/1000);
    what is found of it is four fifths or more."""
    amounts = np.repeat(2.0 * (np.random.default_rng(5).permutation(40) % 2), 25)
    found = ratio_interval(amounts, np.ones(1000), 1.0, seed=1)
    assert found is not None
    assert (found[1] - found[0]) / 2 == pytest.approx(1.96 * 5 / 1000**0.5, rel=0.25)


def test_the_same_seed_draws_the_same_ends() -> None:
    """And another one others: the ends are a draw."""
    amounts = np.random.default_rng(7).gamma(2.0, 1.0, 50)
    assert ratio_interval(amounts, np.ones(50), 1.0, seed=1) == ratio_interval(amounts, np.ones(50), 1.0, seed=1)
    assert ratio_interval(amounts, np.ones(50), 1.0, seed=1) != ratio_interval(amounts, np.ones(50), 1.0, seed=2)


def test_a_long_run_is_drawn_a_hundred_times_at_least() -> None:
    """300,000 requests are 66 draws of twenty million: a hundred are made, whose ends are two of the draws about."""
    amounts = 2.0 * (np.random.default_rng(3).permutation(300_000) % 2)
    found = ratio_interval(amounts, np.ones(300_000), 1.0, seed=1)
    assert found is not None
    assert (found[1] - found[0]) / 2 == pytest.approx(1.96 / 300_000**0.5, rel=0.25)


def test_a_bound_far_beyond_all_that_was_seen_lets_every_request_count() -> None:
    """Spells of 20 tell little; at a bound three times their reach away, and what few looks add, each one counts."""
    values, ends = singly(np.repeat(np.random.default_rng(9).permutation(50) / 50.0, 20))
    near, far = (effective_size(values.copy(), ends, 0.5, bound) for bound in (0.9, 100.0))
    assert near < 100 and far == 1000


def test_a_steady_servers_drift_of_microseconds_is_none() -> None:
    """Samples within 5% of the median are alike; at 6% they hang together."""
    slow = np.repeat([1.0, 1.04], 500), np.repeat([1.0, 1.12], 500)
    assert effective_size(*singly(slow[0]), 0.5) == 1000
    assert effective_size(*singly(slow[1]), 0.5) < 20


@pytest.mark.parametrize("shift", [0.05, -0.05])
def test_a_run_whose_later_half_differs_holds_for_that_half_too(shift: float) -> None:
    """Half a standard deviation slower: the upper end of the p90 is the later half's own; faster: the lower end is."""
    random = np.random.default_rng(11)
    values = np.concatenate([random.normal(1, 0.1, 500), random.normal(1 + shift, 0.1, 500)])
    later, whole = quantile_interval(*singly(values[500:].copy()), 90), quantile_interval(*singly(values), 90)
    assert whole is not None and later is not None and whole.drifts and not later.drifts
    assert None not in (whole.low, whole.high, later.low, later.high)
    assert (whole.high == later.high) == (shift > 0) and (whole.low == later.low) == (shift < 0)


# ------------------------------------------------------------------------------------------ each part by itself


def test_an_interval_drifts_only_where_that_is_said() -> None:
    assert not QuantileInterval(1.0, 2.0, 3).drifts


def test_a_wide_binomial_is_normal_with_its_own_spread() -> None:
    """Of 40,000 coins: 20,000 + 1.96 · √(40,000 · 0.5 · 0.5) = 20,196."""
    assert binomial_quantile(40_000, 0.5, 0.975) == 20_196


def told_of(independent: float, asked: list[tuple[list[float], list[int]]]) -> Callable[..., Seen]:
    """In the place of `_told`: so many independent ones of the first, half of them of the later half; it drifts."""

    def told(values: Samples, ends: np.ndarray, share: float, bound: float | None) -> Seen:
        asked.append((values.tolist(), ends.tolist()))
        return Seen(independent / len(asked), drift=True)

    return told


def test_the_later_half_is_its_own_requests_counted_from_its_own_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five requests with 1, 2, 3, 1 and 2 samples: the later half begins with the third, after three samples."""
    asked: list[tuple[list[float], list[int]]] = []
    monkeypatch.setattr(intervals, "_told", told_of(9, asked))
    values, ends = grouped(np.full(count, float(count)) for count in (1, 2, 3, 1, 2))
    quantile_interval(values, ends, 50)
    assert asked[1] == ([3, 3, 3, 1, 2, 2], [3, 4, 6])


@pytest.mark.parametrize(
    ("independent", "percent", "low", "high"),
    [
        (10, 50, None, None),  # five of the later half have neither end
        (100, 95, 90, None),  # of fifty the 44th and none; of a hundred the 90th and the 100th
    ],
)
def test_an_end_that_the_later_half_cannot_give_is_none(
    monkeypatch: pytest.MonkeyPatch, independent: int, percent: float, low: float | None, high: float | None
) -> None:
    """All samples are as many as the independent ones, 1 to n; the later half's low end lies above the whole's."""
    monkeypatch.setattr(intervals, "_told", told_of(independent, []))
    found = quantile_interval(*singly(np.arange(1.0, independent + 1)), percent)
    assert found is not None and (found.low, found.high, found.drifts) == (low, high, True)


def eight() -> tuple[Samples, np.ndarray]:
    """Streams of two gaps: six with one on each side of 5, one with both below, one with both above. Two streams off
    the half make 8/7 · 2 / 16² = 0.00893; 0.25 / 0.00893 = 28, shrunk by (1.96 / 2.365)²: 19, more than the 16."""
    astride = np.asarray([1.0, 9.0])
    return grouped([astride, astride, np.asarray([1.0, 1.0]), *[astride] * 3, np.asarray([9.0, 9.0]), astride])


@pytest.mark.parametrize(
    ("bound", "effective"), [(29.0, 16), (28.99, 8), (9.0, 8), (0.00033, 8), (0.00031, 16), (-30.0, 8)]
)
def test_a_bound_is_far_from_three_reaches_and_what_few_looks_add(bound: float, effective: int) -> None:
    """The median is 5, the largest 4 away; eight looks double three times that: from 5 + 24 on every gap counts, and
    nearer each stream counts once, for none of them passes the bound. The least is a fifth: below 5 / 5⁶ = 0.00032."""
    assert effective_size(*eight(), 0.5, bound) == effective


def test_gaps_count_as_many_looks_as_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ranked to count looks is a stream's mean gap: 1, 3 and (2 + 4 + 6) / 3."""
    ranked: list[list[float]] = []

    def seen_by_ranks(series: Samples) -> Seen:
        ranked.append(series.tolist())
        return Seen(3)

    monkeypatch.setattr(intervals, "seen_by_ranks", seen_by_ranks)
    effective_size(*grouped([np.asarray([1.0]), np.asarray([2.0, 4.0]), np.asarray([2.0, 4.0, 6.0])]), 0.5, 5.0)
    assert ranked == [[1.0, 3.0, 4.0]]


def thresholds(monkeypatch: pytest.MonkeyPatch, values: Sequence[float] | Samples, share: float) -> list[float]:
    """Beyond what samples are looked at, without a bound."""
    asked: list[float] = []

    def seen(values: Samples, ends: np.ndarray, threshold: float, lag: int = 0) -> Seen:
        asked.append(threshold)
        return Seen(1)

    monkeypatch.setattr(intervals, "seen", seen)
    effective_size(*singly(values), share)
    return asked


@pytest.mark.parametrize(
    ("size", "share", "rank"),
    [
        (111, 0.5, 56),  # the 55.5th, and so the next
        (101, 0.99, 81),  # twenty beyond
        (25, 0.99, 13),  # half of so few
    ],
)
def test_the_quantile_itself_is_looked_at_where_twenty_lie_beyond(
    monkeypatch: pytest.MonkeyPatch, size: int, share: float, rank: int
) -> None:
    """Of 1,001, 1,002 and so on, which are not alike."""
    values = 100.0 * np.random.default_rng(2).permutation(np.arange(1, size + 1))
    values[values <= 100.0 * rank / 2] /= 1000  # the median stays below the quantile by more than a twentieth
    assert thresholds(monkeypatch, values, share) == [max(100.0 * rank, 1.05 * float(np.median(values)))]


def test_what_is_alike_lies_within_a_twentieth_of_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thresholds(monkeypatch, np.full(40, 2.0), 0.5) == [pytest.approx(2.1)]


class Drawing:
    """In the place of numpy's generator: the n-th draw begins its blocks at n, n + 1 and so on."""

    def __init__(self) -> None:
        self.drawn = 0

    def integers(self, low: int, high: int, draws_and_blocks: tuple[int, int]) -> np.ndarray:
        """A row a draw."""
        assert low == 0
        draws, blocks = draws_and_blocks
        before, self.drawn = self.drawn, self.drawn + draws
        return (np.arange(before + 1, self.drawn + 1)[:, None] + np.arange(blocks)) % high


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Drawing:
    made = Drawing()
    monkeypatch.setattr(intervals.np.random, "default_rng", lambda seed: made)
    return made


@pytest.mark.parametrize(("requests", "draws"), [(1_000, 1_000), (25_000, 800), (30_000, 666), (400_000, 100)])
def test_so_many_draws_are_made(drawing: Drawing, requests: int, draws: int) -> None:
    """A thousand at most, a hundred at least, twenty million requests in all."""
    ratio_interval(np.ones(requests), np.ones(requests), 1.0, seed=1)
    assert drawing.drawn == draws


@pytest.mark.parametrize(
    ("requests", "length", "effect", "drawn"),
    [
        (20, 3, 2.0, 3),
        (20, 9, 2.0, 4),  # a fifth of all
        (9, 3, 2.0, 1),
        (4, 3, 2.0, 1),
        (20, 3, 1.5, 3),
        (20, 3, 1.0, 1),  # they do not hang together
        (20, 3, 0.5, 1),
    ],
)
def test_ends_are_those_of_blocks_of_neighbours(
    monkeypatch: pytest.MonkeyPatch, drawing: Drawing, requests: int, length: int, effect: float, drawn: int
) -> None:
    """Worked out draw by draw: blocks from the n-th request on, round the end, cut to as many as there are."""
    amounts, durations = [float(k * k) for k in range(requests)], [1.0 + k % 3 for k in range(requests)]
    asked: list[list[float]] = []

    def dependence(series: Samples) -> Dependence:
        asked.append(series.tolist())
        return Dependence(length, effect)

    monkeypatch.setattr(intervals, "dependence", dependence)
    found = ratio_interval(np.asarray(amounts), np.asarray(durations), 2.0, seed=1, high_tail=0.1)
    ratio = sum(amounts) / sum(durations)
    assert asked == [[pytest.approx(a - ratio * d) for a, d in zip(amounts, durations, strict=True)]]
    blocks = -(-requests // drawn)
    ratios = []
    for draw in range(1, 1001):
        places = [(draw + block + k) % requests for block in range(blocks) for k in range(drawn)][:requests]
        ratios.append(sum(amounts[k] for k in places) / sum(durations[k] for k in places))
    ratios.sort()
    wider = student(blocks - 1) / 1.959964

    def end(share: float) -> float:
        """Between the two draws that it lies between."""
        place = share * 999
        below = int(place)
        reached = ratios[below] + (place - below) * (ratios[min(below + 1, 999)] - ratios[below])
        return ratio + wider * (reached - ratio)

    assert found == pytest.approx((2 * min(end(0.025), ratio), 2 * max(end(0.9), ratio)), rel=1e-6)


def test_less_than_a_second_has_a_rate() -> None:
    """Three tokens in a quarter of one."""
    assert ratio_interval(np.full(2, 1.5), np.full(2, 0.125), 1.0, seed=1) == (12.0, 12.0)


def test_one_request_has_no_end() -> None:
    """One says nothing of how much others vary."""
    assert ratio_interval(np.ones(1), np.ones(1), 1.0, seed=1) is None


def test_requests_that_tell_as_much_as_fewer_are_rounded_up() -> None:
    """Seven that tell as much as five need a sixth, 6 · 7/5 = 8.4."""
    assert requests_to_settle(1.0, 0.5, 7, 5) == 9


def test_what_is_beyond_settling_needs_one_more() -> None:
    """70 of 100 inside a p50 are more than the 61 that are enough of 101."""
    assert requests_to_settle(0.7, 0.5, 100, 100) == 101


def test_a_bound_that_nobody_meets_is_settled_without_an_upper_end() -> None:
    """Forty are too few for the upper end of a p95, and none of them within is enough for a FAIL."""
    assert requests_to_settle(0.0, 0.95, 40, 40) == 41


def test_a_rate_counts_in_its_own_unit() -> None:
    """Twice the distance at twice the width is the same."""
    assert requests_to_settle_rate(2 * 1.959964, 4 * 1.959964, 100) == 321
