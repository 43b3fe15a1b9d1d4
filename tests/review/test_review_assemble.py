"""The parts put together: every one asked, nothing raised, always in the same order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from review_profiles import ENVIRONMENT, side

from loadproof.errors import Problem
from loadproof.review.assemble import review, review_pair
from loadproof.review.model import Pair, Side


def stack(**properties: Any) -> dict[str, Any]:
    return {"chat": {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": properties}}}}


def pair(before: Side | None, after: Side | None, name: str = "chat", environment: str = "prod") -> Pair:
    return Pair(environment, name, before, after)


def test_a_pair_that_does_not_differ_has_nothing_to_tell() -> None:
    same = replace(side(), templates=stack(QueueName="a"))
    found = review_pair(pair(same, same), ())
    assert (found.fields, found.resources, found.evidence.state) == ((), (), "none")


def test_fields_resources_cost_and_objectives_are_all_there() -> None:
    before = replace(side(), templates=stack(QueueName="a"))
    after = replace(side({"endpoint": {"instance_type": "ml.g6e.12xlarge"}}), templates=stack(QueueName="b"))
    found = review_pair(pair(before, after), ())
    assert [change.path for change in found.fields] == ["endpoint.instance_type"]
    assert [change.action for change in found.resources] == ["replace"]
    assert [change.at for change in found.costs] == ["minimum", "expected", "maximum"]
    assert [change.name for change in found.objectives] == ["e2e_p95_ms"]
    assert found.curves.before and found.curves.after
    assert found.price_source.count("on demand") == 2


def test_a_side_without_templates_is_not_compared() -> None:
    """Else every resource would seem removed; the reason is noted."""
    before = replace(side(), templates=stack(QueueName="a"))
    after = replace(side(), refusal="an endpoint needs a role")
    found = review_pair(pair(before, after), ())
    assert found.resources == ()
    assert any("an endpoint needs a role" in note for note in found.notes)


def test_a_profile_that_is_refused_is_reviewed_too() -> None:
    """With its problems; nothing is raised for what cannot be told."""
    problem = Problem("prod/chat.yaml", 3, 1, "LP204", "copies.min", "expected 0..4, found 6", "lower it")
    refused = Side("prod/chat.yaml", ENVIRONMENT, None, {}, (problem,))
    found = review_pair(pair(replace(side(), templates=stack()), refused), ())
    assert found.fields == () and found.resources == ()
    assert found.findings != ()


def test_a_removed_profile_removes_its_resources() -> None:
    found = review_pair(pair(replace(side(), templates=stack()), None), ())
    assert [change.action for change in found.resources] == ["remove"]


def test_an_unknown_type_is_noted() -> None:
    """Silence would read as: updated in place."""
    before, after = (
        replace(side(), templates={"chat": {"Resources": {"X": {"Type": "AWS::Un::Known", "Properties": {"A": a}}}}})
        for a in (1, 2)
    )
    found = review_pair(pair(before, after), ())
    assert any("AWS::Un::Known" in note for note in found.notes)


def test_a_model_that_is_not_planned_is_noted() -> None:
    """A review without a prediction says why."""
    odd = side()
    assert odd.profile is not None
    unknown = odd.profile.model_copy(update={"model": odd.profile.model.model_copy(update={"id": "nobody/knows-this"})})
    found = review_pair(pair(None, replace(odd, profile=unknown, templates=stack())), ())
    assert any("nobody/knows-this" in note for note in found.notes)


def test_pairs_are_in_order_and_counted() -> None:
    """By environment and name, however they come."""
    pairs = [pair(side(), side(), name, environment) for environment in ("prod", "dev") for name in ("b", "a")]
    found = review("main", "topic", pairs, (), unaffected=97)
    assert [(one.pair.environment_name, one.pair.name) for one in found.profiles] == [
        ("dev", "a"),
        ("dev", "b"),
        ("prod", "a"),
        ("prod", "b"),
    ]
    assert (found.base, found.head, found.unaffected) == ("main", "topic", 97)
    assert found == review("main", "topic", pairs[::-1], (), unaffected=97)
