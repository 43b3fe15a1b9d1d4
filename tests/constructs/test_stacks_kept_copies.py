"""A deployment and the copies that scaling has reached, on a local cloud."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from stacks_cloud import Cloud, local_cloud
from stacks_support import Synthesized, merged, profile, synthesize

from loadproof.constructs.endpoint.kept_copies.runtime.index import kept, present
from loadproof.profiles.schema import Profile

STACK = "loadproof-test-chat"
COMPONENT = "AWS::SageMaker::InferenceComponent"
CUSTOM = "AWS::CloudFormation::CustomResource"
SCALED: dict[str, Any] = {
    "endpoint": {"max_instances": 5},
    "copies": {"min": 1, "max": 4},
    "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4.0}]},
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "kept-copies") as running:
        yield running


@pytest.fixture
def deployed(cloud: Cloud, tmp_path: Path) -> Iterator[Cloud]:
    """The scaled profile, deployed; taken down after the test."""
    assert cloud.deploy(profile(tmp_path, SCALED)) == "CREATE_COMPLETE", cloud.reasons(STACK)
    yield cloud
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def copies(cloud: Cloud) -> tuple[int, str]:
    """Copies that are wanted, and the tag of the image they run."""
    found = cloud.client("sagemaker").describe_inference_component(InferenceComponentName=f"{STACK}-main")
    image = found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"]
    return found["RuntimeConfig"]["DesiredCopyCount"], image.rpartition(":")[2]


def scale(cloud: Cloud, count: int) -> None:
    """What Application Auto Scaling calls."""
    cloud.client("sagemaker").update_inference_component_runtime_config(
        InferenceComponentName=f"{STACK}-main", DesiredRuntimeConfig={"CopyCount": count}
    )
    assert copies(cloud)[0] == count


def edited(tmp_path: Path, **changes: Any) -> Profile:
    """SCALED with changes to its parts; None in a part deletes."""
    parts = {
        name: {**SCALED.get(name, {}), **part} if isinstance(part, dict) else part for name, part in changes.items()
    }
    return profile(tmp_path, {**SCALED, **parts})


def test_new_image_keeps_what_scaling_reached(deployed: Cloud, tmp_path: Path) -> None:
    """1 copy, scaled out to 3; another image is deployed: 3 copies of it."""
    assert copies(deployed) == (1, "2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04")
    scale(deployed, 3)
    assert deployed.deploy(edited(tmp_path, container={"version": "3.2.3"})) == "UPDATE_COMPLETE"
    assert copies(deployed) == (3, "2.6.0-tgi3.2.3-gpu-py311-cu124-ubuntu22.04")


def test_without_it_the_same_deployment_resets_the_copies(deployed: Cloud, tmp_path: Path) -> None:
    """The template with a literal CopyCount, as it is usually written, takes the endpoint from 3 copies to 1."""
    plain = synthesize(profile(tmp_path, SCALED))
    plain.named(COMPONENT)["Properties"]["RuntimeConfig"]["CopyCount"] = 1
    assert deployed.apply(STACK, plain.template) == "UPDATE_COMPLETE"
    scale(deployed, 3)
    plain.named("AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]["Environment"]["MAX_TOTAL_TOKENS"] = "2048"
    assert deployed.apply(STACK, plain.template) == "UPDATE_COMPLETE"
    assert copies(deployed)[0] == 1


def test_raised_minimum_raises_the_copies(deployed: Cloud, tmp_path: Path) -> None:
    """2 copies below the new minimum of 3 become 3; the update is told so by the bounds, not by the old count."""
    scale(deployed, 2)
    assert deployed.deploy(edited(tmp_path, copies={"min": 3})) == "UPDATE_COMPLETE"
    assert copies(deployed)[0] == 3


def test_edit_that_leaves_the_component_alone_asks_nothing(deployed: Cloud, tmp_path: Path) -> None:
    """Another alarm period is no reason to touch the component: its custom resource is not called."""
    before = custom_events(deployed)
    assert deployed.deploy(edited(tmp_path, endpoint={"max_instances": 6})) == "UPDATE_COMPLETE"
    assert custom_events(deployed) == before


def test_rolled_back_deployment_goes_back_whole(deployed: Cloud, tmp_path: Path) -> None:
    """A deployment fails after the component's change: the question is asked back too and stops nothing.

    The count is the last deployment's, 1: this cloud goes back to stored properties, as CloudFormation may.
    """
    scale(deployed, 3)
    broken = synthesize(edited(tmp_path, container={"version": "3.2.3"}))
    broken.template["Resources"]["Late"] = {
        "Type": "AWS::MSK::ServerlessCluster",
        "DependsOn": [broken.logical_id(COMPONENT)],
    }
    assert deployed.apply(STACK, broken.template) == "UPDATE_ROLLBACK_COMPLETE"
    assert copies(deployed) == (1, "2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04")
    scale(deployed, 3)
    assert deployed.deploy(edited(tmp_path, container={"version": "3.2.3"})) == "UPDATE_COMPLETE"
    assert copies(deployed)[0] == 3


def test_component_at_zero_stays_at_zero(cloud: Cloud, tmp_path: Path) -> None:
    """Asleep when the new image comes: it sleeps on, and starts as the new one."""
    asleep = merged(
        SCALED, {"copies": {"min": 0}, "endpoint": {"min_instances": 0}, "scaling": {"to_zero": {}}, "name": "chat"}
    )
    assert cloud.deploy(profile(tmp_path, asleep)) == "CREATE_COMPLETE"
    assert copies(cloud)[0] == 1
    scale(cloud, 0)
    assert cloud.deploy(profile(tmp_path, merged(asleep, {"container": {"version": "3.2.3"}}))) == "UPDATE_COMPLETE"
    assert copies(cloud) == (0, "2.6.0-tgi3.2.3-gpu-py311-cu124-ubuntu22.04")
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("present", "expected"), [(None, 2), (0, 1), (1, 1), (3, 3), (4, 4), (7, 4)], ids=lambda value: str(value)
)
def test_count_is_held_within_its_bounds(present: int | None, expected: int) -> None:
    """Nothing there: the first count, 2. Else what is there, between 1 and 4."""
    assert kept(present, 2, 1, 4) == expected


class Sagemaker:
    """DescribeInferenceComponent with prepared answers, each one once, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = boto3.session.Session().client(
            "sagemaker", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
        )
        self._stub = Stubber(client)
        self._stub.activate()
        self.slept_s: list[float] = []
        monkeypatch.setattr(boto3, "client", lambda service: client)
        monkeypatch.setattr("time.sleep", self.slept_s.append)

    def refuses(self, code: str, message: str = "no") -> None:
        self._stub.add_client_error("describe_inference_component", code, message)

    def has(self, copies: int | None, status: str = "InService") -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        arn = "arn:aws:sagemaker:us-east-1:123456789012:"
        told = {
            "InferenceComponentName": "chat-main",
            "InferenceComponentArn": f"{arn}inference-component/chat-main",
            "EndpointName": "chat",
            "EndpointArn": f"{arn}endpoint/chat",
            "InferenceComponentStatus": status,
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        counts = {"DesiredCopyCount": copies, "CurrentCopyCount": 1}
        answer = told if copies is None else {**told, "RuntimeConfig": counts}
        self._stub.add_response("describe_inference_component", answer)


@pytest.fixture
def sagemaker(monkeypatch: pytest.MonkeyPatch) -> Sagemaker:
    return Sagemaker(monkeypatch)


def test_count_is_what_scaling_wants_not_what_runs(sagemaker: Sagemaker) -> None:
    """Three wanted, one running yet: three."""
    sagemaker.has(3)
    assert present("chat-main") == 3


def test_scaling_at_work_is_waited_for(sagemaker: Sagemaker) -> None:
    """SageMaker refuses to change a component that is Updating; the count is read when it no longer is."""
    sagemaker.has(2, "Updating")
    sagemaker.has(3, "Updating")
    sagemaker.has(3)
    assert present("chat-main") == 3
    assert sagemaker.slept_s == [5, 5]


def test_a_change_without_end_is_left_to_sagemaker(sagemaker: Sagemaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 750 s the count is given as it is: no answer would hold up a rollback."""
    now_s = chain([0.0, 400.0], repeat(751.0))  # whoever else asks is told the last
    monkeypatch.setattr("time.monotonic", now_s.__next__)
    sagemaker.has(3, "Updating")
    sagemaker.has(4, "Updating")
    assert present("chat-main") == 4


def test_nothing_there_nothing_kept(sagemaker: Sagemaker) -> None:
    """No such component, and one that failed before it had a count."""
    sagemaker.refuses("ValidationException", 'Could not find inference component "chat-main".')
    sagemaker.has(None)
    assert (present("chat-main"), present("chat-main")) == (None, None)


def test_new_rights_are_waited_for_a_minute(sagemaker: Sagemaker) -> None:
    """A role made seconds ago is refused twice and then served; one without the right is refused in the end."""
    sagemaker.refuses("AccessDeniedException")
    sagemaker.refuses("AccessDeniedException")
    sagemaker.has(2)
    assert present("chat-main") == 2
    assert sagemaker.slept_s == [5, 5]
    for _ in range(13):
        sagemaker.refuses("AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        present("chat-main")
    assert sum(sagemaker.slept_s) == 10 + 60


def test_other_errors_fail_the_deployment_instead_of_resetting(sagemaker: Sagemaker) -> None:
    """Any other refusal says nothing about copies: 0 or 1 would be a guess."""
    sagemaker.refuses("ValidationException", "1 validation error detected")
    with pytest.raises(ClientError, match="1 validation error"):
        present("chat-main")


def test_bounds_are_the_widest_of_the_day(tmp_path: Path) -> None:
    """copies 2..4, at least 1 by night: between 1 and 4 nothing is touched; a new component starts with 2."""
    night = {"type": "scheduled", "name": "night", "schedule": "cron(0 20 * * ? *)", "min_copies": 1, "max_copies": 2}
    policies = [*SCALED["scaling"]["policies"], night]
    custom = question(synthesize(edited(tmp_path, copies={"min": 2}, scaling={"policies": policies})))
    assert (custom["FirstCopies"], custom["FewestCopies"], custom["MostCopies"]) == (2, 1, 4)


def test_rights_are_to_look_at_exactly_the_scaled_components(tmp_path: Path) -> None:
    """`main` scales and `small` does not: one action on one component, and the function's own log group."""
    small = {
        "name": "small",
        "model": {
            "id": "meta-llama/Llama-3.2-1B-Instruct",
            "source": {"type": "s3", "s3_uri": "s3://example-models/small/"},
        },
        "container": {"family": "tgi", "version": "3.3.6"},
    }
    stack = synthesize(edited(tmp_path, components=[small]))
    (role,) = [
        body["Properties"]
        for name, body in stack.all("AWS::IAM::Role").items()
        if name.startswith("EndpointKeptCopies")
    ]
    (logs,) = [name for name in stack.all("AWS::Logs::LogGroup") if name.startswith("EndpointKeptCopies")]
    (policy,) = role["Policies"]
    assert policy["PolicyDocument"]["Statement"] == [
        {
            "Effect": "Allow",
            "Action": "sagemaker:DescribeInferenceComponent",
            "Resource": "arn:aws:sagemaker:us-east-1:123456789012:inference-component/loadproof-test-chat-main",
        },
        {
            "Effect": "Allow",
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
            "Resource": {"Fn::GetAtt": [logs, "Arn"]},
        },
    ]
    assert stack.named(COMPONENT, InferenceComponentName=f"{STACK}-small")["Properties"]["RuntimeConfig"] == {
        "CopyCount": 1
    }


def test_nothing_scaled_nothing_asked(tmp_path: Path) -> None:
    """Without scaling the count is the profile's own, and there is no function."""
    stack = synthesize(profile(tmp_path))
    assert not [name for name in stack.template["Resources"] if "KeptCopies" in name]
    assert stack.only(COMPONENT)["RuntimeConfig"] == {"CopyCount": 1}


EDITS: dict[str, dict[str, Any]] = {
    "weights": {"model": {"source": {"s3_uri": "s3://example-models/llama-v2/"}}},
    "image": {"container": {"version": "3.2.3"}},
    "settings": {"container": {"settings": {"max_total_tokens": 2048}}},
    "memory": {"copies": {"memory_mib_per_copy": 8192}},
    "placement": {"copies": {"placement": "spread"}},
    "start-up": {"endpoint": {"container_startup_timeout_s": 900}},
    "update": {"copies": {"min": 2, "update": {"batch_copies": 1}}},
    "alarm": {"objectives": {"e2e_p50_ms": 900}, "copies": {"min": 2}},
    "pools": {
        "endpoint": {
            "instance_type": None,
            "instance_pools": [
                {"instance_type": "ml.g6e.2xlarge", "priority": 1},
                {"instance_type": "ml.g5.2xlarge", "priority": 2},
            ],
        }
    },
    "least copies": {"copies": {"min": 2}},
    "most copies": {"copies": {"max": 3}},
    "machines": {"endpoint": {"max_instances": 6}},
    "target": {"scaling": {"policies": [{"type": "target_tracking", "metric": "invocations_per_copy", "target": 9.0}]}},
    "routing": {"endpoint": {"routing": {"strategy": "random"}}},
    "buffer": {"buffer": {"max_concurrency": 2}},
}


@pytest.mark.parametrize("edit", EDITS)
def test_it_is_asked_whenever_the_component_changes(tmp_path: Path, edit: str) -> None:
    """CloudFormation sends the count with every change of the component, so each of those changes the question too."""
    before, after = synthesize(profile(tmp_path, SCALED)), synthesize(edited(tmp_path, **EDITS[edit]))
    changed = before.only(COMPONENT) != after.only(COMPONENT) or replaced_model(before, after)
    asked = question(before) != question(after) or replaced_model(before, after)
    assert asked or not changed
    if edit in ("machines", "target", "routing", "buffer"):
        assert not asked


def replaced_model(before: Synthesized, after: Synthesized) -> bool:
    """Both the component and the question name the model, which every edit of it replaces."""
    assert "ModelName" in str(after.only(COMPONENT))
    assert "modelName" in str(question(after)["ChangesWith"])
    return before.only("AWS::SageMaker::Model") != after.only("AWS::SageMaker::Model")


def question(stack: Synthesized) -> dict[str, Any]:
    """The properties of the custom resource that asks for the count."""
    properties: dict[str, Any] = stack.named(CUSTOM, ComponentName=f"{STACK}-main")["Properties"]
    return properties


def custom_events(cloud: Cloud) -> int:
    """How often CloudFormation has said something of that custom resource."""
    events = cloud.client("cloudformation").describe_stack_events(StackName=STACK)["StackEvents"]
    return sum(event["LogicalResourceId"].startswith("EndpointComponentmain") for event in events)
