"""Endpoints: create, update to another configuration, describe, delete."""

from __future__ import annotations

import copy

from loadproof.localcloud.controlplane.sagemaker.base import Operations, page
from loadproof.localcloud.controlplane.sagemaker.capacity import instance_types
from loadproof.localcloud.controlplane.sagemaker.deployments import course_of
from loadproof.localcloud.controlplane.sagemaker.rules import check_deployment, check_settings, check_update
from loadproof.localcloud.controlplane.sagemaker.store import Endpoint, Rollout, Stored, Variant, refuse, utc_now
from loadproof.localcloud.wire import Caller, Params, key, known
from loadproof.wire.documents import Document

MOVING = ("Creating", "Updating", "Deleting")


class EndpointOperations(Operations):
    """The machines under the copies."""

    def CreateEndpoint(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        name = params["EndpointName"]
        self.settle()
        arn = self.store.endpoints.new_arn(caller, name)
        config = self.store.configs.find(caller, params["EndpointConfigName"])
        check_settings(params.get("DeploymentConfig") or {}, None)
        variants = _variants(config, {}, frozenset())
        self.tag(arn, params.get("Tags"))
        self.store.endpoints[key(caller, name)] = Endpoint(
            name=name,
            arn=arn,
            caller=caller,
            config_name=config.name,
            status="Creating",
            ready_at_s=self.store.clock() + self.store.timing.endpoint_s,
            variants=variants,
            capture=config.request.get("DataCaptureConfig"),
            deployment=params.get("DeploymentConfig"),
        )
        return {"EndpointArn": arn}

    def UpdateEndpoint(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        endpoint = self._endpoint(caller, params["EndpointName"])
        if endpoint.status in MOVING:
            raise refuse(f'Cannot update in-progress endpoint "{endpoint.arn}".')
        config = self.store.configs.find(caller, params["EndpointConfigName"])
        check_update(self.store, endpoint, config.request, self.scaled(caller, endpoint.name))
        settings = params.get("DeploymentConfig")
        if settings is None and params.get("RetainDeploymentConfig"):
            settings = endpoint.deployment
        if settings is not None:
            check_deployment(self.store, endpoint, config.request, settings)
        kept = _kept(params)
        capture = endpoint.capture if "DataCaptureConfig" in kept else config.request.get("DataCaptureConfig")
        endpoint.pending_config, endpoint.pending_capture = config.name, capture
        endpoint.pending_variants = _variants(config, {one.name: one for one in endpoint.variants}, kept)
        capacity = sum(variant.desired_count for variant in endpoint.pending_variants)
        endpoint.rollout = Rollout(
            course=course_of(settings or {}, self.store.timing.endpoint_s, capacity),
            settings=settings or {},
            capacity=capacity,
            began_s=self.store.clock(),
        )
        endpoint.deployment = settings
        endpoint.status, endpoint.modified = "Updating", utc_now()
        return {"EndpointArn": endpoint.arn}

    def UpdateEndpointWeightsAndCapacities(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        endpoint = self._endpoint(caller, params["EndpointName"])
        if endpoint.status != "InService":
            raise refuse(f'Cannot update in-progress endpoint "{endpoint.arn}".')
        by_name = {variant.name: variant for variant in endpoint.variants}
        for desired in params["DesiredWeightsAndCapacities"]:
            variant = by_name.get(desired["VariantName"])
            if variant is None:
                raise refuse(f"Endpoint {endpoint.name} has no variant {desired['VariantName']}.")
            variant.desired_count = desired.get("DesiredInstanceCount", variant.desired_count)
            variant.desired_weight = float(desired.get("DesiredWeight", variant.desired_weight))
        endpoint.status, endpoint.modified = "Updating", utc_now()
        endpoint.ready_at_s = self.store.clock() + self.store.timing.endpoint_s
        return {"EndpointArn": endpoint.arn}

    def DescribeEndpoint(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        endpoint = self._endpoint(caller, params["EndpointName"])
        config = self.store.configs.named(caller, endpoint.config_name)
        request = config.request if config else {}
        return known(
            **_row(endpoint),
            EndpointConfigName=endpoint.config_name,
            ProductionVariants=[self._describe_variant(caller, one) for one in endpoint.variants],
            FailureReason=endpoint.failure_reason,
            LastDeploymentConfig=endpoint.deployment,
            PendingDeploymentSummary=self._pending(caller, endpoint),
            DataCaptureConfig=_capture_shown(endpoint.capture),
            MetricsConfig=request.get("MetricsConfig"),
            AsyncInferenceConfig=request.get("AsyncInferenceConfig"),
        )

    def ListEndpoints(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        self.settle()
        wanted = params.get("StatusEquals")
        rows = [_row(one) for one in self.store.endpoints.of(caller) if wanted in (None, one.status)]
        return page(rows, params, "EndpointName", "Endpoints")

    def DeleteEndpoint(self, caller: Caller, params: Params) -> None:  # noqa: N802
        endpoint = self._endpoint(caller, params["EndpointName"])
        if endpoint.status in MOVING:
            raise refuse(f'Cannot delete in-progress endpoint "{endpoint.arn}".')
        associated = self.store.components_of(caller, endpoint.name)
        if associated:
            names = ", ".join(component.name for component in associated)
            raise refuse(
                f'Cannot delete endpoint "{endpoint.arn}" with inference components associated with it: {names}.'
            )
        endpoint.status, endpoint.modified = "Deleting", utc_now()
        endpoint.ready_at_s = self.store.clock() + self.store.timing.delete_s

    def _endpoint(self, caller: Caller, name: str) -> Endpoint:
        self.settle()
        return self.store.endpoints.find(caller, name)

    def _pending(self, caller: Caller, endpoint: Endpoint) -> Document | None:
        """What an update is moving to, while it does."""
        rollout = endpoint.rollout
        if rollout is None:
            return None
        elapsed_s = self.store.clock() - rollout.began_s
        if rollout.reason is not None:
            status = "Deleting"
        elif not rollout.provisioned:
            status = "Creating"
        else:
            status = "Baking" if elapsed_s < rollout.course.baked_s else "ActivatingTraffic"
        variants = []
        for variant in endpoint.pending_variants:
            shown = self._describe_variant(caller, variant)
            if "InstanceType" in variant.config:
                shown["InstanceType"] = variant.config["InstanceType"]
            variants.append({**shown, "VariantStatus": [{"Status": status, "StartTime": rollout.began}]})
        return {
            "EndpointConfigName": endpoint.pending_config,
            "ProductionVariants": variants,
            "StartTime": rollout.began,
        }

    def _describe_variant(self, caller: Caller, variant: Variant) -> Document:
        shown: Document = {
            "VariantName": variant.name,
            "CurrentWeight": variant.weight,
            "DesiredWeight": variant.desired_weight,
            "CurrentInstanceCount": variant.current_count,
            "DesiredInstanceCount": variant.desired_count,
        }
        for name in ("ManagedInstanceScaling", "RoutingConfig"):
            if name in variant.config:
                shown[name] = variant.config[name]
        if "InstancePools" in variant.config:
            shown["InstancePools"] = [
                {"InstanceType": kind, "CurrentInstanceCount": variant.instances.get(kind, 0)}
                for kind in instance_types(variant.config)
            ]
        model = self.store.models.named(caller, variant.config.get("ModelName", ""))
        if model is not None:
            shown["DeployedImages"] = deployed_images(model)
        return shown


def _row(endpoint: Endpoint) -> Document:
    """As a listing shows it."""
    return {
        "EndpointName": endpoint.name,
        "EndpointArn": endpoint.arn,
        "CreationTime": endpoint.created,
        "LastModifiedTime": endpoint.modified,
        "EndpointStatus": endpoint.status,
    }


def deployed_images(model: Stored) -> list[Document]:
    """The images of a model's containers, as DescribeEndpoint names them (no registry resolves a digest here)."""
    containers = model.request.get("Containers") or [model.request["PrimaryContainer"]]
    return [{"SpecifiedImage": one["Image"], "ResolutionTime": model.created} for one in containers if "Image" in one]


def _kept(params: Params) -> frozenset[str]:
    """The variant properties that an update keeps as they are now."""
    if not params.get("RetainAllVariantProperties"):
        return frozenset()
    excluded = {one["VariantPropertyType"] for one in params.get("ExcludeRetainedVariantProperties", [])}
    return frozenset({"DesiredInstanceCount", "DesiredWeight", "DataCaptureConfig"} - excluded)


def _variants(config: Stored, old: dict[str, Variant], kept: frozenset[str]) -> list[Variant]:
    """A new fleet of a configuration's variants; what runs already keeps the properties named.

    A new fleet is new machines, so its containers are started anew: the generation grows.
    """
    variants = []
    for raw in config.request["ProductionVariants"]:
        before = old.get(raw["VariantName"])
        count, weight = int(raw.get("InitialInstanceCount", 1)), float(raw.get("InitialVariantWeight", 1.0))
        if before is not None and "DesiredInstanceCount" in kept:
            count = before.desired_count
        if before is not None and "DesiredWeight" in kept:
            weight = before.desired_weight
        generation = before.generation + 1 if before is not None else 1
        variants.append(
            Variant(copy.deepcopy(raw), {}, count, weight=weight, desired_weight=weight, generation=generation)
        )
    return variants


def _capture_shown(capture: Document | None) -> Document | None:
    if capture is None:
        return None
    enabled = bool(capture.get("EnableCapture", False))
    return {
        "EnableCapture": enabled,
        "CaptureStatus": "Started" if enabled else "Stopped",
        "CurrentSamplingPercentage": capture["InitialSamplingPercentage"],
        "DestinationS3Uri": capture["DestinationS3Uri"],
        "KmsKeyId": capture.get("KmsKeyId", ""),
    }
