"""Two kinds of stack: the account's OIDC provider, and each environment's roles with the bucket of its evidence."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import CfnOutput, RemovalPolicy, Stack, Tags
from aws_cdk import Environment as CdkEnvironment
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from loadproof.constructs.cdk.results_bucket import private_bucket
from loadproof.constructs.cdk.statements import Statement, document
from loadproof.constructs.ci.names import PREFIX, Job, evidence_bucket_name, role_name
from loadproof.constructs.ci.roles import Rights
from loadproof.constructs.ci.trust import Repository
from loadproof.profiles.schema import Environment
from loadproof.wire.documents import Document

_HOUR_S = 3600


class ProviderStack(Stack):
    """An account has one provider for an issuer, whatever the number of its environments."""

    def __init__(self, scope: Construct, *, repository: Repository, account: str, region: str) -> None:
        super().__init__(
            scope,
            f"Provider{account}",
            stack_name=f"{PREFIX}-provider",
            env=CdkEnvironment(account=account, region=region),
            description=f"Lets AWS check the tokens of {repository.host}",
            analytics_reporting=False,
        )
        iam.CfnOIDCProvider(self, "Provider", url=repository.issuer_url, client_id_list=[repository.audience])


class RolesStack(Stack):
    """What the jobs of one environment may be: deploy, benchmark, read."""

    def __init__(
        self,
        scope: Construct,
        *,
        environment_name: str,
        environment: Environment,
        repository: Repository,
        qualifier: str,
    ) -> None:
        super().__init__(
            scope,
            f"Roles-{environment_name}",
            stack_name=f"{PREFIX}-roles-{environment_name}",
            env=CdkEnvironment(account=environment.account, region=environment.region),
            description=f"What the pipelines of {repository.path} may do in {environment_name}",
            tags=dict(environment.tags),
            analytics_reporting=False,
        )
        for name, value in environment.tags.items():
            Tags.of(self).add(name, value)
        self._environment_name, self._repository = environment_name, repository
        rights = Rights(environment_name, environment, qualifier)
        self._provider_arn = rights.arn("iam", f"oidc-provider/{repository.host}", account=environment.account)
        self._evidence(environment)
        self._role("deploy", rights.deploying(), repository.deploys(environment_name), hours=4)
        self._role("benchmark", rights.benchmarking(), repository.runs_on_branch(), hours=6)
        self._role("read", rights.reading(), repository.runs_on_branch(), hours=1)

    def _role(self, job: Job, statements: Iterable[Statement], when: Document, *, hours: int) -> None:
        trusted = {
            "Effect": "Allow",
            "Principal": {"Federated": self._provider_arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": when,
        }
        role = iam.CfnRole(
            self,
            job.capitalize(),
            role_name=role_name(self._environment_name, job),
            description=f"{job} jobs of {self._repository.path} in {self._environment_name}",
            assume_role_policy_document=document(trusted),
            max_session_duration=hours * _HOUR_S,
            policies=[iam.CfnRole.PolicyProperty(policy_name=job, policy_document=document(*statements))],
        )
        CfnOutput(self, f"{job.capitalize()}RoleArn", value=role.attr_arn)

    def _evidence(self, environment: Environment) -> None:
        """Kept whatever happens to the stack, and never overwritten without a trace: versions stay."""
        key = kms.Key.from_key_arn(self, "Key", environment.kms_key_arn) if environment.kms_key_arn else None
        bucket = private_bucket(self, "Evidence", key=key, kept=True)
        made = bucket.node.default_child
        assert isinstance(made, s3.CfnBucket)
        made.bucket_name = evidence_bucket_name(self._environment_name, environment.account)
        made.versioning_configuration = s3.CfnBucket.VersioningConfigurationProperty(status="Enabled")
        made.apply_removal_policy(RemovalPolicy.RETAIN)
        CfnOutput(self, "EvidenceBucketName", value=bucket.bucket_name)
