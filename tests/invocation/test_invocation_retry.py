"""The retry policy: what is tried again, how often, after how long, and out of what budget."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.invocation import Outcome, OutcomeKind, RetryClass
from loadproof.invocation.retry import Attempts, Retries, RetryBudget, RetryPolicy

ACCIDENT = Outcome(OutcomeKind.INTERNAL, 500, retry=RetryClass.TRY_AGAIN)
TIMED_OUT = Outcome(OutcomeKind.TIMEOUT, retry=RetryClass.TRY_AGAIN, retry_once=True)
POISON = Outcome(OutcomeKind.VALIDATION, 422, retry=RetryClass.POISON)
REFUSED = Outcome(OutcomeKind.THROTTLED, 429, retry=RetryClass.SLOW_DOWN)
NO_COPY = Outcome(OutcomeKind.NO_CAPACITY, 400, retry=RetryClass.NO_CAPACITY_YET)
CANCELED = Outcome(OutcomeKind.CANCELED)


class Most(Random):
    """Chance that always draws the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Least(Random):
    """Chance that always draws the lower end."""

    def uniform(self, a: float, b: float) -> float:
        return a


def retries(policy: RetryPolicy | None = None, floor: float = 100.0, chance: Random | None = None) -> Retries:
    return Retries(policy or RetryPolicy(), RetryBudget(floor), chance or Most())


def delays(outcome: Outcome, times: int, policy: RetryPolicy | None = None) -> list[float | str]:
    """What follows the first, second … attempt of one item that always ends so."""
    one, attempts = retries(policy), Attempts(first_s=0.0)
    decisions = [one.after(outcome, attempts, 0.0) for _ in range(times)]
    return [decision.give_up or decision.delay_s for decision in decisions]


def test_an_accident_is_tried_seven_times_with_doubling_waits_up_to_the_cap() -> None:
    """0.5 · 2^n up to 20 s is what chance draws from; the seventh failure is the last."""
    assert delays(ACCIDENT, 7) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, "attempts"]
    assert delays(ACCIDENT, 4, RetryPolicy(cap_s=1.5)) == [0.5, 1.0, 1.5, 1.5]


def test_refusals_wait_twenty_seconds_at_most() -> None:
    """0.5 · 2^6 would be 32 s; the eighth refusal waits no longer than the seventh."""
    assert delays(REFUSED, 8) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]


def test_doubling_ends_after_forty_refusals() -> None:
    """Where nothing caps the wait it is 0.5 · 2^40 s from the 41st refusal on, and the 2,000th overflows nothing."""
    waits = delays(REFUSED, 2000, RetryPolicy(cap_s=inf))
    assert waits[39:42] == [274_877_906_944.0, 549_755_813_888.0, 549_755_813_888.0]
    assert waits[-1] == 549_755_813_888.0


def test_an_accident_ends_a_row_of_refusals() -> None:
    """The first refusal after it waits as the first of all did."""
    one, attempts = retries(), Attempts(0.0)
    waits = [one.after(outcome, attempts, 0.0).delay_s for outcome in (REFUSED, REFUSED, ACCIDENT, REFUSED, REFUSED)]
    assert waits == [0.5, 1.0, 0.5, 0.5, 1.0]


def test_an_item_begins_with_nothing_behind_it() -> None:
    """No request sent, no attempt spent, none timed out, none refused."""
    new = Attempts(first_s=5.0)
    assert (new.sent, new.spent, new.timed_out, new.refused) == (0, 0, 0, 0)


def test_giving_up_waits_for_nothing() -> None:
    """What is never tried again has no delay."""
    assert retries().after(POISON, Attempts(0.0), 0.0).delay_s == 0.0


def test_a_time_out_is_tried_once_more_at_most() -> None:
    """It may have cost a whole generation each time."""
    assert delays(TIMED_OUT, 2) == [0.5, "attempts"]


def test_other_accidents_do_not_take_a_time_outs_second_chance() -> None:
    """After a 500 the first time-out is tried again, and after another 500 the second one is the last."""
    one, attempts = retries(), Attempts(0.0)
    ends = [one.after(outcome, attempts, 0.0).give_up for outcome in (ACCIDENT, TIMED_OUT, ACCIDENT, TIMED_OUT)]
    assert ends == [None, None, None, "attempts"]


@pytest.mark.parametrize(("outcome", "reason"), [(POISON, "poison"), (CANCELED, "canceled")])
def test_poison_and_our_own_cancellation_are_never_tried_again(outcome: Outcome, reason: str) -> None:
    """The first attempt is the last."""
    assert delays(outcome, 1) == [reason]


@pytest.mark.parametrize("outcome", [REFUSED, NO_COPY])
def test_refusals_spend_no_attempt_and_no_budget(outcome: Outcome) -> None:
    """A thousand of them are waited for, and then all seven attempts are still there."""
    one, attempts = retries(floor=6), Attempts(0.0)
    assert all(one.after(outcome, attempts, 0.0).give_up is None for _ in range(1000))
    spent = [one.after(ACCIDENT, attempts, 0.0).give_up for _ in range(7)]
    assert spent == [None] * 6 + ["attempts"]


def test_a_broken_endpoint_is_paid_for_by_the_budget_alone() -> None:
    """With a floor of 10 retries and no success, 10 of 100 failing items get a second attempt."""
    one = retries(floor=10)
    again = [one.after(ACCIDENT, Attempts(0.0), 0.0).give_up for _ in range(100)]
    assert again == [None] * 10 + ["budget"] * 90


def test_a_budget_starts_with_ten_retries() -> None:
    """The eleventh has to be earned first: two successes pay for it, one does not."""
    budget = RetryBudget()
    assert [budget.take() for _ in range(11)] == [True] * 10 + [False]
    budget.success()
    assert not budget.take()
    budget.success()
    assert budget.take()


def test_each_success_pays_for_half_a_retry() -> None:
    """An empty budget and four successes are two retries."""
    one = retries(floor=1)
    assert one.after(ACCIDENT, Attempts(0.0), 0.0).give_up is None
    for _ in range(4):
        one.succeeded()
    assert [one.after(ACCIDENT, Attempts(0.0), 0.0).give_up for _ in range(3)] == [None, None, "budget"]


def test_the_budget_does_not_hoard() -> None:
    """A thousand successes are at most ten times the floor."""
    budget = RetryBudget(floor=2)
    for _ in range(1000):
        budget.success()
    assert sum(budget.take() for _ in range(1000)) == 20


@pytest.mark.parametrize("outcome", [ACCIDENT, REFUSED, NO_COPY])
def test_a_deadline_ends_every_kind_of_waiting(outcome: Outcome) -> None:
    """A wait that would end at the deadline or later is not begun; it counts from the first attempt."""
    one = retries(RetryPolicy(deadline_s=10))
    assert one.after(outcome, Attempts(first_s=100.0), 109.4).give_up is None
    assert one.after(outcome, Attempts(first_s=100.0), 109.5).give_up == "deadline"


@given(st.integers(0, 5), st.integers(0, 2**32))
def test_waits_are_drawn_from_zero_to_the_bound(failures: int, seed: int) -> None:
    """Full jitter: anywhere between 0 and 0.5 · 2^n."""
    one, attempts = retries(chance=Random(seed)), Attempts(0.0, spent=failures)
    assert 0 <= one.after(ACCIDENT, attempts, 0.0).delay_s <= 0.5 * 2**failures


def test_the_shortest_wait_is_none() -> None:
    """Chance may send the next attempt at once."""
    one, attempts = retries(chance=Least()), Attempts(0.0)
    assert [one.after(ACCIDENT, attempts, 0.0).delay_s for _ in range(3)] == [0.0, 0.0, 0.0]


def test_jitter_is_not_a_constant() -> None:
    """Of 50 first waits no two are the same, and they spread over both halves."""
    one = retries(chance=Random(0))
    drawn = [one.after(ACCIDENT, Attempts(0.0), 0.0).delay_s for _ in range(50)]
    assert len(set(drawn)) == 50 and min(drawn) < 0.25 < max(drawn)


def test_a_third_of_failures_loses_less_than_one_in_a_thousand() -> None:
    """30% of 500s over 20,000 items: at least 99.9% answered, at most 1.6 requests an item (chance 0.3^7 = 0.02%)."""
    chance, one = Random(7), retries(RetryPolicy(), floor=20.0, chance=Random(1))
    sent = lost = 0
    for _ in range(20_000):
        attempts = Attempts(0.0)
        while True:
            sent += 1
            if chance.random() >= 0.3:
                one.succeeded()
                break
            if one.after(ACCIDENT, attempts, 0.0).give_up:
                lost += 1
                break
    assert lost <= 20 and sent / 20_000 <= 1.6


def test_what_a_server_asks_to_wait_is_waited_up_to_a_minute() -> None:
    """`Retry-After: 7` is longer than the first wait of at most 0.5 s; an hour is not believed."""
    retries = Retries(RetryPolicy(), RetryBudget(), Random(1))
    busy = Outcome(OutcomeKind.THROTTLED, 429, retry=RetryClass.SLOW_DOWN, retry_after_s=7.0)
    assert retries.after(busy, Attempts(0.0), 0.0).delay_s == 7.0
    assert retries.after(replace(busy, retry_after_s=3600.0), Attempts(0.0), 0.0).delay_s == 60.0
