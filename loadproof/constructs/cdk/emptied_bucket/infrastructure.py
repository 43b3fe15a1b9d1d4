"""What makes `cdk destroy` leave nothing where an environment says `results_on_destroy: delete`.

CloudFormation deletes no bucket that holds objects. A custom resource that depends on the bucket is deleted before it,
and empties it then. It looks for a tag on the bucket first: when an environment goes back to `keep`, the update takes
the tag away before it removes the custom resource, and nothing is lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aws_cdk import Tags
from aws_cdk import aws_s3 as s3
from constructs import Construct

from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import LAMBDA_LIMIT_S, Program, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.profiles.schema import Environment

CODE: Final = Path(__file__).parent / "runtime" / "index.py"


class EmptiedBucket(Construct):
    """Empties `bucket` on deletion. Whoever writes into the bucket must depend on this, so that it goes first."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket: s3.Bucket,
        environment: Environment,
    ) -> None:
        super().__init__(scope, construct_id)
        Tags.of(bucket).add("loadproof:on-destroy", "delete")
        # Outside the VPC on purpose: it needs S3 and CloudFormation's answer address, and touches nothing else.
        function = PythonFunction(
            self,
            "Function",
            environment=environment,
            description="Empties one results bucket when its stack is deleted",
            program=Program(CODE),
            statements=[
                allow("s3:GetBucketTagging", "s3:ListBucketVersions", on=bucket.bucket_arn),
                allow("s3:DeleteObject", "s3:DeleteObjectVersion", on=bucket.arn_for_objects("*")),
            ],
        )
        custom_resource(
            self,
            "Resource",
            function_arn=function.arn,
            timeout_s=LAMBDA_LIMIT_S + 60,
            properties={"BucketName": bucket.bucket_name},
        )
