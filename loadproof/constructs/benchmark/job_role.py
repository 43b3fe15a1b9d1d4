"""What the benchmark's container may do: send load to the environment's endpoints, and keep what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aws_cdk import aws_iam as iam
from constructs import Construct

from loadproof.catalog import registry
from loadproof.constructs.cdk.statements import Statement, allow, document, trust
from loadproof.constructs.endpoint.execution_role import PULL_ACTIONS, VPC_ACTIONS, repository_arn
from loadproof.profiles.names import stack_name
from loadproof.profiles.schema import Environment

_BY_PREFIX: Final = "the environment's own endpoints, by their prefix: profiles come and go without this role"
_GENERATED: Final = "CloudFormation generates the names of endpoint configurations, and the right only reads them"


class JobRole(Construct):
    """Trusts SageMaker for this account only."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment_name: str,
        environment: Environment,
        image: str,
        results_arn: str,
    ) -> None:
        super().__init__(scope, construct_id)
        role = iam.CfnRole(
            self,
            "Role",
            description=f"Sends the load of benchmarks in {environment_name}",
            assume_role_policy_document=trust(
                "sagemaker.amazonaws.com", when={"StringEquals": {"aws:SourceAccount": environment.account}}
            ),
            policies=[
                iam.CfnRole.PolicyProperty(
                    policy_name="job",
                    policy_document=document(*job_statements(environment_name, environment, image, results_arn)),
                )
            ],
        )
        role.add_metadata("loadproof", {"acknowledged": {"LS007": _BY_PREFIX, "LS012": _GENERATED}})
        self.arn = role.attr_arn


def job_statements(
    environment_name: str, environment: Environment, image: str, results_arn: str
) -> Iterator[Statement]:
    partition = registry(environment.region).partition
    here = f"{environment.region}:{environment.account}"
    prefix = stack_name(environment_name, "*")
    endpoints = [f"arn:{partition}:sagemaker:{here}:{kind}/{prefix}" for kind in ("endpoint", "inference-component")]
    yield allow("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream", on=endpoints)
    configs = f"arn:{partition}:sagemaker:{here}:endpoint-config/*"
    yield allow("sagemaker:DescribeEndpoint", "sagemaker:DescribeInferenceComponent", on=endpoints)
    # Configurations have generated names.
    yield allow("sagemaker:DescribeEndpointConfig", on=configs)
    yield allow(
        "application-autoscaling:DescribeScalingActivities",
        "cloudwatch:GetMetricData",
        "sagemaker:ListInferenceComponents",
        on="*",
    )
    yield allow("s3:GetObject", "s3:PutObject", on=f"{results_arn}/runs/*")
    yield allow("s3:ListBucket", on=results_arn, when={"StringLike": {"s3:prefix": "runs/*"}})
    # SageMaker's own group for every processing job of the account.
    logs = f"arn:{partition}:logs:{here}:log-group:/aws/sagemaker/ProcessingJobs:*"
    yield allow("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents", on=logs)
    yield allow("ecr:GetAuthorizationToken", on="*")
    yield allow(*PULL_ACTIONS, on=repository_arn(image, partition))
    key = environment.kms_key_arn
    if key is not None:
        services = [f"{service}.{environment.region}.amazonaws.com" for service in ("s3", "sagemaker")]
        yield allow(
            "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey",
            on=key,
            when={"StringEquals": {"kms:ViaService": services}},
        )  # fmt: skip
        yield allow("kms:CreateGrant", on=key, when={"Bool": {"kms:GrantIsForAWSResource": "true"}})
    if environment.network is not None:
        yield allow(*VPC_ACTIONS, on="*")
