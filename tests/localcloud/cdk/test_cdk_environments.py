"""The real CDK CLI: two regions at once, with weights staged from a hub on loopback; and what an open finding does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cdk_journey import CDK, REPOSITORY, Project, bootstrapped
from tiny_weights import TINY_SHAPE, safetensors

sys.path.append(str(REPOSITORY / "tests" / "constructs"))
from staging_hub import Hub, served

pytestmark = [
    pytest.mark.cdk,
    pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed (make setup)"),
]
REVISION = "0e9e39f249a16976918f6564b8830bc894c89659"
PROFILE = f"""\
name: chat
model:
  id: acme/tiny
  source: {{type: hub, revision: {REVISION}}}
  architecture: {json.dumps(TINY_SHAPE)}
container:
  family: vllm
  version: 0.30.0
  settings: {{max_model_len: 8192}}
endpoint: {{instance_type: ml.g6e.2xlarge}}
objectives: {{at_concurrency: 4, e2e_p95_ms: 6000, error_rate_max: 0.01}}
workload: {{input_tokens: 256, output_tokens: 64}}
"""
FILES = {"config.json": b"{}", "model.safetensors": safetensors()}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with served(Hub(FILES, frozenset(["model.safetensors"]), "acme/tiny", REVISION)) as running:
        yield running


@pytest.fixture(scope="module")
def project(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A profile in one region, and one that extends it in another."""
    root = tmp_path_factory.mktemp("source")
    for name, region, profile in (("us", "us-east-1", PROFILE), ("eu", "eu-central-1", "extends: ../us/chat.yaml\n")):
        (root / name).mkdir()
        settings = f'account: "123456789012"\nregion: {region}\nhub_url: {hub.address}\n'
        (root / name / "environment.yaml").write_text(settings, encoding="utf-8")
        (root / name / "chat.yaml").write_text(profile, encoding="utf-8")
    with bootstrapped(tmp_path_factory, "environments", root, ("us-east-1", "eu-central-1")) as made:
        yield made


def test_two_regions_are_deployed_and_destroyed_at_once(project: Project) -> None:
    """Each region's endpoint serves the commit's files from a bucket of its own; destroy leaves neither."""
    both = ("--all", "-c", "env=us,eu")
    output = project.cdk("deploy", *both, "--require-approval", "never")
    for name, region in (("us", "us-east-1"), ("eu", "eu-central-1")):
        stack = f"loadproof-{name}-chat"
        assert f"{stack}.EndpointName = {stack}" in output
        sagemaker = project.client("sagemaker", region)
        assert sagemaker.describe_endpoint(EndpointName=stack)["EndpointStatus"] == "InService"
        (model,) = sagemaker.list_models()["Models"]
        described = sagemaker.describe_model(ModelName=model["ModelName"])
        uri = described["PrimaryContainer"]["ModelDataSource"]["S3DataSource"]["S3Uri"]
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        listed = project.client("s3", region).list_objects_v2(Bucket=bucket)["Contents"]
        assert {one["Key"] for one in listed} == {prefix + file for file in FILES}
    project.cdk("destroy", *both, "--force")
    for region in ("us-east-1", "eu-central-1"):
        stacks = project.client("cloudformation", region).describe_stacks()["Stacks"]
        assert [one["StackName"] for one in stacks] == ["CDKToolkit"]


def test_an_open_finding_deploys_nothing(project: Project) -> None:
    """A container with a way out that nobody acknowledged: one line, and the CLI stops before CloudFormation."""
    file = Path(project.folder / "deploy_profiles" / "us" / "chat.yaml")
    file.write_text(PROFILE.replace("ml.g6e.2xlarge}", "ml.g6e.2xlarge, network_isolation: false}"), encoding="utf-8")
    output = project.cdk("deploy", "--all", "-c", "env=us", "--require-approval", "never", code=1)
    assert "LS005 EndpointModelmain" in output
    assert "the containers are not isolated from the network; set EnableNetworkIsolation" in output
    stacks = project.client("cloudformation", "us-east-1").describe_stacks()["Stacks"]
    assert [one["StackName"] for one in stacks] == ["CDKToolkit"]
    assert json.dumps(output).count("Traceback") == 0
