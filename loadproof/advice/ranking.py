"""Which alternative is best for a goal: dominance first, then the goal's own figure, then what would break a tie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import gt

from loadproof.advice.alternatives import GOALS, Alternative, Goal, Range, Recommendation
from loadproof.advice.assessment import as_dominated
from loadproof.advice.families import preference
from loadproof.families import FAMILIES

_Preference = tuple[bool, bool, float, str]
Standing = tuple[tuple[float, ...], _Preference]
_OUTLOOK = {"meets": 0, "near": 1, "unknown": 2, "misses": 3}
# How a goal is measured, in words for reasons.
_FIGURE: dict[Goal, str] = {
    "minimum latency": "{:,.0f} ms a request",
    "maximum throughput": "{:,.0f} tokens/s at the knee",
    "least cost per hour": "{:,.2f} USD an hour",
    "least cost per million tokens": "{:,.2f} USD a million output tokens at the knee",
    "least cost that meets the objectives": "{:,.2f} USD an hour",
}


def figures(found: Alternative) -> tuple[float, ...]:
    """What is compared, smaller is better: E2E, TTFT, TPOT, USD an hour, USD a million tokens, throughput (negative),
    grade, outlook of the objectives."""
    return (
        _value(found.e2e_ms),
        _value(found.ttft_ms),
        _value(found.tpot_ms),
        inf if found.usd_per_hour is None else found.usd_per_hour,
        _value(found.usd_per_million_tokens),
        -_value(found.knee_output_tokens_per_s) if found.knee_output_tokens_per_s else 0.0,
        "ABCD".index(found.grade),
        _OUTLOOK[found.objectives],
    )


def dominates(better: Alternative, worse: Alternative) -> bool:
    """`better` is at least as good in every figure and better in one; of equals the profile's own, then the preferred
    family, dominates."""
    return beats(standing(better), standing(worse))


def standing(row: Alternative) -> Standing:
    """What `beats` compares; whatever beats another one sorts before it."""
    return figures(row), _preference(row)


def divided(found: Sequence[Alternative]) -> tuple[list[Alternative], list[Alternative]]:
    """(those that nothing dominates, the others, marked). Quick because whoever dominates sorts before."""
    front: list[tuple[Standing, Alternative]] = []
    behind: list[Alternative] = []
    standings = [(standing(row), row) for row in found]
    for place, candidate in sorted(standings, key=lambda pair: pair[0]):
        if any(beats(better, place) for better, _ in front):
            behind.append(as_dominated(candidate))
        else:
            front.append((place, candidate))
    return [row for _, row in front], behind


def beats(better: Standing, worse: Standing) -> bool:
    """At least as good in every figure and better in one, or preferred among equals."""
    if any(map(gt, better[0], worse[0])):
        return False
    return better[0] != worse[0] or better[1] < worse[1]


def ranked(front: Sequence[Alternative], goal: Goal) -> list[Alternative]:
    """Best first. Grade D is never first where a better graded one lies within its range."""
    ordered = sorted(front, key=lambda row: (_key(row, goal), figures(row), _preference(row)))
    if ordered and ordered[0].grade == "D":
        first = ordered[0]
        for rival in ordered[1:]:
            if rival.grade != "D" and _as_good(rival, first, goal):
                ordered.remove(rival)
                return [rival, *ordered]
    return ordered


def recommend(front: Sequence[Alternative], own: Alternative | None) -> tuple[Recommendation, ...]:
    """The first of each goal's ranking, or the reason why there is none."""
    return tuple(_recommend(front, goal, own) for goal in GOALS)


def _recommend(front: Sequence[Alternative], goal: Goal, own: Alternative | None) -> Recommendation:
    able = [row for row in ranked(front, goal) if _key(row, goal)[-1] < inf and _qualifies(row, goal)]
    if not able:
        if goal == "least cost that meets the objectives" and front:
            return Recommendation(goal, None, "none is predicted to meet every objective")
        return Recommendation(goal, None, "none of those allowed fits, serves the load and has a known price")
    best = able[0]
    reason = _FIGURE[goal].format(abs(_key(best, goal)[-1]))
    if best.is_own:
        reason += ", the profile as it is"
    elif own is not None and own.at_objectives is not None and _key(own, goal)[-1] < inf:
        reason += f" (as it is: {_FIGURE[goal].format(abs(_key(own, goal)[-1])).split(' ', 1)[0]})"
    if best.objectives == "near" and goal == "least cost that meets the objectives":
        reason += "; none meets them for sure, bounds lie inside its ranges"
    elif best.objectives in ("misses", "near"):
        reason += f"; {'misses' if best.objectives == 'misses' else 'may miss'} the objectives"
    if best.price_derived and "cost" in goal:
        reason += "; its price is derived, not published"
    if best.unverified:
        reason += "; figures of its machine or accelerator are not verified"
    if best.grade == "D":
        reason += "; grade D, a rough guess: prove it before you rely on it"
    return Recommendation(goal, best, reason)


def _qualifies(row: Alternative, goal: Goal) -> bool:
    if goal != "least cost that meets the objectives":
        return True
    return row.objectives == "meets" or (row.objectives == "near" and within_bounds(row))


def within_bounds(row: Alternative) -> bool:
    """True where every predicted figure, without its range, meets its bound."""
    return all(
        found.predicted is not None
        and (found.predicted >= found.bound if found.comparison == ">=" else found.predicted <= found.bound)
        for found in row.outlook
    )


def _key(row: Alternative, goal: Goal) -> tuple[float, ...]:
    """What a goal sorts by; its own figure comes last."""
    price = inf if row.usd_per_hour is None else row.usd_per_hour
    keys: dict[Goal, Callable[[], tuple[float, ...]]] = {
        "minimum latency": lambda: (_value(row.e2e_ms),),
        "maximum throughput": lambda: (-row.knee_output_tokens_per_s.value if row.knee_output_tokens_per_s else inf,),
        "least cost per hour": lambda: (price,),
        "least cost per million tokens": lambda: (_value(row.usd_per_million_tokens),),
        "least cost that meets the objectives": lambda: (_OUTLOOK[row.objectives], not within_bounds(row), price),
    }
    return keys[goal]()


def _as_good(rival: Alternative, first: Alternative, goal: Goal) -> bool:
    """The rival's figure lies inside the first one's range; prices are exact and have none."""
    if goal == "maximum throughput":
        band, value = first.knee_output_tokens_per_s, rival.knee_output_tokens_per_s
        return band is not None and value is not None and value.value >= band.low
    if goal in ("minimum latency", "least cost per million tokens"):
        latency = goal == "minimum latency"
        band = first.e2e_ms if latency else first.usd_per_million_tokens
        value = rival.e2e_ms if latency else rival.usd_per_million_tokens
        return band is not None and value is not None and value.value <= band.high
    return _key(rival, goal) <= _key(first, goal)


def _value(figure: Range | None) -> float:
    """Rounded to what a prediction can tell apart at best: more copies of a kind must not win by a float's last bit."""
    return inf if figure is None else float(f"{figure.value:.6g}")


def _preference(row: Alternative) -> _Preference:
    """Among equals: the profile's own, then its own family, then the family preferred."""
    switches = any(change.name == "container.family" for change in row.changes)
    return not row.is_own, switches, preference(FAMILIES[row.family]), row.instance_type
