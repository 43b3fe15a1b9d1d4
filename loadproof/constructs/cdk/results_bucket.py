"""Buckets: encrypted, private, reached by TLS only; those for results forget after their days."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from loadproof.profiles.schema import Environment


def goes_with_stack(environment: Environment) -> bool:
    """Whether results are deleted with their stack; otherwise the bucket stays."""
    return environment.results_on_destroy == "delete"


def results_bucket(
    scope: Construct, construct_id: str, *, environment: Environment, key: kms.IKey | None, expire_days: int
) -> s3.Bucket:
    """Kept by its stack, unless the environment lets results go with it."""
    return private_bucket(scope, construct_id, key=key, kept=not goes_with_stack(environment), expire_days=expire_days)


def private_bucket(
    scope: Construct, construct_id: str, *, key: kms.IKey | None, kept: bool, expire_days: int | None = None
) -> s3.Bucket:
    """What every bucket of ours has in common. `kept` leaves it behind when its stack goes."""
    removal = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if kept else RemovalPolicy.DESTROY
    bucket = s3.Bucket(
        scope,
        construct_id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=[
            s3.LifecycleRule(
                expiration=Duration.days(expire_days) if expire_days else None,
                abort_incomplete_multipart_upload_after=Duration.days(1),
            )
        ],
        removal_policy=removal,
    )
    policy = bucket.policy
    if policy is not None:
        policy.apply_removal_policy(removal)  # a bucket that stays keeps its demand for TLS
    return bucket
