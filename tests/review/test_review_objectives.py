"""What each side's plan says of its objectives."""

from __future__ import annotations

from typing import Any

import pytest
from review_profiles import BEDROCK, side

from loadproof.review.model import ObjectiveChange, PredictedFigure, Side
from loadproof.review.objectives import objective_changes, plan_of
from loadproof.simulation.plan import make_plan


def changes(before: Side | None, after: Side | None) -> dict[str, ObjectiveChange]:
    found = objective_changes(
        before.profile if before else None, after.profile if after else None, plan_of(before)[0], plan_of(after)[0]
    )
    return {change.name: change for change in found}


def test_a_bound_is_shown_with_what_the_plan_predicts() -> None:
    """The plan's own figure, interval and grade."""
    of = side()
    assert of.profile is not None
    plan = make_plan(of.profile)
    (row,) = plan.outlook
    found = changes(of, of)["e2e_p95_ms"]
    assert found.comparison == "<="
    assert found.before == found.after
    assert found.after == PredictedFigure(3000.0, row.predicted, row.low, row.high, row.expected, plan.grade)


def test_more_tokens_take_longer() -> None:
    """Three times the answer takes about three times as long, and the objective is then missed."""
    found = changes(side(), side({"workload": {"output_tokens": 192}}))["e2e_p95_ms"]
    assert found.before is not None and found.after is not None
    assert found.before.predicted is not None and found.after.predicted is not None
    assert found.after.predicted == pytest.approx(3 * found.before.predicted, rel=0.1)
    assert (found.before.expected, found.after.expected) == ("meets", "misses")


def test_an_objective_that_comes_and_one_that_goes() -> None:
    """None on the side that does not have it; in the schema's order."""
    after: dict[str, Any] = {"objectives": {"e2e_p95_ms": None, "ttft_p95_ms": 500, "requests_per_s_min": 1}}
    found = changes(side(), side(after))
    assert list(found) == ["ttft_p95_ms", "e2e_p95_ms", "requests_per_s_min"]
    assert found["e2e_p95_ms"].after is None
    assert found["ttft_p95_ms"].before is None
    assert found["requests_per_s_min"].comparison == ">="


def test_without_a_plan_the_bound_stands_alone() -> None:
    """Bedrock shows no machines: nothing is predicted, and that is no zero."""
    of = side(BEDROCK)
    plan, why = plan_of(of)
    assert plan is None and "Bedrock" in why
    assert changes(None, of)["e2e_p95_ms"].after == PredictedFigure(3000.0, None, None, None, "unknown", "")


def test_a_missing_side_has_neither_plan_nor_reason() -> None:
    assert plan_of(None) == (None, "")
    assert plan_of(Side("x.yaml", None, None, {}, refusal="refused")) == (None, "")
    assert changes(None, None) == {}


def classes(*bounds: tuple[str, dict[str, float]]) -> dict[str, Any]:
    """A workload of classes with bounds of their own, a third of the sessions each."""
    return {
        "workload": {
            "classes": [
                {"name": name, "share": 0.3, "output_tokens": 32, "objectives": dict(own)} for name, own in bounds
            ]
        }
    }


def rows(before: Side | None, after: Side | None) -> dict[str, ObjectiveChange]:
    found = objective_changes(
        before.profile if before else None, after.profile if after else None, plan_of(before)[0], plan_of(after)[0]
    )
    return {change.label: change for change in found}


def test_a_class_s_bound_is_a_row_with_the_plan_s_figure() -> None:
    """Beside the profile's own, at the place where the file has it."""
    of = side(classes(("fast", {"e2e_p95_ms": 2000})))
    assert of.profile is not None
    row = make_plan(of.profile).outlook[1]
    found = rows(of, of)["e2e_p95_ms of fast"]
    assert found.path == "workload.classes[0].objectives.e2e_p95_ms"
    assert found.after is not None and row.predicted is not None
    assert (found.after.bound, found.after.predicted, found.after.expected) == (2000, row.predicted, row.expected)


def test_classes_are_told_apart_by_name_not_by_place() -> None:
    """One that comes in front of another leaves that one's row what it was; one that goes has no after."""
    two = {"e2e_p95_ms": 2000.0}
    before = side(classes(("gone", two), ("stays", two)))
    after = side(classes(("new", two), ("stays", two)))
    found = rows(before, after)
    assert list(found) == ["e2e_p95_ms", "e2e_p95_ms of new", "e2e_p95_ms of stays", "e2e_p95_ms of gone"]
    assert (found["e2e_p95_ms of new"].before, found["e2e_p95_ms of gone"].after) == (None, None)
    assert found["e2e_p95_ms of stays"].before and found["e2e_p95_ms of stays"].after
