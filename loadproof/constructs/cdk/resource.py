"""Resources as a template writes them.

CDK's class of a resource type costs several times what the plain resource does: each field of each of its structures
is checked here, sent, and checked again. So the types that a profile has most of are plain; the tests hold their
properties to AWS's validator, cfn-lint and cdk-nag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnResource
from constructs import Construct


def resource(
    scope: Construct,
    construct_id: str,
    kind: str,
    properties: Mapping[str, Any],
    *,
    tags: Mapping[str, str] | None = None,
) -> CfnResource:
    """A resource of the type `AWS::<kind>`. CDK leaves out what is None.

    `tags` are all it has: what Tags.of() adds to a stack reaches only CDK's own classes.
    """
    written = {**properties, "Tags": tag_list(tags)} if tags else dict(properties)
    return CfnResource(scope, construct_id, type=f"AWS::{kind}", properties=written)


def attribute(made: CfnResource, name: str) -> str:
    """What CloudFormation will know of it once it is made, as a text that stands for it."""
    return made.get_att(name).to_string()


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As a template has tags, in CDK's order."""
    return [{"Key": name, "Value": tags[name]} for name in sorted(tags)]
