"""Deployment guardrails in process: shares and times worked by hand from 10 s of provisioning."""

from __future__ import annotations

from typing import Any

import pytest
from control_world import VARIANT, World, refusal

from loadproof.localcloud.controlplane.sagemaker.deployments import course_back, course_of

PLAIN = {"VariantName": "AllTraffic", "ModelName": "model", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 4}
ALARMS = {"Alarms": [{"AlarmName": "errors"}]}


def blue_green(kind: str, wait_s: int, size: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    sizes = {"CANARY": "CanarySize", "LINEAR": "LinearStepSize"}
    routing = {"Type": kind, "WaitIntervalInSeconds": wait_s, **({sizes[kind]: size} if size else {})}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, **more}}


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def rolling(batch: int, wait_s: int, **more: Any) -> dict[str, Any]:
    size = {"Type": "INSTANCE_COUNT", "Value": batch}
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait_s, **more}}


@pytest.fixture
def plain() -> World:
    """A plain variant of four instances in service, and a second configuration with another model."""
    world = World()
    world.model()
    world.model("other")
    world.endpoint(PLAIN)
    world.pass_s(10)
    world.config({**PLAIN, "ModelName": "other"}, "new")
    return world


def update(world: World, settings: dict[str, Any] | None = None, **more: Any) -> None:
    config = {"DeploymentConfig": settings} if settings is not None else {}
    world.call("UpdateEndpoint", EndpointName="chat", EndpointConfigName="new", **config, **more)


def described(world: World) -> dict[str, Any]:
    return dict(world.call("DescribeEndpoint", EndpointName="chat"))


def share(world: World) -> float:
    view = world.directory.endpoint("chat")
    assert view is not None
    return view.variants[0].following_share


def copies(world: World) -> tuple[int, int]:
    """Instances that serve the old configuration, and the new one."""
    view = world.directory.endpoint("chat")
    assert view is not None
    groups = view.variants[0].groups
    if not groups:
        return view.variants[0].instances, 0
    return sum(one.copies for one in groups if not one.following), sum(one.copies for one in groups if one.following)


def test_canary_shares_by_hand() -> None:
    """25% of four instances, then all; a baking period of 30 s after each, 20 s until the old fleet goes."""
    course = course_of(blue_green("CANARY", 30, percent(25), TerminationWaitInSeconds=20), 10.0, 4)
    assert [(step.at_s, step.share) for step in course.steps] == [(10, 0.25), (40, 1.0)]
    assert (course.baked_s, course.done_s) == (70, 90)
    assert [course.share(at_s) for at_s in (9.9, 10, 39.9, 40)] == [0, 0.25, 0.25, 1]


def test_linear_shares_by_hand() -> None:
    """Steps of 40% are three: 40%, 80%, 100%; one instance of four is a quarter."""
    course = course_of(blue_green("LINEAR", 30, percent(40)), 10.0, 4)
    assert [(step.at_s, step.share) for step in course.steps] == [(10, 0.4), (40, 0.8), (70, 1.0)]
    quarters = course_of(blue_green("LINEAR", 30, {"Type": "INSTANCE_COUNT", "Value": 1}), 10.0, 4)
    assert [step.share for step in quarters.steps] == [0.25, 0.5, 0.75, 1.0]


def test_rolling_batches_by_hand() -> None:
    """Four instances by two: each batch takes 10 s to come up and bakes for 30 s."""
    course = course_of(rolling(2, 30), 10.0, 4)
    assert [(step.at_s, step.share) for step in course.steps] == [(10, 0.5), (50, 1.0)]
    assert course.done_s == 80


def test_rolling_goes_back_in_batches_of_its_own() -> None:
    """Half of four moved: back one by one with a rollback batch of one, else at once."""
    settings = rolling(2, 30, RollbackMaximumBatchSize={"Type": "INSTANCE_COUNT", "Value": 1})
    back = course_back(course_of(settings, 10.0, 4), 12.0, settings, 10.0, 4)
    assert [(step.at_s, step.share) for step in back.steps] == [(0, 0.5), (10, 0.25), (20, 0.0)]
    settings = rolling(2, 30)
    back = course_back(course_of(settings, 10.0, 4), 12.0, settings, 10.0, 4)
    assert [(step.at_s, step.share) for step in back.steps] == [(0, 0.5), (10, 0.0)]


def test_canary_moves_traffic_and_says_where_it_is(plain: World) -> None:
    """Both fleets are whole; the pending configuration is shown until the old fleet is gone."""
    update(plain, blue_green("CANARY", 30, percent(25)))
    pending = described(plain)["PendingDeploymentSummary"]
    assert (pending["EndpointConfigName"], pending["ProductionVariants"][0]["VariantStatus"][0]["Status"]) == (
        "new",
        "Creating",
    )
    plain.pass_s(10)
    assert (share(plain), copies(plain)) == (0.25, (4, 4))
    found = described(plain)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("Updating", "config")
    assert found["PendingDeploymentSummary"]["ProductionVariants"][0]["VariantStatus"][0]["Status"] == "Baking"
    plain.pass_s(30)
    assert share(plain) == 1.0
    plain.pass_s(30)
    found = described(plain)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "new")
    assert "PendingDeploymentSummary" not in found and "FailureReason" not in found
    assert copies(plain) == (4, 0)


def test_alarm_during_baking_rolls_back_without_a_failed_status(plain: World) -> None:
    """The update looks like a success: InService, but on the old configuration, with the reason beside it."""
    update(plain, {**blue_green("LINEAR", 30, percent(50)), "AutoRollbackConfiguration": ALARMS})
    plain.pass_s(10)
    assert share(plain) == 0.5
    plain.in_alarm.append("errors")
    assert share(plain) == 0.0
    assert described(plain)["EndpointStatus"] == "Updating"
    plain.pass_s(10)
    found = described(plain)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "config")
    assert found["FailureReason"].endswith("alarms in state ALARM: errors.")
    assert copies(plain) == (4, 0)


def test_alarm_after_baking_changes_nothing(plain: World) -> None:
    """The wait before the old fleet is terminated is no baking period."""
    settings = {**blue_green("ALL_AT_ONCE", 30, TerminationWaitInSeconds=60), "AutoRollbackConfiguration": ALARMS}
    update(plain, settings)
    plain.pass_s(10)
    assert share(plain) == 1.0
    plain.pass_s(30)
    assert described(plain)["EndpointStatus"] == "Updating"
    plain.in_alarm.append("errors")
    plain.pass_s(60)
    assert described(plain)["EndpointConfigName"] == "new"


def test_alarm_before_the_new_fleet_stands_is_seen_at_the_first_step(plain: World) -> None:
    """An alarm that rings already sends the deployment back as soon as it would take traffic."""
    plain.in_alarm.append("errors")
    update(plain, {**blue_green("ALL_AT_ONCE", 0), "AutoRollbackConfiguration": ALARMS})
    plain.pass_s(9)
    assert described(plain)["EndpointStatus"] == "Updating"
    plain.pass_s(100)
    assert described(plain)["EndpointStatus"] == "Updating"
    plain.pass_s(10)
    assert described(plain)["EndpointConfigName"] == "config"


def test_rolling_replaces_batch_by_batch_and_goes_back(plain: World) -> None:
    """Never more than the four instances and one batch; back at once by default."""
    update(plain, {**rolling(1, 30), "AutoRollbackConfiguration": ALARMS})
    plain.pass_s(10)
    assert (share(plain), copies(plain)) == (0.25, (3, 1))
    plain.pass_s(40)
    assert (share(plain), copies(plain)) == (0.5, (2, 2))
    plain.in_alarm.append("errors")
    described(plain)
    assert copies(plain) == (2, 2)
    plain.pass_s(10)
    assert described(plain)["EndpointConfigName"] == "config"
    assert copies(plain) == (4, 0)


def test_new_fleet_without_capacity_goes_back(plain: World) -> None:
    """Blue/green needs the whole fleet twice, rolling only a batch more: six instances are enough for rolling only."""
    plain.limits["ml.g5.xlarge"] = 6
    update(plain)
    plain.pass_s(10)
    described(plain)
    plain.pass_s(10)
    found = described(plain)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "config")
    assert "InsufficientInstanceCapacity" in found["FailureReason"]
    update(plain, rolling(2, 0))
    for _ in range(2):
        plain.pass_s(10)
        described(plain)
    assert described(plain)["EndpointConfigName"] == "new"
    assert copies(plain) == (4, 0)


def test_new_fleet_that_cannot_start_goes_back(plain: World) -> None:
    """The old one serves on."""
    update(plain)
    plain.broken = "no such file"
    plain.pass_s(10)
    described(plain)
    plain.pass_s(10)
    found = described(plain)
    assert (found["EndpointConfigName"], found["FailureReason"]) == ("config", "no such file")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (blue_green("CANARY", 0), "CanarySize is required"),
        (blue_green("CANARY", 0, percent(60)), "between 1% and 50%"),
        (blue_green("CANARY", 0, {"Type": "INSTANCE_COUNT", "Value": 3}), "at most 50% of the capacity, which is 4"),
        (blue_green("LINEAR", 0, percent(5)), "between 10% and 50%"),
        (rolling(3, 0), "at most 50% of the capacity"),
        ({**rolling(1, 0), **blue_green("ALL_AT_ONCE", 0)}, "mutually exclusive"),
        (blue_green("ALL_AT_ONCE", 600, MaximumExecutionTimeoutInSeconds=600), "must be larger than the total waiting"),
        (
            {**rolling(1, 0), "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "missing"}]}},
            "Could not find CloudWatch alarm(s) missing",
        ),
    ],
)
def test_bad_deployment_is_refused(plain: World, settings: dict[str, Any], message: str) -> None:
    found = refusal(plain, "UpdateEndpoint", EndpointName="chat", EndpointConfigName="new", DeploymentConfig=settings)
    assert message in found
    assert described(plain)["EndpointStatus"] == "InService"


def test_guardrails_need_the_same_variants_and_rolling_only_one(plain: World) -> None:
    """Without a deployment configuration a variant may be added; with one the names must match."""
    role = "arn:aws:iam::123456789012:role/good"
    both = [PLAIN, {**PLAIN, "VariantName": "Second"}]
    plain.call("CreateEndpointConfig", EndpointConfigName="two", ProductionVariants=both, ExecutionRoleArn=role)
    message = refusal(
        plain,
        "UpdateEndpoint",
        EndpointName="chat",
        EndpointConfigName="two",
        DeploymentConfig=blue_green("ALL_AT_ONCE", 0),
    )
    assert "same variant names" in message
    plain.call("UpdateEndpoint", EndpointName="chat", EndpointConfigName="two")
    plain.pass_s(10)
    message = refusal(
        plain, "UpdateEndpoint", EndpointName="chat", EndpointConfigName="two", DeploymentConfig=rolling(1, 0)
    )
    assert "several production variants" in message


@pytest.mark.parametrize(
    ("excluded", "count", "weight"),
    [([], 3, 2.0), (["DesiredInstanceCount"], 4, 2.0), (["DesiredWeight"], 3, 1.0)],
)
def test_retained_properties_are_what_the_autoscaler_left(
    plain: World, excluded: list[str], count: int, weight: float
) -> None:
    """Scaled to three instances and weighted two: kept, but for the properties excluded."""
    plain.call(
        "UpdateEndpointWeightsAndCapacities",
        EndpointName="chat",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3, "DesiredWeight": 2.0}],
    )
    assert described(plain)["ProductionVariants"][0]["CurrentWeight"] == 1.0
    plain.pass_s(10)
    exclude = [{"VariantPropertyType": one} for one in excluded]
    update(plain, RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=exclude)
    plain.pass_s(10)
    variant = described(plain)["ProductionVariants"][0]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (count, weight)


@pytest.mark.parametrize(("excluded", "percent_kept"), [([], 100), (["DataCaptureConfig"], 5)])
def test_data_capture_is_retained_too(plain: World, excluded: list[str], percent_kept: int) -> None:
    """What captures now goes on as it is, unless the new configuration is to have its say."""
    role = "arn:aws:iam::123456789012:role/good"
    for name, sampled in (("all", 100), ("some", 5)):
        capture = {
            "EnableCapture": True,
            "InitialSamplingPercentage": sampled,
            "DestinationS3Uri": "s3://seen/here",
            "CaptureOptions": [{"CaptureMode": "Input"}],
        }
        plain.call(
            "CreateEndpointConfig",
            EndpointConfigName=name,
            ProductionVariants=[PLAIN],
            ExecutionRoleArn=role,
            DataCaptureConfig=capture,
        )
    plain.call("UpdateEndpoint", EndpointName="chat", EndpointConfigName="all")
    plain.pass_s(10)
    described(plain)
    plain.call(
        "UpdateEndpoint",
        EndpointName="chat",
        EndpointConfigName="some",
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": one} for one in excluded],
    )
    plain.pass_s(10)
    assert described(plain)["DataCaptureConfig"]["CurrentSamplingPercentage"] == percent_kept


def test_update_resets_counts_unless_they_are_retained(plain: World) -> None:
    plain.call(
        "UpdateEndpointWeightsAndCapacities",
        EndpointName="chat",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}],
    )
    plain.pass_s(10)
    update(plain)
    plain.pass_s(10)
    assert described(plain)["ProductionVariants"][0]["CurrentInstanceCount"] == 4


def test_last_deployment_is_used_again_only_when_asked(plain: World) -> None:
    """RetainDeploymentConfig takes the settings of the update before; without it the next is all at once."""
    settings = blue_green("CANARY", 30, percent(25))
    update(plain, settings)
    plain.pass_s(70)
    described(plain)
    update(plain, RetainDeploymentConfig=True)
    plain.pass_s(10)
    assert share(plain) == 0.25
    assert described(plain)["LastDeploymentConfig"] == settings
    plain.pass_s(60)
    described(plain)
    update(plain)
    plain.pass_s(10)
    assert described(plain)["EndpointStatus"] == "InService"
    assert "LastDeploymentConfig" not in described(plain)


# ---------------------------------------------------------------------------------------------------------- components


@pytest.fixture
def serving() -> World:
    """Two instances of four accelerators hold four copies of one accelerator."""
    world = World()
    world.model()
    world.model("other")
    world.endpoint()
    world.pass_s(10)
    world.component(copies=4)
    world.pass_s(10)
    assert world.shown()["RuntimeConfig"]["CurrentCopyCount"] == 4
    return world


def component_policy(batch: int, wait_s: int, **more: Any) -> dict[str, Any]:
    size = {"Type": "COPY_COUNT", "Value": batch}
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait_s}, **more}


def roll(world: World, settings: dict[str, Any], accelerators: int = 1) -> None:
    needs = {"NumberOfAcceleratorDevicesRequired": accelerators, "MinMemoryRequiredInMb": 1024}
    world.call(
        "UpdateInferenceComponent",
        InferenceComponentName="chat-main",
        Specification={"ModelName": "other", "ComputeResourceRequirements": needs},
        DeploymentConfig=settings,
    )


def component_copies(world: World) -> tuple[int, int, float]:
    view = world.directory.component("chat-main")
    assert view is not None
    groups = view.groups
    old = sum(one.copies for one in groups if not one.following) if groups else view.copies
    return old, sum(one.copies for one in groups if one.following), view.following_share


def test_component_rolls_copy_by_copy(serving: World) -> None:
    """Batches of two of four copies; traffic follows the copies."""
    roll(serving, component_policy(2, 30))
    serving.pass_s(10)
    assert component_copies(serving) == (2, 2, 0.5)
    assert serving.shown()["InferenceComponentStatus"] == "Updating"
    serving.pass_s(40)
    assert component_copies(serving) == (0, 4, 1.0)
    serving.pass_s(30)
    assert component_copies(serving) == (4, 0, 0.0)
    assert serving.shown()["Specification"]["ModelName"] == "other"
    assert serving.shown()["LastDeploymentConfig"]["RollingUpdatePolicy"]["WaitIntervalInSeconds"] == 30


def test_component_update_goes_back_when_an_alarm_rings(serving: World) -> None:
    """In service on the old specification, with the reason."""
    roll(serving, component_policy(2, 30, AutoRollbackConfiguration=ALARMS))
    serving.pass_s(10)
    serving.in_alarm.append("errors")
    assert component_copies(serving) == (2, 2, 0.5)
    serving.pass_s(10)
    found = serving.shown()
    assert (found["InferenceComponentStatus"], found["Specification"]["ModelName"]) == ("InService", "model")
    assert "errors" in found["FailureReason"]
    assert component_copies(serving) == (4, 0, 0.0)


def test_component_without_room_for_a_batch_goes_back(serving: World) -> None:
    """Eight accelerators hold four copies of one and one of four, not two of four."""
    roll(serving, component_policy(2, 0), accelerators=4)
    serving.pass_s(10)
    serving.shown()
    serving.pass_s(10)
    assert "Unable to place 2 copies" in serving.shown()["FailureReason"]
    assert component_copies(serving) == (4, 0, 0.0)


def test_component_deleted_under_way_goes(serving: World) -> None:
    """A rolling update does not bring it back."""
    roll(serving, component_policy(2, 30))
    serving.pass_s(10)
    serving.shown()
    serving.call("DeleteInferenceComponent", InferenceComponentName="chat-main")
    serving.pass_s(100)
    assert "Could not find" in refusal(serving, "DescribeInferenceComponent", InferenceComponentName="chat-main")


def test_failed_component_is_mended_all_at_once(serving: World) -> None:
    """There is nothing to roll: no copy of it runs."""
    serving.directory.fail_component("chat-main", "killed")
    roll(serving, component_policy(2, 30))
    assert component_copies(serving) == (0, 0, 0.0)
    serving.pass_s(10)
    assert serving.shown()["InferenceComponentStatus"] == "InService"
    assert component_copies(serving) == (4, 0, 0.0)


def test_component_update_sends_its_copy_count_again(serving: World) -> None:
    """Scaled to six by the autoscaler: an update that carries CopyCount 4 resets it, one without does not."""
    serving.call(
        "UpdateInferenceComponentRuntimeConfig",
        InferenceComponentName="chat-main",
        DesiredRuntimeConfig={"CopyCount": 6},
    )
    serving.pass_s(10)
    roll(serving, component_policy(1, 0))
    for _ in range(6):
        serving.pass_s(10)
        serving.shown()
    assert serving.shown()["RuntimeConfig"] == {"DesiredCopyCount": 6, "CurrentCopyCount": 6}
    serving.call("UpdateInferenceComponent", InferenceComponentName="chat-main", RuntimeConfig={"CopyCount": 4})
    serving.pass_s(10)
    assert serving.shown()["RuntimeConfig"] == {"DesiredCopyCount": 4, "CurrentCopyCount": 4}


def test_components_move_with_their_endpoint(serving: World) -> None:
    """An update of the endpoint brings up its components on the new instances and moves their traffic there."""
    serving.config({**VARIANT, "InstanceType": "ml.g6.12xlarge"}, "new")
    update(serving, blue_green("CANARY", 30, percent(50)))
    serving.pass_s(10)
    view = serving.directory.component("chat-main")
    assert view is not None and view.following_share == 0.5
    assert [(one.instance_type, one.copies, one.following) for one in view.groups] == [
        ("ml.g5.12xlarge", 4, False),
        ("ml.g6.12xlarge", 4, True),
    ]
    serving.pass_s(60)
    view = serving.directory.component("chat-main")
    assert view is not None and (view.instance_type, view.copies, view.groups) == ("ml.g6.12xlarge", 4, ())
