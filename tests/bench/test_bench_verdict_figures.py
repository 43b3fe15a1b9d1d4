"""The verdict's own figures and words: limits of lag, counts, margins, and what one run says of several levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from bench_records import record

from loadproof.bench.judge.verdict import (
    Judgement,
    Verdict,
    decide,
    estimated,
    invalid_reasons,
    judge,
    lag_limit_ms,
    tightest_from_send,
)
from loadproof.bench.measure.metrics import LevelMetrics, measure_level
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.objectives import ERROR_RATE, Objective
from loadproof.loads import Load

TTFT = Objective("ttft_p50_ms", 500)
E2E = Objective("e2e_p50_ms", 500)
CLIENT = "the client was too slow; give it a machine with nothing else to do, --workers, or a lower load"


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


def test_an_objective_tightens_the_lag_limit_below_fifty_ms() -> None:
    """10% of 50 ms are the usual 5; 10% of 49 are 4.9. An E2E of 30 ms leaves 3."""
    assert tightest_from_send([Objective("ttft_p95_ms", 50)]) is None
    assert lag_limit_ms([Objective("ttft_p95_ms", 49)]) == pytest.approx(4.9)
    assert lag_limit_ms([Objective("e2e_p95_ms", 30), Objective("ttft_p95_ms", 40)]) == pytest.approx(3)


def test_five_ms_of_lag_and_ten_of_the_loop_still_count() -> None:
    """A tenth more of either does not."""
    level = measure_level(1, requests([100.0] * 10))

    def reasons(lag_ms: float | None, loop_ms: float | None) -> tuple[str, ...]:
        return invalid_reasons(replace(level, lag_ms=Spread(p99=lag_ms), loop_lag_ms=Spread(p99=loop_ms)), [])

    assert reasons(5.0, 10.0) == reasons(None, None) == ()
    assert reasons(5.1, 10.1) == (
        f"dispatch lag p99 5.1 ms exceeds 5.0 ms: {CLIENT}",
        f"event loop lag p99 10.1 ms exceeds 10.0 ms: {CLIENT}",
    )


def test_a_level_that_sent_nothing_counts_for_nothing() -> None:
    """Unless others lost what they should have sent."""
    empty = measure_level(1, [])
    assert invalid_reasons(empty, []) == ("no request was sent",)
    assert invalid_reasons(replace(empty, missing=3), []) == (
        "3 requests are missing: who should have sent them was lost",
    )


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
    found = judged(Objective("requests_per_s_min", 1), requests([500.0] * 40))
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
    records = requests([500.0] * 20)
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
    """The other's lag spoils nothing; without an objective of latency or rate every level counts."""
    late, good = (measure_level(n, requests([100.0] * 10, lag_ms=lag)) for n, lag in ((1, 6.0), (2, 0.1)))
    assert decided(judgement(), levels=[late, good], at=2).outcome == "PASS"
    assert decided(judgement(), levels=[late, good], at=1).reasons == (
        f"at 1 in flight: dispatch lag p99 6.0 ms exceeds 5.0 ms: {CLIENT}",
    )
    only_errors = [Objective(ERROR_RATE, 0.1)]
    assert decided(levels=[late, good], at=2, objectives=only_errors).outcome == "INVALID"
    assert decided(judgement(), levels=[late, good], at=1, judged=good).outcome == "PASS"


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
    assert decided(load=load, objectives=[Objective(ERROR_RATE, 0.1)]).outcome == "PASS"
    assert decided(judgement(), load=Load(concurrency=8, requests=8)).outcome == "PASS"


def test_one_objective_of_latency_is_enough_to_judge_at_one_level() -> None:
    """Beside one of the error rate: the other level's lag spoils nothing, and a level that was never full does."""
    both = [Objective(ERROR_RATE, 0.1), TTFT]
    late, good = (measure_level(n, requests([100.0] * 10, lag_ms=lag)) for n, lag in ((1, 6.0), (2, 0.1)))
    assert decided(judgement(), levels=[late, good], at=2, objectives=both).outcome == "PASS"
    never_full = Load(concurrency=8, requests=4)
    assert decided(judgement(), load=never_full, objectives=both).outcome == "INCONCLUSIVE"


def failing(kind: str, lag_ms: float = 0.1) -> list[LevelMetrics]:
    """Nine good requests and one that fails."""
    failed = record(9, intended_ms=9000, end_ms=9500, outcome=kind, lag_ms=lag_ms)
    return [measure_level(1, [*requests([100.0] * 9, lag_ms), failed])]


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
    ("kind", "max_error_rate", "outcome"),
    [
        ("internal", 0.09, "FAIL"),
        ("internal", 0.1, "INVALID"),
        ("timeout", 0.0, "INVALID"),
        ("connection", 0.0, "INVALID"),
    ],
)
def test_only_more_answers_of_error_than_may_be_outdo_a_slow_client(
    kind: str, max_error_rate: float, outcome: str
) -> None:
    """One of ten, by a client 6 ms late: time-outs and broken connections may be its own."""
    assert decided(judgement(), levels=failing(kind, 6.0), max_error_rate=max_error_rate).outcome == outcome


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
        (0, "no objectives were given, and no more requests failed than may"),
        (1, f"the objective holds at 1 in flight; closest is {CLOSEST}{UNSEEN}"),
        (2, f"both objectives hold at 1 in flight; closest is {CLOSEST}{UNSEEN}"),
        (3, f"all 3 objectives hold at 1 in flight; closest is {CLOSEST}{UNSEEN}"),
    ],
)
def test_a_pass_counts_its_objectives(count: int, said: str) -> None:
    """One, both, all three; and none at all."""
    assert decided(*[judgement()] * count).reasons == (said,)


@pytest.mark.parametrize(("margin", "closest"), [(0.75, "ttft_p95_ms"), (1.5, ERROR_RATE)])
def test_a_bound_without_a_margin_is_as_far_as_its_whole(margin: float, closest: str) -> None:
    """No failure of none allowed: closer than a rate at 2.5 times its bound, not than a latency at a quarter of it."""
    none = judgement(ERROR_RATE, bound=0.0, observed=0.0, low=None, high=None, margin=None)
    [said] = decided(none, judgement(margin=margin)).reasons
    assert f"closest is {closest}" in said
