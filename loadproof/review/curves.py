"""A plan's levels as the points of a picture."""

from __future__ import annotations

from loadproof.capacity.plan import Plan
from loadproof.review.model import CurvePoint, Curves


def curves_of(before: Plan | None, after: Plan | None) -> Curves:
    """Both sides' curves; equal ones too, which say that nothing moves."""
    return Curves(_points(before), _points(after))


def _points(plan: Plan | None) -> tuple[CurvePoint, ...]:
    """The benchmark's levels and those the planner climbed up to its highest knee, rising in concurrency."""
    if plan is None or not plan.levels:
        return ()
    knees = [knee.concurrency for knee in plan.knees if knee.reached]
    top = max([level.concurrency for level in plan.levels] + knees)
    levels = {level.concurrency: level for level in (*plan.climbed, *plan.levels) if level.concurrency <= top}
    return tuple(
        CurvePoint(level.concurrency, level.output_tokens_per_s, level.ttft_ms, level.tpot_ms, level.e2e_ms)
        for _, level in sorted(levels.items())
    )
