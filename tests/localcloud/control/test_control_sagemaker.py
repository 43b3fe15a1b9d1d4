"""SageMaker's API in process: statuses by a clock that the test moves, copies by rooms counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from control_templates import TGI_IMAGE
from control_world import VARIANT, World, refusal
from hypothesis import given
from hypothesis import strategies as st

from loadproof.localcloud.controlplane.sagemaker.capacity import Load, Size, place
from loadproof.localcloud.wire import AwsError


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def serving(world: World) -> World:
    """An endpoint in service with one component of one copy in service."""
    world.model()
    world.endpoint()
    world.pass_s(10)
    world.component()
    world.pass_s(10)
    assert world.shown()["InferenceComponentStatus"] == "InService"
    return world


def test_endpoint_creates_serves_and_goes(world: World) -> None:
    """Creating until its time is over, then InService; Deleting, then gone."""
    world.endpoint()
    assert world.status() == "Creating"
    world.pass_s(9.9)
    assert world.status() == "Creating"
    world.pass_s(0.1)
    assert world.status() == "InService"
    world.call("DeleteEndpoint", EndpointName="chat")
    assert world.status() == "Deleting"
    world.pass_s(5)
    assert "Could not find endpoint" in refusal(world, "DescribeEndpoint", EndpointName="chat")


def test_component_waits_for_its_endpoint(world: World) -> None:
    """A component made beside a new endpoint is in service only once both times have passed."""
    world.model()
    world.endpoint()
    world.component()
    world.pass_s(9.9)
    assert world.shown()["InferenceComponentStatus"] == "Creating"
    world.pass_s(0.1)
    assert world.shown()["RuntimeConfig"] == {"DesiredCopyCount": 1, "CurrentCopyCount": 1}


def test_copies_change_when_the_update_is_done(serving: World) -> None:
    """While Updating the old count serves; managed scaling then adds the second instance for the fifth copy."""
    serving.call(
        "UpdateInferenceComponentRuntimeConfig",
        InferenceComponentName="chat-main",
        DesiredRuntimeConfig={"CopyCount": 5},
    )
    assert serving.shown()["RuntimeConfig"] == {"DesiredCopyCount": 5, "CurrentCopyCount": 1}
    serving.pass_s(10)
    assert serving.shown()["RuntimeConfig"] == {"DesiredCopyCount": 5, "CurrentCopyCount": 5}
    variant = serving.call("DescribeEndpoint", EndpointName="chat")["ProductionVariants"][0]
    assert variant["CurrentInstanceCount"] == 2


def test_copies_beyond_the_most_instances_fail_the_component(serving: World) -> None:
    """Two instances hold eight copies of one accelerator: nine cannot be placed."""
    serving.call("UpdateInferenceComponent", InferenceComponentName="chat-main", RuntimeConfig={"CopyCount": 9})
    serving.pass_s(10)
    assert serving.shown()["InferenceComponentStatus"] == "Failed"
    assert "Unable to place 9 copies" in serving.shown()["FailureReason"]


def test_component_scales_to_zero_and_back_after_creation(serving: World) -> None:
    """Zero copies are possible by an update, not at creation; the instance minimum stays."""
    serving.call("UpdateInferenceComponent", InferenceComponentName="chat-main", RuntimeConfig={"CopyCount": 0})
    serving.pass_s(10)
    view = serving.directory.component("chat-main")
    assert view is not None and (view.status, view.copies) == ("InService", 0)
    with pytest.raises(AwsError, match="must be at least 1 when an inference component is created"):
        serving.component("chat-zero", copies=0)


def test_new_specification_starts_the_container_anew(serving: World) -> None:
    """Another model is another generation; only another count is not."""
    serving.model("other")
    serving.call("UpdateInferenceComponent", InferenceComponentName="chat-main", RuntimeConfig={"CopyCount": 2})
    serving.pass_s(10)
    view = serving.directory.component("chat-main")
    assert view is not None and view.generation == 1
    needs = {"NumberOfAcceleratorDevicesRequired": 2, "MinMemoryRequiredInMb": 1024}
    serving.call(
        "UpdateInferenceComponent",
        InferenceComponentName="chat-main",
        Specification={"ModelName": "other", "ComputeResourceRequirements": needs},
    )
    serving.pass_s(10)
    view = serving.directory.component("chat-main")
    assert view is not None and (view.generation, view.accelerators_per_copy, view.copies) == (2, 2, 2)


def test_container_that_cannot_start_is_failed_with_its_reason(world: World) -> None:
    """The runtime's reason becomes FailureReason; no copy serves."""
    world.model()
    world.endpoint()
    world.pass_s(10)
    world.broken = "weights do not fit"
    world.component()
    world.pass_s(10)
    assert world.shown()["FailureReason"] == "weights do not fit"
    assert world.shown()["RuntimeConfig"]["CurrentCopyCount"] == 0


def test_runtime_can_fail_a_component_later(serving: World) -> None:
    """A container that dies for good: Failed, as DescribeInferenceComponent shows."""
    serving.directory.fail_component("chat-main", "killed")
    assert (serving.shown()["InferenceComponentStatus"], serving.shown()["FailureReason"]) == ("Failed", "killed")


def test_runtime_sees_image_variables_and_tags_of_what_was_deployed(serving: World) -> None:
    """All of the container comes from the Model; metrics go where the service puts them."""
    view = serving.directory.component("chat-main")
    assert view is not None
    assert (view.container.image, view.instance_type) == (TGI_IMAGE, "ml.g5.12xlarge")
    assert dict(view.container.environment) == {"HF_MODEL_ID": "x"}
    assert dict(view.container.tags) == {"loadproof:model-id": "x/y"}
    endpoint = serving.directory.endpoint("chat")
    assert endpoint is not None and endpoint.component_names == ("chat-main",)
    assert endpoint.variants[0].container is None
    serving.directory.record_metric("AWS/SageMaker", "Invocations", 1.0, {"InferenceComponentName": "chat-main"})
    assert serving.metrics == [("AWS/SageMaker/Invocations/chat-main", 1.0)]


def test_endpoint_with_components_is_not_deleted(serving: World) -> None:
    """First the components, then the endpoint."""
    assert "chat-main" in refusal(serving, "DeleteEndpoint", EndpointName="chat")
    serving.call("DeleteInferenceComponent", InferenceComponentName="chat-main")
    serving.pass_s(5)
    serving.call("DeleteEndpoint", EndpointName="chat")


def test_names_are_taken_once(serving: World) -> None:
    assert "already existing endpoint" in refusal(
        serving, "CreateEndpoint", EndpointName="chat", EndpointConfigName="config"
    )
    with pytest.raises(AwsError, match="already existing inference component"):
        serving.component()
    with pytest.raises(AwsError, match="already existing model"):
        serving.model()


def test_component_needs_a_variant_without_a_model(world: World) -> None:
    """A variant with a ModelName serves that model and nothing else."""
    world.model()
    plain = {name: value for name, value in VARIANT.items() if name != "ManagedInstanceScaling"}
    world.endpoint({**plain, "ModelName": "model"})
    world.pass_s(10)
    with pytest.raises(AwsError, match="has a ModelName"):
        world.component()
    view = world.directory.endpoint("chat")
    assert view is not None and view.variants[0].container is not None


def test_configuration_for_components_needs_an_execution_role(world: World) -> None:
    message = refusal(world, "CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=[VARIANT])
    assert "ExecutionRoleArn is required" in message
    with pytest.raises(AwsError, match="Could not assume role"):
        world.config(VARIANT, "c", role="bad")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"InstanceType": "ml.imaginary"}, "Member must satisfy enum value set"),
        ({"ModelName": "nowhere"}, "Could not find model"),
        ({"InitialInstanceCount": 3}, "must lie between"),
        (
            {"ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 3, "MaxInstanceCount": 2}},
            "MinInstanceCount 3 must be less than or equal to MaxInstanceCount 2",
        ),
        ({"Colour": "red"}, "Member is not known"),
        ({"VolumeSizeInGB": 513}, "Member must have value less than or equal to 512"),
        ({"VolumeSizeInGB": 100}, "VolumeSizeInGB must not be given: ml.g5.12xlarge has local storage"),
        ({"RoutingConfig": {"RoutingStrategy": "PREFIX_AWARE"}}, "must be given together"),
    ],
)
def test_bad_variant_is_refused(world: World, change: dict[str, Any], message: str) -> None:
    """Each with the reason AWS gives."""
    with pytest.raises(AwsError) as caught:
        world.config({**VARIANT, **change}, "c")
    assert message in caught.value.message


def test_key_for_volumes_is_refused_where_disks_are_local(world: World) -> None:
    """A g5 has NVMe disks: AWS fails CreateEndpointConfig when a key is given for them."""
    role = "arn:aws:iam::123456789012:role/good"
    message = refusal(
        world,
        "CreateEndpointConfig",
        EndpointConfigName="c",
        ProductionVariants=[VARIANT],
        ExecutionRoleArn=role,
        KmsKeyId="some-key",
    )
    assert "KmsKeyId must not be given" in message


def test_model_must_agree_with_its_endpoint(serving: World) -> None:
    """A model that is isolated does not run on an endpoint that is not."""
    role = "arn:aws:iam::123456789012:role/good"
    serving.call(
        "CreateModel",
        ModelName="isolated",
        PrimaryContainer={"Image": TGI_IMAGE},
        ExecutionRoleArn=role,
        EnableNetworkIsolation=True,
    )
    message = refusal(
        serving,
        "CreateInferenceComponent",
        InferenceComponentName="second",
        EndpointName="chat",
        VariantName="AllTraffic",
        Specification={
            "ModelName": "isolated",
            "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 1},
        },
        RuntimeConfig={"CopyCount": 1},
    )
    assert "EnableNetworkIsolation of model isolated differs" in message


def test_update_keeps_what_runs_when_it_cannot_go_on(serving: World) -> None:
    """One update at a time; a scaled variant keeps its type; a component's variant stays."""
    serving.config({**VARIANT, "InstanceType": "ml.g5.xlarge"}, "small")
    serving.call("UpdateEndpoint", EndpointName="chat", EndpointConfigName="small")
    assert serving.status() == "Updating"
    assert "in-progress" in refusal(serving, "UpdateEndpoint", EndpointName="chat", EndpointConfigName="small")
    serving.pass_s(10)
    assert serving.call("DescribeEndpoint", EndpointName="chat")["EndpointConfigName"] == "small"
    serving.scaled = frozenset({"AllTraffic"})
    message = refusal(serving, "UpdateEndpoint", EndpointName="chat", EndpointConfigName="config")
    assert message == (
        'The variant(s) "[AllTraffic]" must be deregistered as scalable targets with AutoScaling before they can be '
        "removed or have their instance type updated."
    )
    serving.config({**VARIANT, "VariantName": "Other"}, "renamed")
    message = refusal(serving, "UpdateEndpoint", EndpointName="chat", EndpointConfigName="renamed")
    assert "hosts inference component chat-main" in message


def test_adapter_lives_in_its_base(serving: World) -> None:
    """An adapter names its base, brings weights, reserves nothing, and goes before its base."""
    adapter = {"BaseInferenceComponentName": "chat-main", "Container": {"ArtifactUrl": "s3://bucket/a.tar.gz"}}
    names = {"InferenceComponentName": "chat-a", "EndpointName": "chat"}
    serving.call("CreateInferenceComponent", **names, Specification=adapter)
    serving.pass_s(10)
    view = serving.directory.component("chat-a")
    assert view is not None and (view.status, view.copies, view.container.image) == ("InService", 1, TGI_IMAGE)
    assert view.container.model_data_s3_uri == "s3://bucket/a.tar.gz"
    assert view.container.adapter
    assert "base of adapters chat-a" in refusal(serving, "DeleteInferenceComponent", InferenceComponentName="chat-main")


def test_tags_are_added_listed_and_removed(serving: World) -> None:
    arn = serving.shown()["InferenceComponentArn"]
    serving.call("AddTags", ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    serving.call("DeleteTags", ResourceArn=arn, TagKeys=["a"])
    assert serving.call("ListTags", ResourceArn=arn) == {"Tags": [{"Key": "b", "Value": "2"}]}
    assert "Could not find resource" in refusal(serving, "ListTags", ResourceArn=arn + "x")


def load(name: str, accelerators: int, copies: int) -> Load:
    return Load(name, copies, lambda instance_type: Size(accelerators, 0, 0))


def test_first_fit_by_hand() -> None:
    """g5.12xlarge has 4 accelerators: a copy of 3 and two of 1 take two instances; a copy of 5 has no place."""
    found = place(VARIANT, [load("big", 3, 1), load("small", 1, 2), load("huge", 5, 1)])
    assert [found.placed(name) for name in ("big", "small", "huge")] == [1, 2, 0]
    assert found.instances == {"ml.g5.12xlarge": 2}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=5), st.integers(1, 6))
def test_placement_never_exceeds_what_instances_hold(components: list[tuple[int, int]], most: int) -> None:
    """Copies placed never need more accelerators than the instances in use have, nor more instances than allowed."""
    variant = {
        **VARIANT,
        "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": most},
    }
    found = place(variant, [load(str(index), size, copies) for index, (size, copies) in enumerate(components)])
    used = sum(found.placed(str(index)) * size for index, (size, _) in enumerate(components))
    assert used <= 4 * sum(found.instances.values()) <= 4 * most
    assert all(found.placed(str(index)) <= copies for index, (_, copies) in enumerate(components))
