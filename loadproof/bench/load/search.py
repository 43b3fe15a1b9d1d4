"""Which level to measure next, and when to stop: a pure function of the levels measured, so that a resumed run agrees.

**sweep** doubles the load from its lowest value until a rule stops it: `objective` (a latency bound is missed),
`error_rate`, `timeout` (a request timed out), `unsteady` (an open loop's latency kept growing), `diminishing_return`
(throughput grew by less than a quarter of what the load did), `limit` (of what was allowed) or `client` (the load asked
for was not offered, or the client's own share decided, `repeats` times in a row; once it did, a level is only measured
again).

**find_max** looks for the highest load without any of the first four. It doubles until one is found, then bisects
between the highest that met and the lowest that missed; a load counts by the majority of its measurements, a tie as
missed. When the two ends are close enough, each is measured until it has `repeats`; an end that changes sides sends the
search on. Bounds from below (`requests_per_s_min`) are not looked at: more load is the way to meet them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from loadproof.bench.judge.verdict import invalid_reasons
from loadproof.bench.measure.metrics import LevelMetrics, pooled
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.steady import SteadyState, steady_tokens_per_s
from loadproof.bench.objectives import ERROR_RATE, Objective
from loadproof.bench.spec import BenchmarkSpec, Search
from loadproof.invocation.outcomes import OutcomeKind

Rule = Literal[
    "client",
    "timeout",
    "error_rate",
    "objective",
    "unsteady",
    "diminishing_return",
    "limit",
    "converged",
    "most_levels",
]
_ENDS_OF_FIND_MAX = ("converged", "limit")
MOST_LEVELS = 60
MINIMUM_GAIN = 0.25  # as for the knee: doubling the load must bring a quarter more


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a level does not do: the rule, in words, and for an objective its name, bound and what was observed."""

    rule: Rule
    """which one"""
    reason: str
    """in words"""
    objective: str | None = None
    """that was missed"""
    observed: float | None = None
    """in the objective's unit"""
    bound: float | None = None
    """in the objective's unit"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One measured level of a search: its load, what it misses (nothing: it met), and the throughput it reached."""

    value: float
    misses: tuple[Miss, ...]
    throughput: float | None

    @property
    def met(self) -> bool:
        return not self.misses

    @property
    def client_was_late(self) -> bool:
        return any(miss.rule == "client" for miss in self.misses)


@dataclass(frozen=True, slots=True)
class Stop:
    """The search is over, by this rule."""

    rule: Rule
    """which one"""
    reason: str
    """in words"""


def probe_of(
    value: float, level: LevelMetrics, records: Sequence[RequestRecord], steady: SteadyState, spec: BenchmarkSpec
) -> Probe:
    """What one measured level amounts to; `records` are its measured requests."""
    misses = _error_misses(level, spec)
    succeeded = [record for record in records if record.ok]
    by_the_client = [Miss("client", reason) for reason in invalid_reasons(level)]
    for objective in spec.objectives:
        if objective.latency is None:
            continue
        metric, rank_percent = objective.latency
        observed = pooled(metric, succeeded).percentile_ms(rank_percent)
        at_best = pooled(metric, succeeded, "shortest").percentile_ms(rank_percent)
        if at_best is None or not objective.met_by(at_best):
            misses.append(_objective_miss(objective, observed))
        elif observed is not None and not objective.met_by(observed):
            reason = f"{_objective_miss(objective, observed).reason}, without the client's own share {at_best:,.4g}"
            by_the_client.append(Miss("client", reason))
    if level.unfinished:
        misses.append(Miss("unsteady", f"{level.unfinished} requests unfinished when the drain's time was over"))
    elif steady.growing and level.load is not None:
        misses.append(Miss("unsteady", "latency kept growing: requests come faster than they are served"))
    # What misses without the client's share, at less load than asked, misses all the same.
    return Probe(value, tuple(misses or by_the_client), steady_tokens_per_s(level, steady, records))


def _error_misses(level: LevelMetrics, spec: BenchmarkSpec) -> list[Miss]:
    misses = []
    timeouts = level.errors_by_kind.get(OutcomeKind.TIMEOUT, 0)
    if timeouts:
        misses.append(Miss("timeout", f"{timeouts} of {level.requests} requests timed out"))
    given = [objective.bound for objective in spec.objectives if objective.name == ERROR_RATE]
    most = given[0] if given else spec.max_error_rate
    share = level.errors / level.requests if level.requests else 1.0
    if share > most:
        text = f"{level.errors} of {level.requests} requests failed; at most {most:.2%} may"
        misses.append(Miss("error_rate", text, ERROR_RATE if given else None, share, most))
    return misses


def _objective_miss(objective: Objective, observed: float | None) -> Miss:
    shown = "no data" if observed is None else f"{observed:,.4g}"
    reason = f"{objective.name}: observed {shown}, bound {objective.comparison} {objective.bound:,.4g}"
    return Miss("objective", reason, objective.name, observed, objective.bound)


def next_value(search: Search, probes: Sequence[Probe], also: float | None = None) -> float | Stop:
    """The load to measure next, or why there is none. `also`: a value a sweep must not step over."""
    if len(probes) >= MOST_LEVELS:
        return Stop("most_levels", f"{MOST_LEVELS} levels measured without an end")
    late = list(takewhile(lambda probe: probe.client_was_late, reversed(probes)))
    if len(late) >= search.repeats:
        return Stop("client", late[0].misses[0].reason)
    if late:
        return late[0].value
    telling = _telling(probes)
    return _next_of_sweep(search, telling, also) if search.kind == "sweep" else _next_to_find(search, telling)


def _telling(probes: Sequence[Probe]) -> list[Probe]:
    """A level at which the generator was late says nothing of the endpoint; it is measured again."""
    return [probe for probe in probes if not probe.client_was_late]


def _next_of_sweep(search: Search, probes: Sequence[Probe], also: float | None) -> float | Stop:
    if probes:
        last = probes[-1]
        if last.misses:
            return Stop(last.misses[0].rule, last.misses[0].reason)
        if len(probes) > 1 and (stop := _diminished(probes[-2], last)):
            return stop
    steps = ladder(search, also)
    if len(probes) == len(steps):
        return Stop("limit", f"{steps[-1]:g} was the highest load allowed")
    return steps[len(probes)]


def _diminished(before: Probe, after: Probe) -> Stop | None:
    if before.throughput is None or after.throughput is None or before.throughput <= 0:
        return None
    gain, load = after.throughput / before.throughput - 1, after.value / before.value - 1
    if gain / load >= MINIMUM_GAIN:
        return None
    return Stop("diminishing_return", f"{load:+.0%} load from {before.value:g} brought {gain:+.0%} throughput")


def ladder(search: Search, also: float | None) -> list[float]:
    """The loads of a sweep that nothing stops: doubled from start to limit, and `also` where it lies between."""
    values, value = {search.most}, search.start
    while value < search.most:
        values.add(value)
        value *= 2
    if also is not None and search.start < also < search.most:
        values.add(also)
    return sorted(values)


@dataclass(frozen=True, slots=True)
class Bracket:
    """The highest load that met below the lowest that missed, and how each was voted on (True: met)."""

    met: float | None
    """highest load that met; null: none did"""
    missed: float | None
    """lowest that missed; null: none did"""
    met_votes: tuple[bool, ...] = ()
    """how each measurement of it voted"""
    missed_votes: tuple[bool, ...] = ()
    """likewise"""


def bracket_of(probes: Sequence[Probe]) -> Bracket:
    votes: dict[float, list[bool]] = {}
    for probe in _telling(probes):
        votes.setdefault(probe.value, []).append(probe.met)
    holds = {value: 2 * sum(cast) > len(cast) for value, cast in votes.items()}
    missed = min((value for value, held in holds.items() if not held), default=None)
    met = max((value for value, held in holds.items() if held and (missed is None or value < missed)), default=None)
    return Bracket(met, missed, tuple(votes.get(met or -1, ())), tuple(votes.get(missed or -1, ())))


def _next_to_find(search: Search, probes: Sequence[Probe]) -> float | Stop:
    if not probes:
        return search.start
    bracket = bracket_of(probes)
    met, missed = bracket.met, bracket.missed
    if missed is None:
        assert met is not None
        if met < search.most:
            return min(search.most, 2 * met)
    elif met is None:
        lower = _between(search, 0, missed)
        if lower is not None and missed > search.start / 64:
            return lower
    else:
        middle = _between(search, met, missed)
        if middle is not None:
            return middle
    for end, cast in ((met, bracket.met_votes), (missed, bracket.missed_votes)):
        if end is not None and len(cast) < search.repeats:
            return end
    if missed is None:
        return Stop("limit", f"the objectives hold at {met:g}, the highest load allowed")
    if met is None:
        return Stop("limit", f"the objectives are missed at {missed:g} already, the lowest load tried")
    return Stop("converged", f"they hold at {met:g} and are missed at {missed:g}")


def _between(search: Search, met: float, missed: float) -> float | None:
    """Halfway between two loads; None where they are as close as need be, or nothing lies between."""
    if search.load.is_open:
        return None if met and missed / met - 1 <= search.tolerance else float(f"{(met + missed) / 2:.4g}")
    middle = (round(met) + round(missed)) // 2
    if middle <= met or middle < 1 or (met and missed / met - 1 <= search.tolerance):
        return None
    return float(middle)


def judged_probe(search: Search, probes: Mapping[int, Probe], also: float | None) -> int:
    """The level a search is judged at, of those measured (at least one).

    find_max: the last measurement that met at the load found. sweep: at `also` where that was measured, else the
    highest load that met. Where nothing met, the lowest load.
    """
    named = [level for level, probe in probes.items() if probe.value == also]
    if search.kind == "sweep" and named:
        return named[-1]
    wanted = bracket_of(tuple(probes.values())).met if search.kind == "find_max" else None
    met = [level for level, probe in probes.items() if probe.met and wanted in (None, probe.value)]
    if met and (search.kind == "sweep" or wanted is not None):
        return max(met, key=lambda level: (probes[level].value, level))
    return min(probes, key=lambda level: (probes[level].value, -level))


@dataclass(frozen=True, slots=True)
class SearchedLevel:
    """One level of a search, and whether its load met."""

    value: float
    """requests in flight, or requests/s"""
    met: bool
    """it missed nothing"""
    misses: tuple[Miss, ...] = ()
    """what it missed"""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, between what, by how many measurements, and what holds it there."""

    kind: Literal["sweep", "find_max"]
    """as in the plan"""
    unit: str
    """of the loads"""
    found: float | None
    """highest load that met; null: none did"""
    bracket: Bracket
    """what it lies between"""
    repeats: int
    """measurements of each end"""
    tolerance: float
    """how close the ends come, as a share"""
    levels: int
    """how many were measured"""
    limited_by: Miss | None
    """what holds it there"""
    stop: Stop | None
    """why it ended; null: it did not"""
    probes: tuple[SearchedLevel, ...]
    """every measurement"""

    @property
    def finished(self) -> bool:
        """It came to its own end. One that was cut off, or that its client stopped, did not."""
        if self.stop is None or self.stop.rule in ("client", "most_levels"):
            return False
        return self.kind == "sweep" or self.stop.rule in _ENDS_OF_FIND_MAX

    def votes(self, load: float | None) -> tuple[int, int]:
        """How many measurements of a load met, and how many there were."""
        cast = [probe.met for probe in self.probes if probe.value == load]
        return sum(cast), len(cast)

    def lines(self) -> list[str]:
        """What it found, in sentences."""
        said = [
            f"Stopped by {self.stop.rule}: {self.stop.reason}" if self.stop else "Not finished: the run was cut off"
        ]
        if self.kind == "sweep":
            return said
        if self.limited_by:
            said.insert(0, f"limited by {self.limited_by.rule}: {self.limited_by.reason}")
        return [self._load_found(), f"bracket: {_ends(self.bracket)}; {self.levels} levels measured", *said]

    def _load_found(self) -> str:
        what = "Highest load that meets the objectives"
        if self.found is None:
            return f"{what}: none" if self.finished else f"{what}: not known, search not finished"
        load = f"{self.found:g} {self.unit}"
        if not self.finished:
            return f"{what}: at least {load}, search not finished"
        return f"{what}: {load}" if self.bracket.missed is not None else f"{what}: at least {load}, the most allowed"


def _ends(bracket: Bracket) -> str:
    """`met at 8 (3 of 3), missed at 9 (2 of 3)`."""
    ends = (
        ("met", bracket.met, bracket.met_votes, sum(bracket.met_votes)),
        ("missed", bracket.missed, bracket.missed_votes, sum(not met for met in bracket.missed_votes)),
    )
    return ", ".join(
        f"{end} at {load:g} ({count} of {len(votes)})" for end, load, votes, count in ends if load is not None
    )


def search_result(search: Search, probes: Sequence[Probe], also: float | None) -> SearchResult:
    """What a search found: the load, its bracket and votes, what limits it, why it stopped."""
    following = next_value(search, probes, also)
    bracket = bracket_of(probes)
    limiting = [probe for probe in probes if probe.value == bracket.missed and probe.misses]
    return SearchResult(
        kind=search.kind,
        unit="requests/s" if search.load.is_open else "in flight",
        found=bracket.met,
        bracket=bracket,
        repeats=search.repeats if search.kind == "find_max" else 1,
        tolerance=search.tolerance,
        levels=len(probes),
        limited_by=limiting[-1].misses[0] if limiting else None,
        stop=following if isinstance(following, Stop) else None,
        probes=tuple(SearchedLevel(probe.value, probe.met, probe.misses) for probe in probes),
    )
