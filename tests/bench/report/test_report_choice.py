"""Which of several runs to take: the cheapest only where it is cheaper, and serves the same model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench_summaries import a_summary

from loadproof.bench.compare.regression import Change, Comparison, Outcome
from loadproof.bench.report.choice import Candidate, brief_of_runs


def candidate(name: str, usd_per_hour: float, outcome: str = "PASS", model: str | None = "m", **said: Any) -> Candidate:
    summary = a_summary(verdict={"outcome": outcome, "at_concurrency": 1}, **said)
    return Candidate(name, replace(summary, conditions=replace(summary.conditions, usd_per_hour=usd_per_hour)), model)


def compared(outcome: Outcome, low: float | None = None, runs_to_settle: int | None = None) -> Comparison:
    """Of one TTFT p95 that decides."""
    high = None if low is None else 1.3
    change = Change(
        "ttft_p95_ms", "4 in flight", 100, 110, 1.1, low, high, outcome, True, runs_to_settle=runs_to_settle
    )
    return Comparison("a", "b", "4 in flight", 0.05, (change,), (), outcome, "")


def test_the_cheapest_run_that_passes_is_taken() -> None:
    """Of 1, 2 and 3 USD an hour the first fails: the second is next, at 1,460 USD a month."""
    brief = brief_of_runs([candidate("a", 1.0, "FAIL"), candidate("b", 2.0), candidate("c", 3.0)], ())
    assert brief.next == "take b, the cheapest that passes"
    assert "$1,460 b" in brief.cost


def test_none_is_the_cheapest_of_equals() -> None:
    """At one price the comparison decides; where it settles nothing, so many repeats would."""
    runs = [candidate("a", 2.0), candidate("b", 2.0)]
    said = brief_of_runs(runs, [compared("INCONCLUSIVE", low=0.9, runs_to_settle=4)]).next
    assert said == (
        "a and b pass at the same price: what differs is not settled; "
        "4 runs of each, kept (`loadproof evidence add RUN`), would settle it"
    )
    assert "no change between them" in brief_of_runs(runs, [compared("NO CHANGE", low=0.99)]).next


def test_too_few_requests_for_an_interval_are_settled_by_more() -> None:
    """Repeats of a run that is too short are too short as well."""
    said = brief_of_runs([candidate("a", 2.0), candidate("b", 2.0)], [compared("INCONCLUSIVE")]).next
    assert "send more requests a level (`--requests-per-level`)" in said and "cheapest" not in said


def test_another_model_is_no_cheaper_way_to_the_same() -> None:
    """Both are named, and none is taken."""
    said = brief_of_runs([candidate("a", 1.0, model="Llama"), candidate("b", 2.0, model="Qwen")], ()).next
    assert said.startswith("these are different models (Llama and Qwen), which are not interchangeable")


def test_a_run_that_does_not_say_its_model_is_taken_with_that_doubt() -> None:
    """An HTTP server without a profile."""
    said = brief_of_runs([candidate("a", 1.0, model=None), candidate("b", 2.0, model=None)], ()).next
    assert said == "take a, the cheapest that passes, if all serve one model: not every run says which"


def test_repeats_of_one_profile_are_no_choice() -> None:
    """Even where one passes and the other does not."""
    profile = {"name": "chat", "file": "chat.yaml", "sha256": "0", "environment": "dev"}
    runs = [candidate("a", 2.0, profile=profile), candidate("b", 2.0, "FAIL", profile=profile)]
    assert brief_of_runs(runs, [compared("REGRESSION", low=1.1)]).next == (
        "nothing to choose, all are of one profile: go by what changed, below"
    )


def test_runs_that_are_not_settled_are_told_to_send_more() -> None:
    """Nothing binds where nothing was decided."""
    said = brief_of_runs([candidate("a", 2.0, "INCONCLUSIVE"), candidate("b", 1.0, "INCONCLUSIVE")], ()).next
    assert said.startswith("none of them passes: send more requests to those that are INCONCLUSIVE")
