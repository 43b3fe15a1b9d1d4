"""A Python function of ours in the cloud: code, log group, and a role that may do exactly what it was given."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from loadproof.constructs.cdk.packing import inline_text, write_package
from loadproof.constructs.cdk.resource import attribute, resource
from loadproof.constructs.cdk.statements import Statement, allow, document, trust
from loadproof.profiles.schema import Environment, Network

LAMBDA_LIMIT_S = 900

# Lambda makes its interfaces before it knows their names; AWS documents no narrower resource.
_NETWORK_ACTIONS = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)


@dataclass(frozen=True, slots=True)
class Program:
    """What a function runs. `code`: one file (sent inside the template) or a folder (an asset)."""

    code: Path
    handler: str = "index.handler"
    variables: Mapping[str, str] = field(default_factory=dict)
    layers: Sequence[str] = ()
    timeout_s: int = LAMBDA_LIMIT_S
    memory_mib: int = 128


class PythonFunction(Construct):
    """A Lambda function with its log group and role. The policy is inline, so the function waits for it.

    `in_network` puts it into the environment's VPC; leave it out for what only talks to AWS's own services and to
    CloudFormation.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        description: str,
        program: Program,
        statements: Sequence[Statement] = (),
        in_network: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        key_arn = environment.kms_key_arn
        network = environment.network if in_network else None
        self.log_group = logs.CfnLogGroup(
            self, "Logs", retention_in_days=environment.log_retention_days, kms_key_id=key_arn
        )
        rights = [*statements, allow("logs:CreateLogStream", "logs:PutLogEvents", on=self.log_group.attr_arn)]
        if network is not None:
            rights.append(allow(*_NETWORK_ACTIONS, on="*"))
        self.role = iam.CfnRole(
            self,
            "Role",
            assume_role_policy_document=trust("lambda.amazonaws.com"),
            description=description,
            policies=[iam.CfnRole.PolicyProperty(policy_name="function", policy_document=document(*rights))],
        )
        asset = None if program.code.is_file() else _asset(self, program.code)
        properties = {
            "Description": description,
            "Runtime": "python3.13",
            "Architectures": ["arm64"],
            "Handler": program.handler,
            "Code": _code(program.code, asset),
            "Layers": list(program.layers) or None,
            "Role": self.role.attr_arn,
            "LoggingConfig": {"LogGroup": self.log_group.ref, "LogFormat": "JSON"},
            "Timeout": program.timeout_s,
            "MemorySize": program.memory_mib,
            "Environment": {"Variables": dict(program.variables)} if program.variables else None,
            "KmsKeyArn": key_arn if program.variables else None,
            "VpcConfig": _vpc_config(network) if network else None,
        }
        self.resource = resource(self, "Resource", "Lambda::Function", properties, tags=environment.tags)
        self.arn = attribute(self.resource, "Arn")
        if asset is not None:
            # Lets tools that start the function from its sources (and `cdk watch`) find them.
            asset.add_resource_metadata(self.resource, "Code")


def _vpc_config(network: Network) -> dict[str, list[str]]:
    return {"SecurityGroupIds": list(network.security_group_ids), "SubnetIds": list(network.subnet_ids)}


def _asset(scope: Construct, code: Path) -> assets.Asset:
    with tempfile.TemporaryDirectory(prefix="loadproof-function-") as folder:
        write_package(code, Path(folder))
        return assets.Asset(scope, "Code", path=folder)


def _code(code: Path, asset: assets.Asset | None) -> dict[str, str]:
    if asset is None:
        return {"ZipFile": inline_text(code)}
    return {"S3Bucket": asset.s3_bucket_name, "S3Key": asset.s3_object_key}
