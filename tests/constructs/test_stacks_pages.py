"""docs/security.md and docs/environments.md: their files are checked, valid, and deployed to the local cloud."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from stacks_cloud import Cloud, local_cloud
from stacks_support import FEATURE_FLAGS, App
from staging_hub import Hub, served
from tiny_weights import TINY_SHAPE, safetensors
from validated import findings

from loadproof.constructs.choosing import read_deployments
from loadproof.constructs.network import SERVICES, NetworkStack
from loadproof.constructs.security.synthesized import findings_of
from loadproof.profiles import check_file, load_environment, load_profile
from loadproof.profiles.schema.environment import Network
from loadproof.profiles.schema.model import ArchitectureOverride
from stacks.application import add_stacks

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```yaml\n# deploy_profiles/(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {
    name: text
    for page in ("security.md", "environments.md")
    for name, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages' files where the pages say they are, and dev's environment beside the one profile of security.md."""
    root = tmp_path_factory.mktemp("pages") / "deploy_profiles"
    dev = {"dev/environment.yaml": 'account: "123456789012"\nregion: us-east-1\n'}
    for name, text in (FILES | dev).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "pages") as running:
        yield running


def made(network: Network, cloud: Cloud) -> Network:
    """The page's network, with a VPC, a subnet, a security group and a route table that are there."""
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="g", Description="g")["GroupId"]
    routes = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    return network.model_copy(
        update={
            "vpc_id": vpc,
            "subnet_ids": (subnet,),
            "security_group_ids": (group,),
            "route_table_ids": (routes,),
        }
    )


def key(cloud: Cloud) -> str:
    """A key with the statements of the page, and the one that every new key has."""
    page = (DOCS / "environments.md").read_text(encoding="utf-8")
    statements = json.loads(page.partition("```json\n")[2].partition("```")[0])
    root = {"AWS": "arn:aws:iam::123456789012:root"}
    statements.append({"Effect": "Allow", "Principal": root, "Action": "kms:*", "Resource": "*"})
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    arn: str = cloud.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
    return arn


def test_the_pages_have_the_files_this_test_knows() -> None:
    """Nothing on the pages escapes but the two lines that are part of a file."""
    blocks = sum(
        (DOCS / page).read_text(encoding="utf-8").count("```yaml") for page in ("security.md", "environments.md")
    )
    assert blocks == len(FILES) + 1
    assert len(FILES) == 5


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_no_finding(name: str, root: Path) -> None:
    """Neither errors nor warnings."""
    assert check_file(root / name).problems == ()


def test_two_regions_are_one_synthesis(root: Path, tmp_path: Path) -> None:
    """Three stacks: a profile a region, and the first region's VPC endpoints; valid, and without an open finding."""
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS, outdir=str(tmp_path / "out"))
    deployments = read_deployments(root, "prod-us,prod-eu", None)
    add_stacks(app, deployments)
    stacks = {stack.stack_name: stack.template for stack in app.synth().stacks}
    assert sorted(stacks) == ["loadproof-prod-eu-chat", "loadproof-prod-us-chat", "loadproof-prod-us-network"]
    assert [findings(template, tmp_path / "template.json") for template in stacks.values()] == [[], [], []]
    found = [finding for _, finding in findings_of(tmp_path / "out", deployments)]
    assert {finding.code for finding in found if finding.acknowledged} == {"LS006"}
    assert [str(finding) for finding in found if not finding.acknowledged] == []


def test_the_vpc_endpoints_are_deployed_and_taken_down(root: Path, cloud: Cloud) -> None:
    """The stack of the environment's own, in a network that is there."""
    environment = load_environment(root / "prod-us")
    assert environment.network is not None
    network = made(environment.network, cloud)
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    NetworkStack(app, environment_name="test", environment=environment, network=network)
    template = app.synth().get_stack_by_name("loadproof-test-network").template
    assert cloud.apply("loadproof-test-network", template) == "CREATE_COMPLETE", cloud.reasons("loadproof-test-network")
    of_this = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    endpoints = cloud.client("ec2").describe_vpc_endpoints(Filters=of_this)["VpcEndpoints"]
    assert sorted(one["ServiceName"].removeprefix("com.amazonaws.us-east-1.") for one in endpoints) == sorted(
        [*SERVICES, "dynamodb", "s3"]
    )
    assert cloud.destroy("loadproof-test-network") == "DELETE_COMPLETE"


@pytest.mark.parametrize("environment_name", ["prod-us", "prod-eu"])
def test_an_environment_is_deployed_and_taken_down(environment_name: str, root: Path, cloud: Cloud) -> None:
    """The profile of each region, with its network and key where it has them."""
    environment = load_environment(root / environment_name)
    chosen = load_profile(root / environment_name / "chat.yaml")
    cloud = cloud.of(environment.region)
    if environment.network is not None:
        environment = environment.model_copy(update={"network": made(environment.network, cloud)})
    if environment.kms_key_arn is not None:
        environment = environment.model_copy(update={"kms_key_arn": key(cloud)})
    assert cloud.deploy(chosen, environment) == "CREATE_COMPLETE", cloud.reasons("loadproof-test-chat")
    assert cloud.destroy("loadproof-test-chat") == "DELETE_COMPLETE"


def test_the_staged_profile_is_deployed(root: Path, cloud: Cloud) -> None:
    """With a secret of that name and a hub on loopback that has the repository at that commit."""
    chosen = load_profile(root / "dev" / "assistant.yaml")
    secret = cloud.client("secretsmanager").create_secret(Name="hub", SecretString="hf_open")["ARN"]
    source = chosen.model.source.model_copy(update={"token_secret_arn": secret})
    smaller = {"source": source, "architecture": ArchitectureOverride(**TINY_SHAPE)}  # 8 billion would be 16 GB
    chosen = chosen.model_copy(update={"model": chosen.model.model_copy(update=smaller)})
    files = {"config.json": b"{}", "model.safetensors": safetensors()}
    hub = Hub(files, frozenset(["model.safetensors"]), repository=chosen.model.id, revision=source.revision)
    hub.token = "hf_open"
    with served(hub) as running:
        environment = load_environment(root / "dev").model_copy(update={"hub_url": running.address})
        status = cloud.deploy(chosen, environment)
    assert status == "CREATE_COMPLETE", cloud.reasons("loadproof-test-assistant")
    assert cloud.destroy("loadproof-test-assistant") == "DELETE_COMPLETE"
