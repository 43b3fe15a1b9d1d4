"""What `auto` stands for in a profile's scaling: targets from the ceiling of one copy, cooldowns from its start-up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadproof.capacity import deployment_of
from loadproof.capacity.start_up import start_up_of
from loadproof.errors import InputError
from loadproof.knee import OBJECTIVE_BOUND
from loadproof.profiles import Profile, components_of, load_profile
from loadproof.simulation.plan import make_plan
from loadproof.simulation.targets import DerivedValue, derived_values, resolved_scaling

DEV = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"


def dev(policies: tuple[dict[str, Any], ...], **changes: Any) -> Profile:
    """The dev profile with these policies; other keys merge one level deep."""
    data = load_profile(DEV).model_dump()
    changes = {"scaling": {"policies": policies, "to_zero": None}, **changes}
    for key, value in changes.items():
        data[key] = data[key] | value if isinstance(value, dict) and isinstance(data[key], dict) else value
    return Profile.model_validate(data)


def tracking(metric: str = "concurrent_requests_per_copy", **more: Any) -> dict[str, Any]:
    return {"type": "target_tracking", "metric": metric, "target": "auto", **more}


def only(profile: Profile) -> DerivedValue:
    (value,) = derived_values(profile)
    return value


def test_concurrency_is_three_quarters_of_what_meets_the_objectives() -> None:
    """At 28 in flight one copy is predicted to meet ttft_p95_ms <= 500, at 29 to miss it: 0.75 x 28 = 21."""
    value = only(dev((tracking(),)))
    assert (value.field, value.value) == ("scaling.policies[0].target", 21)
    assert value.reason == "75% of 28 in flight a copy (at 29 in flight ttft_p95_ms is predicted at 511, over 500)"


def test_never_past_the_knee() -> None:
    """With objectives that hold at any load the knee ends it: half of 32 sequences brings nearly the same tokens."""
    generous = {"ttft_p95_ms": 9e5, "tpot_p95_ms": 9e5, "e2e_p95_ms": 9e5}
    container = {"settings": {"max_batch_total_tokens": 4096}}
    value = only(
        dev((tracking(),), objectives=generous, container=load_profile(DEV).container.model_dump() | container)
    )
    assert value.value == 12
    assert value.reason.startswith("75% of 16 in flight a copy (from 16 to 32 in flight steady throughput changes by")


def test_the_fewest_copies_do_not_matter() -> None:
    """Targets are per copy: two copies at least have the target of one."""
    one, two = (only(dev((tracking(),), copies={"min": least, "max": 4})) for least in (1, 2))
    assert one.value == two.value == 21


def test_invocations_are_half_of_a_minute_at_the_ceiling() -> None:
    """14.31 requests/s x 0.5 x 60 = 429.3 a minute, as AWS reckons it from MAX_RPS and a safety factor."""
    value = only(dev((tracking("invocations_per_copy"),)))
    assert value.value == 429.3
    assert value.reason.startswith("14.31 requests/s x 0.5 x 60 s, at 28 in flight a copy")


def test_backlog_is_what_a_copy_answers_while_another_starts() -> None:
    """8 consumers keep 8 requests in flight: 5.467 requests/s for 450 s are 2460 and a bit."""
    value = only(dev((tracking("backlog_per_copy"),)))
    assert value.value == 2460
    assert value.reason == "5.47 requests/s at 8 in flight a copy, for the 450 s until a further copy serves"


@pytest.mark.parametrize(
    ("hosting", "instances", "out_s", "in_s"),
    [
        # Llama 3.1 8B: 8.03e9 x 2 bytes are 15.0 GiB, 30 s at 0.5 GiB/s, and 60 s for the server.
        ("inference_components", (1, 2), 450, 450),  # 240 machine + 120 image + 90
        ("inference_components", (2, 2), 90, 300),  # the machines are there
        ("plain_variant", (2, 2), 450, 450),  # a copy is a machine
    ],
)
def test_cooldowns_are_the_start_up_of_a_copy(hosting: str, instances: tuple[int, int], out_s: int, in_s: int) -> None:
    """Scaling in waits as long, but at least 300 s."""
    cooldowns = {"target": 8.0, "scale_out_cooldown_s": "auto", "scale_in_cooldown_s": "auto"}
    endpoint = {"hosting": hosting, "min_instances": instances[0], "max_instances": instances[1]}
    values = derived_values(dev(({**tracking(), **cooldowns},), endpoint=endpoint))
    assert [value.value for value in values] == [out_s, in_s]


def test_an_answer_in_one_piece_ends_within_a_minute() -> None:
    """Without streams the ceiling is the last load at which no answer takes more than 60 s, whatever the objectives."""
    workload = {"streaming": False, "output_tokens": 1900}
    value = only(dev((tracking(),), workload=workload, objectives={"ttft_p95_ms": 9e5, "e2e_p95_ms": 9e5}))
    assert value.reason.endswith("in flight answers in one piece take longer than SageMaker's 60 s)")


def test_no_number_where_no_load_meets_the_objectives() -> None:
    """A plan shows why; a deployment is refused with the place and what to do."""
    profile = dev((tracking(),), objectives={"ttft_p95_ms": 1.0})
    value = only(profile)
    assert value.value is None
    assert value.reason.startswith("at 1 in flight ttft_p95_ms is predicted at ")
    with pytest.raises(
        InputError, match=r"^scaling\.policies\[0\]\.target: auto has no number: at 1 in flight .*write"
    ):
        resolved_scaling(profile, components_of(profile)[0])


def test_a_model_the_catalog_does_not_know_has_no_number() -> None:
    """The reason is the catalog's own message."""
    value = only(dev((tracking(),), model={"id": "nobody/nothing-1B", "architecture": None}))
    assert value.value is None and "nobody/nothing-1B" in value.reason


def test_resolved_scaling_has_numbers_and_steps() -> None:
    """`auto` becomes its number, a simple policy the step that does the same; what was written stays."""
    simple = {
        "type": "simple",
        "metric": "concurrent_requests_per_copy",
        "threshold": 2.0,
        "add_copies": -1,
        "cooldown_s": "auto",
    }
    profile = dev((tracking(scale_in_cooldown_s=900), simple))
    scaling = resolved_scaling(profile, components_of(profile)[0])
    assert scaling is not None
    tracked, step = scaling.policies
    assert (tracked.target, tracked.scale_out_cooldown_s, tracked.scale_in_cooldown_s) == (21, 60, 900)
    assert (step.type, step.comparison, step.cooldown_s) == ("step", "below", 450)
    assert [(one.at, one.add_copies) for one in step.steps] == [(0, -1)]


def test_nothing_is_derived_where_everything_is_written() -> None:
    """No auto, no work."""
    assert derived_values(load_profile(DEV)) == ()


def test_further_models_are_derived_for_themselves() -> None:
    """Each component's own model, container and place in the file."""
    small = {
        "name": "small",
        "model": {"id": "meta-llama/Llama-3.2-1B-Instruct"},
        "container": {"family": "tgi"},
        "scaling": {"policies": (tracking(scale_out_cooldown_s="auto"),)},
    }
    values = derived_values(dev((), components=(small,)))
    assert [(value.component, value.field) for value in values] == [
        ("small", "components[0].scaling.policies[0].target"),
        ("small", "components[0].scaling.policies[0].scale_out_cooldown_s"),
    ]
    # 1.24e9 x 2 bytes are 2.3 GiB: 5 s, 60 s for the server, 360 s for machine and image; whole tens.
    assert values[1].value == 430


def test_start_up_adds_machine_image_weights_and_server() -> None:
    """240 + 120 s for a new instance; 15.0 GiB at 0.5 GiB/s and 60 s for the server."""
    start = start_up_of(deployment_of(load_profile(DEV)))
    assert start.instance_s == 360
    assert start.copy_s == pytest.approx(89.9, abs=0.1)


@pytest.mark.parametrize(("batch_size", "consumers", "rest"), [(1, 112, ""), (5, 23, " / 5 messages a consumer")])
def test_consumers_keep_the_most_copies_at_their_ceiling(batch_size: int, consumers: int, rest: str) -> None:
    """28 in flight x 4 copies are 112 messages at once: 112 consumers of one, 23 consumers of five."""
    buffer = {"max_concurrency": "auto", "batch_size": batch_size}
    value = only(dev((), buffer=buffer, copies={"min": 1, "max": 4}))
    assert (value.field, value.value) == ("buffer.max_concurrency", consumers)
    reason = f"28 in flight a copy (at 29 in flight ttft_p95_ms is predicted at 511, over 500) x 4 copies{rest}"
    assert value.reason == reason


def test_consumers_where_nothing_is_known_of_the_model() -> None:
    """The fewest that Lambda takes, and why: a buffer works slowly rather than not at all."""
    unknown = {"id": "nobody/unknown-model", "architecture": None}
    value = only(dev((), buffer={"max_concurrency": "auto"}, model=unknown))
    assert value.value == 2
    assert "nobody/unknown-model" in value.reason


def test_a_plan_names_one_most_in_flight() -> None:
    """vLLM's prompts meet in chunks: the formula says 4 in flight, the twin 10. The knee and `auto` are the twin's."""
    staging = load_profile(DEV.parents[1] / "staging" / "qwen3-32b.yaml").model_dump()
    plan = make_plan(Profile.model_validate(staging | {"scaling": {"policies": (tracking(),), "to_zero": None}}))
    knee = next(knee for knee in plan.knees if knee.rule == OBJECTIVE_BOUND)
    (target,) = plan.scaling
    assert (knee.concurrency, target.value) == (10, 7)
    assert target.reason == f"75% of 10 in flight a copy ({knee.reason})"
