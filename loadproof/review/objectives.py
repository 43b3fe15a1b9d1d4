"""What each side's plan says of its objectives. Every figure is *predicted*."""

from __future__ import annotations

from collections.abc import Mapping

from loadproof.capacity.outlook import ObjectiveOutlook
from loadproof.capacity.plan import Plan
from loadproof.errors import InputError
from loadproof.profiles import Profile
from loadproof.profiles.schema import Objectives
from loadproof.review.model import ObjectiveChange, PredictedFigure, Side
from loadproof.simulation.plan import make_plan


def plan_of(side: Side | None) -> tuple[Plan | None, str]:
    """(the plan, why there is none): no profile, Bedrock, a model or an instance type the catalog lacks."""
    profile = side.planned if side else None
    if profile is None:
        return None, ""
    try:
        return make_plan(profile), ""
    except InputError as error:
        return None, str(error)


def objective_changes(
    before: Profile | None, after: Profile | None, plan_before: Plan | None, plan_after: Plan | None
) -> tuple[ObjectiveChange, ...]:
    """One row for each bound that either side sets, in the schema's order; without a plan its bound alone."""
    olds, news = _figures(before, plan_before), _figures(after, plan_after)
    return tuple(
        ObjectiveChange(name, ">=" if name.endswith("_min") else "<=", olds.get(name), news.get(name))
        for name in Objectives.model_fields
        if name in olds or name in news
    )


def _figures(profile: Profile | None, plan: Plan | None) -> Mapping[str, PredictedFigure]:
    if profile is None:
        return {}
    rows: Mapping[str, ObjectiveOutlook] = {row.name: row for row in plan.outlook} if plan else {}
    grade = plan.grade if plan else ""
    return {name: _figure(bound, rows.get(name), grade) for name, bound in profile.objectives.bounds.items()}


def _figure(bound: float, row: ObjectiveOutlook | None, grade: str) -> PredictedFigure:
    if row is None:
        return PredictedFigure(bound, None, None, None, "unknown", grade)
    return PredictedFigure(bound, row.predicted, row.low, row.high, row.expected, grade)
