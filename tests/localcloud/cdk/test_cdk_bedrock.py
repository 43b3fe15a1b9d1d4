"""The files of docs/bedrock.md through the real CDK CLI: deployed, invoked through the profile's ARN, destroyed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cdk_journey import CDK, Project, bootstrapped

from loadproof.profiles import check_file

STACK = "loadproof-dev-chat"
PAGE = (Path(__file__).parents[3] / "docs" / "bedrock.md").read_text("utf-8")
FILES = dict(re.findall(r"^```yaml\n# deploy_profiles/(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))

pytestmark = [
    pytest.mark.cdk,
    pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed (make setup)"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    profiles = tmp_path_factory.mktemp("page") / "deploy_profiles"
    for name, text in FILES.items():
        (profiles / name).parent.mkdir(parents=True, exist_ok=True)
        (profiles / name).write_text(text, encoding="utf-8")
    with bootstrapped(tmp_path_factory, "cdk-bedrock", profiles) as made:
        yield made


def test_the_pages_files_have_no_finding(project: Project) -> None:
    """Two files, neither errors nor warnings."""
    assert sorted(FILES) == ["dev/chat.yaml", "dev/environment.yaml"]
    for name in FILES:
        assert check_file(project.folder / "deploy_profiles" / name).problems == ()


def test_the_pages_profile_is_deployed_invoked_and_destroyed(project: Project) -> None:
    """boto3 streams from the deployed ARN, a queued message becomes a result's claim, and destroy leaves nothing."""
    project.cdk("deploy", STACK, "-c", "env=dev", "-c", "profile=chat", "--require-approval", "never")
    (stack,) = project.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    told = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
    assert ":application-inference-profile/" in told["ModelArn"]
    assert float(told["TokensPerMinute"]) == 600_000
    stream = project.client("bedrock-runtime").converse_stream(
        modelId=told["ModelArn"],
        messages=[{"role": "user", "content": [{"text": "hello"}]}],
        inferenceConfig={"maxTokens": 3},
    )["stream"]
    events = [next(iter(event)) for event in stream]
    assert events.count("contentBlockDelta") == 3 and events[-2:] == ["messageStop", "metadata"]
    synthesized = ("--app", "cdk.out")
    project.cdk("destroy", STACK, *synthesized, "--force")
    assert (
        project.client("bedrock").list_inference_profiles(typeEquals="APPLICATION")["inferenceProfileSummaries"] == []
    )
    assert project.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert project.client("lambda").list_functions()["Functions"] == []
    roles = [role["RoleName"] for role in project.client("iam").list_roles()["Roles"]]
    assert [name for name in roles if not name.startswith("cdk-")] == []
    templates = json.dumps([one["StackName"] for one in project.client("cloudformation").describe_stacks()["Stacks"]])
    assert STACK not in templates
