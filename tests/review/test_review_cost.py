"""What both sides cost. Prices of the catalog: ml.g6e.2xlarge $2.8026 an hour, ml.g6e.12xlarge $13.1158."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from review_profiles import BEDROCK, ENVIRONMENT, profile, side

from loadproof.capacity.plan import make_plan
from loadproof.knee import Knee
from loadproof.review.cost import Costs, cost_changes
from loadproof.review.model import CostChange, CostFigure, Side
from loadproof.review.objectives import plan_of

SMALL, LARGE = 2.8026, 13.1158


def costs(before: Side | None, after: Side | None) -> Costs:
    return cost_changes(before, after, plan_of(before)[0], plan_of(after)[0])


def at_concurrency(load: int) -> dict[str, Any]:
    """Objectives at that load, which the benchmark must have among its levels."""
    return {"objectives": {"at_concurrency": load}, "benchmark": {"concurrency": [load], "requests_per_level": load}}


def hourly(of: Side) -> dict[str, float | None]:
    """USD per hour of one side by its place."""
    return {one.at: one.after.usd_per_hour if one.after else None for one in costs(None, of).changes}


def test_the_bounds_are_instances_of_the_fewest_and_the_most_copies() -> None:
    """One copy an instance: one machine to eight of them."""
    found = hourly(side())
    assert found["minimum"] == pytest.approx(SMALL)
    assert found["maximum"] == pytest.approx(8 * SMALL)


def test_copies_share_a_machine() -> None:
    """Four accelerators hold four copies: eight copies are two machines."""
    found = hourly(side({"endpoint": {"instance_type": "ml.g6e.12xlarge"}}))
    assert found["minimum"] == pytest.approx(LARGE)
    assert found["maximum"] == pytest.approx(2 * LARGE)


def test_instances_end_at_the_endpoints_own_bound() -> None:
    """Eight copies do not get eight machines where three is the most (the checks refuse it; others may not)."""
    eight = side()
    assert eight.profile is not None and eight.profile.endpoint is not None
    endpoint = eight.profile.endpoint.model_copy(update={"max_instances": 3})
    three = replace(eight, profile=eight.profile.model_copy(update={"endpoint": endpoint}))
    assert hourly(three)["maximum"] == pytest.approx(3 * SMALL)


def test_a_month_is_730_hours() -> None:
    """$2.8026 an hour is $2,045.90 a month."""
    (least, *_) = costs(None, side()).changes
    assert least.after is not None
    assert least.after.usd_per_month == pytest.approx(2045.898)


def test_before_and_after() -> None:
    """$2.80 to $13.12 an hour is $7,528.64 a month more."""
    least = costs(side(), side({"endpoint": {"instance_type": "ml.g6e.12xlarge"}})).changes[0]
    assert least == CostChange("minimum", CostFigure(SMALL), CostFigure(LARGE))
    assert least.delta_usd_per_month == pytest.approx(7528.636)


def test_zero_copies_on_zero_instances_cost_nothing() -> None:
    """While idle; what the workload needs is not idle."""
    zero = {"copies": {"min": 0}, "endpoint": {"min_instances": 0}, "scaling": {"to_zero": {}}}
    found = hourly(side(zero))
    assert found["minimum"] == 0.0
    assert found["expected"] == pytest.approx(SMALL)
    assert any("$0 while idle" in note for note in costs(None, side(zero)).notes)


def test_a_schedule_that_raises_the_fewest_copies_is_noted() -> None:
    """The row shows what runs at the least, the note that it is more at times."""
    policy = {"type": "scheduled", "name": "day", "schedule": "cron(0 8 * * ? *)", "min_copies": 4, "max_copies": 8}
    found = costs(None, side({"scaling": {"policies": [policy]}}))
    assert found.changes[0].after == CostFigure(SMALL)
    assert any("raise the fewest copies to 4" in note for note in found.notes)


def test_zero_copies_on_a_kept_instance_cost_an_instance() -> None:
    found = hourly(side({"copies": {"min": 0}, "scaling": {"to_zero": {}}}))
    assert found["minimum"] == pytest.approx(SMALL)


def test_without_scaling_the_copies_stay() -> None:
    """What is expected is the fewest, whatever the load."""
    changes = {"scaling": None, "copies": {"min": 2, "max": 2}}
    assert hourly(side({**at_concurrency(4096), **changes}))["expected"] == pytest.approx(2 * SMALL)


def test_a_closed_loop_needs_the_copies_of_its_objectives_load() -> None:
    """25 in flight where one copy serves 10 within the objectives: three copies. The knee beyond that is no help."""
    of = side(at_concurrency(25))
    knees = (Knee(10, "objective bound", ""), Knee(40, "marginal gain", ""), Knee(3, "half-latency", ""))
    plan = replace(make_plan(profile(at_concurrency(25))), knees=knees)
    assert cost_changes(None, of, None, plan).changes[1].after == CostFigure(pytest.approx(3 * SMALL))


def test_open_arrivals_need_the_copies_that_serve_their_rate() -> None:
    """Ten requests a second over what one copy answers at its ceiling, rounded up."""
    plan = make_plan(profile())
    ceiling = min(knee.concurrency for knee in plan.knees if knee.rule != "half-latency")
    level = plan.workload.level(plan.deployment, ceiling)
    assert level is not None and level.requests_per_s > 1
    arrivals = {"process": "poisson", "requests_per_s": 4 * level.requests_per_s + 0.5}
    found = hourly(side({"workload": {"arrivals": arrivals}}))
    assert found["expected"] == pytest.approx(ceil(4 + 0.5 / level.requests_per_s) * SMALL)


def test_more_than_the_most_is_said() -> None:
    """The figure stops at the most copies, the note does not."""
    many = side(at_concurrency(4096))
    found = costs(None, many)
    assert found.changes[1].after == found.changes[2].after
    assert any("more than the most (8)" in note for note in found.notes)


def test_objectives_that_no_load_meets_are_reckoned_at_the_knee() -> None:
    """25 in flight and a knee at 10: three copies, and a note that the objectives are missed all the same."""
    of = side(at_concurrency(25))
    knees = (Knee(0, "objective bound", ""), Knee(10, "marginal gain", ""))
    plan = replace(make_plan(profile(at_concurrency(25))), knees=knees)
    found = cost_changes(None, of, None, plan)
    assert found.changes[1].after == CostFigure(pytest.approx(3 * SMALL))
    assert any("missed at any load" in note for note in found.notes)


def test_a_workload_that_cannot_be_served_leaves_nothing_to_expect() -> None:
    """Not the most copies and not the fewest: None, with the reason."""
    of = side()
    found = cost_changes(None, of, None, replace(make_plan(profile()), knees=()))
    assert found.changes[1].after == CostFigure(None)
    assert any("no request of this workload can be served" in note for note in found.notes)


def test_a_recorded_trace_has_no_one_rate() -> None:
    found = costs(None, side({"workload": {"arrivals": {"process": "trace", "trace": "day.csv"}}}))
    assert found.changes[1].after == CostFigure(None)
    assert any("trace" in note for note in found.notes)


def test_components_share_the_machines() -> None:
    """Three copies of one model and three of another on machines of four: two machines."""
    other = {
        "name": "second",
        "model": {
            "id": "meta-llama/Llama-3.1-8B-Instruct",
            "source": {"type": "s3", "s3_uri": "s3://example-models/x/"},
        },
        "container": {"family": "tgi", "version": "3.3.6", "settings": {"max_total_tokens": 4096}},
        "copies": {"min": 3, "max": 3},
    }
    two = side(
        {
            "endpoint": {"instance_type": "ml.g6e.12xlarge", "min_instances": 2},
            "copies": {"min": 3, "max": 3},
            "scaling": None,
            "components": [other],
        }
    )
    found = costs(None, two)
    assert [one.after for one in found.changes] == [CostFigure(pytest.approx(2 * LARGE))] * 3
    assert any("further components" in note for note in found.notes)


def test_a_plain_variant_scales_its_instances() -> None:
    """One copy an instance, from min_instances to max_instances: copies.max has no say."""
    policy = {"type": "target_tracking", "metric": "invocations_per_instance", "target": 100}
    plain = {
        "endpoint": {"hosting": "plain_variant", "min_instances": 2, "max_instances": 4},
        "copies": None,
        "scaling": {"policies": [policy]},
    }
    found = hourly(side(plain))
    assert (found["minimum"], found["maximum"]) == (pytest.approx(2 * SMALL), pytest.approx(4 * SMALL))


def test_a_plain_variant_that_nothing_scales_stays() -> None:
    """At its fewest instances, whatever max_instances says."""
    plain = {"endpoint": {"hosting": "plain_variant", "min_instances": 2}, "copies": None, "scaling": None}
    assert set(hourly(side(plain)).values()) == {2 * SMALL}


def test_a_pool_is_priced_as_its_first_type() -> None:
    """And the dearest of the others is named with its price."""
    pools = [
        {"instance_type": "ml.g6e.12xlarge", "priority": 2},
        {"instance_type": "ml.g6e.2xlarge", "priority": 1},
    ]
    found = costs(None, side({"endpoint": {"instance_type": None, "instance_pools": pools}}))
    assert found.changes[0].after == CostFigure(SMALL)
    assert any("ml.g6e.12xlarge at $13.12 an hour" in note for note in found.notes)


def test_bedrock_on_quotas_costs_nothing_while_idle() -> None:
    """What tokens cost nobody here knows: None, with a note, and never $0."""
    found = costs(None, side(BEDROCK))
    assert [one.after for one in found.changes] == [CostFigure(0.0), CostFigure(None), CostFigure(None)]
    assert any("tokens" in note for note in found.notes)


def test_bedrocks_model_units_have_no_known_price() -> None:
    units = side({**BEDROCK, "bedrock": {"provisioned_throughput": {"model_units": 2}}})
    found = costs(None, units)
    assert [one.after for one in found.changes] == [CostFigure(None)] * 3
    assert any("2 model units" in note for note in found.notes)


def test_source_and_date_of_the_price() -> None:
    """Region, source and day, for each instance type once."""
    found = costs(side(), side({"copies": {"max": 4}})).price_source
    assert found.startswith("ml.g6e.2xlarge: on demand in us-west-2") and "seen 2026-09-20" in found
    assert found.count("ml.g6e.2xlarge") == 1


def test_another_regions_price_is_said() -> None:
    away = side({}, ENVIRONMENT.model_copy(update={"region": "eu-west-1"}))
    assert any("eu-west-1's own are not known here" in note for note in costs(None, away).notes)
    assert not any("not known here" in note for note in costs(None, side()).notes)


def test_an_added_profile_cost_nothing_before() -> None:
    """None is a side where nothing runs, and counts as nothing."""
    least = costs(None, side()).changes[0]
    assert least.before is None
    assert least.delta_usd_per_month == pytest.approx(SMALL * 730)


def test_a_refused_side_has_no_known_cost() -> None:
    """It is not free: nobody knows."""
    refused = Side("chat.yaml", ENVIRONMENT, None, {}, refusal="refused")
    least = costs(side(), refused).changes[0]
    assert least.after == CostFigure(None)
    assert least.delta_usd_per_month is None


def test_an_environments_own_stacks_have_no_rows() -> None:
    assert costs(None, Side("environment.yaml", ENVIRONMENT, None, {"S": {}})).changes == ()
