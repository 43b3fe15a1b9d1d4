"""Worse, better, the same or untold: changes between runs against numbers worked by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from bench_records import record

from loadproof.bench.compare.between_runs import (
    Between,
    History,
    KeptRun,
    LogFigure,
    LogInterval,
    Side,
    allowing_for_runs,
    detectable,
    runs_to_settle,
)
from loadproof.bench.compare.regression import (
    Change,
    Comparison,
    compare_runs,
    describe,
    difference_of_shares,
    outcome_of,
    read_run,
    wilson,
)
from loadproof.bench.measure.records import RecordWriter, RequestRecord
from loadproof.bench.objectives import Objective
from loadproof.bench.plan import RunPlan, planned_in_full, write_plan
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.errors import InputError


@pytest.mark.parametrize(
    ("low", "high", "latency", "rate"),
    [
        (1.06, 1.5, "REGRESSION", "IMPROVED"),
        (0.5, 0.94, "IMPROVED", "REGRESSION"),
        (0.96, 1.04, "NO CHANGE", "NO CHANGE"),
        (0.9, 1.2, "INCONCLUSIVE", "INCONCLUSIVE"),
        (1.06, None, "REGRESSION", "IMPROVED"),
        (None, 1.01, "INCONCLUSIVE", "INCONCLUSIVE"),
    ],
)
def test_outcomes_at_a_tolerance_of_5_percent(low: float, high: float, latency: str, rate: str) -> None:
    """A latency may grow and a rate may shrink by the factor 1.05; an interval across that says nothing."""
    assert outcome_of(low, high, 0.05) == latency
    assert outcome_of(low, high, 0.05, more_is_better=True) == rate


def test_a_change_without_an_interval_says_so() -> None:
    change = Change("ttft_p95_ms", "4 in flight", 100.0, 150.0, 1.5, None, None, "INCONCLUSIVE", decides=True)
    assert describe(change) == "ttft_p95_ms 100 → 150 (×1.5, no interval: too few requests)"
    assert describe(replace(change, low=1.4)).endswith("(×1.5, 95% interval 1.4 to unknown)")


def test_shares_by_published_examples() -> None:
    """Newcombe (1998), table II: 56/70 − 48/80 is 0.0524 to 0.3339; Wilson for 81 of 263: 0.2553 to 0.3662."""
    assert difference_of_shares(48, 80, 56, 70) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert wilson(81, 263)[1:] == pytest.approx((0.2553, 0.3662), abs=5e-5)


def run_of(
    folder: Path, ttfts: list[float], failed: int = 0, lag_ms: float = 0, then_ms: float = 10, **changes: object
) -> Path:
    """A run at 4 in flight, four requests side by side, with these first-token times and 10 ms more to the end."""
    folder.mkdir()
    spec = BenchmarkSpec(
        target=Target("openai", "http://localhost:1/v1/completions", "openai"),
        workload=WorkloadSpec(fixed_tokens(10), fixed_tokens(2)),
        concurrency=(4,),
        requests_per_level=len(ttfts),
        objectives=(Objective("ttft_p95_ms", 500.0),),
    )
    spec = replace(spec, **changes)  # type: ignore[arg-type]
    conditions = {"loadproof": "0.1.0", "python": folder.name}
    plan = RunPlan(folder.name, "2026-11-21T10:00:00Z", 0, spec, conditions, ("2026-11-21T10:00:00Z",))
    write_plan(folder, planned_in_full(plan))
    with RecordWriter(folder / "requests.jsonl") as writer:
        for index, ttft in enumerate(ttfts):
            writer.append(request(index, ttft, failed=index < failed, lag_ms=lag_ms, then_ms=then_ms))
    return folder


def request(index: int, ttft: float, *, failed: bool, lag_ms: float, then_ms: float) -> RequestRecord:
    start = 300.0 * (index // 4)
    tokens = (start + ttft, start + ttft + then_ms)
    return record(
        index, intended_ms=start, token_ms=tokens, lag_ms=lag_ms, end_ms=tokens[-1], concurrency=4,
        outcome="internal" if failed else "ok",
    )  # fmt: skip


def compare(before: Path, after: Path) -> Comparison:
    return compare_runs(read_run(before), read_run(after))


def latencies(seed: int, scale: float = 1.0, size: int = 400, shape: float = 25) -> list[float]:
    """With a mean of 100 ms; the larger the shape, the closer to it."""
    return [float(value) for value in scale * np.random.default_rng(seed).gamma(shape, 100 / shape, size)]


def test_twice_as_slow_is_a_regression_and_the_way_back_an_improvement(tmp_path: Path) -> None:
    """TTFT ×2 under an objective on it: REGRESSION one way, IMPROVED the other; what differs is named."""
    slow, fast = run_of(tmp_path / "slow", latencies(1, 2.0)), run_of(tmp_path / "fast", latencies(2))
    worse = compare(fast, slow)
    assert worse.outcome == "REGRESSION" and worse.reason.startswith("at 4 in flight: ttft_p95_ms")
    assert compare(slow, fast).outcome == "IMPROVED"
    assert worse.differences == (("python", "fast", "slow"),)


def test_the_same_again_is_no_change_given_enough_requests_and_runs(tmp_path: Path) -> None:
    """2,000 requests of one narrow distribution: their p95 lies within 2% or so, inside the tolerance of 5%.

    Alone they may be two of runs that differ by a tenth: two say nothing, and 24 kept ones that are alike say enough.
    """
    one, other = (run_of(tmp_path / str(seed), latencies(seed, size=2_000, shape=100)) for seed in (1, 2))
    alone = compare(one, other)
    assert alone.outcome == "INCONCLUSIVE" and "which is assumed" in alone.between_runs
    observed = next(change.before for change in alone.changes if change.name == "ttft_p95_ms")
    assert observed is not None
    figures = {"ttft_p95_ms": LogFigure(log(observed), 0.005)}
    kept = [KeptRun(str(number), "chat", figures) for number in (1, 2, *range(10, 33))]
    found = compare_runs(read_run(one), read_run(other), kept=kept)
    assert found.outcome == "NO CHANGE"
    [deciding] = [change for change in found.changes if change.name == "ttft_p95_ms"]
    assert (deciding.runs_before, deciding.runs_after) == (24, 1)


def test_a_spread_between_runs_is_what_figures_vary_by_beyond_their_own_errors() -> None:
    """Logarithms 0.0 and 0.2 in one group, 1.0, 1.1 and 1.2 in another: squares 0.02 + 0.02 over 3 degrees of freedom,
    less errors of 0.05², and one more repeat of 0.1²: √((0.01 + 3·(0.04/3 − 0.0025))/4) = 0.1031. The later run is no
    part of it, and a group of one tells nothing."""
    runs = [("a", 0.0), ("a", 0.2), ("b", 1.0), ("b", 1.1), ("b", 1.2), ("c", 7.0)]
    kept = [KeptRun(str(number), alike, {"x": LogFigure(value, 0.05)}) for number, (alike, value) in enumerate(runs)]
    later = KeptRun("later", "a", {"x": LogFigure(9.0, 0.05)})
    found = History("0", "later", (*kept, later)).between_runs("x")
    assert found.freedom == 3 and found.spread == pytest.approx(0.103078, abs=1e-6)
    assert History("0", "later", tuple(kept[5:])).between_runs("x") == Between(0.10, 0)


def test_repeats_stand_with_the_run_that_they_repeat() -> None:
    """Of one kind, all others are the earlier run's: the later one has to answer to them. Of two, each has its own."""
    kept = tuple(
        KeptRun(name, alike, {"x": LogFigure(value, 0.0)})
        for name, alike, value in (("before", "a", 0.0), ("a2", "a", 1.0), ("after", "b", 2.0), ("b2", "b", 3.0))
    )
    assert History("before", "after", kept).repeats("x") == ((LogFigure(1.0, 0.0),), (LogFigure(3.0, 0.0),))
    assert History("before", "a2", kept).repeats("x") == ((), ())
    assert History("before", "b3", kept).repeats("x") == ((LogFigure(1.0, 0.0),), ())


def test_a_change_allows_for_what_differs_from_run_to_run() -> None:
    """ln 1.5 within ± 0.1 by the requests, runs that differ by 0.1: ± √(0.1² + 2·(1.96·0.1)²) = ± 0.2947.

    Repeats alone narrow it: three before and one after, without errors of their own, ± 1.96·0.1·√(1/3 + 1) = ± 0.2263.
    """
    change = LogInterval(log(1.5), log(1.5) - 0.1, log(1.5) + 0.1)
    sides = Side(LogFigure(0.0, 0.05)), Side(LogFigure(log(1.5), 0.05))
    alone = allowing_for_runs(change, sides, Between(0.1, 0))
    assert alone.half == pytest.approx(0.294668, abs=1e-5)
    exact = LogFigure(0.0, 0.0)
    repeated = allowing_for_runs(change, (Side(exact, (exact, exact)), Side(LogFigure(log(1.5), 0.0))), Between(0.1, 0))
    assert repeated.half == pytest.approx(0.226317, abs=1e-5)
    assert allowing_for_runs(LogInterval(0.4, 0.3, None), sides, Between(0.1, 0)).high is None


def test_an_open_change_says_how_many_runs_would_settle_it() -> None:
    """×1.3 within ± 0.4 against 5%: (0.4·(1 + 0.8416/1.96) / (ln 1.3 − ln 1.05))² = 7.2, so 8 of each."""
    assert runs_to_settle(LogInterval(log(1.3), log(1.3) - 0.4, log(1.3) + 0.4), 0.05) == 8
    assert runs_to_settle(LogInterval(log(1.06), -0.4, 0.4), 0.05) is None
    assert detectable(0.4, 0.05) == pytest.approx(1.05 * exp(0.4 * 1.42939), rel=1e-4)


def test_few_requests_say_nothing(tmp_path: Path) -> None:
    """Of 40 requests the p95 has no upper end, so a change has no lower one."""
    one, other = (run_of(tmp_path / str(seed), latencies(seed, size=40)) for seed in (1, 2))
    found = compare(one, other)
    assert found.outcome == "INCONCLUSIVE" and "no interval: too few requests" in found.reason


def test_false_alarms_are_rare(tmp_path: Path) -> None:
    """Ten pairs of runs of one distribution: no more than one calls a regression, and as few an improvement."""
    outcomes = []
    for seed in range(10):
        pair = [run_of(tmp_path / f"{seed}-{way}", latencies(1000 + 2 * seed + way, size=150)) for way in (0, 1)]
        outcomes.append(compare(*pair).outcome)
    assert outcomes.count("REGRESSION") <= 1 and outcomes.count("IMPROVED") <= 1


def test_what_a_late_client_added_is_no_regression(tmp_path: Path) -> None:
    """100 ms more, of a client that sent 100 ms late: INCONCLUSIVE both ways, for without it nothing changed."""
    punctual = run_of(tmp_path / "punctual", latencies(2), then_ms=5000)
    late = run_of(tmp_path / "late", [100 + ttft for ttft in latencies(3)], lag_ms=100, then_ms=5000)
    worse, better = compare(punctual, late), compare(late, punctual)
    for found in (worse, better):
        assert (found.outcome, found.measured) == ("INCONCLUSIVE", True)
    [change] = [one for one in worse.changes if one.name == "ttft_p95_ms"]
    assert change.change is not None and change.change > 1.5
    assert change.low is not None and change.low < 1.05


def test_a_late_client_hides_no_clear_regression(tmp_path: Path) -> None:
    """Three times as slow, 9 ms of it the client's."""
    fast, slow = run_of(tmp_path / "fast", latencies(2)), run_of(tmp_path / "slow", latencies(1, 3.0), lag_ms=9)
    assert compare(fast, slow).outcome == "REGRESSION"
    assert compare(slow, fast).outcome == "IMPROVED"


def test_another_load_is_no_regression(tmp_path: Path) -> None:
    """Three times as slow, of which a fifth was not offered: that run measured another load, and it is said."""
    fast, slow = run_of(tmp_path / "fast", latencies(2)), run_of(tmp_path / "slow", latencies(1, 3.0), lag_ms=62)
    for found in (compare(fast, slow), compare(slow, fast)):
        assert (found.outcome, found.measured) == ("INCONCLUSIVE", False)
        assert "slow the load asked for was not offered: " in found.reason


def test_more_failed_requests_are_a_regression(tmp_path: Path) -> None:
    """0 of 400 against 20 of 400: Newcombe's interval of the difference lies above 0."""
    found = compare(run_of(tmp_path / "good", latencies(1)), run_of(tmp_path / "bad", latencies(2), failed=20))
    assert found.outcome == "REGRESSION" and "error_rate_max 0 → 0.05 (+5.00%" in found.reason


def test_another_workload_or_no_common_level_is_refused(tmp_path: Path) -> None:
    """What was not sent the same cannot be held against each other."""
    one = run_of(tmp_path / "one", latencies(1, size=8))
    other = run_of(tmp_path / "other", latencies(1, size=8), workload=WorkloadSpec(fixed_tokens(11), fixed_tokens(2)))
    with pytest.raises(InputError, match="another input_tokens; repeat one of them"):
        compare(one, other)
    with pytest.raises(InputError, match="have no level in common: 4 in flight and 8 in flight"):
        compare(one, run_of(tmp_path / "eight", latencies(1, size=8), concurrency=(8,)))
