"""AWS::SageMaker::InferenceComponent: the copies of one model, and the adapters on top of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from aws_cdk import CfnResource, CfnTag
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.deployment_policy import component_deployment
from loadproof.constructs.endpoint.endpoint_logs import endpoint_log_group
from loadproof.constructs.endpoint.images import instance_types
from loadproof.constructs.endpoint.kept_copies.infrastructure import KeptCopies
from loadproof.constructs.endpoint.tags import model_tags
from loadproof.profiles import accelerators_per_copy
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Adapter, Component, Copies, Endpoint
from loadproof.wire.documents import Document

Resource = sagemaker.CfnInferenceComponent
Scheduling = Resource.InferenceComponentSchedulingConfigProperty


class InferenceComponent(Construct):
    """One model's copies on an endpoint.

    The construct id carries a digest of endpoint and variant: SageMaker cannot move a component, so a move must be
    a new logical id (delete and create). The name is explicit because CloudFormation gives back no other handle
    than the ARN, and Application Auto Scaling wants the name.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        deployment: Deployment,
        component: Component,
        endpoint: Endpoint,
        endpoint_resource: sagemaker.CfnEndpoint,
        model_name: str,
        kept_copies: KeptCopies | None,
    ) -> None:
        super().__init__(scope, f"Component-{component.name}-{_place_digest(deployment)}")
        self.component = component
        self.name = deployment.component_name(component)
        self.model_name = model_name
        self._tags = {**deployment.tags, **model_tags(component.model)}
        self._count = kept_copies.count_of(self, component, self.name) if kept_copies and component.scaling else None
        self._specifications = _specifications(endpoint, component, model_name)
        self.resource = Resource(
            self,
            "Base",
            inference_component_name=self.name,
            endpoint_name=endpoint_resource.attr_endpoint_name,
            variant_name=VARIANT_NAME,
            **self._specifications,
            runtime_config=Resource.InferenceComponentRuntimeConfigProperty(
                # CreateInferenceComponent refuses 0.
                copy_count=self._count.value if self._count else max(1, component.copies.min)
            ),
            tags=_tags(component),
        )
        logs = endpoint_log_group(
            self, "Logs", name=f"/aws/sagemaker/InferenceComponents/{self.name}", deployment=deployment
        )
        self.resource.add_resource_dependency(logs)
        self.adapters = [self._adapter(deployment, endpoint_resource, adapter) for adapter in component.adapters]

    def update_under(self, alarms: Sequence[CfnResource]) -> None:
        """How the component is updated, rolled back by `alarms`; to be called once, when they exist."""
        policy = component_deployment(self.component.copies, alarms)
        self.resource.deployment_config = policy
        if self._count is not None:
            self._count.changes_with(self._specifications, policy, self._tags)

    def _adapter(
        self, deployment: Deployment, endpoint_resource: sagemaker.CfnEndpoint, adapter: Adapter
    ) -> sagemaker.CfnInferenceComponent:
        """A LoRA adapter: it runs inside its base's copies, so it asks for no resources of its own."""
        resource = Resource(
            self,
            f"Adapter-{adapter.name}",
            inference_component_name=deployment.component_name(self.component, adapter.name),
            endpoint_name=endpoint_resource.attr_endpoint_name,
            specification=Resource.InferenceComponentSpecificationProperty(
                base_inference_component_name=self.name,
                container=Resource.InferenceComponentContainerSpecificationProperty(artifact_url=adapter.s3_uri),
            ),
            tags=_tags(self.component),
        )
        resource.add_resource_dependency(self.resource)
        return resource


def _tags(component: Component) -> list[CfnTag]:
    return [CfnTag(key=name, value=value) for name, value in model_tags(component.model).items()]


def _place_digest(deployment: Deployment) -> str:
    place = f"{deployment.endpoint_name}/{VARIANT_NAME}"
    return hashlib.sha256(place.encode()).hexdigest()[:8]


def _specifications(endpoint: Endpoint, component: Component, model_name: str) -> Document:
    """`specification`, or with several instance types one `specifications` entry for each of them."""
    copies = component.copies
    common: Document = {
        "model_name": model_name,
        "startup_parameters": Resource.InferenceComponentStartupParametersProperty(
            model_data_download_timeout_in_seconds=endpoint.model_download_timeout_s,
            container_startup_health_check_timeout_in_seconds=endpoint.container_startup_timeout_s,
        ),
        "compute_resource_requirements": Resource.InferenceComponentComputeResourceRequirementsProperty(
            number_of_accelerator_devices_required=accelerators_per_copy(component),
            number_of_cpu_cores_required=copies.cpus_per_copy,
            min_memory_required_in_mb=copies.memory_mib_per_copy,
        ),
        "data_cache_config": Resource.InferenceComponentDataCacheConfigProperty(enable_caching=copies.data_cache),
        "scheduling_config": _scheduling(copies),
    }
    kinds = instance_types(endpoint)
    if len(kinds) == 1:
        return {"specification": Resource.InferenceComponentSpecificationProperty(**common)}
    one_kind = Resource.InferenceComponentSpecificationForInstanceTypeProperty
    return {"specifications": [one_kind(instance_type=kind, **common) for kind in kinds]}


def _scheduling(copies: Copies) -> Scheduling | None:
    if copies.placement is None:
        return None
    return Scheduling(
        placement_strategy=copies.placement.upper(),
        # Optional for the API, required by CloudFormation's schema.
        availability_zone_balance=Resource.InferenceComponentAvailabilityZoneBalanceProperty(
            enforcement_mode="PERMISSIVE"
        ),
    )
