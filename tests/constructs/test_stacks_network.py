"""VPC endpoints of an environment: a stack of their own, before every profile's."""

from __future__ import annotations

from pathlib import Path

import pytest
from stacks_support import ENVIRONMENT, FEATURE_FLAGS, KEY_ARN, NETWORK, App, Synthesized, profile
from validated import findings

from loadproof.constructs.benchmark.job_role import job_statements
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.network import SERVICES
from loadproof.errors import InputError
from loadproof.profiles.schema import BenchmarkJob, Environment
from stacks.application import add_stacks

WITH_ENDPOINTS = ENVIRONMENT.model_copy(
    update={
        "network": NETWORK.model_copy(update={"vpc_endpoints": True, "route_table_ids": ("rtb-0123456789abcdef0",)})
    }
)


def stacks_of(folder: Path, environment: Environment) -> dict[str, Synthesized]:
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, [Deployment("test", environment, profile(folder))])
    return {stack.stack_name: Synthesized(stack.template) for stack in app.synth().stacks}


def test_endpoints_are_made_where_the_environment_says_so(tmp_path: Path) -> None:
    """Ten interfaces, and the gateways of S3 and DynamoDB; nothing without `vpc_endpoints`."""
    network = stacks_of(tmp_path, WITH_ENDPOINTS)["loadproof-test-network"]
    bodies = [body["Properties"] for body in network.all("AWS::EC2::VPCEndpoint").values()]
    services = {
        body["ServiceName"].removeprefix("com.amazonaws.us-east-1."): body["VpcEndpointType"] for body in bodies
    }
    assert services == {
        "application-autoscaling": "Interface",
        "ecr.api": "Interface",
        "ecr.dkr": "Interface",
        "kms": "Interface",
        "logs": "Interface",
        "monitoring": "Interface",
        "sagemaker.api": "Interface",
        "sagemaker.runtime": "Interface",
        "secretsmanager": "Interface",
        "sqs": "Interface",
        "s3": "Gateway",
        "dynamodb": "Gateway",
    }
    gateway, _ = [body for body in bodies if body["VpcEndpointType"] == "Gateway"]
    assert gateway["RouteTableIds"] == ["rtb-0123456789abcdef0"]
    policies = [body.get("PolicyDocument", {}).get("Statement", [{}])[0].get("Condition") for body in bodies]
    own = {"StringEquals": {"aws:PrincipalAccount": "123456789012"}}
    assert [(policies.count(own), policies.count(None))] == [(10, 2)]  # route tables are others' too
    plain = ENVIRONMENT.model_copy(update={"network": NETWORK})
    assert list(stacks_of(tmp_path, plain)) == ["loadproof-test-chat"]


def test_everything_that_a_benchmarks_host_asks_has_its_endpoint(tmp_path: Path) -> None:
    """A host inside a network without a way out could not even ask whether the endpoint is in service."""
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/bench:1.0"
    settings = BenchmarkJob(image=image, signing_kms_key_arn=KEY_ARN)
    inside = WITH_ENDPOINTS.model_copy(update={"kms_key_arn": KEY_ARN})
    asked = {
        action
        for statement in job_statements("test", inside, settings, "arn:aws:s3:::results")
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    names = {"cloudwatch": "monitoring", "ecr": "ecr.api", "sagemaker": "sagemaker.api"}
    needed = {names.get(service, service) for service, _, _ in (action.partition(":") for action in asked)}
    needed |= {"sagemaker.runtime"} if "sagemaker:InvokeEndpoint" in asked else set()
    # S3 has its gateway; network interfaces are made from outside, before there is anything inside.
    assert needed - {"s3", "ec2"} <= set(SERVICES)


def test_only_the_environments_groups_reach_them(tmp_path: Path) -> None:
    """HTTPS from the named security groups, nothing from an address range, and nothing out."""
    group = stacks_of(tmp_path, WITH_ENDPOINTS)["loadproof-test-network"].only("AWS::EC2::SecurityGroup")
    assert group["SecurityGroupIngress"] == [
        {
            "IpProtocol": "tcp",
            "FromPort": 443,
            "ToPort": 443,
            "SourceSecurityGroupId": "sg-0123456789abcdef0",
            "Description": "HTTPS",
        }
    ]
    assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == ["255.255.255.255/32"]


def test_profiles_wait_for_their_network(tmp_path: Path) -> None:
    """A container started before its endpoints are there could not pull its image."""
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, [Deployment("test", WITH_ENDPOINTS, profile(tmp_path))])
    stack = app.synth().get_stack_by_name("loadproof-test-chat")
    assert "loadproof-test-network" in {dependency.id for dependency in stack.dependencies}


def test_the_template_passes_the_validator(tmp_path: Path) -> None:
    """No finding in the network's template."""
    template = stacks_of(tmp_path, WITH_ENDPOINTS)["loadproof-test-network"].template
    assert findings(template, tmp_path / "template.json") == []


def test_names_that_are_not_known_are_refused(tmp_path: Path) -> None:
    """Endpoint services are named otherwise in China; guessing would fail in the middle of a deployment."""
    with pytest.raises(InputError, match="their names in cn-north-1 are not known here"):
        stacks_of(tmp_path, WITH_ENDPOINTS.model_copy(update={"region": "cn-north-1"}))
