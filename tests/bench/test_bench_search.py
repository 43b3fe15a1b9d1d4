"""Searches, on endpoints that are a rule instead of a server."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from bench_records import record
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.steady import steady_state
from loadproof.bench.objectives import Objective
from loadproof.bench.search.find_max import bracket_of, confirmed_load, standing_of
from loadproof.bench.search.levels import judged_probe, next_level, search_result
from loadproof.bench.search.probes import Miss, Probe, Rule, Stop, Tally, Wanted, e_value, probe_of
from loadproof.bench.spec import BenchmarkSpec, Search, Target, WorkloadSpec, fixed_tokens
from loadproof.loads import Load

RATES = Search("find_max", Load("poisson", requests=10), 1, 64)
SLOTS = Search("find_max", Load(requests=10), 1, 64)
TOO_SLOW = Miss("objective", "ttft_p95_ms: observed 9, bound <= 5", "ttft_p95_ms", 9, 5)


def driven(search: Search, met, throughput=lambda value: value, also: float | None = None) -> tuple[list[Probe], Stop]:
    """Measure what the search asks for until it stops; `met(value, how often before)`."""
    probes: list[Probe] = []
    while not isinstance(wanted := next_level(search, probes, also), Stop):
        before = sum(probe.value == wanted.value for probe in probes)
        misses = () if met(wanted.value, before) else (TOO_SLOW,)
        throughputs = throughput(wanted.value)
        probes.append(Probe(wanted.value, misses, throughputs, confirms=wanted.confirms, passed=not misses))
    return probes, wanted


@given(st.floats(1.2, 60))
@settings(max_examples=60)
def test_a_rate_is_found_within_its_tolerance(capacity: float) -> None:
    """Whatever the endpoint's limit: the bracket holds it, is 5% wide at most, each end measured three times; then the
    load found is measured afresh."""
    probes, stop = driven(RATES, lambda value, _: value <= capacity)
    bracket = bracket_of(probes)
    assert stop.rule == "converged" and bracket.met is not None and bracket.missed is not None
    assert bracket.met <= capacity < bracket.missed <= bracket.met * 1.0501
    assert (
        bracket.met_votes == (True,) * 4
        and confirmed_load(probes) == bracket.met
        and bracket.missed_votes == (False,) * 3
    )
    assert len(probes) <= 21


@given(st.integers(1, 63))
@settings(max_examples=60)
def test_a_concurrency_is_found_to_the_slot_or_within_5_percent(capacity: int) -> None:
    """Whole numbers; up to 20 in flight exactly."""
    probes, _ = driven(SLOTS, lambda value, _: value <= capacity)
    bracket = bracket_of(probes)
    assert bracket.met is not None and bracket.met <= capacity and float(bracket.met).is_integer()
    assert bracket.met == capacity or bracket.met * 1.05 >= capacity


def test_the_first_steps_double_and_then_halve() -> None:
    """A limit of 11: 1, 2, 4, 8, 16, then 12, 10 and 11."""
    probes, _ = driven(SLOTS, lambda value, _: value <= 11)
    assert [probe.value for probe in probes[:8]] == [1, 2, 4, 8, 16, 12, 10, 11]


def test_an_end_that_fails_its_repeats_is_given_up() -> None:
    """8 met once and missed twice: by majority it missed, and the search goes on below it."""
    probes, stop = driven(SLOTS, lambda value, before: value < 8 or (value == 8 and before == 0))
    bracket = bracket_of(probes)
    assert stop.rule == "converged" and (bracket.met, bracket.missed) == (7, 8)
    assert bracket.missed_votes == (True, False, False)


@given(st.integers(0, 10_000))
@settings(max_examples=50)
def test_a_search_ends_whatever_the_endpoint_does(seed: int) -> None:
    """Also where chance decides every measurement."""
    chance = random.Random(seed)
    probes, _ = driven(RATES, lambda value, _: chance.random() < 0.5)
    assert len(probes) <= 60


def test_an_endpoint_that_meets_everything_is_found_at_the_limit() -> None:
    """64 is measured three times and once afresh, and the reason says that more was not allowed."""
    probes, stop = driven(RATES, lambda value, _: True)
    assert stop == Stop("limit", "the objectives hold at 64, the highest load allowed, confirmed by a fresh level")
    assert [probe.value for probe in probes].count(64) == 4


def test_an_endpoint_that_meets_nothing_has_no_maximum() -> None:
    """One in flight is the least there is."""
    probes, stop = driven(SLOTS, lambda value, _: False)
    result = search_result(SLOTS, probes, None)
    assert stop.rule == "limit" and result.found is None and result.bracket.missed == 1
    assert result.limited_by is not None and result.limited_by.objective == "ttft_p95_ms"


def test_a_late_client_is_measured_again_and_is_no_vote() -> None:
    """Late once at 4: again at 4. Late three times in a row: the client is what limits the search."""
    late = Probe(4, (Miss("client", "dispatch lag p99 9 ms"),), 4)
    fine = [Probe(value, (), value) for value in (1.0, 2.0)]
    assert next_level(SLOTS, [*fine, late], None) == Wanted(4)
    assert next_level(SLOTS, [*fine, late, Probe(4, (), 4)], None) == Wanted(8)
    assert next_level(SLOTS, [*fine, late, late, late], None) == Stop("client", "dispatch lag p99 9 ms")
    assert search_result(SLOTS, [*fine, late], None).bracket.missed is None


def test_a_load_whose_fresh_level_does_not_pass_is_lowered() -> None:
    """Rates of up to 10 meet, and PASS up to 9 only: from 9.75 on 5%, 10% and so on below, until one passes."""
    probes: list[Probe] = []
    while not isinstance(wanted := next_level(RATES, probes), Stop):
        misses = () if wanted.value <= 10 else (TOO_SLOW,)
        probes.append(Probe(wanted.value, misses, 1, confirms=wanted.confirms, passed=wanted.value <= 9))
    tried = [probe.value for probe in probes if probe.confirms]
    assert tried == [10, 9.5, 8.55] and confirmed_load(probes) == 8.55
    assert wanted.reason == "they hold at 8.55, confirmed by a fresh level, and cannot be shown to hold at 9.5"
    assert judged_probe(RATES, dict(enumerate(probes)), None) == len(probes) - 1


def test_a_search_that_nothing_confirms_has_found_nothing_for_certain() -> None:
    """Every load meets and none passes: it ends, is not finished, and so does not pass."""
    probes: list[Probe] = []
    while not isinstance(wanted := next_level(RATES, probes), Stop):
        probes.append(Probe(wanted.value, (), 1, confirms=wanted.confirms))
    result = search_result(RATES, probes, None)
    assert wanted.rule == "unconfirmed" and not result.finished and confirmed_load(probes) is None


@pytest.mark.parametrize(
    ("exceeding", "standing"),
    [(0, (True, True)), (2, (True, False)), (8, (False, False)), (15, (False, True))],
    ids=["none of 100", "2", "8", "15"],
)
def test_a_load_is_known_where_its_requests_leave_no_doubt(exceeding: int, standing: tuple[bool, bool]) -> None:
    """Of a p95, 5 of 100 may exceed the bound."""
    probe = Probe(8, (), 1, (Tally(exceeding, 100, 0.05, 100),))
    found = standing_of([probe])
    assert (found.met, found.known) == standing


def test_evidence_is_a_mixture_of_likelihood_ratios() -> None:
    """One request beyond a bound that 5% may exceed. Odds of 1/19 times 1.25, 1.6, 2, 3, 5 and 10 are shares of 5/81,
    8/103, 2/21, 3/22, 5/24 and 10/29: over 0.05 they are on average 3.0847."""
    shares = (5 / 81, 8 / 103, 2 / 21, 3 / 22, 5 / 24, 10 / 29)
    assert e_value(Tally(1, 1, 0.05, 1), above=True) == pytest.approx(sum(shares) / 6 / 0.05)


def test_evidence_seldom_speaks_against_what_is_true_however_often_one_looks() -> None:
    """5% exceed exactly; looked at after each of 400 requests, it reaches 20 in at most one of twenty runs."""
    chance = random.Random(5)
    wrong = 0
    for _ in range(300):
        exceeding, reached = 0, False
        for seen in range(1, 401):
            exceeding += chance.random() < 0.05
            reached = reached or e_value(Tally(exceeding, seen, 0.05, seen), above=True) >= 20
        wrong += reached
    assert wrong <= 15


SWEEP = Search("sweep", Load(requests=10), 1, 48)


def test_a_sweep_doubles_to_its_limit_and_steps_on_what_is_judged() -> None:
    """1, 2, 4, 8, 16, 32 and the limit 48; with objectives at 24, that too."""
    assert [probe.value for probe in driven(SWEEP, lambda *_: True)[0]] == [1, 2, 4, 8, 16, 32, 48]
    probes, stop = driven(SWEEP, lambda *_: True, also=24)
    assert [probe.value for probe in probes] == [1, 2, 4, 8, 16, 24, 32, 48] and stop.rule == "limit"


def test_a_sweep_stops_by_a_named_rule() -> None:
    """At the first miss by what was missed; and where doubling brings less than a quarter more throughput."""
    probes, stop = driven(SWEEP, lambda value, _: value < 8)
    assert stop == Stop("objective", TOO_SLOW.reason) and probes[-1].value == 8
    probes, stop = driven(SWEEP, lambda *_: True, throughput=lambda value: min(value, 4.5))
    assert stop == Stop("diminishing_return", "+100% load from 4 brought +12% throughput")


def test_a_search_is_judged_at_what_it_found() -> None:
    """find_max at the last measurement that met at the maximum; a sweep where it was told to, else where it met."""
    probes = {0: Probe(1, (), 1), 1: Probe(2, (), 2), 2: Probe(4, (TOO_SLOW,), 4), 3: Probe(2, (), 2)}
    assert judged_probe(SLOTS, probes, None) == 3
    assert judged_probe(SWEEP, {k: probes[k] for k in (0, 1, 2)}, None) == 1
    assert judged_probe(SWEEP, {k: probes[k] for k in (0, 1, 2)}, 4.0) == 2
    assert judged_probe(SLOTS, {0: Probe(1, (TOO_SLOW,), 1)}, None) == 0


def spec(*objectives: Objective) -> BenchmarkSpec:
    workload = WorkloadSpec(fixed_tokens(8), fixed_tokens(2))
    return BenchmarkSpec(Target("openai", "http://x/", "openai"), workload, (1,), 10, objectives=objectives)


@pytest.mark.parametrize(
    ("others", "rules"),
    [
        ({}, ["objective"]),
        ({"outcome": "timeout"}, ["timeout", "error_rate"]),
        ({"outcome": "model_error"}, ["error_rate"]),
    ],
)
def test_what_a_level_misses_is_named(others: dict, rules: list[str]) -> None:
    """TTFT of 10 ms against 5; 1 of 100 requests timed out; 1 of 100 failed. A bound from below is never missed."""
    records = [
        record(index, intended_ms=index, token_ms=(index + 10, index + 11), end_ms=index + 12) for index in range(100)
    ]
    if others:
        records[50] = record(50, intended_ms=50, end_ms=60, **others)
    bounds = [Objective("requests_per_s_min", 1e9), *([] if others else [Objective("ttft_p95_ms", 5)])]
    level = measure_level(1, records)
    probe = probe_of(1.0, level, records, steady_state(records), spec(*bounds))
    assert [miss.rule for miss in probe.misses] == rules


def probed(lag_ms: float, end_ms: float, bound_ms: float) -> list[str]:
    """A level of a hundred requests with a first token after 100 ms, sent so late."""
    records = [
        record(i, intended_ms=1000 * i, token_ms=(1000 * i + 100,), end_ms=1000 * i + end_ms, lag_ms=lag_ms)
        for i in range(100)
    ]
    level = measure_level(1, records)
    bound = Objective("ttft_p95_ms", bound_ms)
    return [miss.rule for miss in probe_of(1.0, level, records, steady_state(records), spec(bound)).misses]


def test_a_load_misses_without_what_the_client_added_and_meets_with_it() -> None:
    """100 ms, 30 of them the client's, of a second: 100 are met, 69 missed, and between them the client decides."""
    assert probed(30, 1000, 100) == []
    assert probed(30, 1000, 69) == ["objective"]
    assert probed(30, 1000, 85) == ["client"]


def test_a_load_that_was_not_offered_meets_nothing_and_may_miss() -> None:
    """30 of 110 ms: what was 73% of the load misses all the same."""
    assert probed(30, 110, 100) == ["client"]
    assert probed(30, 110, 69) == ["objective"]


@pytest.mark.parametrize(("rule", "finished"), [("limit", True), ("objective", True), ("client", False)])
def test_a_sweep_that_its_client_stopped_is_not_finished(rule: Rule, finished: bool) -> None:
    """Then it cannot pass; one that found a limit of the endpoint or of what was allowed can."""
    search = search_result(replace(SLOTS, kind="sweep"), [Probe(1, (), 1)], None)
    assert replace(search, stop=Stop(rule, "why")).finished is finished
    assert not replace(search, stop=None).finished


def test_only_an_open_loops_growth_counts_against_it() -> None:
    """Latency that grows by 5 ms a request, of an open loop and of a closed one."""
    records = [
        record(index, intended_ms=10 * index, token_ms=(10 * index + 1,), end_ms=15 * index + 9) for index in range(100)
    ]
    rules = [
        [
            miss.rule
            for miss in probe_of(
                1.0, measure_level(1, records, load=load), records, steady_state(records), spec()
            ).misses
        ]
        for load in ("poisson 100 requests/s", None)
    ]
    assert rules == [["unsteady"], []]
