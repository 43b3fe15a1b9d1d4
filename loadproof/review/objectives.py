"""What each side's plan says of its objectives. Every figure is *predicted*."""

from __future__ import annotations

from collections.abc import Mapping

from loadproof.capacity.outlook import ObjectiveOutlook
from loadproof.capacity.plan import Plan
from loadproof.errors import InputError
from loadproof.profiles import Profile
from loadproof.profiles.promises import promises_of
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
    """One row for each promise that either side makes; without a plan its bound alone.

    In the schema's order, all requests' first, then class by class: the head's, then those that are gone.
    """
    olds, news = _figures(before, plan_before), _figures(after, plan_after)
    places = {(one.part, one.name): one.path for side in (before, after) if side for one in promises_of(side)}
    parts = dict.fromkeys(part for part, _ in (("", ""), *news, *olds))
    return tuple(
        ObjectiveChange(
            name,
            ">=" if name.endswith("_min") else "<=",
            olds.get((part, name)),
            news.get((part, name)),
            part,
            places[part, name],
        )
        for part in parts
        for name in Objectives.model_fields
        if (part, name) in places
    )


def _figures(profile: Profile | None, plan: Plan | None) -> Mapping[tuple[str, str], PredictedFigure]:
    """By class ("": of all requests) and name."""
    if profile is None:
        return {}
    rows = {(row.part, row.name): row for row in plan.outlook} if plan else {}
    grade = plan.grade if plan else ""
    return {
        (one.part, one.name): _figure(one.bound, rows.get((one.part, one.name)), grade) for one in promises_of(profile)
    }


def _figure(bound: float, row: ObjectiveOutlook | None, grade: str) -> PredictedFigure:
    if row is None:
        return PredictedFigure(bound, None, None, None, "unknown", grade)
    return PredictedFigure(bound, row.predicted, row.low, row.high, row.expected, grade)
