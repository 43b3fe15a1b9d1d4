"""The real CDK CLI against a local cloud: bootstrap, deploy, diff, edit, redeploy, destroy; and a failed deployment."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import cdk_toolkit
import pytest

from loadproof.localcloud.local import LocalCloud, running

REPOSITORY = Path(__file__).resolve().parents[3]
CDK = REPOSITORY / "node_modules" / ".bin" / "cdk"
IMPATIENT = Path(__file__).with_name("impatient.js")
STACK = "loadproof-dev-llama-3-1-8b"

pytestmark = [
    pytest.mark.cdk,
    pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed (make setup)"),
]


@dataclass(frozen=True)
class Project:
    """A copy of the deploy profiles, deployed by the CDK CLI to a bootstrapped local cloud."""

    folder: Path
    cloud: LocalCloud

    def cdk(self, *arguments: str, code: int = 0) -> str:
        """Run the CLI; returns its output, asserts its exit code."""
        done = subprocess.run(
            [str(CDK), *arguments, "--no-notices"],
            cwd=self.folder,
            env={**os.environ, **self.cloud.environment(), "NODE_OPTIONS": f"--require {IMPATIENT}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
        )
        assert done.returncode == code, done.stdout[-4000:]
        return done.stdout

    def client(self, service: str, region: str | None = None) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.cloud.endpoint_url,
            region_name=region or self.cloud.region,
            aws_access_key_id=self.cloud.state.access_key,
            aws_secret_access_key=self.cloud.state.secret_key,
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with bootstrapped(tmp_path_factory, "cdk", by_the_cli=True) as made:
        yield made


@contextmanager
def bootstrapped(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    profiles: Path = REPOSITORY / "deploy_profiles",
    regions: tuple[str, ...] = ("us-east-1",),
    backend: str | None = None,
    by_the_cli: bool = False,
) -> Iterator[Project]:
    """A project of its own, with a copy of `profiles`, on a bootstrapped local cloud of that name: `by_the_cli`, or
    as it does that."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(profiles, folder / "deploy_profiles")
    (folder / "app.py").write_text(
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from stacks.application import main\nsys.exit(main(Path(__file__).parent / 'deploy_profiles'))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with running(name, backend=backend, transition_s=0.05, speed=100) as cloud:  # an update is watched for minutes
            made = Project(folder, cloud)
            if by_the_cli:  # before there is an app, which it would run
                made.cdk("bootstrap", *(f"aws://123456789012/{region}" for region in regions))
            else:
                cdk_toolkit.bootstrap(cloud, *regions)
            settings = json.loads((REPOSITORY / "cdk.json").read_text())
            (folder / "cdk.json").write_text(json.dumps({**settings, "app": f"{shlex.quote(sys.executable)} app.py"}))
            yield made


def test_profile_is_deployed_edited_and_destroyed(project: Project) -> None:
    """An edit of instance type, image version and copies shows in the diff, reaches the service, and destroy leaves
    nothing."""
    deploy = ("deploy", STACK, "-c", "env=dev", "-c", "profile=llama-3-1-8b", "--require-approval", "never")
    output = project.cdk(*deploy)
    assert f"{STACK}.EndpointName = {STACK}" in output
    sagemaker = project.client("sagemaker")
    assert sagemaker.describe_endpoint(EndpointName=STACK)["EndpointStatus"] == "InService"
    policies = project.client("application-autoscaling").describe_scaling_policies(ServiceNamespace="sagemaker")
    assert [len(policy["Alarms"]) for policy in policies["ScalingPolicies"]] == [2]
    answer = project.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=STACK,
        InferenceComponentName=f"{STACK}-main",
        ContentType="application/json",
        Body=json.dumps({"inputs": "Hello", "parameters": {"max_new_tokens": 3}}),
    )
    assert json.loads(answer["Body"].read())[0]["generated_text"]

    profile = project.folder / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    text = profile.read_text()
    edited = text.replace("ml.g6e.2xlarge", "ml.g5.12xlarge").replace("family: tgi", "family: tgi\n  version: 3.3.4")
    edited = edited.replace("copies:\n  min: 1", "copies:\n  min: 2")
    assert edited.count("3.3.4") == edited.count("min: 2") == edited.count("ml.g5.12xlarge") == 1
    profile.write_text(edited)
    difference = project.cdk("diff", STACK, "-c", "env=dev", "-c", "profile=llama-3-1-8b")
    assert "Could not create a change set" not in difference
    assert "AWS::SageMaker::Model Endpoint/Model-main" in difference
    assert '[+]     "InstanceType": "ml.g5.12xlarge"' in difference
    synthesized = ("--app", "cdk.out")  # what diff has just made
    project.cdk("deploy", STACK, *synthesized, "--require-approval", "never")
    component = sagemaker.describe_inference_component(InferenceComponentName=f"{STACK}-main")
    assert component["RuntimeConfig"]["CurrentCopyCount"] == 2
    assert "tgi3.3.4" in component["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"]

    s3 = project.client("s3")
    (results,) = [name["Name"] for name in s3.list_buckets()["Buckets"] if name["Name"].startswith(STACK)]
    s3.put_object(Bucket=results, Key="results/one.json", Body=b"{}")
    project.cdk("destroy", STACK, *synthesized, "--force")
    assert results not in [name["Name"] for name in s3.list_buckets()["Buckets"]]
    stacks = [one["StackName"] for one in project.client("cloudformation").describe_stacks()["Stacks"]]
    assert stacks == ["CDKToolkit"]
    assert sagemaker.list_endpoints()["Endpoints"] == []
    assert sagemaker.list_inference_components()["InferenceComponents"] == []
    assert sagemaker.list_models()["Models"] == []
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert project.client("sqs").list_queues().get("QueueUrls", []) == []
    assert project.client("lambda").list_functions()["Functions"] == []
    assert project.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    roles = [role["RoleName"] for role in project.client("iam").list_roles()["Roles"]]
    assert [name for name in roles if not name.startswith("cdk-")] == []


def test_failed_deployment_shows_its_reason_and_exits_1(project: Project, tmp_path: Path) -> None:
    """What this cloud does not provide ends as the CLI's own error, with our reason in it."""
    assembly = tmp_path / "cdk.out"
    assembly.mkdir()
    resources = {"Cluster": {"Type": "AWS::MSK::ServerlessCluster", "Properties": {}}}
    (assembly / "Broken.template.json").write_text(json.dumps({"Resources": resources}))
    artifact = {
        "type": "aws:cloudformation:stack",
        "environment": "aws://123456789012/us-east-1",
        "properties": {"templateFile": "Broken.template.json", "validateOnSynth": False},
    }
    manifest = {"version": "36.0.0", "artifacts": {"Broken": artifact}}
    (assembly / "manifest.json").write_text(json.dumps(manifest))
    output = project.cdk("deploy", "Broken", "--app", str(assembly), "--require-approval", "never", code=1)
    assert "The local cloud does not provide resource type AWS::MSK::ServerlessCluster" in output
    stack = project.client("cloudformation").describe_stacks(StackName="Broken")["Stacks"][0]
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"


def test_other_tests_accounts_are_as_cdk_bootstrap_makes_them(project: Project) -> None:
    """Parameters, capabilities, outputs and resources, in another region as in that of the CLI."""
    cdk_toolkit.bootstrap(project.cloud, "eu-central-1")
    assert toolkit(project, "eu-central-1") == toolkit(project, "us-east-1")


def toolkit(project: Project, region: str) -> dict[str, Any]:
    """What CloudFormation says of the bootstrap's stack, in no order, the region left open."""
    cloudformation = project.client("cloudformation", region)
    stack = cloudformation.describe_stacks(StackName=cdk_toolkit.STACK)["Stacks"][0]
    resources = cloudformation.describe_stack_resources(StackName=cdk_toolkit.STACK)["StackResources"]
    said = {
        "status": stack["StackStatus"],
        "capabilities": sorted(stack["Capabilities"]),
        "parameters": {one["ParameterKey"]: one["ParameterValue"] for one in stack["Parameters"]},
        "outputs": {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]},
        "resources": {one["LogicalResourceId"]: one["ResourceType"] for one in resources},
    }
    loaded: dict[str, Any] = json.loads(json.dumps(said).replace(region, "REGION"))
    return loaded
