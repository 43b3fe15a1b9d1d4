"""AWS::SageMaker::EndpointConfig: the machines, how they are filled and how requests find a copy."""

from __future__ import annotations

from typing import Final

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.resource import resource
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.images import has_local_disk, host_ami
from loadproof.constructs.endpoint.models import vpc_config
from loadproof.errors import InputError
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Endpoint, Routing
from loadproof.wire.documents import Document

_ROUTING: Final = {
    "least_outstanding_requests": "LEAST_OUTSTANDING_REQUESTS",
    "random": "RANDOM",
    "prefix_aware": "PREFIX_AWARE",
}
_SCALE_IN: Final = {"idle_release": "IDLE_RELEASE", "consolidation": "CONSOLIDATION"}


def endpoint_config_resource(
    scope: Construct,
    construct_id: str,
    *,
    deployment: Deployment,
    endpoint: Endpoint,
    role_arn: str,
    model_name: str | None,
) -> CfnResource:
    """The configuration; `model_name` only for a plain variant.

    It has no name: every property replaces it, and the old one must live until the endpoint has moved. An endpoint
    of inference components carries role, network and isolation itself, as its models do: they must agree.
    """
    environment = deployment.environment
    hosts_components = model_name is None
    properties = {
        "ProductionVariants": [_variant(deployment, endpoint, model_name)],
        "ExecutionRoleArn": role_arn if hosts_components else None,
        "VpcConfig": vpc_config(environment.network) if hosts_components else None,
        "EnableNetworkIsolation": endpoint.network_isolation if hosts_components else None,
        "KmsKeyId": None if has_local_disk(endpoint) else environment.kms_key_arn,
        # All of it written out: a default of SageMaker's changed under running fleets in June 2026.
        "MetricsConfig": {
            "EnableDetailedObservability": endpoint.metrics.detailed,
            "EnableEnhancedMetrics": endpoint.metrics.enhanced,
            "MetricPublishFrequencyInSeconds": endpoint.metrics.period_s,
        },
        "AsyncInferenceConfig": _async_inference(deployment, endpoint),
        "DataCaptureConfig": _data_capture(deployment, endpoint),
    }
    return resource(scope, construct_id, "SageMaker::EndpointConfig", properties, tags=deployment.tags)


def _variant(deployment: Deployment, endpoint: Endpoint, model_name: str | None) -> Document:
    plain = model_name is not None
    reservation = endpoint.capacity_reservation
    pools = [
        {"InstanceType": pool.instance_type, "Priority": pool.priority}
        for pool in sorted(endpoint.instance_pools, key=lambda pool: pool.priority)
    ]
    return {
        "VariantName": VARIANT_NAME,
        "ModelName": model_name,
        "InitialVariantWeight": 1 if plain else None,
        "InstanceType": endpoint.instance_type,
        "InstancePools": pools or None,
        "VariantInstanceProvisionTimeoutInSeconds": endpoint.instance_wait_s,
        # The API refuses 0 here, also for an endpoint that may scale to no instance later.
        "InitialInstanceCount": max(1, endpoint.min_instances),
        "ManagedInstanceScaling": None if plain else _managed_scaling(endpoint),
        "RoutingConfig": _routing(endpoint.routing),
        "InferenceAmiVersion": host_ami(endpoint, deployment.components),
        "VolumeSizeInGB": endpoint.volume_gib,
        "CapacityReservationConfig": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "MlReservationArn": reservation.arn,
        }
        if reservation
        else None,
        # Inference components have these two themselves (StartupParameters).
        "ModelDataDownloadTimeoutInSeconds": endpoint.model_download_timeout_s if plain else None,
        "ContainerStartupHealthCheckTimeoutInSeconds": endpoint.container_startup_timeout_s if plain else None,
    }


def _managed_scaling(endpoint: Endpoint) -> Document:
    scale_in = endpoint.scale_in
    return {
        "Status": "ENABLED",
        "MinInstanceCount": endpoint.min_instances,
        "MaxInstanceCount": endpoint.max_instances,
        "ScaleInPolicy": {
            "Strategy": _SCALE_IN[scale_in.strategy],
            "MaximumStepSize": scale_in.max_step_instances,
            "CooldownInMinutes": scale_in.cooldown_min,
        }
        if scale_in
        else None,
    }


def _routing(routing: Routing) -> Document:
    prefix_aware = None
    if routing.strategy == "prefix_aware":
        if routing.prefix_length_bytes is None or routing.concurrency_threshold is None:
            raise InputError(
                "endpoint.routing: prefix_aware needs prefix_length_bytes (1024..65536) and "
                "concurrency_threshold (1..1024); write both"
            )
        prefix_aware = {
            "PrefixLength": routing.prefix_length_bytes,
            "ConcurrencyThreshold": routing.concurrency_threshold,
        }
    return {"RoutingStrategy": _ROUTING[routing.strategy], "PrefixAwareRoutingConfig": prefix_aware}


def _async_inference(deployment: Deployment, endpoint: Endpoint) -> Document | None:
    wanted = endpoint.async_inference
    if wanted is None:
        return None
    limit = wanted.max_concurrent_invocations_per_instance
    told = wanted.success_topic_arn or wanted.error_topic_arn
    topics = {"SuccessTopic": wanted.success_topic_arn, "ErrorTopic": wanted.error_topic_arn}
    return {
        "OutputConfig": {
            "S3OutputPath": wanted.output_s3_uri,
            "S3FailurePath": wanted.failure_s3_uri,
            "NotificationConfig": topics if told else None,
            "KmsKeyId": deployment.environment.kms_key_arn,
        },
        "ClientConfig": {"MaxConcurrentInvocationsPerInstance": limit} if limit else None,
    }


def _data_capture(deployment: Deployment, endpoint: Endpoint) -> Document | None:
    wanted = endpoint.data_capture
    if wanted is None:
        return None
    return {
        "EnableCapture": True,
        "InitialSamplingPercentage": wanted.sampling_percent,
        "DestinationS3Uri": wanted.s3_uri,
        "KmsKeyId": deployment.environment.kms_key_arn,
        "CaptureOptions": [{"CaptureMode": mode} for mode in ("Input", "Output")],
    }
