"""What makes `cdk destroy` leave nothing where an environment says `results_on_destroy: delete`.

CloudFormation deletes no bucket that holds objects. A custom resource that depends on the bucket is deleted before it,
and empties it then. It looks for a tag on the bucket first: when an environment goes back to `keep`, the update takes
the tag away before it removes the custom resource, and nothing is lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aws_cdk import CfnCustomResource, RemovalPolicy, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

CODE: Final = (Path(__file__).parent / "runtime" / "index.py").read_text(encoding="utf-8")
_TIMEOUT_S: Final = 900


class EmptiedBucket(Construct):
    """Empties `bucket` on deletion. Whoever writes into the bucket must depend on this, so that it goes first."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket: s3.Bucket,
        log_retention_days: int,
        key_arn: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        Tags.of(bucket).add("loadproof:on-destroy", "delete")
        log_group = logs.CfnLogGroup(self, "Logs", retention_in_days=log_retention_days, kms_key_id=key_arn)
        log_group.apply_removal_policy(RemovalPolicy.DESTROY)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Empties one results bucket when its stack is deleted",
            inline_policies={"empty": iam.PolicyDocument(statements=_statements(bucket, log_group))},
        )
        # Outside the VPC on purpose: it needs S3 and CloudFormation's answer address, and touches nothing else.
        function = lambda_.CfnFunction(
            self,
            "Function",
            description="Empties one results bucket when its stack is deleted",
            runtime="python3.13",
            architectures=["arm64"],
            handler="index.handler",
            code=lambda_.CfnFunction.CodeProperty(zip_file=CODE),
            role=role.role_arn,
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=log_group.ref, log_format="JSON"),
            timeout=_TIMEOUT_S,
        )
        resource = CfnCustomResource(self, "Resource", service_token=function.attr_arn, service_timeout=_TIMEOUT_S + 60)
        resource.add_property_override("BucketName", bucket.bucket_name)


def _statements(bucket: s3.Bucket, log_group: logs.CfnLogGroup) -> list[iam.PolicyStatement]:
    return [
        iam.PolicyStatement(actions=["s3:GetBucketTagging", "s3:ListBucketVersions"], resources=[bucket.bucket_arn]),
        iam.PolicyStatement(
            actions=["s3:DeleteObject", "s3:DeleteObjectVersion"], resources=[bucket.arn_for_objects("*")]
        ),
        iam.PolicyStatement(actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_group.attr_arn]),
    ]
