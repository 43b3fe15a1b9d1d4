"""The log groups that SageMaker writes to. It would make them itself, without retention and without a key."""

from __future__ import annotations

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.resource import resource
from loadproof.constructs.deployment import Deployment


def endpoint_log_group(scope: Construct, construct_id: str, *, name: str, deployment: Deployment) -> CfnResource:
    """A log group with the environment's retention and key; whatever writes to it must depend on it."""
    environment = deployment.environment
    properties = {
        "LogGroupName": name,
        "RetentionInDays": environment.log_retention_days,
        "KmsKeyId": environment.kms_key_arn,
    }
    return resource(scope, construct_id, "Logs::LogGroup", properties, tags=environment.tags)
