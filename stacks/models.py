"""AWS::SageMaker::Model: one image, its variables and its weights."""

from __future__ import annotations

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from loadproof.profiles import container_variables
from loadproof.profiles.schema import Component, JumpStartSource, Model, Network, S3Source
from stacks.context import Deployment
from stacks.images import image_of
from stacks.tags import model_tags


def model_resource(
    scope: Construct,
    construct_id: str,
    *,
    deployment: Deployment,
    component: Component,
    role_arn: str,
    staged_uri: str | None = None,
) -> sagemaker.CfnModel:
    """The model of one component. It has no name: every property replaces it, and a name would clash.

    `staged_uri` is where weights of the hub have been put; None for others, and where the server fetches them.
    """
    endpoint = deployment.profile.endpoint
    return sagemaker.CfnModel(
        scope,
        construct_id,
        execution_role_arn=role_arn,
        primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
            image=image_of(component.container, deployment.environment.region),
            environment=container_variables(component, staged=staged_uri is not None),
            model_data_source=_staged(staged_uri) if staged_uri else _weights(component.model),
        ),
        vpc_config=model_network(deployment.environment.network),
        enable_network_isolation=endpoint.network_isolation if endpoint else True,
        tags=model_tags(component.model),
    )


def model_network(network: Network | None) -> sagemaker.CfnModel.VpcConfigProperty | None:
    if network is None:
        return None
    return sagemaker.CfnModel.VpcConfigProperty(
        security_group_ids=list(network.security_group_ids), subnets=list(network.subnet_ids)
    )


def _staged(uri: str) -> sagemaker.CfnModel.ModelDataSourceProperty:
    source = sagemaker.CfnModel.S3DataSourceProperty(s3_uri=uri, s3_data_type="S3Prefix", compression_type="None")
    return sagemaker.CfnModel.ModelDataSourceProperty(s3_data_source=source)


def _weights(model: Model) -> sagemaker.CfnModel.ModelDataSourceProperty | None:
    """The S3 data source; None for weights that the server itself fetches from the hub."""
    source = model.source
    if not isinstance(source, S3Source | JumpStartSource):
        return None
    packed = isinstance(source, S3Source) and source.compression == "gzip"
    hub = source.hub_content_arn if isinstance(source, JumpStartSource) else None
    return sagemaker.CfnModel.ModelDataSourceProperty(
        s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
            s3_uri=source.s3_uri,
            s3_data_type="S3Object" if packed else "S3Prefix",
            compression_type="Gzip" if packed else "None",
            # Said only when the profile says it: an accepted licence must be somebody's decision in a diff.
            model_access_config=(
                sagemaker.CfnModel.ModelAccessConfigProperty(accept_eula=True) if source.accept_eula else None
            ),
            hub_access_config=sagemaker.CfnModel.HubAccessConfigProperty(hub_content_arn=hub) if hub else None,
        )
    )
