"""When a run passes, fails, stays open or does not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log
from random import Random

import pytest
from bench_records import record

from loadproof.bench.judge.judgement import judge
from loadproof.bench.judge.verdict import Verdict, decide
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.objectives import Objective, parse_objective
from loadproof.errors import InputError
from loadproof.sizing import fewest_requests


def requests(ttfts: Sequence[float], lag_ms: float = 0.1, then_ms: float = 10) -> list[RequestRecord]:
    """One request a second with these first-token times and a second token 10 ms later."""
    return [
        record(
            index,
            intended_ms=1000 * index,
            token_ms=(1000 * index + ttft, 1000 * index + ttft + then_ms),
            end_ms=1000 * index + ttft + then_ms,
            lag_ms=lag_ms,
        )
        for index, ttft in enumerate(ttfts)
    ]


def late_streams() -> list[RequestRecord]:
    """Eighty of 100 to 190 ms to the first token and two seconds more, each sent 60 ms late: 97% of the load."""
    return requests(SPREAD_OUT, lag_ms=60, then_ms=2000)


def verdict_of(records: Sequence[RequestRecord], *objectives: Objective, max_error_rate: float = 0.0) -> Verdict:
    level = measure_level(1, records, objectives)
    judgements = [judge(objective, records, level, seed=0) for objective in objectives]
    return decide(judgements, [level], objectives, 1, max_error_rate)


def outcome_of(records: Sequence[RequestRecord], *objectives: str, **options: float) -> str:
    return verdict_of(records, *map(parse_objective, objectives), **options).outcome


SPREAD_OUT = [100.0 + 10 * (7 * index % 10) for index in range(80)]  # 100..190 ms, p50 145 ms


def test_pass_needs_the_whole_interval_inside() -> None:
    """Of 80 TTFTs from 100 to 190 ms the p95 lies in 180 to 190: 190 is met by its bad end, 145 missed by its good."""
    assert outcome_of(requests(SPREAD_OUT), "ttft_p95_ms=190") == "PASS"
    assert outcome_of(requests(SPREAD_OUT), "ttft_p95_ms=145") == "FAIL"


def test_a_bound_inside_the_interval_is_inconclusive() -> None:
    """The observed p50 is 145 ms; a bound of 146 is met by it, but not by its interval."""
    records = requests(SPREAD_OUT)
    found = judge(Objective("ttft_p50_ms", 146), records, measure_level(1, records), seed=0)
    assert found.observed == 145 and found.low is not None and found.high is not None
    assert found.low < 145 < 146 < found.high
    assert found.verdict == "INCONCLUSIVE"


def test_the_margin_is_relative_to_the_bound() -> None:
    """145 of at most 290 leaves half; 0.025 requests/s of at least 0.05 misses by half."""
    records = requests(SPREAD_OUT)
    assert judge(Objective("ttft_p50_ms", 290), records, measure_level(1, records), 0).margin == 0.5
    level = measure_level(1, requests([500.0] * 40))
    found = judge(Objective("requests_per_s_min", 2 * (level.requests_per_s or 0)), requests([500.0] * 40), level, 0)
    assert found.more_requests is None
    assert found.margin == -0.5 and found.verdict == "FAIL"


def test_no_data_never_passes() -> None:
    """A unary run has no TTFT and an empty run has nothing: both stay open."""
    unary = [record(index, end_ms=10, output_tokens=3) for index in range(10)]
    assert outcome_of(unary, "ttft_p95_ms=500") == "INCONCLUSIVE"
    assert outcome_of([], "ttft_p95_ms=500") == "INCONCLUSIVE"
    assert outcome_of([]) == "NOT JUDGED"


@pytest.mark.parametrize(("statistic", "fewest"), [("p50", 6), ("p90", 36), ("p95", 72), ("p99", 368)])
def test_a_percentile_needs_its_number_of_requests(statistic: str, fewest: int) -> None:
    """All n requests inside show that the p-quantile is only where p^n ≤ 2.5%: n ≥ ln 0.025 / ln p."""
    assert ceil(log(0.025) / log(float(statistic[1:]) / 100)) == fewest == fewest_requests(float(statistic[1:]))
    assert outcome_of(requests([10.0] * fewest), f"ttft_{statistic}_ms=500") == "PASS"
    said = verdict_of(requests([10.0] * (fewest - 1)), parse_objective(f"ttft_{statistic}_ms=500"))
    assert said.outcome == "INCONCLUSIVE"
    assert said.reasons[0].endswith(
        f"({fewest - 1} requests are too few); about 1 more like these would settle it in 4 of 5 cases"
    )


def test_a_few_requests_that_all_miss_fail() -> None:
    """Four of four beyond a p95 bound: were the bound met, that would happen once in 160,000 (0.05^4)."""
    assert outcome_of(requests([600.0] * 4), "ttft_p95_ms=500") == "FAIL"


def test_too_close_to_settle_is_said() -> None:
    """Exactly half of 20,000 within the bound of a p50: another million would tell as little."""
    records = requests([100.0, 600.0] * 10_000)
    said = verdict_of(records, parse_objective("ttft_p50_ms=500"))
    assert said.reasons[0].endswith("too close for more requests to settle it")


def test_any_failed_request_fails_the_run_unless_allowed() -> None:
    """1 of 11 is 9.1%: too many by default, allowed by --max-error-rate 0.1 or an objective of 0.1."""
    records = [*requests([10.0] * 10), record(10, intended_ms=10_000, end_ms=10_500, outcome="timeout")]
    assert outcome_of(records, "ttft_p50_ms=500") == "FAIL"
    assert outcome_of(records, "ttft_p50_ms=500", max_error_rate=0.1) == "PASS"
    assert outcome_of(records, "ttft_p50_ms=500", "error_rate_max=0.1") == "PASS"
    assert outcome_of(records, "error_rate_max=0.09", max_error_rate=1.0) == "FAIL"


def test_a_late_client_spoils_no_clear_verdict() -> None:
    """Its 60 ms in them, 190 ms hold 500; without them 130 ms still miss 1."""
    assert outcome_of(late_streams(), "ttft_p95_ms=500") == "PASS"
    assert outcome_of(late_streams(), "ttft_p95_ms=1") == "FAIL"


def test_what_the_clients_share_decides_is_invalid() -> None:
    """As counted the p95 of TTFT is 190 ms, without 60 ms of lateness 130: a bound of 150 lies between them."""
    said = verdict_of(late_streams(), parse_objective("ttft_p95_ms=150"))
    assert said.outcome == "INVALID"
    assert said.reasons == (
        "ttft_p95_ms: observed 190, bound <= 150, 95% interval from 120 to 190, the client's own share up to 60, which "
        "decides: give the client a machine with nothing else to do, --workers, or a lower load",
    )


def test_less_load_than_asked_passes_nothing_and_excuses_no_miss() -> None:
    """Answers of 155 ms on average, of which each left 60 late: 95 / 155 = 61.3% of the load was there."""
    slow = requests(SPREAD_OUT, lag_ms=60)
    assert outcome_of(slow, "ttft_p95_ms=1") == "FAIL"
    said = verdict_of(slow, parse_objective("ttft_p95_ms=500"))
    assert said.outcome == "INVALID"
    assert said.reasons == (
        "at 1 in flight: the load asked for was not offered: 61.3% of it was, at least 95% must be; "
        "give the client a machine with nothing else to do, --workers, or a lower load",
    )


def test_nothing_judged_is_no_pass() -> None:
    """Without objectives a run of eighty good requests is NOT JUDGED; one that failed still fails it."""
    assert outcome_of(requests(SPREAD_OUT)) == "NOT JUDGED"
    failed = record(80, intended_ms=80_000, end_ms=80_500, outcome="internal")
    assert outcome_of([*requests(SPREAD_OUT), failed]) == "FAIL"


def test_a_lost_share_is_no_worker_processs_alone() -> None:
    """A whole host may have been lost; the missing request's own message says which."""
    records = requests(SPREAD_OUT)
    lost = [replace(records[0], index=80, outcome="missing"), *records]
    assert verdict_of(lost).reasons == ("at 1 in flight: 1 requests are missing: who should have sent them was lost",)


def test_requests_that_left_together_may_be_written_in_any_order() -> None:
    """A slot each: what two hosts sent at the same instant, one merge may write before the other."""
    records = [replace(record, intended_ns=0) for record in requests(SPREAD_OUT)]
    merged = Random(0).sample(records, len(records))
    objective, level = Objective("ttft_p50_ms", 30_000.0), measure_level(1, records)
    assert judge(objective, records, level, seed=0) == judge(objective, merged, level, seed=0)


def test_gaps_of_one_stream_are_drawn_together() -> None:
    """One stalling stream among six: single-gap resampling would be sure of the p50; drawing streams is not fooled."""
    steady = [record(i, token_ms=tuple(range(10, 1010, 10)), end_ms=1000) for i in range(3)]
    slow = [record(i, token_ms=tuple(range(10, 2010, 20)), end_ms=2000) for i in range(3, 6)]
    found = judge(Objective("itl_p50_ms", 15), [*steady, *slow], measure_level(1, [*steady, *slow]), seed=0)
    assert (found.low, found.high, found.verdict) == (10, 20, "INCONCLUSIVE")


def test_the_same_records_give_the_same_interval() -> None:
    """A verdict is reproducible: its intervals are exact or their resamples seeded."""
    records = requests(SPREAD_OUT)
    for bound in ("ttft_p95_ms=170", "requests_per_s_min=1"):
        objective, level = parse_objective(bound), measure_level(1, records)
        assert judge(objective, records, level, seed=3) == judge(objective, records, level, seed=3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ttft_p95_ms", "expected NAME=BOUND"),
        ("ttft_p59_ms=5", "unknown objective `ttft_p59_ms`; use one of ttft_p99_ms, ttft_p95_ms"),
        ("ttft_p95_ms=fast", "expected a positive number, found `fast`"),
        ("ttft_p95_ms=0", "expected a positive number, found `0`"),
        ("ttft_p95_ms=nan", "expected a positive number, found `nan`"),
        ("error_rate_max=1", "a share below 1"),
    ],
)
def test_bad_objectives_say_what_is_allowed(text: str, complaint: str) -> None:
    """The message names what was found and what would do."""
    with pytest.raises(InputError, match="--objective") as refused:
        parse_objective(text)
    assert complaint in str(refused.value)
