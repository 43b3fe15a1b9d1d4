"""The proof: whatever is not as deployed fails the deployment, in words; and never a rollback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stacks_cloud import Cloud, local_cloud
from stacks_support import merged, profile, synthesize

from loadproof.constructs.endpoint.proof.runtime.proof import handler

ENDPOINT = {
    "EndpointName": "chat",
    "EndpointStatus": "InService",
    "EndpointConfigName": "config-2",
    "ProductionVariants": [
        {
            "VariantName": "AllTraffic",
            "CurrentInstanceCount": 1,
            "DeployedImages": [{"SpecifiedImage": "server:2"}],
        }
    ],
}
COMPONENT = {
    "InferenceComponentStatus": "InService",
    "Specification": {"ModelName": "model-2", "Container": {"DeployedImage": {"SpecifiedImage": "server:2"}}},
    "RuntimeConfig": {"CurrentCopyCount": 2, "DesiredCopyCount": 2},
}
PLANNED = {"Name": "chat-main", "ModelName": "model-2", "Image": "server:2", "Fewest": "1", "Most": "4"}
GIVEN = {"EndpointName": "chat", "EndpointConfigName": "config-2", "Components": [PLANNED]}


class SageMaker:
    """Answers as the last row says; each look takes the next one."""

    def __init__(self, *looks: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self.looks = list(looks)

    def describe_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803
        return self.looks[0][0]

    def describe_inference_component(self, InferenceComponentName: str) -> dict[str, Any]:  # noqa: N803
        found = self.looks[0][1]
        if len(self.looks) > 1:
            self.looks.pop(0)
        return found


def changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return copy.deepcopy(document) | changes


def found(endpoint: dict[str, Any], component: dict[str, Any] = COMPONENT) -> list[str]:
    _, wrong = handler.looked_at(SageMaker((endpoint, component)), GIVEN)
    return list(wrong)


def test_what_is_as_deployed_is_well() -> None:
    """Two copies of one to four: scaling has been at work, and that is right."""
    assert found(ENDPOINT) == []


def test_an_update_that_was_turned_back_is_told_with_its_reason() -> None:
    """The endpoint is InService, on the old configuration: the deployment would have looked well."""
    (wrong,) = found(changed(ENDPOINT, EndpointConfigName="config-1", FailureReason="alarm rang"))
    assert wrong == (
        "endpoint chat runs configuration config-1, not config-2: SageMaker turned the update back (alarm rang)"
    )


def test_a_component_is_what_was_deployed() -> None:
    """Status, model, image and copies; all that is wrong at once."""
    other = {"ModelName": "model-1", "Container": {"DeployedImage": {"SpecifiedImage": "server:1"}}}
    component = changed(COMPONENT, Specification=other, RuntimeConfig={"CurrentCopyCount": 5})
    component |= {"InferenceComponentStatus": "Failed", "FailureReason": "no room"}
    assert found(ENDPOINT, component) == [
        "component chat-main is Failed (no room)",
        "component chat-main runs model model-1, not model-2 (no room)",
        "component chat-main runs server:1, not server:2",
        "component chat-main has 5 copies, not 1 to 4; run `aws sagemaker update-inference-component-runtime-config "
        "--inference-component-name chat-main --desired-runtime-config CopyCount=4` and deploy again",
    ]


def test_a_plain_variants_instances_and_image_are_looked_at() -> None:
    """It has no components."""
    planned = {"Name": "AllTraffic", "Image": "server:3", "Fewest": "2", "Most": "2"}
    given = {"EndpointName": "chat", "EndpointConfigName": "config-2", "Variants": [planned]}
    assert list(handler.of_endpoint(ENDPOINT, given)) == [
        "variant AllTraffic has 1 instances, not 2; run `aws sagemaker update-endpoint-weights-and-capacities "
        "--endpoint-name chat --desired-weights-and-capacities VariantName=AllTraffic,DesiredInstanceCount=2` "
        "and deploy again",
        "variant AllTraffic runs server:2, not server:3",
    ]


def test_what_still_moves_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaling may be at work just when the deployment ends."""
    monkeypatch.setattr(handler.time, "sleep", lambda seconds: None)
    moving = changed(COMPONENT, InferenceComponentStatus="Updating")
    assert handler.settled(SageMaker((ENDPOINT, moving), (ENDPOINT, COMPONENT)), GIVEN) == []


def test_a_count_that_scaling_is_about_to_mend_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """New bounds have been registered and the endpoint is still InService with the old count: not a fault yet."""
    monkeypatch.setattr(handler.time, "sleep", lambda seconds: None)
    above = changed(COMPONENT, RuntimeConfig={"CurrentCopyCount": 5})
    assert handler.settled(SageMaker((ENDPOINT, above), (ENDPOINT, COMPONENT)), GIVEN) == []


def test_a_count_that_nothing_scales_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewest and most are the same where there is no scaling."""
    monkeypatch.delattr(handler.time, "sleep")
    fixed = GIVEN | {"Components": [PLANNED | {"Fewest": "1", "Most": "1"}]}
    (wrong,) = handler.settled(SageMaker((ENDPOINT, COMPONENT)), fixed)
    assert wrong.startswith("component chat-main has 2 copies, not 1; run ")


VARIANT: dict[str, Any] = {
    "endpoint": {
        "hosting": "plain_variant",
        "max_instances": 4,
        "update": {"type": "blue_green", "wait_s": 0, "termination_wait_s": 0},
    },
    "copies": None,
    "scaling": {
        "policies": [
            {"type": "target_tracking", "metric": "concurrent_requests_per_model", "target": 4.0},
            {"type": "scheduled", "name": "day", "schedule": "cron(0 6 ? * * *)", "min_copies": 2},
            {"type": "scheduled", "name": "night", "schedule": "cron(0 22 ? * * *)", "min_copies": 1},
        ]
    },
}


def planned_variant(folder: Path, *, min_instances: int, paused: bool = False) -> dict[str, Any]:
    """What the proof of VARIANT looks for."""
    chosen = profile(folder, merged(VARIANT, {"endpoint": {"min_instances": min_instances}}))
    stack = synthesize(chosen, scaling_paused=paused)
    (proof,) = stack.all("AWS::CloudFormation::CustomResource", proof=True).values()
    (variant,) = proof["Properties"]["Variants"]
    return dict(variant)


def test_a_variant_may_have_what_a_schedule_has_made_of_it(tmp_path: Path) -> None:
    """At night one instance is right, though the profile's own minimum is two."""
    variant = planned_variant(tmp_path, min_instances=2)
    assert (variant["Fewest"], variant["Most"]) == (1, 4)


def test_a_paused_count_is_nobodys_fault(tmp_path: Path) -> None:
    """While scaling is taken away the count stays, whatever the bounds have become."""
    assert planned_variant(tmp_path, min_instances=2, paused=True).keys() == {"Name", "Image", "Asks"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "proof", speed=30) as made:
        yield made


def test_a_raised_minimum_of_a_scaled_variant_is_reached(cloud: Cloud, tmp_path: Path) -> None:
    """An update keeps the count, scaling then lifts it to the new minimum, and only after that it is proven."""
    stack = "loadproof-test-chat"
    tracked = merged(VARIANT, {"scaling": {"policies": VARIANT["scaling"]["policies"][:1]}})
    assert cloud.deploy(profile(tmp_path, tracked)) == "CREATE_COMPLETE", cloud.reasons(stack)
    raised = merged(tracked, {"endpoint": {"min_instances": 3}})
    assert cloud.deploy(profile(tmp_path, raised)) == "UPDATE_COMPLETE", cloud.reasons(stack)
    (variant,) = cloud.client("sagemaker").describe_endpoint(EndpointName=stack)["ProductionVariants"]
    assert variant["CurrentInstanceCount"] == 3
    assert cloud.destroy(stack) == "DELETE_COMPLETE"


def test_a_deployment_over_what_somebody_else_changed_fails_and_goes_back(cloud: Cloud, tmp_path: Path) -> None:
    """Somebody moved the endpoint to another configuration by hand: the next change of the profile says so, and the
    rollback is not held up by the same finding."""
    stack = "loadproof-test-chat"
    assert cloud.deploy(profile(tmp_path)) == "CREATE_COMPLETE", cloud.reasons(stack)
    sagemaker = cloud.client("sagemaker")
    own = sagemaker.describe_endpoint(EndpointName=stack)["EndpointConfigName"]
    config = sagemaker.describe_endpoint_config(EndpointConfigName=own)
    sagemaker.create_endpoint_config(
        EndpointConfigName="by-hand",
        ExecutionRoleArn=config["ExecutionRoleArn"],
        EnableNetworkIsolation=config["EnableNetworkIsolation"],
        ProductionVariants=config["ProductionVariants"],
    )
    sagemaker.update_endpoint(EndpointName=stack, EndpointConfigName="by-hand", RetainAllVariantProperties=True)
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName=stack, WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    objectives = {"objectives": {"e2e_p95_ms": 2000}}
    assert cloud.deploy(profile(tmp_path, objectives)) == "UPDATE_ROLLBACK_COMPLETE"
    (reason,) = [reason for reason in cloud.reasons(stack) if reason.startswith("Proof")]
    assert f"endpoint {stack} runs configuration by-hand, not {own}" in reason
