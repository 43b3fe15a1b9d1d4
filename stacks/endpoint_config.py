"""AWS::SageMaker::EndpointConfig: the machines, how they are filled and how requests find a copy."""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from loadproof.errors import InputError
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Endpoint, Routing
from stacks.context import Deployment
from stacks.images import has_local_disk, host_ami

Config = sagemaker.CfnEndpointConfig

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
    model: sagemaker.CfnModel | None,
) -> sagemaker.CfnEndpointConfig:
    """The configuration; `model` only for a plain variant.

    It has no name: every property replaces it, and the old one must live until the endpoint has moved. An endpoint
    of inference components carries role, network and isolation itself, as its models do: they must agree.
    """
    network = deployment.environment.network
    hosts_components = model is None
    return Config(
        scope,
        construct_id,
        production_variants=[_variant(deployment, endpoint, model)],
        execution_role_arn=role_arn if hosts_components else None,
        vpc_config=(
            Config.VpcConfigProperty(
                security_group_ids=list(network.security_group_ids), subnets=list(network.subnet_ids)
            )
            if network and hosts_components
            else None
        ),
        enable_network_isolation=endpoint.network_isolation if hosts_components else None,
        kms_key_id=None if has_local_disk(endpoint) else deployment.environment.kms_key_arn,
        # All of it written out: a default of SageMaker's changed under running fleets in June 2026.
        metrics_config=Config.MetricsConfigProperty(
            enable_detailed_observability=endpoint.metrics.detailed,
            enable_enhanced_metrics=endpoint.metrics.enhanced,
            metric_publish_frequency_in_seconds=endpoint.metrics.period_s,
        ),
        async_inference_config=_async_inference(deployment, endpoint),
        data_capture_config=_data_capture(deployment, endpoint),
    )


def _variant(
    deployment: Deployment, endpoint: Endpoint, model: sagemaker.CfnModel | None
) -> Config.ProductionVariantProperty:
    plain = model is not None
    return Config.ProductionVariantProperty(
        variant_name=VARIANT_NAME,
        model_name=model.attr_model_name if model is not None else None,
        initial_variant_weight=1 if plain else None,
        instance_type=endpoint.instance_type,
        instance_pools=[
            Config.InstancePoolProperty(instance_type=pool.instance_type, priority=pool.priority)
            for pool in sorted(endpoint.instance_pools, key=lambda pool: pool.priority)
        ]
        or None,
        variant_instance_provision_timeout_in_seconds=endpoint.instance_wait_s,
        # The API refuses 0 here, also for an endpoint that may scale to no instance later.
        initial_instance_count=max(1, endpoint.min_instances),
        managed_instance_scaling=None if plain else _managed_scaling(endpoint),
        routing_config=_routing(endpoint.routing),
        inference_ami_version=host_ami(endpoint, deployment.components),
        volume_size_in_gb=endpoint.volume_gib,
        capacity_reservation_config=(
            Config.CapacityReservationConfigProperty(
                capacity_reservation_preference="capacity-reservations-only",
                ml_reservation_arn=endpoint.capacity_reservation.arn,
            )
            if endpoint.capacity_reservation
            else None
        ),
        # Inference components have these two themselves (StartupParameters).
        model_data_download_timeout_in_seconds=endpoint.model_download_timeout_s if plain else None,
        container_startup_health_check_timeout_in_seconds=endpoint.container_startup_timeout_s if plain else None,
    )


def _managed_scaling(endpoint: Endpoint) -> Config.ManagedInstanceScalingProperty:
    scale_in = endpoint.scale_in
    return Config.ManagedInstanceScalingProperty(
        status="ENABLED",
        min_instance_count=endpoint.min_instances,
        max_instance_count=endpoint.max_instances,
        scale_in_policy=(
            Config.ScaleInPolicyProperty(
                strategy=_SCALE_IN[scale_in.strategy],
                maximum_step_size=scale_in.max_step_instances,
                cooldown_in_minutes=scale_in.cooldown_min,
            )
            if scale_in
            else None
        ),
    )


def _routing(routing: Routing) -> Config.RoutingConfigProperty:
    prefix_aware = None
    if routing.strategy == "prefix_aware":
        if routing.prefix_length_bytes is None or routing.concurrency_threshold is None:
            raise InputError(
                "endpoint.routing: prefix_aware needs prefix_length_bytes (1024..65536) and "
                "concurrency_threshold (1..1024); write both"
            )
        prefix_aware = Config.PrefixAwareRoutingConfigProperty(
            prefix_length=routing.prefix_length_bytes, concurrency_threshold=routing.concurrency_threshold
        )
    return Config.RoutingConfigProperty(
        routing_strategy=_ROUTING[routing.strategy], prefix_aware_routing_config=prefix_aware
    )


def _async_inference(deployment: Deployment, endpoint: Endpoint) -> Config.AsyncInferenceConfigProperty | None:
    wanted = endpoint.async_inference
    if wanted is None:
        return None
    limit = wanted.max_concurrent_invocations_per_instance
    told = wanted.success_topic_arn or wanted.error_topic_arn
    return Config.AsyncInferenceConfigProperty(
        output_config=Config.AsyncInferenceOutputConfigProperty(
            s3_output_path=wanted.output_s3_uri,
            s3_failure_path=wanted.failure_s3_uri,
            notification_config=(
                Config.AsyncInferenceNotificationConfigProperty(
                    success_topic=wanted.success_topic_arn, error_topic=wanted.error_topic_arn
                )
                if told
                else None
            ),
            kms_key_id=deployment.environment.kms_key_arn,
        ),
        client_config=(
            Config.AsyncInferenceClientConfigProperty(max_concurrent_invocations_per_instance=limit) if limit else None
        ),
    )


def _data_capture(deployment: Deployment, endpoint: Endpoint) -> Config.DataCaptureConfigProperty | None:
    wanted = endpoint.data_capture
    if wanted is None:
        return None
    return Config.DataCaptureConfigProperty(
        enable_capture=True,
        initial_sampling_percentage=wanted.sampling_percent,
        destination_s3_uri=wanted.s3_uri,
        kms_key_id=deployment.environment.kms_key_arn,
        capture_options=[Config.CaptureOptionProperty(capture_mode=mode) for mode in ("Input", "Output")],
    )
