"""What differs between two profiles, by their fields."""

from __future__ import annotations

from typing import Any

from review_profiles import ENVIRONMENT, side

from loadproof.profiles.schema import Network
from loadproof.review.fields import data_fields, field_changes
from loadproof.review.model import Side

TRACKING = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4}
MORNING = {"type": "scheduled", "name": "morning", "schedule": "cron(0 8 * * ? *)", "min_copies": 2}
EVENING = {"type": "scheduled", "name": "evening", "schedule": "cron(0 20 * * ? *)", "min_copies": 1}


def told(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[tuple[str, Any, Any]]:
    return [(one.path, one.before, one.after) for one in field_changes(side(before), side(after))]


def test_the_same_profile_has_no_changes() -> None:
    assert told({}, {}) == []


def test_a_leaf_is_told_by_its_path() -> None:
    assert told({}, {"copies": {"max": 6}}) == [("copies.max", 8, 6)]


def test_a_default_that_is_written_out_is_no_change() -> None:
    """Both sides are compared as validated: 1 is what copies.min is without a word."""
    assert told({"copies": {"min": None}}, {"copies": {"min": 1}}) == []


def test_a_default_that_is_given_up_is_told_with_its_value() -> None:
    assert told({}, {"endpoint": {"network_isolation": False}})[0] == ("endpoint.network_isolation", True, False)


def test_one_and_one_point_nought_are_one() -> None:
    policies = [{"policies": [{**TRACKING, "target": target}]} for target in (4, 4.0)]
    assert told({"scaling": policies[0]}, {"scaling": policies[1]}) == []


def test_a_policy_put_first_is_one_that_was_added() -> None:
    """The one after it is matched by its type and metric, the scheduled ones by name."""
    before, after = [TRACKING, EVENING], [MORNING, TRACKING, EVENING]
    found = told({"scaling": {"policies": before}}, {"scaling": {"policies": after}})
    assert {path.split(".")[1] for path, _, _ in found} == {"policies[0]"}
    assert ("scaling.policies[0].name", None, "morning") in found


def test_a_policys_own_field() -> None:
    """`scaling.policies[1]` is where it stands on the head."""
    before, after = ([MORNING, {**TRACKING, "target": target}] for target in (4, 6))
    found = told({"scaling": {"policies": before}}, {"scaling": {"policies": after}})
    assert found == [("scaling.policies[1].target", 4.0, 6.0)]


def test_policies_in_another_order_are_no_change() -> None:
    found = told({"scaling": {"policies": [MORNING, TRACKING]}}, {"scaling": {"policies": [TRACKING, MORNING]}})
    assert found == []


def test_a_part_that_comes_is_told_by_its_leaves() -> None:
    """Every field that has a value, none that has not."""
    found = {path: (old, new) for path, old, new in told({}, {"buffer": {"retention_s": 86400}})}
    assert found["buffer.retention_s"] == (None, 86400)
    assert found["buffer.enabled"] == (None, True)
    assert "buffer.visibility_timeout_s" not in found
    assert all(old is None and new is not None for old, new in found.values())


def test_lists_of_numbers_are_one_value() -> None:
    found = told({}, {"benchmark": {"concurrency": [1, 4]}})
    assert found == [("benchmark.concurrency", "1, 2, 4, 8", "1, 4")]


def test_a_distribution_in_place_of_a_number_is_told_in_words() -> None:
    """What it has, not what it could have."""
    spread = {"distribution": "normal", "mean": 64, "stddev": 8, "max": 128}
    (found,) = told({}, {"workload": {"output_tokens": spread}})
    assert found == ("workload.output_tokens", 64, "distribution normal, mean 64, stddev 8, min 1, max 128")


def test_variables_are_hidden() -> None:
    """As `check` hides them: what a variable holds is nobody's business in a comment."""
    found = told({}, {"container": {"environment": {"MY_OWN": "value"}}})
    assert found == [("container.environment.MY_OWN", None, "(value hidden)")]


def test_texts_are_cut_where_they_differ() -> None:
    before, after = ({"description": "x" * 300 + end} for end in ("one", "two"))
    assert told(before, after) == [("description", f"…{'x' * 20}one", f"…{'x' * 20}two")]


def test_the_environment_beside_it() -> None:
    """Fields of environment.yaml, marked; subnets are a set, whatever their order."""
    networks = [
        Network(vpc_id="vpc-01234567", subnet_ids=subnets, security_group_ids=("sg-01234567",))
        for subnets in (("subnet-01234567", "subnet-89abcdef"), ("subnet-89abcdef", "subnet-01234567"))
    ]
    before = side({}, ENVIRONMENT.model_copy(update={"network": networks[0]}))
    after = side({}, ENVIRONMENT.model_copy(update={"network": networks[1], "log_retention_days": 90}))
    found = [(one.path, one.before, one.after) for one in field_changes(before, after)]
    assert found == [("environment.yaml: log_retention_days", 30, 90)]


def test_a_missing_or_refused_side_has_no_fields() -> None:
    """There is nothing to compare with."""
    refused = Side("chat.yaml", None, None, {})
    assert field_changes(None, side()) == ()
    assert field_changes(side(), None) == ()
    assert field_changes(refused, side()) == ()


def test_stored_profiles_are_compared_alike() -> None:
    """A run's profile is JSON: lists where the schema has tuples."""
    before = {"a": 1, "list": [1, 2], "part": None, "gone": True}
    after = {"a": 1.0, "list": [1, 2], "part": {"b": 2}}
    assert [(one.path, one.before, one.after) for one in data_fields(before, after)] == [
        ("part.b", None, 2),
        ("gone", True, None),
    ]


def test_true_is_not_one() -> None:
    assert len(data_fields({"a": True}, {"a": 1})) == 1
