"""Which level to measure next, and when to stop: a pure function of the levels measured, so that a resumed run agrees.

**sweep** doubles the load from its lowest value until a rule stops it: `objective` (a latency bound is missed),
`error_rate`, `timeout` (a request timed out), `unsteady` (an open loop's latency kept growing), `diminishing_return`
(throughput grew by less than a quarter of what the load did), `limit` (of what was allowed) or `client` (the load asked
for was not offered, or the client's own share decided, `repeats` times in a row; once it did, a level is only measured
again).

**find_max** looks for the highest load without any of the first four (`find_max`). Bounds from below
(`requests_per_s_min`) are not looked at: more load is the way to meet them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from loadproof.bench.search.find_max import Bracket, bracket_of, confirmed_load, next_to_find
from loadproof.bench.search.probes import Miss, Probe, Stop, Wanted
from loadproof.bench.spec import Search

_ENDS_OF_FIND_MAX = ("converged", "limit")
MOST_LEVELS = 60
MINIMUM_GAIN = 0.25  # as for the knee: doubling the load must bring a quarter more


def next_level(search: Search, probes: Sequence[Probe], also: float | None = None) -> Wanted | Stop:
    """The level to measure next, or why there is none. `also`: a value a sweep must not step over."""
    if len(probes) >= MOST_LEVELS:
        return Stop("most_levels", f"{MOST_LEVELS} levels measured without an end")
    late = list(takewhile(lambda probe: probe.client_was_late, reversed(probes)))
    if len(late) >= search.repeats:
        return Stop("client", late[0].misses[0].reason)
    if late:
        probes = probes[: -len(late)]
    telling = _telling(probes)
    return _next_of_sweep(search, telling, also) if search.kind == "sweep" else next_to_find(search, telling)


def _telling(probes: Sequence[Probe]) -> list[Probe]:
    """A level at which the client decided says nothing of the endpoint; it is measured again."""
    return [probe for probe in probes if not probe.client_was_late]


def _next_of_sweep(search: Search, probes: Sequence[Probe], also: float | None) -> Wanted | Stop:
    if probes:
        last = probes[-1]
        if last.misses:
            return Stop(last.misses[0].rule, last.misses[0].reason)
        if len(probes) > 1 and (stop := _diminished(probes[-2], last)):
            return stop
    steps = ladder(search, also)
    if len(probes) == len(steps):
        return Stop("limit", f"{steps[-1]:g} was the highest load allowed")
    return Wanted(steps[len(probes)])


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


def judged_probe(search: Search, probes: Mapping[int, Probe], also: float | None) -> int:
    """The level a search is judged at, of those measured (at least one).

    find_max: the last level that confirmed the load found; before there is one, the last that met at the highest load
    that did. sweep: at `also` where that was measured, else the highest load that met. Where nothing met, the lowest.
    """
    named = [level for level, probe in probes.items() if probe.value == also]
    if search.kind == "sweep" and named:
        return named[-1]
    wanted = _found(tuple(probes.values())) if search.kind == "find_max" else None
    met = [level for level, probe in probes.items() if probe.met and wanted in (None, probe.value)]
    if met and (search.kind == "sweep" or wanted is not None):
        return max(met, key=lambda level: (probes[level].value, level))
    return min(probes, key=lambda level: (probes[level].value, -level))


def _found(probes: Sequence[Probe]) -> float | None:
    """The load that was confirmed; before that, the highest that met so far."""
    telling = _telling(probes)
    confirmed = confirmed_load(telling)
    return bracket_of(telling).met if confirmed is None else confirmed


@dataclass(frozen=True, slots=True)
class SearchedLevel:
    """One level of a search, and whether its load met."""

    value: float
    """requests in flight, or requests/s"""
    met: bool
    """it missed nothing"""
    misses: tuple[Miss, ...] = ()
    """what it missed"""
    confirms: bool = False
    """it was sent afresh to confirm its load"""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, between what, by how many measurements, and what holds it there."""

    kind: Literal["sweep", "find_max"]
    """as in the plan"""
    unit: str
    """of the loads"""
    found: float | None
    """highest load that was confirmed, of a search that was cut off the highest that met; null: none did"""
    bracket: Bracket
    """what the search narrowed it down to"""
    repeats: int
    """most measurements of each end"""
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
        fresh = " (PASS at a fresh level)" if any(one.confirms for one in self.probes) else ""
        if self.bracket.missed is None and self.stop is not None and self.found == self.bracket.met:
            return f"{what}: at least {load}, the most allowed{fresh}"
        return f"{what}: {load}{fresh}"


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
    following = next_level(search, probes, also)
    bracket = bracket_of(_telling(probes))
    limiting = [probe for probe in probes if probe.value == bracket.missed and probe.misses]
    return SearchResult(
        kind=search.kind,
        unit="requests/s" if search.load.is_open else "in flight",
        found=bracket.met if search.kind == "sweep" else _found(probes),
        bracket=bracket,
        repeats=search.repeats if search.kind == "find_max" else 1,
        tolerance=search.tolerance,
        levels=len(probes),
        limited_by=limiting[-1].misses[0] if limiting else None,
        stop=following if isinstance(following, Stop) else None,
        probes=tuple(SearchedLevel(probe.value, probe.met, probe.misses, probe.confirms) for probe in probes),
    )
