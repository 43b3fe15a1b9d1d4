"""The verdict's own figures and words: counts, margins, the client's share, what one run says of several levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from bench_records import record

from loadproof.bench.judge.judgement import Estimate, Judgement, between, estimated, judge
from loadproof.bench.judge.verdict import Verdict, decide, invalid_reasons
from loadproof.bench.measure.metrics import LevelMetrics, measure_level
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.objectives import ERROR_RATE, Objective
from loadproof.loads import Load

TTFT = Objective("ttft_p50_ms", 500)
E2E = Objective("e2e_p50_ms", 500)
CLIENT = "give the client a machine with nothing else to do, --workers, or a lower load"


def requests(ttfts: Sequence[float], lag_ms: float = 0.1, **others: Any) -> list[RequestRecord]:
    """One request a second with these first-token times and a second token 10 ms later."""
    return [
        record(
            index,
            intended_ms=1000 * index,
            token_ms=(1000 * index + ttft, 1000 * index + ttft + 10),
            end_ms=1000 * index + ttft + 10,
            lag_ms=lag_ms,
            **others,
        )
        for index, ttft in enumerate(ttfts)
    ]


def judged(objective: Objective, records: Sequence[RequestRecord], **level: Any) -> Judgement:
    return judge(objective, records, replace(measure_level(1, records), **level), seed=0)


def judgement(name: str = "ttft_p95_ms", **others: Any) -> Judgement:
    """80 requests that meet 500 ms by a half."""
    fields: dict[str, Any] = {
        "name": name,
        "comparison": "<=",
        "bound": 500.0,
        "observed": 250.0,
        "low": 200.0,
        "high": 300.0,
        "margin": 0.5,
        "verdict": "PASS",
        "requests": 80,
    }
    return Judgement(**(fields | others))


def decided(
    *judgements: Judgement,
    levels: Sequence[LevelMetrics] | None = None,
    objectives: Sequence[Objective] = (TTFT,),
    at: int = 1,
    max_error_rate: float = 0.0,
    **others: Any,
) -> Verdict:
    levels = [measure_level(1, requests([100.0] * 10))] if levels is None else levels
    return decide(judgements, levels, objectives, at, max_error_rate, **others)


def test_95_of_100_are_the_load_that_was_asked_for() -> None:
    """A tenth of a percent less is not; what nobody measured is held against nobody."""
    level = measure_level(1, requests([100.0] * 10))

    def reasons(offered: float | None) -> tuple[str, ...]:
        return invalid_reasons(replace(level, offered=offered))

    assert reasons(0.95) == reasons(None) == ()
    assert reasons(0.949) == (f"the load asked for was not offered: 94.9% of it was, at least 95% must be; {CLIENT}",)


def figure(observed: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(observed, low, high)


@pytest.mark.parametrize(
    ("worse", "better", "found"),
    [
        (figure(90, 80, 100), figure(50, 40, 60), "PASS"),  # the worse end meets 100 whatever the better one does
        (figure(150, 140, 160), figure(110, 101, 120), "FAIL"),  # the better end misses it
        (figure(150, 140, 160), figure(90, 80, 100), "INVALID"),  # each end is settled, the other way
        (figure(150, 140, 160), figure(95, 80, 110), "INVALID"),  # surely missed, and perhaps by the client alone
        (figure(105, 90, 120), figure(80, 70, 90), "INVALID"),  # surely met, but for the client
        (figure(150, 140, 160), figure(105, 90, 120), "INCONCLUSIVE"),  # more requests may show a miss
        (figure(95, 80, 110), figure(70, 60, 80), "INCONCLUSIVE"),  # more requests may show that it holds
        (figure(101, 80, 120), figure(99, 78, 118), "INCONCLUSIVE"),  # chance is larger than the share
        (figure(90, None, None), figure(80, None, None), "INCONCLUSIVE"),
    ],
)
def test_a_figure_has_two_ends(worse: Estimate, better: Estimate, found: str) -> None:
    """PASS by the worse one, FAIL by the better one; INVALID only where the bound lies between what was observed."""
    assert between(Objective("ttft_p95_ms", 100), worse, better) == found


@pytest.mark.parametrize(
    ("worse", "better", "found"),
    [
        (figure(110, 101, 120), figure(130, 120, 140), "PASS"),
        (figure(80, 70, 90), figure(95, 90, 99), "FAIL"),
        (figure(80, 70, 90), figure(110, 101, 120), "INVALID"),
    ],
)
def test_a_rates_better_end_is_the_higher_one(worse: Estimate, better: Estimate, found: str) -> None:
    """Held to at least 100 a second."""
    assert between(Objective("requests_per_s_min", 100), worse, better) == found


def late(lag_ms: float, count: int = 80) -> list[RequestRecord]:
    """One request a second: 100 ms of TTFT, 1,000 of E2E, both with the lag."""
    return [
        record(
            i, intended_ms=1000 * i, token_ms=(1000 * i + 100, 1000 * i + 1000), end_ms=1000 * i + 1000, lag_ms=lag_ms
        )
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "bound", "found", "low", "high", "share"),
    [
        ("ttft_p50_ms", 100, "PASS", 80, 100, 20),
        ("ttft_p50_ms", 79, "FAIL", 80, 100, 20),
        ("ttft_p50_ms", 90, "INVALID", 80, 100, 20),
        ("e2e_p50_ms", 990, "INVALID", 980, 1000, 20),
        ("tpot_p50_ms", 900, "PASS", 900, 900, 0),  # no send is in it
        ("itl_p50_ms", 899, "FAIL", 900, 900, 0),
    ],
)
def test_what_left_late_has_its_lateness_as_error_bar(
    name: str, bound: float, found: str, low: float, high: float, share: float
) -> None:
    """Twenty ms of 100 to the first token, of 1,000 to the end."""
    judgement = judged(Objective(name, bound), late(20))
    assert (judgement.verdict, judgement.low, judgement.high, judgement.client_share) == (found, low, high, share)


def test_a_late_first_tokens_share_is_in_tpot_at_the_other_end() -> None:
    """It may have come 50 ms before its stamp: TTFT of 50 to 100 ms, and 900 to 950 ms for the one token after it."""
    early = [replace(one, first_token_early_max_ns=50_000_000) for one in late(0)]
    tpot, ttft = (judged(Objective(name, 920), early) for name in ("tpot_p50_ms", "ttft_p50_ms"))
    assert (tpot.low, tpot.high, tpot.client_share, tpot.verdict) == (900, 950, 50, "INVALID")
    assert (ttft.low, ttft.high, ttft.client_share, ttft.verdict) == (50, 100, 50, "PASS")


def test_a_rate_may_have_been_higher_without_late_sends() -> None:
    """Forty answers of one second, one a second, each slot empty for 20 ms of it: 1 to 1/0.98 a second."""
    found = judged(Objective("requests_per_s_min", 1.01), late(20, 40))
    assert found.observed == pytest.approx(1.0)
    assert (found.low, found.high, found.verdict) == (pytest.approx(1.0), pytest.approx(1 / 0.98), "INVALID")
    assert found.client_share == pytest.approx(1 / 0.98 - 1)
    assert judged(Objective("requests_per_s_min", 1.03), late(20, 40)).verdict == "FAIL"


def test_what_another_program_added_is_not_known() -> None:
    """Of an imported run nobody measured it."""
    assert judged(Objective("ttft_p50_ms", 500), late(0), offered=None).client_share is None


def test_time_outs_of_a_client_that_stood_still_may_be_its_own() -> None:
    """One of eleven failed: 9.1% miss 5% if it was the endpoint's; without it none did."""
    [*good, last] = late(0, 11)
    timed_out = replace(last, outcome="timeout", stalls_ns=(500_000_000,))
    found = judged(Objective(ERROR_RATE, 0.05), [*good, timed_out])
    assert (found.verdict, found.client_share) == ("INVALID", 1 / 11)
    assert judged(Objective(ERROR_RATE, 0.05), [*good, replace(timed_out, stalls_ns=())]).verdict == "FAIL"
    assert judged(Objective(ERROR_RATE, 0.05), [*good, replace(timed_out, outcome="internal")]).verdict == "FAIL"


def test_a_level_that_sent_nothing_counts_for_nothing() -> None:
    """Unless others lost what they should have sent."""
    empty = measure_level(1, [])
    assert invalid_reasons(empty) == ("no request was sent",)
    assert invalid_reasons(replace(empty, missing=3)) == ("3 requests are missing: who should have sent them was lost",)


def test_wrong_counts_are_counted_among_the_answers() -> None:
    """Of eleven requests one failed and ten answers had a count that cannot be true."""
    records = [*requests([100.0] * 10), record(10, intended_ms=10_000, end_ms=10_500, outcome="internal")]
    found = judged(Objective("tpot_p50_ms", 500), records, wrong_counts=10)
    assert found.verdict == "INCONCLUSIVE" and found.doubt is not None
    assert found.doubt.startswith("the server's token count cannot be true for 10 of 10 answers; ")


def test_a_doubt_is_about_data() -> None:
    """Where there is no token/s at all, a wrong count explains nothing."""
    found = judged(Objective("output_tokens_per_s_min", 1), [], wrong_counts=10)
    assert (found.observed, found.verdict, found.doubt) == (None, "INCONCLUSIVE", None)


@pytest.mark.parametrize("length", [{"asked_output_tokens": None}, {"answered_output_tokens": None}])
def test_an_unknown_length_is_not_short(length: dict[str, None]) -> None:
    """Without what was asked for, or what was answered, there is nothing to compare."""
    known = {"asked_output_tokens": 100.0, "answered_output_tokens": 2.0}
    objective = Objective("e2e_p50_ms", 500)
    assert judged(objective, requests([100.0] * 10), **known).verdict == "INCONCLUSIVE"
    assert judged(objective, requests([100.0] * 10), **known | length).verdict == "PASS"


def short(share: float, objective: Objective = E2E, **level: Any) -> Judgement:
    """Ten answers in 110 ms each, of this share of the 100 tokens asked for."""
    lengths = {"asked_output_tokens": 100.0, "answered_output_tokens": 100.0 * share}
    return judged(objective, requests([100.0] * 10), **lengths, **level)


def test_nine_tenths_of_the_tokens_asked_for_are_enough() -> None:
    """89 of 100 are not."""
    assert short(0.9).verdict == "PASS"
    assert short(0.89).verdict == "INCONCLUSIVE"


def test_lengths_that_are_only_at_most_that_may_be_shorter() -> None:
    """The workload says so, and then 20 of 100 tokens flatter nothing."""
    records = requests([100.0] * 10)
    level = replace(measure_level(1, records), asked_output_tokens=100.0, answered_output_tokens=20.0)
    assert judge(E2E, records, level, 0, "at_most").verdict == "PASS"


@pytest.mark.parametrize(("source", "counted"), [("chunks", True), ("usage", False)])
def test_pieces_of_text_that_were_counted_for_tokens_are_named(source: str, counted: bool) -> None:
    """A server's own count needs no such word."""
    found = short(0.5, token_source=source)
    assert found.doubt is not None and ("counted by pieces" in found.doubt) == counted


def test_a_miss_that_shorter_answers_only_make_clearer_stays_one() -> None:
    """110 ms miss 50 ms, however short the answers; of tokens a second, shorter answers explain the miss."""
    assert short(0.5, Objective("e2e_p50_ms", 50)).verdict == "FAIL"
    assert short(0.5, Objective("output_tokens_per_s_min", 100)).verdict == "INCONCLUSIVE"


def test_a_miss_by_counts_that_cannot_be_true_is_none() -> None:
    """10 ms a token miss 1 ms, if there were two tokens."""
    records = requests([100.0] * 10)
    assert judged(Objective("tpot_p50_ms", 1), records).verdict == "FAIL"
    assert judged(Objective("tpot_p50_ms", 1), records, wrong_counts=1).verdict == "INCONCLUSIVE"


def test_no_answer_is_no_request_with_data() -> None:
    """Of a latency whose every request failed."""
    failed = [record(i, intended_ms=1000 * i, end_ms=1000 * i + 500, outcome="internal") for i in range(10)]
    found = judged(Objective("ttft_p50_ms", 500), failed)
    assert (found.observed, found.requests) == (None, 0)


def test_gaps_are_compared_with_the_bound_in_ms() -> None:
    """Four gaps of 10 ms, all within a bound of 10 ms, settle a p50 with eight more, as four first tokens do."""
    found = judged(Objective("itl_p50_ms", 10), requests([100.0] * 4))
    assert (found.low, found.high, found.verdict, found.more_requests) == (None, None, "INCONCLUSIVE", 8)


def test_the_error_rate_is_counted() -> None:
    """1 of 11 is 9.0909%, which leaves 9.0909% of a bound of 10%, has no interval, and misses 9%."""
    records = [*requests([10.0] * 10), record(10, intended_ms=10_000, end_ms=10_500, outcome="timeout")]
    found = judged(Objective(ERROR_RATE, 0.1), records)
    assert (found.observed, found.low, found.high, found.requests) == (1 / 11, None, None, 11)
    assert (found.verdict, found.margin) == ("PASS", 0.090909)
    assert judged(Objective(ERROR_RATE, 0.09), records).verdict == "FAIL"
    assert judged(Objective(ERROR_RATE, 0.1), []).verdict == "INCONCLUSIVE"


def test_a_bound_of_none_has_no_margin() -> None:
    """No failure allowed: the distance to 0 over 0 is nothing to say."""
    found = judged(Objective(ERROR_RATE, 0.0), requests([10.0] * 10))
    assert (found.verdict, found.margin) == ("PASS", None)


def test_four_answers_inside_a_p50_need_eight_more() -> None:
    """Twelve in all settle it (10.3 + 20.5 + 58.9 = 89.7%); the bound itself is inside."""
    found = judged(Objective("ttft_p50_ms", 10), requests([10.0] * 4))
    assert (found.verdict, found.requests, found.effective_samples, found.more_requests) == ("INCONCLUSIVE", 4, 4, 8)
    assert judged(Objective("ttft_p95_ms", 10), requests([10.0] * 71)).more_requests == 1


def test_thirty_answers_at_the_bound_of_a_p90_are_all_inside() -> None:
    """Thirty-six in all are the fewest that settle it, so it takes six more at least."""
    found = judged(Objective("ttft_p90_ms", 10), requests([10.0] * 30))
    assert found.verdict == "INCONCLUSIVE" and found.more_requests is not None and found.more_requests >= 6
    gaps = judged(Objective("itl_p90_ms", 10), requests([100.0] * 30))
    assert gaps.verdict == "INCONCLUSIVE" and gaps.more_requests is not None and gaps.more_requests >= 6


def test_thirds_of_a_ms_are_kept_to_nine_places() -> None:
    """Four tokens in 10 ms after the first: three gaps."""
    records = [
        record(i, intended_ms=100 * i, token_ms=(100 * i + 5, 100 * i + 15), end_ms=100 * i + 15, output_tokens=4)
        for i in range(10)
    ]
    found = judged(Objective("tpot_p50_ms", 20), records)
    assert (found.low, found.high) == (3.333333333, 3.333333333)


def test_only_a_bound_far_off_lets_every_request_count() -> None:
    """Rounds of six equal ones that rise from 100 to 136 ms hang together about 172 ms, but not about 2,000 ms."""
    records = requests([100 + 36 / 11 * (index // 6) for index in range(72)])
    level = measure_level(1, records)
    far, near = (estimated(Objective("ttft_p95_ms", bound), records, level, 0) for bound in (2000, 172))
    assert (far.verdict, far.effective_samples) == ("PASS", 72)
    assert near.verdict == "INCONCLUSIVE" and near.effective_samples is not None and near.effective_samples < 20


def test_the_rate_of_answers_that_take_the_same_has_an_interval_without_width() -> None:
    """Forty of 510 ms, one a second: 40 requests in 39.51 s."""
    found = judged(Objective("requests_per_s_min", 1), requests([500.0] * 40, lag_ms=0))
    assert found.observed == pytest.approx(40 / 39.51)
    assert (found.low, found.high) == (pytest.approx(40 / 39.51), pytest.approx(40 / 39.51))
    assert (found.verdict, found.requests) == ("PASS", 40)


def test_five_requests_are_the_fewest_with_an_interval_of_a_rate() -> None:
    """Three need two more, and the rate itself is known."""
    objective = Objective("requests_per_s_min", 0.5)
    assert judged(objective, requests([500.0] * 5)).verdict == "PASS"
    found = judged(objective, requests([500.0] * 3))
    assert (found.verdict, found.low, found.high, found.more_requests) == ("INCONCLUSIVE", None, None, 2)
    assert found.observed == pytest.approx(3 / 2.51)


def test_an_answer_of_no_token_adds_none() -> None:
    """Nineteen answers of two tokens and one of none are 38 tokens in 19.51 s."""
    records = requests([500.0] * 20, lag_ms=0)
    records[3] = replace(records[3], output_tokens=0)
    found = judged(Objective("output_tokens_per_s_min", 0.1), records)
    assert found.observed == pytest.approx(38 / 19.51)
    # Resamples without the empty one have two tokens each; t of 19 is 2.0930 where z is 1.9600.
    assert found.high == pytest.approx(38 / 19.51 + 2.0930 / 1.9600 * 2 / 19.51, rel=1e-4)


def test_no_tokens_are_a_rate_of_none_a_second() -> None:
    """Twenty answers of no token miss one token a second, and surely so."""
    records = requests([500.0] * 20, output_tokens=0, planned_output_tokens=0)
    found = judged(Objective("output_tokens_per_s_min", 1), records)
    assert (found.observed, found.low, found.high, found.verdict, found.margin) == (0.0, 0.0, 0.0, "FAIL", -1.0)


ALTERNATING = [200.0 if index % 3 else 800.0 for index in range(60)]


def test_a_rate_at_its_very_bound_needs_a_hundred_times_the_requests() -> None:
    """2 · Φ(-1.96 · √(r / (1 - r))) reaches 85% at r = 0.009225: 108.4 times 60 are 6,504, to be had in steps of 2%."""
    level = measure_level(1, requests(ALTERNATING))
    assert level.requests_per_s is not None
    found = judged(Objective("requests_per_s_min", level.requests_per_s), requests(ALTERNATING))
    assert found.verdict == "INCONCLUSIVE" and found.more_requests is not None
    assert 6504 <= found.more_requests + 60 <= 6504 * 1.02


def test_a_rate_half_way_to_its_intervals_end_needs_forty_times_the_requests() -> None:
    """Distance z/2 of the standard error: 76.1 + 10.2 = 86.3% are settled at r = 0.020, 84.7% at 0.025: between 40 and
    50 times 60."""
    wide = judged(Objective("requests_per_s_min", 1), requests(ALTERNATING))
    assert wide.observed is not None and wide.low is not None and wide.high is not None
    found = judged(Objective("requests_per_s_min", wide.observed - (wide.high - wide.low) / 4), requests(ALTERNATING))
    assert found.verdict == "INCONCLUSIVE" and found.more_requests is not None
    assert 40 * 60 <= found.more_requests + 60 <= 50 * 60


def test_a_run_is_judged_at_one_level() -> None:
    """Too little load at the other spoils nothing; without an objective of latency or rate every level counts."""
    short, good = (measure_level(n, requests([100.0] * 10, lag_ms=lag)) for n, lag in ((1, 11.0), (2, 0.1)))
    assert decided(judgement(), levels=[short, good], at=2).outcome == "PASS"
    assert decided(judgement(), levels=[short, good], at=1).reasons == (
        f"at 1 in flight: the load asked for was not offered: 90.0% of it was, at least 95% must be; {CLIENT}",
    )
    only_errors = [Objective(ERROR_RATE, 0.1)]
    assert decided(judgement(ERROR_RATE), levels=[short, good], at=2, objectives=only_errors).outcome == "INVALID"
    assert decided(judgement(), levels=[short, good], at=1, judged=good).outcome == "PASS"


def test_a_level_that_was_not_run_is_named() -> None:
    """By what it was to be, or by its number in flight; an empty one is no better."""
    levels = [measure_level(1, requests([100.0] * 10))]
    assert decided(judgement(), levels=levels, at=8).reasons == (
        "no data at 8 in flight, where the objectives must hold",
    )
    load = Load("constant", requests_per_s=2.0, requests=10)
    assert decided(judgement(), levels=levels, at=8, load=load).reasons == (
        f"no data at {load.words}, where the objectives must hold",
    )
    empty = decided(judgement(), levels=[measure_level(1, [])])
    assert (empty.outcome, empty.reasons) == (
        "INCONCLUSIVE",
        ("no data at 1 in flight, where the objectives must hold",),
    )


def test_unfinished_requests_leave_the_run_open() -> None:
    """They may be the slowest of all."""
    level = replace(measure_level(1, requests([100.0] * 10)), unfinished=2)
    assert decided(judgement(), levels=[level]).reasons == (
        "2 requests unfinished at 1 in flight: their latencies are lower bounds",
    )


def test_a_closed_loop_of_too_few_requests_is_never_as_full_as_it_says() -> None:
    """Four requests are never eight in flight, which matters to latencies, and not to how many fail."""
    load = Load(concurrency=8, requests=4)
    assert decided(judgement(), load=load).reasons == (
        "4 requests are never 8 in flight: set --requests-per-level 16 or more",
    )
    errors = [Objective(ERROR_RATE, 0.1)]
    assert decided(judgement(ERROR_RATE), load=load, objectives=errors).outcome == "PASS"
    assert decided(judgement(), load=Load(concurrency=8, requests=8)).outcome == "PASS"


def test_one_objective_of_latency_is_enough_to_judge_at_one_level() -> None:
    """Beside one of the error rate: the other level's load spoils nothing, and a level that was never full does."""
    both = [Objective(ERROR_RATE, 0.1), TTFT]
    short, good = (measure_level(n, requests([100.0] * 10, lag_ms=lag)) for n, lag in ((1, 11.0), (2, 0.1)))
    assert decided(judgement(), levels=[short, good], at=2, objectives=both).outcome == "PASS"
    never_full = Load(concurrency=8, requests=4)
    assert decided(judgement(), load=never_full, objectives=both).outcome == "INCONCLUSIVE"


def failing(kind: str, **others: Any) -> list[LevelMetrics]:
    """Nine good requests and one that fails after half a second."""
    failed = record(9, intended_ms=9000, end_ms=9500, outcome=kind, **others)
    return [measure_level(1, [*requests([100.0] * 9), failed])]


def test_as_many_errors_as_may_be_are_not_too_many() -> None:
    """One of ten is 10%; at most 9% are named with two places."""
    assert decided(judgement(), levels=failing("internal"), max_error_rate=0.1).outcome == "PASS"
    found = decided(judgement(), levels=failing("internal"), max_error_rate=0.09)
    assert (found.outcome, found.reasons) == (
        "FAIL",
        ("1 of 10 requests failed; at most 9.00% may (--max-error-rate)",),
    )


@pytest.mark.parametrize(("max_error_rate", "outcome"), [(0.1, "PASS"), (0.099, "FAIL")])
def test_a_level_that_sent_nothing_is_no_request(max_error_rate: float, outcome: str) -> None:
    """One of ten failed, beside a level of none."""
    levels = [*failing("internal"), measure_level(8, [])]
    assert decided(judgement(), levels=levels, max_error_rate=max_error_rate).outcome == outcome


@pytest.mark.parametrize(
    ("kind", "stood_still_ms", "outcome"),
    [
        ("timeout", 0, "FAIL"),
        ("timeout", 92, "FAIL"),  # and 7 ms of a tick and a pause: less than 100 ms are not the client's
        ("timeout", 93, "INVALID"),
        ("connection", 93, "INVALID"),
        ("internal", 95, "FAIL"),  # no delay makes an endpoint answer with an error
    ],
)
def test_only_what_the_client_may_have_caused_is_not_held_against_the_endpoint(
    kind: str, stood_still_ms: int, outcome: str
) -> None:
    """One of ten failed, in half a second in which the client's loop was late."""
    stalls = (stood_still_ms * 1_000_000,) if stood_still_ms else ()
    assert decided(judgement(), levels=failing(kind, stalls_ns=stalls)).outcome == outcome


def test_errors_that_decide_are_counted_by_whose_they_may_be() -> None:
    """The one of ten that failed, while the client stood still."""
    assert decided(judgement(), levels=failing("timeout", stalls_ns=(300_000_000,))).reasons == (
        "1 of 10 requests failed; at most 0.00% may (--max-error-rate); 1 of them while the client itself stood still; "
        + CLIENT,
    )


def test_a_tenth_of_a_long_request_is_what_may_break_it() -> None:
    """Of twenty seconds two, and not one."""
    [level] = failing("timeout")
    assert level.errors_while_away == 0
    long = {"intended_ms": 9000, "end_ms": 29_000, "outcome": "timeout"}
    for stalled_ms, own in ((1992, 0), (1993, 1)):
        failed = record(9, stalls_ns=(stalled_ms * 1_000_000,), **long)
        assert measure_level(1, [*requests([100.0] * 9), failed]).errors_while_away == own


def test_the_worst_comes_first() -> None:
    """A miss before what is open; what is open before what holds."""
    missed = judgement(verdict="FAIL", observed=600.0, low=550.0, high=650.0)
    unclear = judgement(verdict="INCONCLUSIVE", observed=490.0, low=450.0, high=550.0, more_requests=1234)
    assert decided(judgement(), unclear, missed).reasons == (
        "ttft_p95_ms: observed 600, bound <= 500, 95% interval from 550 to 650",
    )
    assert decided(judgement(), unclear).reasons == (
        "ttft_p95_ms: observed 490, bound <= 500, 95% interval from 450 to 550; "
        "about 1,234 more like these would settle it in 4 of 5 cases",
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"observed": None}, "ttft_p95_ms: no data"),
        (
            {"observed": 5902.4, "bound": 10_000, "low": 5800.0, "high": 12_345.6, "doubt": "short answers"},
            "ttft_p95_ms: observed 5,902, bound <= 10,000, 95% interval from 5,800 to 12,346; short answers",
        ),
        (
            {"high": None, "more_requests": 3},
            "ttft_p95_ms: observed 250, bound <= 500, 95% interval from 200 to unknown (80 requests are too few); "
            "about 3 more like these would settle it in 4 of 5 cases",
        ),
        (
            {"low": None, "more_requests": 3},
            "ttft_p95_ms: observed 250, bound <= 500, 95% interval from unknown to 300 (80 requests are too few); "
            "about 3 more like these would settle it in 4 of 5 cases",
        ),
        (
            {"low": None, "high": None},
            "ttft_p95_ms: observed 250, bound <= 500; too close for more requests to settle it",
        ),
        (
            {"doubt": "short answers", "more_requests": 3},
            "ttft_p95_ms: observed 250, bound <= 500, 95% interval from 200 to 300; short answers",
        ),
    ],
)
def test_what_is_open_says_why(found: dict[str, Any], said: str) -> None:
    """No data, an end that is missing, a number that would not help, or a doubt."""
    assert decided(judgement(verdict="INCONCLUSIVE", **found)).reasons == (said,)


CLOSEST = "ttft_p95_ms: observed 250, bound <= 500, 95% interval from 200 to 300"
UNSEEN = "; of slow spells rarer than one in 26 requests it says nothing"  # a third of 80


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, f"the objective holds at 1 in flight; closest is {CLOSEST}{UNSEEN}"),
        (2, f"both objectives hold at 1 in flight; closest is {CLOSEST}{UNSEEN}"),
        (3, f"all 3 objectives hold at 1 in flight; closest is {CLOSEST}{UNSEEN}"),
    ],
)
def test_a_pass_counts_its_objectives(count: int, said: str) -> None:
    """One, both, all three."""
    assert decided(*[judgement()] * count).reasons == (said,)


@pytest.mark.parametrize(("margin", "closest"), [(0.75, "ttft_p95_ms"), (1.5, ERROR_RATE)])
def test_a_bound_without_a_margin_is_as_far_as_its_whole(margin: float, closest: str) -> None:
    """No failure of none allowed: closer than a rate at 2.5 times its bound, not than a latency at a quarter of it."""
    none = judgement(ERROR_RATE, bound=0.0, observed=0.0, low=None, high=None, margin=None)
    [said] = decided(none, judgement(margin=margin)).reasons
    assert f"closest is {closest}" in said


def test_no_objective_is_no_verdict() -> None:
    """Nothing was judged, and what else there is to say of the level is said after that."""
    none = "no objectives were given, so nothing was judged; failed requests are within their bound"
    assert decided(objectives=[]).reasons == (none,)
    found = decided(objectives=[], levels=[replace(measure_level(1, requests([100.0] * 10)), unfinished=2)])
    assert found.outcome == "NOT JUDGED"
    assert found.reasons == (none, "2 requests unfinished at 1 in flight: their latencies are lower bounds")


def test_a_pass_names_the_load_it_holds_at() -> None:
    """One percent less than asked is not worth a word, two are."""
    whole, less = (replace(measure_level(1, requests([100.0] * 10)), offered=share) for share in (0.99, 0.98))
    assert decided(judgement(), levels=[whole]).reasons == (
        f"the objective holds at 1 in flight; closest is {CLOSEST}{UNSEEN}",
    )
    assert decided(judgement(), levels=[less]).reasons == (
        f"the objective holds at 1 in flight (98.0% of that load was offered); closest is {CLOSEST}{UNSEEN}",
    )


@pytest.mark.parametrize(("share", "said"), [(2.49, ""), (2.5, ", the client's own share up to 2.5")])
def test_a_share_of_one_percent_is_said(share: float, said: str) -> None:
    """Of 250 ms."""
    missed = judgement(verdict="FAIL", client_share=share)
    assert decided(missed).reasons == (f"{CLOSEST}{said}",)
