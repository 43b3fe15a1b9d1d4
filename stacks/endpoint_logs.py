"""The log groups that SageMaker writes to. It would make them itself, without retention and without a key."""

from __future__ import annotations

from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.context import Deployment


def endpoint_log_group(scope: Construct, construct_id: str, *, name: str, deployment: Deployment) -> logs.CfnLogGroup:
    """A log group with the environment's retention and key; whatever writes to it must depend on it."""
    return logs.CfnLogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention_in_days=deployment.environment.log_retention_days,
        kms_key_id=deployment.environment.kms_key_arn,
    )
