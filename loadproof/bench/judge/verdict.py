"""A run judged: PASS, FAIL, INCONCLUSIVE, INVALID or NOT JUDGED, out of its objectives (`judgement`) and its levels.

A closed loop whose client is late offers less load than asked, and less load is quicker. So a level is *valid* when at
least `OFFERED_AT_LEAST` of the load asked for was there and none of its requests was lost with who should have sent it.
What would pass at a level that is not valid is INVALID (without latency or rate objectives: when any level is not);
what missed at less load than asked still missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loadproof.bench.judge.judgement import FASTER_CLIENT, Judgement, describe
from loadproof.bench.measure.intervals import unseen_spells
from loadproof.bench.measure.metrics import LevelMetrics
from loadproof.bench.objectives import ERROR_RATE, Objective
from loadproof.loads import Load

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "NOT JUDGED"]
OFFERED_AT_LEAST = 0.95  # of the load asked for
SAID_BELOW = 0.99  # what was offered is said


@dataclass(frozen=True, slots=True)
class Verdict:
    """The run's outcome and why, in words a reader needs no table for."""

    outcome: Outcome
    """PASS, FAIL, INCONCLUSIVE, INVALID, or NOT JUDGED where there was no objective"""
    at_concurrency: int
    """of the judged level"""
    at_load: str | None = None
    """in words"""
    at_level: int | None = None
    """its index"""
    reasons: tuple[str, ...] = ()
    """in words"""


def invalid_reasons(level: LevelMetrics) -> tuple[str, ...]:
    """Why the level is not the one that was asked for; empty when it is."""
    if not level.requests and not level.missing:
        return ("no request was sent",)
    reasons = []
    if level.missing:
        reasons.append(f"{level.missing} requests are missing: who should have sent them was lost")
    if level.offered is not None and level.offered < OFFERED_AT_LEAST:
        reasons.append(
            f"the load asked for was not offered: {level.offered:.1%} of it was, at least {OFFERED_AT_LEAST:.0%} "
            f"must be; {FASTER_CLIENT}"
        )
    return tuple(reasons)


def decide(
    judgements: Sequence[Judgement],
    levels: Sequence[LevelMetrics],
    objectives: Sequence[Objective],
    at_concurrency: int,
    max_error_rate: float,
    judged: LevelMetrics | None = None,
    load: Load | None = None,
) -> Verdict:
    """The run's verdict: FAIL before INVALID before INCONCLUSIVE before PASS; without an objective NOT JUDGED.

    `judged` is the level the objectives are judged at; None: the one of `at_concurrency`. `load` is what it was to be.

    A run without an `error_rate_max` objective still bounds failures: over all levels at most `max_error_rate` (0
    unless told otherwise) of the requests may fail. Time-outs and broken connections while the client itself stood
    still may be its own: where they decide, the run is INVALID.
    """
    judged = judged or next((level for level in levels if level.concurrency == at_concurrency), None)
    place = judged.place if judged else load.words if load else f"{at_concurrency} in flight"
    found = {
        "FAIL": [describe(judgement) for judgement in judgements if judgement.verdict == "FAIL"],
        "INVALID": _invalid_levels(levels, objectives, judged),
        "INCONCLUSIVE": [describe(judgement) for judgement in judgements if judgement.verdict == "INCONCLUSIVE"],
    }
    found["INVALID"] += [describe(judgement) for judgement in judgements if judgement.verdict == "INVALID"]
    if not any(objective.name == ERROR_RATE for objective in objectives):
        whose, reasons = _too_many_errors(levels, max_error_rate)
        found[whose] += reasons
    found["INCONCLUSIVE"] += _unsettled(judged, place, load, objectives)
    outcomes: tuple[Outcome, ...] = ("FAIL", "INVALID", "INCONCLUSIVE")
    for outcome in outcomes if objectives else outcomes[:2]:
        if found[outcome]:
            return Verdict(outcome, at_concurrency, reasons=tuple(found[outcome]))
    if not objectives:
        reasons = ["no objectives were given, so nothing was judged; failed requests are within their bound"]
        return Verdict("NOT JUDGED", at_concurrency, reasons=(*reasons, *found["INCONCLUSIVE"]))
    return Verdict("PASS", at_concurrency, reasons=(_why_passed(judgements, place, judged),))


def _unsettled(
    judged: LevelMetrics | None, place: str, load: Load | None, objectives: Sequence[Objective]
) -> list[str]:
    """Why a level's figures say too little, whatever they are."""
    if judged is None or not judged.requests:
        return [f"no data at {place}, where the objectives must hold"]
    if judged.unfinished:
        return [f"{judged.unfinished} requests unfinished at {place}: their latencies are lower bounds"]
    if load and load.never_full and any(objective.name != ERROR_RATE for objective in objectives):
        return [load.never_full]
    return []


def _invalid_levels(
    levels: Sequence[LevelMetrics], objectives: Sequence[Objective], judged: LevelMetrics | None
) -> list[str]:
    judged_at_one = any(objective.name != ERROR_RATE for objective in objectives)
    return [
        f"at {level.place}: {reason}"
        for level in levels
        if level is judged or not judged_at_one
        for reason in invalid_reasons(level)
        if level.requests
    ]


def _too_many_errors(
    levels: Sequence[LevelMetrics], max_error_rate: float
) -> tuple[Literal["FAIL", "INVALID"], list[str]]:
    requests = sum(level.requests or 0 for level in levels)
    errors, own = sum(level.errors for level in levels), sum(level.errors_while_away for level in levels)
    most = max_error_rate * requests
    if errors <= most:
        return "FAIL", []
    said = f"{errors} of {requests} requests failed; at most {max_error_rate:.2%} may (--max-error-rate)"
    if errors - own > most:
        return "FAIL", [said]
    return "INVALID", [f"{said}; {own} of them while the client itself stood still; {FASTER_CLIENT}"]


def _why_passed(judgements: Sequence[Judgement], place: str, judged: LevelMetrics | None) -> str:
    closest = min(judgements, key=lambda judgement: judgement.margin if judgement.margin is not None else 1.0)
    count = len(judgements)
    what = {1: "the objective holds", 2: "both objectives hold"}.get(count, f"all {count} objectives hold")
    offered = None if judged is None else judged.offered
    less = "" if offered is None or offered >= SAID_BELOW else f" ({offered:.1%} of that load was offered)"
    fewest = min((one.requests for one in judgements if one.requests), default=0)
    unseen = f"; of slow spells rarer than one in {unseen_spells(fewest):,} requests it says nothing" if fewest else ""
    return f"{what} at {place}{less}; closest is {describe(closest)}{unseen}"
