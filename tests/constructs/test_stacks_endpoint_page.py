"""docs/endpoint.md: each profile on the page is checked without a finding, valid, and deployed to the local cloud."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from stacks_cloud import Cloud, local_cloud
from validated import findings

from loadproof.profiles import check_file, load_profile

PAGE = Path(__file__).parents[2] / "docs" / "endpoint.md"
BLOCK = re.compile(r"^```yaml\n# deploy_profiles/dev/(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BASE = "base/chat.yaml"
TEXT = PAGE.read_text(encoding="utf-8")
NAMES = [name for name, _ in BLOCK.findall(TEXT) if name != BASE]


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files where the page says they are."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "base").mkdir()
    for name, text in BLOCK.findall(TEXT):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "endpoint-page") as made:
        yield made


def test_every_yaml_block_is_a_profile_of_this_test() -> None:
    """Nothing on the page escapes."""
    assert TEXT.count("```yaml") == len(NAMES) + 1


@pytest.mark.parametrize("name", NAMES)
def test_profile_has_no_finding(name: str, profiles: Path) -> None:
    """Neither errors nor warnings."""
    assert check_file(profiles / name).problems == ()


@pytest.mark.parametrize("name", NAMES)
def test_profile_is_valid_deployed_and_taken_down(name: str, profiles: Path, cloud: Cloud, tmp_path: Path) -> None:
    """AWS's validator has nothing to say; all is in service, and nothing is left of it."""
    chosen = load_profile(profiles / name)
    template, stack = cloud.template(chosen), f"loadproof-test-{chosen.name}"
    assert findings(template, tmp_path / "template.json") == []
    if name == "own.yaml":
        assert cloud.apply(stack, template) == "ROLLBACK_COMPLETE"
        assert "the twin knows no model server in image" in str(cloud.reasons(stack))
        return
    assert cloud.apply(stack, template) == "CREATE_COMPLETE", cloud.reasons(stack)
    sagemaker = cloud.client("sagemaker")
    assert sagemaker.describe_endpoint(EndpointName=stack)["EndpointStatus"] == "InService"
    components = sagemaker.list_inference_components(EndpointNameEquals=stack)["InferenceComponents"]
    assert {one["InferenceComponentStatus"] for one in components} <= {"InService"}
    plain = chosen.endpoint is not None and chosen.endpoint.hosting == "plain_variant"
    assert len(components) == (0 if plain else 1 + len(chosen.components) + len(chosen.adapters))
    assert cloud.destroy(stack) == "DELETE_COMPLETE"
    assert sagemaker.list_endpoint_configs(NameContains=stack)["EndpointConfigs"] == []
    groups = cloud.client("logs").describe_log_groups(logGroupNamePrefix="/aws/sagemaker/")["logGroups"]
    assert [group["logGroupName"] for group in groups if stack in group["logGroupName"]] == []
