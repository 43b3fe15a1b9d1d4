"""What each role may do. Deployments go through the roles of `cdk bootstrap`, so these may take those, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loadproof.catalog import registry
from loadproof.constructs.benchmark.job_role import driving_statements
from loadproof.constructs.cdk.statements import Statement, allow
from loadproof.constructs.ci.names import bootstrap_role_name, evidence_bucket_name
from loadproof.profiles.schema import Environment


@dataclass(frozen=True, slots=True)
class Rights:
    """One environment's; `qualifier` is that of its bootstrap."""

    environment_name: str
    environment: Environment
    qualifier: str

    def arn(self, service: str, resource: str, *, region: str = "", account: str = "") -> str:
        return f"arn:{registry(self.environment.region).partition}:{service}:{region}:{account}:{resource}"

    def deploying(self) -> Iterator[Statement]:
        """`cdk deploy`: change sets, assets, images, and looking at what is there."""
        yield self._taking("deploy", "file-publishing", "image-publishing", "lookup")

    def reading(self) -> Iterator[Statement]:
        """`cdk drift` and `cdk diff` as the bootstrap's lookup role, which cannot decrypt; evidence is read here."""
        yield self._taking("lookup")
        yield from self._evidence("s3:GetObject")
        yield from self._with_key("kms:Decrypt")

    def benchmarking(self) -> Iterator[Statement]:
        """Load to the environment's endpoints, what is in service while it runs, and evidence."""
        yield from driving_statements(self.environment_name, self.environment)
        yield from self._evidence("s3:GetObject", "s3:PutObject")
        yield from self._with_key("kms:Decrypt", "kms:GenerateDataKey")

    def _taking(self, *kinds: str) -> Statement:
        account, region = self.environment.account, self.environment.region
        names = [bootstrap_role_name(kind, self.qualifier, account, region) for kind in kinds]
        return allow("sts:AssumeRole", on=[self.arn("iam", f"role/{name}", account=account) for name in names])

    def _evidence(self, *actions: str) -> Iterator[Statement]:
        bucket = self.arn("s3", evidence_bucket_name(self.environment_name, self.environment.account))
        ours = {"StringEquals": {"aws:ResourceAccount": self.environment.account}}  # a bucket's name may be taken
        yield allow(*actions, on=f"{bucket}/evidence/*", when=ours)
        yield allow("s3:ListBucket", on=bucket, when={**ours, "StringLike": {"s3:prefix": ["evidence", "evidence/*"]}})

    def _with_key(self, *actions: str) -> Iterator[Statement]:
        if self.environment.kms_key_arn:
            service = f"s3.{self.environment.region}.amazonaws.com"
            yield allow(*actions, on=self.environment.kms_key_arn, when={"StringEquals": {"kms:ViaService": service}})
