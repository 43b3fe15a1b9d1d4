"""Is a run worse than an earlier one? Each figure's change as a ratio with its 95% interval, held to a tolerance.

The interval holds what the requests leave open, by a bootstrap over both runs' (`bootstrap`; an end that either run has
too few requests for stays open), and what differs from run to run (`between_runs`), learned from kept runs that repeat
each other and else assumed. Kept repeats of either run count for its side.

A figure is a REGRESSION when even the interval's better end is worse than the tolerance, IMPROVED when even its worse
end is better than that, NO CHANGE when all of it lies within the tolerance, else INCONCLUSIVE. The share of failed
requests changes by a difference, not a ratio (Newcombe's interval out of Wilson's: of no failures a bootstrap draws
none): REGRESSION above 0, IMPROVED below.

What a client may have added to its run's figure (`client_share`) widens the interval, so that a late client is no
change of the endpoint. A level that either run did not offer the load asked for at is INCONCLUSIVE: it measured another
load.

The outcome is of what is judged: the bounds' own figures where the later run has objectives, at the level it is judged
at, and the share of failed requests there. Everything else is shown beside it and decides nothing: of a hundred
figures some change by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from pathlib import Path
from typing import Literal

from loadproof.bench.compare.between_runs import (
    History,
    KeptRun,
    LogFigure,
    LogInterval,
    Side,
    allowing_for_runs,
    detectable,
    runs_to_settle,
)
from loadproof.bench.compare.conditions import answers_that_differ, conditions_that_differ, refuse_other_load
from loadproof.bench.judge.verdict import invalid_reasons
from loadproof.bench.measure.bootstrap import ratio_resampled
from loadproof.bench.measure.dependence import Z
from loadproof.bench.measure.levels import MeasuredLevel, measured_levels
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import read_records
from loadproof.bench.measure.resampling import LevelSamples
from loadproof.bench.objectives import ERROR_RATE, Objective, figure
from loadproof.bench.plan import RunPlan, read_plan
from loadproof.bench.search.planned import judged_level
from loadproof.errors import InputError

TOLERANCE = 0.05
FIGURES = (
    "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "itl_p95_ms", "tpot_p50_ms", "tpot_p95_ms", "e2e_p50_ms", "e2e_p95_ms",
    "output_tokens_per_s_min", "requests_per_s_min", ERROR_RATE,
)  # fmt: skip
DECIDING = ("ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms", "output_tokens_per_s_min")  # without objectives
Outcome = Literal["REGRESSION", "NO CHANGE", "IMPROVED", "INCONCLUSIVE"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder, read: its plan and its levels by index."""

    folder: Path
    plan: RunPlan
    levels: Mapping[int, MeasuredLevel]

    @property
    def judged(self) -> MeasuredLevel | None:
        index = judged_level(self.plan, self.levels)
        return None if index is None else self.levels.get(index)


@dataclass(frozen=True, slots=True)
class Change:
    """One figure at one level. `change` is after / before (of failed requests after − before), `low`..`high` its 95%
    interval; above 1 (0) is worse, but for rates.

    `before` and `after` are (geometric) means over `runs_before` and `runs_after`. `spread_between_runs`: the relative
    standard deviation that the interval allows for. `detectable`: the ratio that would be found in 80% of the cases.
    `runs_to_settle`: of each side, for a change like this one.
    """

    name: str
    place: str
    before: float | None
    after: float | None
    change: float | None
    low: float | None
    high: float | None
    outcome: Outcome
    decides: bool
    spread_between_runs: float | None = None
    runs_before: int = 1
    runs_after: int = 1
    detectable: float | None = None
    runs_to_settle: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against an earlier one. `differences` are of conditions (image, machine, profile): what may explain it.

    `measured` False: at the level that decides a run did not offer the load it was asked for.
    `between_runs`: how much runs are taken to differ, and what can be found so, in words.
    """

    before: str
    after: str
    place: str | None
    tolerance: float
    changes: tuple[Change, ...]
    differences: tuple[tuple[str, str, str], ...]
    outcome: Outcome
    reason: str
    measured: bool = True
    between_runs: str = ""

    @property
    def method(self) -> str:
        """What its outcome rests on, in a sentence."""
        return f"Held to a change of {self.tolerance:.0%}. {self.between_runs}"


def read_run(folder: Path) -> Run:
    """Raises InputError for a folder without a plan, CouldNotRunError for records of another version."""
    plan = read_plan(folder)
    return Run(folder, plan, measured_levels(plan, read_records(folder / RECORDS_FILE).records))


def compare_runs(
    before: Run,
    after: Run,
    tolerance: float = TOLERANCE,
    on_level: Callable[[int, int], None] = lambda done, of: None,
    kept: Sequence[KeptRun] = (),
) -> Comparison:
    """Raises InputError where the two were not sent the same, or share no level. `on_level` hears of each one done.

    `kept`: judged runs, these two among them, to learn from how much runs differ that repeat each other.
    """
    refuse_other_load(before.plan, after.plan, (before.folder, after.folder))
    pairs = _common_levels(before, after)
    if not pairs:
        raise InputError(
            f"{before.folder} and {after.folder} have no level in common: "
            f"{_places(before)} and {_places(after)}; repeat one of them at the other's levels"
        )
    deciding = _deciding_pair(after, pairs)
    bounds = {one.name for one in after.plan.spec.objectives} - {ERROR_RATE}
    named = (bounds or set(DECIDING)) | {ERROR_RATE}
    names = tuple(dict.fromkeys((*FIGURES, *sorted(named))))
    unknown = History(before.plan.run_id, after.plan.run_id)
    history = replace(unknown, kept=tuple(kept))
    changes: tuple[Change, ...] = ()
    for number, pair in enumerate(pairs, start=1):
        at_judged = pair == deciding
        changes += _changes(
            before, after, pair, names, tolerance, named if at_judged else set(), history if at_judged else unknown
        )
        on_level(number, len(pairs))
    shown = tuple(change for change in changes if change.before is not None or change.after is not None)
    place = deciding[1].metrics.place
    late = [
        f"{run.plan.run_id} {why}"
        for run, level in zip((before, after), deciding, strict=True)
        for why in invalid_reasons(level.metrics)
    ]
    outcome, reason = _decide(shown, place)
    if late:
        outcome, reason = "INCONCLUSIVE", f"at {place}: {'; '.join(late)}"
    differences = tuple(conditions_that_differ(before.plan, after.plan) + answers_that_differ(place, deciding))
    return Comparison(
        before.plan.run_id,
        after.plan.run_id,
        place,
        tolerance,
        shown,
        differences,
        outcome,
        reason,
        measured=not late,
        between_runs=_said_of_spread([change for change in shown if change.decides], history),
    )


def _said_of_spread(deciding: Sequence[Change], history: History) -> str:
    """`Runs of one endpoint are taken to differ by 10%, which is assumed …: changes of 40% and more are found.`"""
    spreads = {change.name: history.between_runs(change.name) for change in deciding if change.spread_between_runs}
    if not spreads:
        return ""
    name, widest = max(spreads.items(), key=lambda item: item[1].spread)
    basis = (
        f"learned from kept runs that repeat each other ({widest.freedom} degrees of freedom)"
        if widest.freedom
        else "which is assumed: no kept runs repeat each other"
    )
    found = [change.detectable for change in deciding if change.detectable is not None]
    power = f"; a change of {max(found) - 1:.0%} and more is found in 80% of the cases" if found else ""
    return f"Runs of one endpoint are taken to differ by {widest.spread:.1%} ({name}), {basis}{power}."


def _deciding_pair(
    after: Run, pairs: Sequence[tuple[MeasuredLevel, MeasuredLevel]]
) -> tuple[MeasuredLevel, MeasuredLevel]:
    """At the level the later run is judged at; where the earlier one has none like it, at the highest common one."""
    judged = after.judged
    return next((pair for pair in pairs if pair[1] is judged), pairs[-1])


def _changes(
    before: Run,
    after: Run,
    levels: tuple[MeasuredLevel, MeasuredLevel],
    names: Sequence[str],
    tolerance: float,
    deciding: set[str],
    history: History,
) -> tuple[Change, ...]:
    """Every figure at one level; each of the two runs draws from a stream of its own."""
    samples = [
        LevelSamples(level, run.plan.spec.workload.stride, (after.plan.spec.workload.seed, side))
        for side, (run, level) in enumerate(zip((before, after), levels, strict=True))
    ]
    place = levels[1].metrics.place
    return tuple(
        _change_of_shares(*levels, ERROR_RATE in deciding)
        if name == ERROR_RATE
        else _change(
            name,
            place,
            (samples[0], samples[1]),
            tolerance,
            name in deciding,
            history,
        )
        for name in names
    )


def _change(
    name: str,
    place: str,
    levels: tuple[LevelSamples, LevelSamples],
    tolerance: float,
    decides: bool,
    history: History,
) -> Change:
    objective = Objective(name, 1.0)
    one, other = (level.resampled(objective) for level in levels)
    change, low, high = _widened(ratio_resampled(one, other), *(level.ends(objective) for level in levels))
    if change is None or not one.observed or not other.observed:
        return Change(name, place, one.observed, other.observed, change, low, high, "INCONCLUSIVE", decides)
    between, repeats = history.between_runs(name), history.repeats(name)
    before = Side(LogFigure(log(one.observed), one.log_error), repeats[0])
    after = Side(LogFigure(log(other.observed), other.log_error), repeats[1])
    found = allowing_for_runs(LogInterval(log(change), _log(low), _log(high)), (before, after), between)
    ends = _ratio(found.low), _ratio(found.high)
    outcome = outcome_of(*ends, tolerance, more_is_better=objective.comparison == ">=")
    return Change(
        name,
        place,
        exp(before.value) if before.repeats else one.observed,
        exp(after.value) if after.repeats else other.observed,
        _ratio(found.centre),
        *ends,
        outcome,
        decides,
        spread_between_runs=between.spread,
        runs_before=before.runs,
        runs_after=after.runs,
        detectable=None if found.half is None else round(detectable(found.half, tolerance), 4),
        runs_to_settle=runs_to_settle(found, tolerance) if outcome == "INCONCLUSIVE" else None,
    )


def _log(ratio: float | None) -> float | None:
    return None if ratio is None else log(ratio)


def _ratio(logarithm: float | None) -> float | None:
    return None if logarithm is None else round(exp(logarithm), 6)


def _widened(
    found: tuple[float | None, float | None, float | None], before: tuple[float, float], after: tuple[float, float]
) -> tuple[float | None, float | None, float | None]:
    """(change, low, high) by the least and the most that each figure may have been, over it as counted."""
    change, low, high = found
    return (
        change,
        None if low is None else round(low * after[0] / before[1], 6),
        None if high is None or before[0] == 0 else round(high * after[1] / before[0], 6),
    )


def _change_of_shares(before: MeasuredLevel, after: MeasuredLevel, decides: bool) -> Change:
    counts = [(level.metrics.errors, level.metrics.requests or 0) for level in (before, after)]
    one, other = (errors / requests if requests else None for errors, requests in counts)
    change, low, high = difference_of_shares(*counts[0], *counts[1])
    outcome: Outcome = "INCONCLUSIVE"
    if low is not None and high is not None:
        outcome = "REGRESSION" if low > 0 else "IMPROVED" if high < 0 else "NO CHANGE"
    return Change(ERROR_RATE, after.metrics.place, one, other, change, low, high, outcome, decides)


def outcome_of(low: float | None, high: float | None, tolerance: float, *, more_is_better: bool = False) -> Outcome:
    """Of a ratio's interval; a change by less than 1 + tolerance either way is none."""
    if more_is_better:
        low, high = (None if high is None else 1 / high), (None if low is None else 1 / low)
    most, least = 1 + tolerance, 1 / (1 + tolerance)
    if low is not None and low > most:
        return "REGRESSION"
    if high is not None and high < least:
        return "IMPROVED"
    inside = low is not None and high is not None and low >= least and high <= most
    return "NO CHANGE" if inside else "INCONCLUSIVE"


def difference_of_shares(
    failed_before: int, before: int, failed_after: int, after: int
) -> tuple[float | None, float | None, float | None]:
    """(p₂ − p₁, low, high): Newcombe's hybrid score interval (1998, method 10)."""
    if not before or not after:
        return None, None, None
    (p1, l1, u1), (p2, l2, u2) = wilson(failed_before, before), wilson(failed_after, after)
    low, high = sqrt((p2 - l2) ** 2 + (u1 - p1) ** 2), sqrt((u2 - p2) ** 2 + (p1 - l1) ** 2)
    return round(p2 - p1, 9), round(p2 - p1 - low, 9), round(p2 - p1 + high, 9)


def wilson(hits: int, trials: int) -> tuple[float, float, float]:
    """(share, low, high): Wilson's score interval of a share."""
    z, p = Z, hits / trials
    centre, width = p + z * z / (2 * trials), z * sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return p, max(0.0, (centre - width) / scale), min(1.0, (centre + width) / scale)


def _decide(changes: Sequence[Change], place: str) -> tuple[Outcome, str]:
    """The worst of what decides: REGRESSION before INCONCLUSIVE before IMPROVED before NO CHANGE."""
    deciding = [change for change in changes if change.decides]
    order: tuple[Outcome, ...] = ("REGRESSION", "INCONCLUSIVE", "IMPROVED", "NO CHANGE")
    for outcome in order:
        found = [change for change in deciding if change.outcome == outcome]
        if found:
            return outcome, f"at {place}: " + "; ".join(map(describe, found))
    return "INCONCLUSIVE", f"at {place}: no figure that both runs have"


def describe(change: Change) -> str:
    """`ttft_p95_ms 120 → 150 (×1.25, 95% interval 1.1 to 1.4)`."""
    counted = ((change.before, change.runs_before), (change.after, change.runs_after))
    shown = " → ".join(
        figure(value) + (f" (mean of {runs} runs)" if value is not None and runs > 1 else "") for value, runs in counted
    )
    if change.change is None:
        return f"{change.name} {shown}"
    size = f"{change.change:+.2%}" if change.name == ERROR_RATE else f"×{change.change:.3g}"
    more = f"; {change.runs_to_settle} runs of each would settle it" if change.runs_to_settle else ""
    if change.low is None and change.high is None:
        return f"{change.name} {shown} ({size}, no interval: too few requests{more})"
    ends = [
        "unknown" if end is None else f"{end:+.2%}" if change.name == ERROR_RATE else f"{end:.3g}"
        for end in (change.low, change.high)
    ]
    return f"{change.name} {shown} ({size}, 95% interval {ends[0]} to {ends[1]}{more})"


def _common_levels(before: Run, after: Run) -> list[tuple[MeasuredLevel, MeasuredLevel]]:
    """Levels of the same load, in the later run's order; of several alike the last of each."""
    earlier = {level.load.words: level for level in before.levels.values()}
    later = {level.load.words: level for level in after.levels.values()}
    return [(earlier[words], level) for words, level in later.items() if words in earlier]


def _places(run: Run) -> str:
    return ", ".join(level.metrics.place for level in run.levels.values()) or "none"
