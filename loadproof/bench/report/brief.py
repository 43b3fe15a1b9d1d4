"""A run's brief: did it keep its promise, what does that cost a month, how sure is that, what next."""

from __future__ import annotations

import math
from pathlib import Path

from loadproof.bench.document import Summary
from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.measure.intervals import unseen_spells
from loadproof.bench.report import wording
from loadproof.pages.brief import Brief, in_a_command
from loadproof.pages.wording import usd
from loadproof.usd import usd_per_month


def brief_of(summary: Summary, folder: Path | None = None) -> Brief:
    """The same on the page, in the terminal and in a comment. `folder`: where the run is, if not in runs/."""
    return Brief(
        promise=f"{summary.verdict.outcome}: {verdict_sentence(summary)}",
        cost=_cost(summary),
        sure=_sure(summary),
        next=_next(summary, folder or Path("runs", summary.run_id)),
    )


def _cost(summary: Summary) -> str:
    month = usd_per_month(summary.conditions.usd_per_hour)
    if month is None:
        return "not known: the run has no price of what answered"
    return f"{usd(month)} for the instances that bore this load, all month{prices(summary)}"


def prices(*summaries: Summary) -> str:
    """Which prices these are, of when, each once; where they were found stands below, among the conditions."""
    found = dict.fromkeys((summary.conditions.price or "").partition("; ")[0] for summary in summaries)
    named = "; ".join(filter(None, found))
    return f". Price: {named}" if named else ""


def _sure(summary: Summary) -> str:
    """What the verdict rests on: whose latencies, how many requests, what they cannot show."""
    said = []
    if summary.on_twin:
        said.append("simulated: what answered is the local cloud’s twin, so it is as sure as the plan")
    counts = [objective.requests for objective in summary.objectives if objective.requests]
    if summary.verdict.outcome == "INVALID":
        sent = f": what its {min(counts):,} requests and their intervals say does not count" if counts else ""
        said.append(f"not at all: the measurement is INVALID{sent}")
    elif counts:
        fewest = min(counts)
        said.append(f"{fewest:,} requests at that load, intervals of 95 %")
        said.append(f"slow spells rarer than one in {unseen_spells(fewest):,} requests would not have been seen")
    return "; ".join(said) or "nothing was judged, so nothing is sure"


def _next(summary: Summary, folder: Path) -> str:
    outcome, profile, run = summary.verdict.outcome, summary.profile, in_a_command(str(folder), "RUN")
    named = in_a_command(f"{profile.environment}/{profile.name}" if profile and profile.environment else "PROFILE")
    # Nobody knows here which options a run without a profile had.
    again = f"`loadproof bench {named}`" if profile else "the same command"
    if summary.conditions.interrupted:
        return f"send the rest: `loadproof bench --resume {run}`"
    if outcome == "PASS" and summary.on_twin:
        where = "" if profile else ", with that endpoint as its target"
        return f"deploy it to an account, then prove it there: {again}{where}"
    if outcome == "PASS":
        return f"keep the run as evidence: `loadproof evidence add {run}`"
    if outcome == "FAIL" and profile is None:
        return "see what binds: `loadproof plan PROFILE`, of a profile that describes this endpoint"
    if outcome == "FAIL":
        return f"see what binds, and what would meet the objectives: `loadproof plan {named}`"
    if outcome == "INCONCLUSIVE":
        more = max((objective.more_requests or 0 for objective in summary.objectives), default=0)
        level = max((level.requests or 0 for level in summary.levels if summary.is_judged(level)), default=0)
        option = f"--requests-per-level {level + more}"
        with_more = f"`loadproof bench {named} {option}`" if profile else f"the same command with `{option}`"
        return f"send more: {with_more}" if more else "measure longer"
    if outcome == "INVALID":
        return f"measure again from a machine with nothing else to do: {again}"
    return "say what it must keep: objectives in the profile, or `--objective ttft_p95_ms=500`"


def verdict_sentence(summary: Summary) -> str:
    """Why the verdict is what it is, in one sentence; the verdict's own first reason where objectives do not say it."""
    verdict = summary.verdict
    where = f" at {verdict.at_concurrency} requests in flight" if verdict.at_concurrency else ""
    if verdict.at_load and not verdict.at_load.endswith("in flight"):  # an open loop goes by its rate
        where = f" at {wording.visible(verdict.at_load, 120)}"
    decisive = [objective for objective in summary.objectives if objective.verdict == verdict.outcome]
    if decisive and verdict.outcome in _SENTENCES:
        closest = min(decisive, key=lambda objective: objective.margin if objective.margin is not None else math.inf)
        return _SENTENCES[verdict.outcome](closest, len(decisive), where)
    if verdict.reasons:
        return wording.visible(verdict.reasons[0])
    return {
        "PASS": f"The objectives were met{where}.",
        "FAIL": f"The objectives were not met{where}.",
        "INCONCLUSIVE": f"The samples do not settle whether the objectives hold{where}.",
        "INVALID": "The measurement itself cannot be trusted.",
        "NOT JUDGED": "No objectives were given.",
    }[verdict.outcome]


def _passed(closest: Judgement, count: int, where: str) -> str:
    objectives = {1: "The one objective was", 2: "Both objectives were"}.get(count, f"All {count} objectives were")
    value = wording.objective_value(closest.name, closest.observed)
    room = f", {wording.margin(closest.margin)} its bound" if closest.margin is not None else ""
    return f"{objectives} met{where}; the closest is {wording.objective_title(closest.name)} with {value}{room}."


def _failed(worst: Judgement, count: int, where: str) -> str:
    value = wording.objective_value(worst.name, worst.observed)
    more = f"; {count - 1} more missed" if count > 1 else ""
    return f"{wording.objective_title(worst.name)} was {value}{where}, the objective is {wording.bound(worst)}{more}."


def _undecided(closest: Judgement, count: int, where: str) -> str:
    title, more = wording.objective_title(closest.name), f"; {count - 1} more undecided" if count > 1 else ""
    if closest.observed is None:
        return f"{title} has no data{where}, so {wording.bound(closest)} stays open{more}."
    value = wording.objective_value(closest.name, closest.observed)
    if closest.doubt:
        return f"{title} was {value}{where}, which does not settle {wording.bound(closest)}: {closest.doubt}{more}."
    spread = f" (95 % interval {wording.interval(closest)})" if closest.low is not None else ""
    needed = closest.more_requests
    advice = f"; about {needed:,} more requests like these would in 4 of 5 cases" if needed else ""
    return f"{title} was {value}{spread}{where}: too few samples to settle {wording.bound(closest)}{advice}{more}."


_SENTENCES = {"PASS": _passed, "FAIL": _failed, "INCONCLUSIVE": _undecided}
