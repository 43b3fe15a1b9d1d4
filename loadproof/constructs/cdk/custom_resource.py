"""A custom resource: what one of our functions is asked when CloudFormation makes, changes or removes it."""

from __future__ import annotations

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.resource import resource
from loadproof.wire.documents import Document


def custom_resource(
    scope: Construct, construct_id: str, *, function_arn: str, timeout_s: int, properties: Document
) -> CfnResource:
    """Ask the function with `properties`; CloudFormation waits for its answer for `timeout_s` at most.

    The plain resource takes them all at once; CDK's own class for custom resources takes each by a call of its own.
    """
    asked = {"ServiceToken": function_arn, "ServiceTimeout": timeout_s, **properties}
    return resource(scope, construct_id, "CloudFormation::CustomResource", asked)
