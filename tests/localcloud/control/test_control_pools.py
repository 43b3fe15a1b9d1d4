"""Instance pools and machines that run out: which type a copy gets, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from control_world import VARIANT, World

from loadproof.localcloud.wire import AwsError

FIRST, SECOND = "ml.g6e.xlarge", "ml.g5.12xlarge"  # 1 accelerator and 32 GiB; 4 and 192 GiB
POOLS = {
    **{name: value for name, value in VARIANT.items() if name != "InstanceType"},
    "InstancePools": [{"InstanceType": SECOND, "Priority": 2}, {"InstanceType": FIRST, "Priority": 1}],
    "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 4},
}


def specification(instance_type: str | None = None, accelerators: int = 1, model: str = "model") -> dict[str, Any]:
    needs = {"NumberOfAcceleratorDevicesRequired": accelerators, "MinMemoryRequiredInMb": 1024}
    own = {"InstanceType": instance_type} if instance_type else {}
    return {**own, "ModelName": model, "ComputeResourceRequirements": needs}


def component(world: World, specifications: list[dict[str, Any]], copies: int = 1) -> None:
    several = {"Specifications": specifications} if len(specifications) > 1 else {"Specification": specifications[0]}
    world.call(
        "CreateInferenceComponent",
        InferenceComponentName="chat-main",
        EndpointName="chat",
        VariantName="AllTraffic",
        RuntimeConfig={"CopyCount": copies},
        **several,
    )
    world.pass_s(10)


def scale(world: World, copies: int) -> None:
    world.call(
        "UpdateInferenceComponentRuntimeConfig",
        InferenceComponentName="chat-main",
        DesiredRuntimeConfig={"CopyCount": copies},
    )
    world.pass_s(10)


def instances(world: World) -> dict[str, int]:
    variant = world.call("DescribeEndpoint", EndpointName="chat")["ProductionVariants"][0]
    return {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in variant["InstancePools"]}


def placed(world: World) -> dict[str, int]:
    rows = world.shown()["RuntimeConfig"]["PlacementStatus"]
    return {row["InstanceType"]: row["CurrentCopyCount"] for row in rows}


@pytest.fixture
def pools() -> World:
    world = World()
    world.model()
    world.model("small")
    world.endpoint(POOLS)
    world.pass_s(10)
    return world


def test_pools_are_filled_by_priority_and_emptied_from_the_last(pools: World) -> None:
    """Two of the first type are all there are: the third copy goes to the second pool, and goes first again."""
    pools.limits[FIRST] = 2
    component(pools, [specification()], copies=2)
    assert instances(pools) == {FIRST: 2, SECOND: 0}
    scale(pools, 3)
    assert (instances(pools), placed(pools)) == ({FIRST: 2, SECOND: 1}, {FIRST: 2, SECOND: 1})
    scale(pools, 2)
    assert (instances(pools), placed(pools)) == ({FIRST: 2, SECOND: 0}, {FIRST: 2, SECOND: 0})
    scale(pools, 0)
    assert instances(pools) == {FIRST: 1, SECOND: 0}


def test_each_instance_type_runs_its_own_specification(pools: World) -> None:
    """The runtime sees two kinds of copies under one name, each with its model and accelerators."""
    pools.limits[FIRST] = 1
    component(pools, [specification(SECOND, 4, "small"), specification(FIRST)], copies=2)
    view = pools.directory.component("chat-main")
    assert view is not None and view.copies == 2
    found = [(one.instance_type, one.accelerators_per_copy, one.copies) for one in view.groups]
    assert found == [(FIRST, 1, 1), (SECOND, 4, 1)]
    shown = {one["InstanceType"]: one["ModelName"] for one in pools.shown()["Specifications"]}
    assert shown == {FIRST: "model", SECOND: "small"}


def test_first_instance_that_cannot_be_had_comes_from_the_second_pool() -> None:
    """The copy runs there, and the runtime does not take it for one on the first type."""
    world = World()
    world.model()
    world.limits[FIRST] = 0
    world.endpoint(POOLS)
    world.pass_s(10)
    assert instances(world) == {FIRST: 0, SECOND: 1}
    component(world, [specification()])
    view = world.directory.component("chat-main")
    assert view is not None
    assert [(one.instance_type, one.copies) for one in view.groups] == [(SECOND, 1)]


def test_endpoint_without_any_instance_fails() -> None:
    """No type of any pool: the creation fails with AWS's words for it."""
    world = World()
    world.limits.update({FIRST: 0, SECOND: 0})
    world.endpoint(POOLS)
    world.pass_s(10)
    found = world.call("DescribeEndpoint", EndpointName="chat")
    assert found["EndpointStatus"] == "Failed"
    assert found["FailureReason"].startswith(
        "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    )


def test_copies_for_which_there_are_no_machines_fail_the_component(pools: World) -> None:
    """One instance of one accelerator is all there is: the second copy has nowhere to go."""
    pools.limits.update({FIRST: 1, SECOND: 0})
    component(pools, [specification()], copies=2)
    assert pools.shown()["InferenceComponentStatus"] == "Failed"
    assert "InsufficientInstanceCapacity" in pools.shown()["FailureReason"]


def test_machines_in_use_elsewhere_are_not_to_be_had(pools: World) -> None:
    """The limit counts all endpoints of the region: the first has the only one."""
    pools.limits[FIRST] = 1
    assert instances(pools) == {FIRST: 1, SECOND: 0}
    pools.call("CreateEndpoint", EndpointName="second", EndpointConfigName="config")
    pools.pass_s(10)
    variant = pools.call("DescribeEndpoint", EndpointName="second")["ProductionVariants"][0]
    assert {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in variant["InstancePools"]} == {
        FIRST: 0,
        SECOND: 1,
    }


@pytest.mark.parametrize(
    ("specifications", "message"),
    [
        ([specification(FIRST), specification()], "needs an InstanceType of its own"),
        ([specification(FIRST), specification("ml.p4d.24xlarge")], "has no instances of type ml.p4d.24xlarge"),
        ([specification(FIRST, 2), specification(SECOND)], "ml.g6e.xlarge has 1"),
        ([specification(accelerators=8)], "8 accelerators"),
    ],
)
def test_bad_specifications_are_refused(pools: World, specifications: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(AwsError, match=message):
        component(pools, specifications)


def test_plain_variant_on_pools_runs_the_model_of_its_pool() -> None:
    """A pool may name another model for its instance type."""
    world = World()
    world.model()
    world.model("small")
    world.limits[FIRST] = 1
    pools = [
        {"InstanceType": FIRST, "Priority": 1},
        {"InstanceType": SECOND, "Priority": 2, "ModelNameOverride": "small"},
    ]
    world.call(
        "AddTags",
        ResourceArn="arn:aws:sagemaker:us-east-1:123456789012:model/small",
        Tags=[{"Key": "loadproof:model-id", "Value": "x/small"}],
    )
    variant = {"VariantName": "AllTraffic", "ModelName": "model", "InstancePools": pools, "InitialInstanceCount": 2}
    world.endpoint(variant)
    world.pass_s(10)
    view = world.directory.endpoint("chat")
    assert view is not None
    found = [(one.instance_type, one.container.tags["loadproof:model-id"]) for one in view.variants[0].groups]
    assert found == [(FIRST, "x/y"), (SECOND, "x/small")]
