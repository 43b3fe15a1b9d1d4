"""The brief of several runs: what each kept and costs, whether they can be told apart, and which one to take, if any.

The cheapest is taken only where prices differ and the runs are of one model: of equals none is the cheapest, and
another model gives other answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from loadproof.bench.compare.regression import Comparison
from loadproof.bench.document import Summary
from loadproof.bench.report.brief import prices
from loadproof.pages.brief import Brief
from loadproof.pages.wording import joined, usd
from loadproof.usd import usd_per_month


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run by the name that it goes by. `model`: None where the run does not say which one it was."""

    name: str
    summary: Summary
    model: str | None = None

    @property
    def usd_per_month(self) -> float | None:
        return usd_per_month(self.summary.conditions.usd_per_hour)

    @property
    def passes(self) -> bool:
        return self.summary.verdict.outcome == "PASS"


def brief_of_runs(runs: Sequence[Candidate], changes: Sequence[Comparison]) -> Brief:
    """`changes` are the comparisons with the first run that could be made."""
    known = "; ".join(f"{usd(run.usd_per_month)} {run.name}" for run in runs if run.usd_per_month is not None)
    counts = Counter(one.outcome for one in changes)
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return Brief(
        promise="; ".join(f"{run.name}: {run.summary.verdict.outcome}" for run in runs),
        cost=(
            f"{known}{prices(*(run.summary for run in runs))}"
            if known
            else "not known: no run has a price of what answered"
        ),
        sure=f"against {runs[0].name}, with intervals of 95 %: {told}" if told else "nothing tells these from chance",
        next=_choice(runs, changes),
    )


def _choice(runs: Sequence[Candidate], changes: Sequence[Comparison]) -> str:
    passing = [run for run in runs if run.passes]
    models = list(dict.fromkeys(run.model for run in runs if run.model is not None))
    if not passing:
        return f"none of them passes: {_none_passes(runs)}"
    if len(models) > 1:
        return (
            f"these are different models ({joined(models, 'and')}), which are not interchangeable: hold their answers "
            "against each other on your own tasks before what they cost"
        )
    if len({run.summary.profile.sha256 if run.summary.profile else run.name for run in runs}) == 1:
        return f"nothing to choose, all are of one profile: {_told_apart(changes)}"
    if len(passing) == 1:
        return f"take {passing[0].name}, the only one that passes{_if_one_model(runs)}"
    priced = sorted((month, run.name) for run in passing if (month := run.usd_per_month) is not None)
    if len(priced) < len(passing):
        return f"choose among those that pass: {', '.join(run.name for run in passing)}"
    cheapest = [name for month, name in priced if usd(month) == usd(priced[0][0])]
    if len(cheapest) > 1:
        return f"{joined(cheapest, 'and')} pass at the same price: {_told_apart(changes)}"
    return f"take {cheapest[0]}, the cheapest that passes{_if_one_model(runs)}"


def _none_passes(runs: Sequence[Candidate]) -> str:
    outcomes = {run.summary.verdict.outcome for run in runs}
    if "FAIL" in outcomes:
        return "look at what binds before choosing one"
    if "INCONCLUSIVE" in outcomes:
        return "send more requests to those that are INCONCLUSIVE (`loadproof report RUN` says how many)"
    return "each run's report says what to do (`loadproof report RUN`)"


def _if_one_model(runs: Sequence[Candidate]) -> str:
    """What has to hold for that, where not every run says which model it was."""
    return "" if all(run.model for run in runs) else ", if all serve one model: not every run says which"


def _told_apart(changes: Sequence[Comparison]) -> str:
    """What tells equals apart: the comparison, or what would settle it."""
    outcomes = {one.outcome for one in changes}
    if not outcomes:
        return "send both the same load, then compare them again"
    if "INCONCLUSIVE" in outcomes:
        return f"what differs is not settled; {_settling(changes)}"
    if outcomes == {"NO CHANGE"}:
        return "no change between them either"
    return "go by what changed, below"


def _settling(changes: Sequence[Comparison]) -> str:
    open_ones = [
        change
        for one in changes
        for change in one.changes
        if one.outcome == "INCONCLUSIVE" and change.decides and change.outcome == "INCONCLUSIVE"
    ]
    if not all(one.measured for one in changes):
        return "measure again: a level did not get the load that it asked for"
    if any(change.low is None and change.high is None for change in open_ones):
        return "send more requests a level (`--requests-per-level`), then compare again"
    runs = [change.runs_to_settle for change in open_ones if change.runs_to_settle]
    count = f"{max(runs)} runs of each" if runs and len(runs) == len(open_ones) else "more runs of each"
    return f"{count}, kept (`loadproof evidence add RUN`), would settle it"
