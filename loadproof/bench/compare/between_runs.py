"""How much one endpoint's figures differ from run to run, beyond what a run's own requests show: random effects.

Two runs of one endpoint meet other machines, neighbours and days; no bootstrap over requests sees that. So a change is
held against both: its variance is that of the requests plus that between runs, once for each side. The latter is
learned from kept runs that repeat each other (same profile, environment, load and workload), by analysis of variance of
the figures' logarithms: what they vary by, less what their own intervals explain. It is shrunk towards `ASSUMED`, which
counts as `WEIGHT` more repeats, and stands alone where nothing is repeated: GPUs of one model differ by 8% on
average (up to 22%) in five computing centres (Sinha et al., "Not All GPUs Are Created Equal", SC 2022), and a run meets
more than a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from statistics import NormalDist, fmean

from loadproof.bench.document import Summary, as_json
from loadproof.bench.measure.dependence import Z

ASSUMED = 0.10
WEIGHT = 1
MOST_RUNS = 50
POWER = 0.80
_Z_POWER = NormalDist().inv_cdf(POWER)


@dataclass(frozen=True, slots=True)
class LogFigure:
    """One figure of a kept run, in logarithms: its value, and the standard error that its requests leave."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A judged run among those that are kept. Runs `alike` repeat each other."""

    run_id: str
    alike: str
    figures: dict[str, LogFigure]


@dataclass(frozen=True, slots=True)
class Between:
    """The standard deviation of a figure's logarithm from run to run; `freedom` 0: nothing was repeated, so assumed."""

    spread: float
    freedom: int


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of one side of a comparison beside its own run: figures of the kept runs that repeat it."""

    own: LogFigure
    repeats: tuple[LogFigure, ...] = ()

    @property
    def runs(self) -> int:
        return 1 + len(self.repeats)

    @property
    def value(self) -> float:
        return fmean([self.own.value, *(one.value for one in self.repeats)])

    @property
    def variance(self) -> float:
        """Of the mean, as far as the requests explain it."""
        return sum(one.error**2 for one in (self.own, *self.repeats)) / self.runs**2


@dataclass(frozen=True, slots=True)
class LogInterval:
    """A change as the logarithm of a ratio, with its 95% interval; an end that cannot be told is None."""

    centre: float
    low: float | None
    high: float | None

    @property
    def half(self) -> float | None:
        """The wider half; None without both ends."""
        if self.low is None or self.high is None:
            return None
        return max(self.centre - self.low, self.high - self.centre)


def allowing_for_runs(change: LogInterval, sides: tuple[Side, Side], between: Between) -> LogInterval:
    """The change between the means of both sides. `change`: between their own runs, by their requests alone."""
    centre = sides[1].value - sides[0].value
    of_runs = Z**2 * between.spread**2 * sum(1 / side.runs for side in sides)
    repeated = Z**2 * sum(side.variance for side in sides) if any(side.repeats for side in sides) else None
    low, high = (
        None if end is None else sqrt(((end - change.centre) ** 2 if repeated is None else repeated) + of_runs)
        for end in (change.low, change.high)
    )
    return LogInterval(centre, None if low is None else centre - low, None if high is None else centre + high)


def kept_runs(summaries: Iterable[Summary]) -> tuple[KeptRun, ...]:
    """Of every judged run of a profile, once. A figure counts where its interval has both ends."""
    found = {}
    for summary in summaries:
        if summary.profile is None or summary.verdict.outcome == "INVALID":
            continue
        target, workload = summary.target, as_json(summary.workload)
        named = (summary.profile.sha256, summary.profile.environment, target.endpoint, summary.place, workload)
        figures = {
            one.name: LogFigure(log(one.observed), (log(one.high) - log(one.low)) / (2 * Z))
            for one in summary.objectives
            if one.observed and one.low and one.high
        }
        found[summary.run_id] = KeptRun(summary.run_id, json.dumps(named, sort_keys=True), figures)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class History:
    """The kept runs that a comparison learns from. The later run teaches nothing: it is what is in question."""

    before: str
    after: str
    kept: tuple[KeptRun, ...] = ()

    def between_runs(self, name: str) -> Between:
        """The spread of one figure from run to run, over all groups of runs that repeat each other."""
        groups: dict[str, list[LogFigure]] = {}
        for run in self.kept:
            if name in run.figures and run.run_id != self.after:
                groups.setdefault(run.alike, []).append(run.figures[name])
        squares, freedom, within = 0.0, 0, []
        for group in groups.values():
            if len(group) > 1:
                middle = fmean(one.value for one in group)
                squares += sum((one.value - middle) ** 2 for one in group)
                freedom += len(group) - 1
                within += [one.error**2 for one in group]
        if not freedom:
            return Between(ASSUMED, 0)
        seen = max(0.0, squares / freedom - fmean(within))
        return Between(sqrt((WEIGHT * ASSUMED**2 + freedom * seen) / (WEIGHT + freedom)), freedom)

    def repeats(self, name: str) -> tuple[tuple[LogFigure, ...], tuple[LogFigure, ...]]:
        """The figure in the other kept runs that repeat the earlier run, and in those that repeat the later one.

        Where both runs are of one kind, all others stand with the earlier one: the later one has to answer to them.
        """
        alike = {run.run_id: run.alike for run in self.kept}
        kinds = alike.get(self.before), alike.get(self.after)
        others = [run for run in self.kept if run.run_id not in (self.before, self.after) and name in run.figures]
        earlier = tuple(run.figures[name] for run in others if run.alike == kinds[0])
        later = tuple(run.figures[name] for run in others if run.alike == kinds[1] != kinds[0])
        return earlier, later


def detectable(half: float, tolerance: float) -> float:
    """The smallest ratio that would be called a regression in `POWER` of the cases. `half`: half the interval's width,
    in logarithms."""
    return (1 + tolerance) * exp(half * (1 + _Z_POWER / Z))


def runs_to_settle(change: LogInterval, tolerance: float) -> int | None:
    """How many runs of each side would settle a change of that size in `POWER` of the cases.

    None where that is more than `MOST_RUNS`.
    """
    distance = abs(abs(change.centre) - log(1 + tolerance))
    if not distance or change.half is None:
        return None
    runs = ceil((change.half * (1 + _Z_POWER / Z) / distance) ** 2)
    return runs if runs <= MOST_RUNS else None
