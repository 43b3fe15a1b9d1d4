"""An account ready for the CDK CLI, made without it: `cdk bootstrap`'s stack, from the template that the CLI brings.

tests/localcloud/cdk/test_cdk_journey.py runs the command itself, and holds what it makes against this.
"""

from __future__ import annotations

from pathlib import Path

from cloud_clients import boto3_client

from loadproof.localcloud.local import LocalCloud

STACK = "CDKToolkit"
_CLI = Path(__file__).parents[1] / "node_modules" / "aws-cdk"
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
# What the CLI says where it is told nothing; the rest are the template's defaults.
_PARAMETERS = {"FileAssetsBucketKmsKeyId": "AWS_MANAGED_KEY", "PublicAccessBlockConfiguration": "true"}


def bootstrap(cloud: LocalCloud, *regions: str) -> None:
    """In every region what `cdk bootstrap aws://ACCOUNT/REGION` leaves there."""
    template = (_CLI / "lib" / "api" / "bootstrap" / "bootstrap-template.yaml").read_text(encoding="utf-8")
    for region in regions:
        cloudformation = boto3_client(cloud, "cloudformation", region)
        cloudformation.create_stack(
            StackName=STACK,
            TemplateBody=template,
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in _PARAMETERS.items()],
            Capabilities=_CAPABILITIES,
        )
        waiter = cloudformation.get_waiter("stack_create_complete")
        waiter.wait(StackName=STACK, WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})
