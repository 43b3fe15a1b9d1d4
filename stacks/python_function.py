"""A Python function of ours in the cloud: code, log group, and a role that may do exactly what it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from loadproof.profiles.schema import Environment
from stacks.statements import Statement, allow, document, trust

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


class PythonFunction(Construct):
    """A Lambda function with its log group and role. The policy is inline, so the function waits for it.

    `code` is one file (sent inside the template) or a folder (an asset). `in_network` puts it into the environment's
    VPC; leave it out for what only talks to AWS's own services and to CloudFormation.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        description: str,
        code: Path,
        handler: str = "index.handler",
        statements: Sequence[Statement] = (),
        variables: Mapping[str, str] | None = None,
        layers: Sequence[str] = (),
        timeout_s: int = LAMBDA_LIMIT_S,
        memory_mib: int = 128,
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
        asset = (
            None if code.is_file() else assets.Asset(self, "Code", path=str(code), exclude=["**/__pycache__", "*.pyc"])
        )
        self.resource = lambda_.CfnFunction(
            self,
            "Resource",
            description=description,
            runtime="python3.13",
            architectures=["arm64"],
            handler=handler,
            code=_code(code, asset),
            layers=list(layers) or None,
            role=self.role.attr_arn,
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=self.log_group.ref, log_format="JSON"),
            timeout=timeout_s,
            memory_size=memory_mib,
            environment=lambda_.CfnFunction.EnvironmentProperty(variables=dict(variables)) if variables else None,
            kms_key_arn=key_arn if variables else None,
            vpc_config=(
                lambda_.CfnFunction.VpcConfigProperty(
                    security_group_ids=list(network.security_group_ids), subnet_ids=list(network.subnet_ids)
                )
                if network
                else None
            ),
        )
        if asset is not None:
            # Lets tools that start the function from its sources (and `cdk watch`) find them.
            asset.add_resource_metadata(self.resource, "Code")

    @property
    def arn(self) -> str:
        return self.resource.attr_arn


def _code(code: Path, asset: assets.Asset | None) -> lambda_.CfnFunction.CodeProperty:
    if asset is None:
        return lambda_.CfnFunction.CodeProperty(zip_file=code.read_text(encoding="utf-8"))
    return lambda_.CfnFunction.CodeProperty(s3_bucket=asset.s3_bucket_name, s3_key=asset.s3_object_key)
