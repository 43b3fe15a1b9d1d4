"""Updates as the profile wants them, on a local cloud: they go through, or an objective's alarm turns them back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stacks_cloud import Cloud, local_cloud
from stacks_support import merged, profile

STACK = "loadproof-test-chat"
OLD, NEW = "tgi3.3.6", "tgi3.2.3"
NEW_IMAGE: dict[str, Any] = {"container": {"version": "3.2.3"}}
COMPONENTS: dict[str, Any] = {
    "endpoint": {"max_instances": 5},
    "copies": {"min": 4, "max": 4, "update": {"batch_copies": 1, "wait_s": 120}},
}
VARIANT: dict[str, Any] = {
    "endpoint": {
        "hosting": "plain_variant",
        "min_instances": 4,
        "max_instances": 4,
        "update": {
            "type": "blue_green",
            "traffic": "canary",
            "step_percent": 25,
            "wait_s": 120,
            "termination_wait_s": 0,
        },
    },
    "copies": None,
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "updates", speed=100) as running:
        yield running


@pytest.fixture(params=[COMPONENTS, VARIANT], ids=["components", "variant"])
def deployed(request: pytest.FixtureRequest, cloud: Cloud, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A profile of each hosting, deployed; taken down after the test."""
    assert cloud.deploy(profile(tmp_path, request.param)) == "CREATE_COMPLETE", cloud.reasons(STACK)
    yield request.param
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def image(cloud: Cloud) -> str:
    """The image that answers requests, as SageMaker describes it."""
    sagemaker = cloud.client("sagemaker")
    components = sagemaker.list_inference_components(EndpointNameEquals=STACK)["InferenceComponents"]
    if components:
        found = sagemaker.describe_inference_component(InferenceComponentName=f"{STACK}-main")
        assert found["InferenceComponentStatus"] == "InService"
        return str(found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"])
    found = sagemaker.describe_endpoint(EndpointName=STACK)
    assert found["EndpointStatus"] == "InService"
    return str(found["ProductionVariants"][0]["DeployedImages"][0]["SpecifiedImage"])


@contextmanager
def burning(cloud: Cloud, alarm: str) -> Iterator[None]:
    """The alarm goes off once the update is under way, and burns as long as this lasts."""
    over = threading.Event()

    def burn() -> None:
        sagemaker, cloudwatch = cloud.client("sagemaker"), cloud.client("cloudwatch")
        while not over.wait(0.1):
            endpoint = sagemaker.describe_endpoint(EndpointName=STACK)["EndpointStatus"]
            rows = sagemaker.list_inference_components(EndpointNameEquals=STACK)["InferenceComponents"]
            if "Updating" in (endpoint, *(row["InferenceComponentStatus"] for row in rows)):
                cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="test")

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        cloud.client("cloudwatch").set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="test")


def test_new_image_comes_in_while_nothing_burns(deployed: dict[str, Any], cloud: Cloud, tmp_path: Path) -> None:
    """Batches of one copy of four, or a canary of a quarter: in the end all of it is the new image."""
    assert OLD in image(cloud)
    assert cloud.deploy(profile(tmp_path, merged(deployed, NEW_IMAGE))) == "UPDATE_COMPLETE", cloud.reasons(STACK)
    assert NEW in image(cloud)


def test_burning_objective_turns_the_update_back(deployed: dict[str, Any], cloud: Cloud, tmp_path: Path) -> None:
    """The latency alarm fires while the first step is watched: the old image stays, and CloudFormation fails."""
    with burning(cloud, f"{STACK}-latency-p95"):
        assert cloud.deploy(profile(tmp_path, merged(deployed, NEW_IMAGE))) == "UPDATE_ROLLBACK_COMPLETE"
    assert OLD in image(cloud)
    assert any("latency-p95" in reason for reason in cloud.reasons(STACK)), cloud.reasons(STACK)


def test_old_weights_can_be_read_until_the_new_ones_are_served(
    deployed: dict[str, Any], cloud: Cloud, tmp_path: Path
) -> None:
    """A copy that restarts meanwhile, or an update that is rolled back, reads the old prefix; afterwards nobody may."""
    weights = {"model": {"source": {"s3_uri": "s3://example-models/llama-v2/"}}}
    assert cloud.deploy(profile(tmp_path, merged(deployed, weights))) == "UPDATE_COMPLETE", cloud.reasons(STACK)
    events = [
        (event["ResourceType"], event["ResourceStatus"])
        for event in reversed(cloud.client("cloudformation").describe_stack_events(StackName=STACK)["StackEvents"])
    ]
    kind = "Endpoint" if "hosting" in deployed["endpoint"] else "InferenceComponent"
    moved = events.index((f"AWS::SageMaker::{kind}", "UPDATE_COMPLETE"))
    assert events.index(("AWS::IAM::Policy", "DELETE_COMPLETE")) > moved
    assert len(events) - events[::-1].index(("AWS::IAM::Policy", "CREATE_COMPLETE")) - 1 < moved
    assert read_places(cloud) == ["arn:aws:s3:::example-models/llama-v2/*"]


def read_places(cloud: Cloud) -> list[str]:
    """What the endpoint's role may read from S3, by all policies that it has."""
    iam, sagemaker = cloud.client("iam"), cloud.client("sagemaker")
    (model, *_) = sagemaker.list_models(NameContains="chat")["Models"]
    role = sagemaker.describe_model(ModelName=model["ModelName"])["ExecutionRoleArn"].rpartition("/")[2]
    documents = [
        iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]
    statements = [statement for document in documents for statement in document["Statement"]]
    return [statement["Resource"] for statement in statements if statement["Action"] == "s3:GetObject"]


def test_one_model_of_several_is_edited_alone(cloud: Cloud, tmp_path: Path) -> None:
    """Another image for `small`: `main` and its adapter are not touched. All of it goes in order at the end."""
    small = {
        "name": "small",
        "model": {
            "id": "meta-llama/Llama-3.2-1B-Instruct",
            "source": {"type": "s3", "s3_uri": "s3://example-models/small/"},
        },
        "container": {"family": "vllm", "version": "0.29.0"},
    }
    several = {
        "endpoint": {"instance_type": "ml.g6e.12xlarge"},
        "container": {
            "family": "lmi",
            "version": "0.38.0",
            "settings": {"max_total_tokens": None, "enable_lora": True},
        },
        "adapters": [{"name": "legal", "s3_uri": "s3://example-models/adapters/legal.tar.gz"}],
        "copies": {"max": 1},
        "components": [small],
    }
    assert cloud.deploy(profile(tmp_path, several)) == "CREATE_COMPLETE", cloud.reasons(STACK)
    before = last_changes(cloud)
    edited = {**several, "components": [{**small, "container": {"family": "vllm", "version": "0.30.0"}}]}
    assert cloud.deploy(profile(tmp_path, edited)) == "UPDATE_COMPLETE", cloud.reasons(STACK)
    after = last_changes(cloud)
    assert [name for name in after if before[name] != after[name]] == [f"{STACK}-small"]
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def last_changes(cloud: Cloud) -> dict[str, Any]:
    """When each component was changed last."""
    rows = cloud.client("sagemaker").list_inference_components(EndpointNameEquals=STACK)["InferenceComponents"]
    return {row["InferenceComponentName"]: row["LastModifiedTime"] for row in rows}


SCALED: dict[str, Any] = {
    "name": "plain",
    "endpoint": {"hosting": "plain_variant", "max_instances": 4},
    "copies": None,
    "scaling": {
        "policies": [
            {"type": "target_tracking", "metric": "concurrent_requests_per_model", "target": 8, "scale_in": False}
        ]
    },
}


def test_scaled_variant_changes_its_instance_type_in_three_steps(cloud: Cloud, tmp_path: Path) -> None:
    """In one step SageMaker refuses and the stack goes back; with scaling paused before and resumed after it succeeds,
    and the count that scaling had reached stays throughout."""
    name = "loadproof-test-plain"
    old = profile(tmp_path, SCALED)
    new = profile(tmp_path, merged(SCALED, {"endpoint": {"instance_type": "ml.g6e.4xlarge"}}))
    sagemaker = cloud.client("sagemaker")

    def running() -> tuple[str, int, int]:
        """Instance type, instances, and how many targets scale them."""
        endpoint = sagemaker.describe_endpoint(EndpointName=name)
        assert endpoint["EndpointStatus"] == "InService"
        (variant,) = endpoint["ProductionVariants"]
        config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
        targets = cloud.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace="sagemaker", ResourceIds=[f"endpoint/{name}/variant/AllTraffic"]
        )["ScalableTargets"]
        kind = config["ProductionVariants"][0]["InstanceType"]
        return kind, variant["CurrentInstanceCount"], len(targets)

    assert cloud.deploy(old) == "CREATE_COMPLETE", cloud.reasons(name)
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=name, DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}]
    )
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName=name, WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    assert running() == ("ml.g6e.2xlarge", 3, 1)

    assert cloud.deploy(new) == "UPDATE_ROLLBACK_COMPLETE"
    assert '"[AllTraffic]" must be deregistered as scalable targets with AutoScaling before' in str(cloud.reasons(name))
    assert running() == ("ml.g6e.2xlarge", 3, 1)

    assert cloud.deploy(old, scaling_paused=True) == "UPDATE_COMPLETE", cloud.reasons(name)
    assert running() == ("ml.g6e.2xlarge", 3, 0)
    assert cloud.deploy(new, scaling_paused=True) == "UPDATE_COMPLETE", cloud.reasons(name)
    assert running() == ("ml.g6e.4xlarge", 3, 0)
    assert cloud.deploy(new) == "UPDATE_COMPLETE", cloud.reasons(name)
    assert running() == ("ml.g6e.4xlarge", 3, 1)
    assert cloud.destroy(name) == "DELETE_COMPLETE"
