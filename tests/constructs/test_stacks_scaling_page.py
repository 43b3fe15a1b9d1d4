"""docs/scaling.md: each profile on the page is checked without a finding, valid, and deployed to the local cloud."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from stacks_cloud import Cloud, local_cloud
from validated import findings

from loadproof.profiles import check_file, load_profile
from loadproof.profiles.schema import Profile

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
BLOCK = re.compile(r"^```yaml\n# deploy_profiles/dev/(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BASE = "base/chat.yaml"
NAMES = [name for name, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if name != BASE]


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files where the page says they are."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "base").mkdir()
    for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "scaling-page", speed=100) as made:
        yield made


def test_every_yaml_block_is_a_profile_of_this_test() -> None:
    """Nothing on the page escapes."""
    assert PAGE.read_text(encoding="utf-8").count("```yaml") == len(NAMES) + 1 == len(DEPLOYED) + 1


@pytest.mark.parametrize("name", NAMES)
def test_profile_has_no_finding(name: str, profiles: Path) -> None:
    """Neither errors nor warnings."""
    assert check_file(profiles / name).problems == ()


@pytest.mark.parametrize("name", NAMES)
def test_profile_is_valid_and_deployed_with_its_policies(
    name: str, profiles: Path, cloud: Cloud, tmp_path: Path
) -> None:
    """AWS's validator has nothing to say, the stack comes up, and the policies are registered with these names."""
    chosen = load_profile(profiles / name)
    stack = f"loadproof-test-{chosen.name}"
    assert cloud.deploy(chosen) == "CREATE_COMPLETE", cloud.reasons(stack)
    template = cloud.client("cloudformation").get_template(StackName=stack)["TemplateBody"]
    assert findings(template, tmp_path / "template.json") == []
    assert registered(cloud, chosen) == DEPLOYED[chosen.name]


def registered(cloud: Cloud, chosen: Profile) -> tuple[list[str], list[str]]:
    """Names of policies and of scheduled actions of a profile's one target."""
    scaling, endpoint = cloud.client("application-autoscaling"), f"loadproof-test-{chosen.name}"
    plain = chosen.endpoint is not None and chosen.endpoint.hosting == "plain_variant"
    resource = f"endpoint/{endpoint}/variant/AllTraffic" if plain else f"inference-component/{endpoint}-main"
    of: dict[str, Any] = {"ServiceNamespace": "sagemaker", "ResourceId": resource}
    policies = scaling.describe_scaling_policies(**of)["ScalingPolicies"]
    actions = scaling.describe_scheduled_actions(**of)["ScheduledActions"]
    assert all(policy["Alarms"] for policy in policies)
    return (
        sorted(policy["PolicyName"] for policy in policies),
        sorted(action["ScheduledActionName"] for action in actions),
    )


DEPLOYED: dict[str, tuple[list[str], list[str]]] = {
    "tracked": (["track-concurrent-requests-per-copy"], []),
    "queued": (["track-backlog-per-copy"], []),
    "stepped": (
        [
            "step-backlog-per-copy-above",
            "step-concurrent-requests-per-copy-above",
            "step-concurrent-requests-per-copy-below",
        ],
        [],
    ),
    "simple": (["step-invocations-per-copy-above", "step-invocations-per-copy-below"], []),
    "office": (["track-concurrent-requests-per-copy"], ["evening", "office-hours"]),
    "several": (
        [
            "step-concurrent-requests-per-copy-above",
            "track-backlog-per-copy",
            "track-concurrent-requests-per-copy",
        ],
        ["launch", "launch-over"],
    ),
    "sleeping": (["track-concurrent-requests-per-copy", "wake-from-zero"], []),
    "batch": (["track-async-backlog-per-instance", "wake-from-zero"], []),
    "plain": (["track-concurrent-requests-per-model"], []),
}


def test_components_keep_their_copies_through_a_new_instance_type(profiles: Path, cloud: Cloud) -> None:
    """No pause is needed: the endpoint moves to the new configuration, and the count that scaling had reached stays."""
    chosen = load_profile(profiles / "tracked.yaml").model_copy(update={"name": "moving"})
    cloud.deploy(chosen)
    sagemaker, name = cloud.client("sagemaker"), "loadproof-test-moving"
    sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=f"{name}-main", DesiredRuntimeConfig={"CopyCount": 3}
    )
    assert chosen.endpoint is not None
    larger = chosen.endpoint.model_copy(update={"instance_type": "ml.g6e.4xlarge"})
    assert cloud.deploy(chosen.model_copy(update={"endpoint": larger})) == "UPDATE_COMPLETE"
    config = sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"]
    (variant,) = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    assert variant["InstanceType"] == "ml.g6e.4xlarge"
    component = sagemaker.describe_inference_component(InferenceComponentName=f"{name}-main")
    assert component["RuntimeConfig"]["DesiredCopyCount"] == 3


def test_auto_is_seen_to_scale_out(profiles: Path, cloud: Cloud) -> None:
    """The derived target is 20 in flight a copy: 50 requests, longer than the alarm's 30 s, make ⌈50 / 20⌉ = 3; what of
    them a busy machine has not sent by then, less."""
    chosen = load_profile(profiles / "tracked.yaml").model_copy(update={"name": "live"})
    assert cloud.deploy(chosen) == "CREATE_COMPLETE", cloud.reasons("loadproof-test-live")
    runtime, body = cloud.client("sagemaker-runtime"), {"inputs": "Hello", "parameters": {"max_new_tokens": 100}}

    def ask(_: int) -> int:
        answer = runtime.invoke_endpoint(
            EndpointName="loadproof-test-live",
            InferenceComponentName="loadproof-test-live-main",
            ContentType="application/json",
            Body=json.dumps(body),
        )
        return int(answer["ResponseMetadata"]["HTTPStatusCode"])

    with ThreadPoolExecutor(50) as threads:
        assert set(threads.map(ask, range(50))) == {200}
    first = cloud.client("application-autoscaling").describe_scaling_activities(
        ServiceNamespace="sagemaker", ResourceId="inference-component/loadproof-test-live-main"
    )["ScalingActivities"][-1]
    cause = re.fullmatch(
        r"monitor alarm (\S+) in state ALARM triggered policy track-concurrent-requests-per-copy", first["Cause"]
    )
    assert cause is not None, first["Cause"]
    history = cloud.client("cloudwatch").describe_alarm_history(AlarmName=cause[1], HistoryItemType="StateUpdate")
    states = [json.loads(one["HistoryData"])["newState"] for one in history["AlarmHistoryItems"]]
    reason = next(one["stateReason"] for one in reversed(states) if one["stateValue"] == "ALARM")
    seen = float(reason.partition("[")[2].partition(",")[0])  # the newest of the alarm's points
    assert 20 < seen <= 50
    assert first["Description"] == f"Setting desired copy count to {math.ceil(seen / 20)}."
