"""What the benchmark's container may do: send load to the environment's endpoints, and keep what came of it."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import aws_iam as iam
from constructs import Construct

from loadproof.catalog import registry
from loadproof.constructs.cdk.statements import Statement, allow, document, trust
from loadproof.constructs.endpoint.execution_role import PULL_ACTIONS, network_interfaces, repository_arn
from loadproof.profiles.names import ENVIRONMENT_TAG, jobs_prefix, stack_name
from loadproof.profiles.schema import BenchmarkJob, Environment


class JobRole(Construct):
    """Trusts SageMaker for this account only."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment_name: str,
        environment: Environment,
        settings: BenchmarkJob,
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
                    policy_document=document(*job_statements(environment_name, environment, settings, results_arn)),
                )
            ],
        )
        self.arn = role.attr_arn


def driving_statements(environment_name: str, environment: Environment) -> Iterator[Statement]:
    """Load to an environment's endpoints, and looking at what is in service meanwhile.

    By prefix and tag: profiles come and go without this role, and `prod`'s prefix is also how `prod-eu`'s names begin.
    """
    here = f"arn:{registry(environment.region).partition}:sagemaker:{environment.region}:{environment.account}"
    prefix = stack_name(environment_name, "*")
    endpoints = [f"{here}:{kind}/{prefix}" for kind in ("endpoint", "inference-component")]
    ours = {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": environment_name}}
    yield allow("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream", on=endpoints, when=ours)
    yield allow("sagemaker:DescribeEndpoint", "sagemaker:DescribeInferenceComponent", on=endpoints, when=ours)
    # Configurations have names that CloudFormation makes.
    yield allow("sagemaker:DescribeEndpointConfig", on=f"{here}:endpoint-config/*", when=ours)
    yield allow(
        "application-autoscaling:DescribeScalingActivities",
        "cloudwatch:GetMetricData",
        "sagemaker:ListInferenceComponents",
        on="*",
    )


def job_statements(
    environment_name: str, environment: Environment, settings: BenchmarkJob, results_arn: str
) -> Iterator[Statement]:
    partition = registry(environment.region).partition
    yield from driving_statements(environment_name, environment)
    yield allow("s3:GetObject", "s3:PutObject", on=f"{results_arn}/runs/*")
    yield allow("s3:ListBucket", on=results_arn, when={"StringLike": {"s3:prefix": "runs/*"}})
    # SageMaker's own group for every processing job of the account, in which a job's streams begin with its name.
    logs = f"arn:{partition}:logs:{environment.region}:{environment.account}:log-group:/aws/sagemaker/ProcessingJobs:"
    yield allow("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", on=f"{logs}*")
    yield allow("logs:PutLogEvents", on=f"{logs}log-stream:{jobs_prefix(environment_name)}*")
    yield allow("ecr:GetAuthorizationToken", on="*")
    yield allow(*PULL_ACTIONS, on=repository_arn(settings.image, partition))
    if settings.signing_kms_key_arn is not None:
        only = {"kms:SigningAlgorithm": "ECDSA_SHA_256", "kms:MessageType": "RAW"}
        yield allow("kms:Sign", on=settings.signing_kms_key_arn, when={"StringEquals": only})
    key = environment.kms_key_arn
    if key is not None:
        services = [f"{service}.{environment.region}.amazonaws.com" for service in ("s3", "sagemaker")]
        yield allow(
            "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey",
            on=key,
            when={"StringEquals": {"kms:ViaService": services}},
        )  # fmt: skip
        yield allow("kms:CreateGrant", on=key, when={"Bool": {"kms:GrantIsForAWSResource": "true"}})
    yield from network_interfaces(environment)
