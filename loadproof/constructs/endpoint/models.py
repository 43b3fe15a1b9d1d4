"""AWS::SageMaker::Model: one image, its variables and its weights."""

from __future__ import annotations

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.resource import resource
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.tags import model_tags
from loadproof.profiles import container_variables
from loadproof.profiles.images import image_of
from loadproof.profiles.schema import Component, JumpStartSource, Model, Network, S3Source
from loadproof.wire.documents import Document


def model_resource(
    scope: Construct,
    construct_id: str,
    *,
    deployment: Deployment,
    component: Component,
    role_arn: str,
    staged_uri: str | None = None,
) -> CfnResource:
    """The model of one component. It has no name: every property replaces it, and a name would clash.

    `staged_uri` is where weights of the hub have been put; None for others, and where the server fetches them.
    """
    endpoint = deployment.profile.endpoint
    properties = {
        "ExecutionRoleArn": role_arn,
        "PrimaryContainer": {
            "Image": image_of(component.container, deployment.environment.region),
            "Environment": container_variables(component, staged=staged_uri is not None),
            "ModelDataSource": _staged(staged_uri) if staged_uri else _weights(component.model),
        },
        "VpcConfig": vpc_config(deployment.environment.network),
        "EnableNetworkIsolation": endpoint.network_isolation if endpoint else True,
    }
    tags = {**deployment.tags, **model_tags(component.model)}
    return resource(scope, construct_id, "SageMaker::Model", properties, tags=tags)


def vpc_config(network: Network | None) -> Document | None:
    """The VpcConfig of whatever SageMaker runs."""
    if network is None:
        return None
    return {"SecurityGroupIds": list(network.security_group_ids), "Subnets": list(network.subnet_ids)}


def _staged(uri: str) -> Document:
    return {"S3DataSource": {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}}


def _weights(model: Model) -> Document | None:
    """The S3 data source; None for weights that the server itself fetches from the hub."""
    source = model.source
    if not isinstance(source, S3Source | JumpStartSource):
        return None
    packed = isinstance(source, S3Source) and source.compression == "gzip"
    hub = source.hub_content_arn if isinstance(source, JumpStartSource) else None
    return {
        "S3DataSource": {
            "S3Uri": source.s3_uri,
            "S3DataType": "S3Object" if packed else "S3Prefix",
            "CompressionType": "Gzip" if packed else "None",
            # Said only when the profile says it: an accepted licence must be somebody's decision in a diff.
            "ModelAccessConfig": {"AcceptEula": True} if source.accept_eula else None,
            "HubAccessConfig": {"HubContentArn": hub} if hub else None,
        }
    }
