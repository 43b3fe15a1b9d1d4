"""The levels that pictures and table show: those of the benchmark, and those between and past them up to the knees."""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.capacity import Plan, PredictedLevel
from loadproof.capacity.shares import LatencyShares, latency_shares
from loadproof.usd import usd_per_million_tokens


@dataclass(frozen=True, slots=True)
class Row:
    """One level. `listed`: the profile's benchmark names it; `usd_per_million` is per million output tokens."""

    level: PredictedLevel
    shares: LatencyShares
    usd_per_million: float | None
    listed: bool


def rows_of(plan: Plan) -> tuple[Row, ...]:
    """Rising in concurrency: every listed level, and of the planner's ladder what lies below the highest knee found.

    A knee between two rungs gets a level of its own, so that its ring has a mark to stand on.
    """
    if not plan.levels:
        return ()
    knees = [knee.concurrency for knee in plan.knees if knee.reached and knee.concurrency > 0]
    listed = {level.concurrency: level for level in plan.levels}
    top = max([*listed, *knees])
    shown = {level.concurrency: level for level in plan.climbed if level.concurrency <= top} | listed
    for concurrency in knees:
        found = shown.get(concurrency) or plan.workload.level(plan.deployment, concurrency)
        if found is not None:
            shown[concurrency] = found
    return tuple(_row(plan, shown[concurrency], concurrency in listed) for concurrency in sorted(shown))


def _row(plan: Plan, level: PredictedLevel, listed: bool) -> Row:
    usd = usd_per_million_tokens(plan.cost.usd_per_hour_min, level.output_tokens_per_s)
    return Row(level, latency_shares(level), usd, listed)


def knees_by_level(plan: Plan) -> dict[int, list[str]]:
    """The rules that chose a level, by its concurrency; knees beyond what was tried are not among them."""
    found: dict[int, list[str]] = {}
    for knee in plan.knees:
        if knee.reached and knee.concurrency > 0:
            found.setdefault(knee.concurrency, []).append(knee.rule)
    return found
