"""What a change of a property does to its resource, by AWS's own schemas; names and data that replacement touches."""

from __future__ import annotations

from typing import Final, Literal

from loadproof.catalog.create_only import PropertyPath, resource_types

Replaces = Literal["no", "may", "will"]

# Types that are changed by making another one: a version is never edited, an endpoint moves to a new configuration.
BY_DESIGN: Final = frozenset(
    {
        "AWS::ApiGateway::Deployment",
        "AWS::Bedrock::FlowVersion",
        "AWS::Bedrock::GuardrailVersion",
        "AWS::Bedrock::PromptVersion",
        "AWS::Lambda::LayerVersion",
        "AWS::Lambda::Version",
        "AWS::SageMaker::AIWorkloadConfig",
        "AWS::SageMaker::EndpointConfig",
        "AWS::SageMaker::Model",
        "AWS::StepFunctions::StateMachineVersion",
    }
)
# What is gone with the physical resource, in words. Not all that holds state: what nothing else can bring back.
DATA: Final = {
    "AWS::DynamoDB::GlobalTable": "its items",
    "AWS::DynamoDB::Table": "its items",
    "AWS::EC2::Volume": "what is stored on it",
    "AWS::ECR::Repository": "its images",
    "AWS::EFS::FileSystem": "its files",
    "AWS::KMS::Key": "everything encrypted with it",
    "AWS::Logs::LogGroup": "its logs",
    "AWS::S3::Bucket": "its objects",
    "AWS::SQS::Queue": "the messages in it",
    "AWS::SageMaker::ModelPackageGroup": "its model versions",
    "AWS::SecretsManager::Secret": "the secret's value",
    "AWS::SSM::Parameter": "its value",
}
_CUSTOM: Final = ("Custom::", "AWS::CloudFormation::CustomResource")


def is_known(type_name: str) -> bool:
    """Whether it is known what replaces such a resource. A custom resource's own code decides: it counts as known."""
    return type_name in resource_types() or type_name.startswith(_CUSTOM)


def replacement(type_name: str, path: PropertyPath) -> Replaces:
    """What changing the property at `path` does; list indices as digits. An unknown type is taken as updatable.

    A value above a create-only property (a reference in place of the whole map) may replace: nobody sees inside.
    """
    known = resource_types().get(type_name)
    if known is None:
        return "no"
    if any(_covers(fixed, path) for fixed in known.always):
        return "will"
    above = any(_covers(path, fixed) for fixed in known.always)
    return "may" if above or any(_meet(fixed, path) for fixed in known.conditional) else "no"


def identity_of(type_name: str) -> frozenset[str]:
    """The properties that are the physical name; empty where AWS makes one up, or where the type is unknown."""
    known = resource_types().get(type_name)
    return frozenset() if known is None else known.identity


def _covers(upper: PropertyPath, lower: PropertyPath) -> bool:
    """Whether `lower` is `upper` or lies under it. Places in lists do not count: schemas write `*` or leave it out."""
    above, below = _names(upper), _names(lower)
    return below[: len(above)] == above


def _names(path: PropertyPath) -> PropertyPath:
    return tuple(step for step in path if step != "*" and not step.isdigit())


def _meet(one: PropertyPath, other: PropertyPath) -> bool:
    return _covers(one, other) or _covers(other, one)
