"""Quotas as token buckets: what is taken on admission, what comes back, how long to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.invocation.quotas import Quota, Quotas


def test_requests_a_minute_are_a_bucket_that_refills_evenly() -> None:
    """60 a minute: 60 at once, then one each second."""
    quotas = Quotas(Quota(requests_per_min=60), now_s=0.0)
    for _ in range(60):
        assert quotas.wait_s(0, 0, 0.0) == 0
        quotas.admit(0, 0, 0.0)
    assert quotas.wait_s(0, 0, 0.0) == pytest.approx(1.0)
    assert quotas.wait_s(0, 0, 0.25) == pytest.approx(0.75)
    assert quotas.wait_s(0, 0, 1.0) == 0


def test_admission_takes_the_input_and_all_that_may_be_generated() -> None:
    """6,000 tokens a minute are 100 a second; after 1,000 + 4,000 another such request waits for 4,000: 40 s."""
    quotas = Quotas(Quota(tokens_per_min=6000), now_s=0.0)
    quotas.admit(1000, 4000, 0.0)
    assert quotas.wait_s(1000, 4000, 0.0) == pytest.approx(40.0)


def test_what_was_not_generated_comes_back() -> None:
    """Of 4,000 allowed 500 were generated: 3,500 come back, and 500 are missing for the next one, 5 s."""
    quotas = Quotas(Quota(tokens_per_min=6000), now_s=0.0)
    quotas.admit(1000, 4000, 0.0)
    quotas.settle((1000, 4000), (1000, 500), 0.0)
    assert quotas.wait_s(1000, 4000, 0.0) == pytest.approx(5.0)


def test_output_tokens_burn_down_at_the_models_rate() -> None:
    """At 5 quota tokens an output token, 1,000 + 500 · 5 = 3,500 of the 5,000 taken are used."""
    quotas = Quotas(Quota(tokens_per_min=6000, output_burndown=5), now_s=0.0)
    quotas.admit(1000, 4000, 0.0)
    quotas.settle((1000, 4000), (1000, 500), 0.0)
    assert quotas.wait_s(1000, 4000, 0.0) == pytest.approx((5000 - 2500) / 100)


def test_burndown_beyond_what_was_taken_is_owed() -> None:
    """1,000 outputs at 5 cost 5,000 although 1,000 were taken: the bucket is 4,000 - 2,000 lower, and waited for."""
    quotas = Quotas(Quota(tokens_per_min=6000, output_burndown=5), now_s=0.0)
    quotas.admit(0, 1000, 0.0)
    quotas.settle((0, 1000), (0, 1000), 0.0)
    assert quotas.wait_s(0, 1000, 0.0) == 0
    quotas.admit(0, 1000, 0.0)
    quotas.settle((0, 1000), (0, 1000), 0.0)
    assert quotas.wait_s(0, 1000, 0.0) == pytest.approx((1000 + 4000) / 100)


def test_the_scarcer_quota_decides() -> None:
    """One request a minute left to wait 60 s for, however many tokens there are."""
    quotas = Quotas(Quota(requests_per_min=1, tokens_per_min=1e9), now_s=0.0)
    quotas.admit(10, 10, 0.0)
    assert quotas.wait_s(10, 10, 0.0) == pytest.approx(60.0)


def test_a_request_above_the_whole_quota_waits_for_a_full_bucket_only() -> None:
    """It can never be covered, and whether it is refused is the service's to say."""
    quotas = Quotas(Quota(tokens_per_min=600), now_s=0.0)
    assert quotas.wait_s(10_000, 1, 0.0) == 0
    quotas.admit(300, 0, 0.0)
    assert quotas.wait_s(10_000, 1, 0.0) == pytest.approx(30.0)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=1, max_size=200))
def test_whoever_waits_as_told_never_exceeds_the_quota(requests: list[tuple[int, int]]) -> None:
    """In no stretch of time are more tokens admitted than a full bucket and what flows in meanwhile."""
    quotas, now_s, admitted = Quotas(Quota(tokens_per_min=1200), now_s=0.0), 0.0, []
    for request in requests:
        now_s += quotas.wait_s(*request, now_s)
        quotas.admit(*request, now_s)
        admitted.append((now_s, sum(request)))
    for index, (start_s, _) in enumerate(admitted):
        for end in range(index, len(admitted)):
            within = sum(tokens for _, tokens in admitted[index : end + 1])
            assert within <= 1200 + 20 * (admitted[end][0] - start_s) + 1e-6
