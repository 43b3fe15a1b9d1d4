"""`--find-max`: the highest load that meets the objectives, narrowed down, then confirmed by fresh levels.

**Narrowing down.** The load doubles until a level misses, then the gap between the highest load that met and the lowest
that missed is halved. More load is never quicker, so a load that misses speaks for every higher one. A load is
*known* to meet or to miss where the e-values of its requests say so with 95% (`probes.e_value`: they hold though one
looks after every level and goes on where it is unclear); else it counts as what its requests show so far, and an end of
the gap is measured until it is known or has `repeats` measurements.

**Confirming.** What looked best of several was also the luckiest, so no figure of the narrowing is reported. The load
found is sent once more, a fresh level of as many requests as its verdict needs, and that has to be PASS. Where it is
not, a lower load is tried: 5% below (`tolerance`), then 10%, 20% and so on; a load so close to
its bound that no `MOST_TIMES` times the fewest requests would settle it is not even tried. The verdict is the last
confirming level's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, fsum, lgamma

from loadproof.bench.measure.intervals import ranks
from loadproof.bench.search.probes import Probe, Stop, Tally, Wanted, e_value, pooled_tallies
from loadproof.bench.spec import Search
from loadproof.sizing import fewest_requests

MOST_TIMES = 10  # the fewest requests that settle anything: 720 of a p95
_KNOWN = 20.0  # an e-value: wrong for one load in twenty at most
_LOWEST = 64  # a search goes down to this part of where it began
_LIKELY = 0.9


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


@dataclass(frozen=True, slots=True)
class Standing:
    """What the measurements of one load say together; `known`: no further one would change it."""

    met: bool
    known: bool


def bracket_of(probes: Sequence[Probe]) -> Bracket:
    loads = _by_load(probes)
    standings = {value: standing_of(same) for value, same in loads.items()}
    missed = min((value for value, standing in standings.items() if not standing.met), default=None)
    met = max(
        (value for value, standing in standings.items() if standing.met and (missed is None or value < missed)),
        default=None,
    )
    votes = {value: tuple(probe.met for probe in same) for value, same in loads.items()}
    return Bracket(met, missed, votes.get(met or -1, ()), votes.get(missed or -1, ()))


def standing_of(probes: Sequence[Probe]) -> Standing:
    """Of all measurements of one load. A tie of levels that broke and levels that did not is a miss."""
    if 2 * sum(probe.broke for probe in probes) >= len(probes):
        return Standing(met=False, known=False)
    tallies = pooled_tallies(probes)
    if not tallies:
        return Standing(met=2 * sum(probe.met for probe in probes) > len(probes), known=False)
    if any(e_value(tally, above=True) >= _KNOWN * len(tallies) for tally in tallies):
        return Standing(met=False, known=True)
    met = all(tally.exceeding <= tally.allowed * tally.samples for tally in tallies)
    return Standing(met, known=met and all(e_value(tally, above=False) >= _KNOWN for tally in tallies))


def next_to_find(search: Search, probes: Sequence[Probe]) -> Wanted | Stop:
    """The level to measure next. `probes`: those at which the client was on time."""
    if not probes:
        return Wanted(search.start)
    bracket = bracket_of(probes)
    following = _narrower(search, bracket)
    if following is not None:
        return Wanted(following)
    loads = _by_load(probes)
    for end in (bracket.met, bracket.missed):
        if end is not None and len(loads[end]) < search.repeats and not standing_of(loads[end]).known:
            return Wanted(end)
    if bracket.met is None:
        return Stop("limit", f"the objectives are missed at {bracket.missed:g} already, the lowest load tried")
    return _confirmation(search, loads, bracket)


def _narrower(search: Search, bracket: Bracket) -> float | None:
    """The load that halves the gap, or doubles the load where nothing missed yet; None where it is narrow enough."""
    met, missed = bracket.met, bracket.missed
    if missed is None:
        return min(search.most, 2 * met) if met is not None and met < search.most else None
    if met is None and missed <= search.start / _LOWEST:
        return None
    return _between(search, met or 0, missed)


def _between(search: Search, met: float, missed: float) -> float | None:
    """Halfway between two loads; None where they are as close as need be, or nothing lies between."""
    if search.load.is_open:
        return None if met and missed / met - 1 <= search.tolerance else float(f"{(met + missed) / 2:.4g}")
    middle = (round(met) + round(missed)) // 2
    if middle <= met or middle < 1 or (met and missed / met - 1 <= search.tolerance):
        return None
    return float(middle)


def _confirmation(search: Search, loads: dict[float, list[Probe]], bracket: Bracket) -> Wanted | Stop:
    assert bracket.met is not None
    refused = {value for value, same in loads.items() if any(one.confirms and not one.passed for one in same)}
    candidate = bracket.met
    while True:
        if refused and candidate >= min(refused):
            candidate = _lower(search, min(refused), len(refused))
        if candidate < max(search.start / _LOWEST, 0 if search.load.is_open else 1):
            return Stop("unconfirmed", f"no fresh level passed, down to {min(refused, default=candidate):g}")
        if any(probe.confirms for probe in loads.get(candidate, ())):
            break
        requests = _fresh_requests(loads, candidate)
        if requests is not None:
            return Wanted(candidate, requests)
        refused.add(candidate)
    fresh = "confirmed by a fresh level"
    if bracket.missed is None and candidate == search.most:
        return Stop("limit", f"the objectives hold at {candidate:g}, the highest load allowed, {fresh}")
    above = min((value for value in {*refused, bracket.missed} if value is not None and value > candidate), default=0)
    what = "are missed" if above == bracket.missed else "cannot be shown to hold"
    return Stop("converged", f"they hold at {candidate:g}, {fresh}, and {what} at {above:g}")


def _lower(search: Search, refused: float, times: int) -> float:
    """Below a load that was refused: by the tolerance, and by twice as much each time."""
    value = refused * (1 - min(0.5, search.tolerance * 2 ** (times - 1)))
    return float(f"{value:.4g}") if search.load.is_open else float(min(floor(value), round(refused) - 1))


def _fresh_requests(loads: dict[float, list[Probe]], candidate: float) -> int | None:
    """How many requests a fresh level takes to pass in `_LIKELY` of the cases; None where too many would be needed.

    By what was measured there; where nothing was, by the next higher load, which is no quicker, and at most as many as
    anybody is asked to send.
    """
    measured = loads.get(candidate, ())
    above = min((value for value in loads if value > candidate), default=None)
    tallies = pooled_tallies(measured or (loads[above] if above is not None else ()))
    needed = [_needed(tally) for tally in tallies]
    most = max((MOST_TIMES * _fewest(tally) for tally in tallies), default=1)
    if measured and any(number is None for number in needed):
        return None
    return max((most if number is None else number for number in needed), default=1)


def _fewest(tally: Tally) -> int:
    return fewest_requests(100 * (1 - tally.allowed))


def _needed(tally: Tally) -> int | None:
    fewest = _fewest(tally)
    met, samples = round(tally.samples - tally.exceeding), max(1, round(tally.samples))
    for times in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, float(MOST_TIMES)):
        requests = ceil(times * fewest)
        if _chance_to_pass(met, samples, 1 - tally.allowed, requests) >= _LIKELY:
            return ceil(requests * max(1.0, tally.requests / samples))  # fewer of them are independent
    return None


def _chance_to_pass(met: int, samples: int, share: float, requests: int) -> float:
    """That of so many fresh requests enough lie within the bound for a PASS, `met` of `samples` having done so.

    How many will is beta-binomial, with Jeffreys' prior: the share seen so far is itself only an estimate.
    """
    _, last = ranks(requests, share)
    if last is None:
        return 0.0
    a, b = met + 0.5, samples - met + 0.5

    def log_beta(x: float, y: float) -> float:
        return lgamma(x) + lgamma(y) - lgamma(x + y)

    return fsum(
        exp(log_beta(k + a, requests - k + b) - log_beta(a, b) - log_beta(k + 1, requests - k + 1)) / (requests + 1)
        for k in range(last, requests + 1)
    )


def _by_load(probes: Sequence[Probe]) -> dict[float, list[Probe]]:
    loads: dict[float, list[Probe]] = {}
    for probe in probes:
        loads.setdefault(probe.value, []).append(probe)
    return loads


def confirmed_load(probes: Sequence[Probe]) -> float | None:
    """The highest load whose fresh levels all passed."""
    fresh = {value: [one for one in same if one.confirms] for value, same in _by_load(probes).items()}
    return max((value for value, same in fresh.items() if same and all(one.passed for one in same)), default=None)
