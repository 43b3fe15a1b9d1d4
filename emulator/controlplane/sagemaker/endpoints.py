"""Endpoints: create, update to another configuration, describe, delete."""

from __future__ import annotations

import copy
from typing import Any

from emulator.controlplane.sagemaker.base import Operations, page
from emulator.controlplane.sagemaker.capacity import instance_type_of
from emulator.controlplane.sagemaker.rules import check_update, refuse
from emulator.controlplane.sagemaker.store import Endpoint, Stored, Variant, key, utc_now
from emulator.controlplane.wire import Caller, Params

MOVING = ("Creating", "Updating", "Deleting")


class EndpointOperations(Operations):
    """The machines under the copies."""

    def CreateEndpoint(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        name = params["EndpointName"]
        arn = caller.arn("sagemaker", f"endpoint/{name.lower()}")
        with self.store.lock:
            self.settle()
            if key(caller, name) in self.store.endpoints:
                raise refuse(f'Cannot create already existing endpoint "{arn}".')
            config = self._config(caller, params["EndpointConfigName"])
            self.store.endpoints[key(caller, name)] = Endpoint(
                name=name,
                arn=arn,
                caller=caller,
                config_name=config.name,
                status="Creating",
                ready_at_s=self.store.clock() + self.store.timing.endpoint_s,
                variants=_variants(config, {}, retain=False),
                deployment=params.get("DeploymentConfig"),
            )
            self.tag(arn, params.get("Tags"))
        return {"EndpointArn": arn}

    def UpdateEndpoint(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self.store.lock:
            endpoint = self._endpoint(caller, params["EndpointName"])
            if endpoint.status in MOVING:
                raise refuse(f'Cannot update in-progress endpoint "{endpoint.arn}".')
            config = self._config(caller, params["EndpointConfigName"])
            check_update(self.store, endpoint, config.request, self.scaled(caller, endpoint.name))
            endpoint.pending_config = config.name
            endpoint.pending_variants = _variants(
                config,
                {variant.name: variant for variant in endpoint.variants},
                retain=bool(params.get("RetainAllVariantProperties")),
            )
            endpoint.deployment = params.get("DeploymentConfig", endpoint.deployment)
            endpoint.status, endpoint.modified = "Updating", utc_now()
            endpoint.ready_at_s = self.store.clock() + self.store.timing.endpoint_s
            return {"EndpointArn": endpoint.arn}

    def UpdateEndpointWeightsAndCapacities(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self.store.lock:
            endpoint = self._endpoint(caller, params["EndpointName"])
            if endpoint.status != "InService":
                raise refuse(f'Cannot update in-progress endpoint "{endpoint.arn}".')
            by_name = {variant.name: variant for variant in endpoint.variants}
            for wish in params["DesiredWeightsAndCapacities"]:
                variant = by_name.get(wish["VariantName"])
                if variant is None:
                    raise refuse(f"Endpoint {endpoint.name} has no variant {wish['VariantName']}.")
                variant.desired_count = wish.get("DesiredInstanceCount", variant.desired_count)
                if "DesiredWeight" in wish:
                    variant.config["InitialVariantWeight"] = wish["DesiredWeight"]
            endpoint.status, endpoint.modified = "Updating", utc_now()
            endpoint.ready_at_s = self.store.clock() + self.store.timing.endpoint_s
            return {"EndpointArn": endpoint.arn}

    def DescribeEndpoint(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self.store.lock:
            endpoint = self._endpoint(caller, params["EndpointName"])
            config = self.store.configs.get(key(caller, endpoint.config_name))
            request = config.request if config else {}
            shown = {
                "EndpointName": endpoint.name,
                "EndpointArn": endpoint.arn,
                "EndpointConfigName": endpoint.config_name,
                "EndpointStatus": endpoint.status,
                "ProductionVariants": [self._describe_variant(caller, one) for one in endpoint.variants],
                "FailureReason": endpoint.failure_reason,
                "CreationTime": endpoint.created,
                "LastModifiedTime": endpoint.modified,
                "LastDeploymentConfig": endpoint.deployment,
                "MetricsConfig": request.get("MetricsConfig"),
                "AsyncInferenceConfig": request.get("AsyncInferenceConfig"),
            }
            return {name: value for name, value in shown.items() if value is not None}

    def ListEndpoints(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self.store.lock:
            self.settle()
            rows = [
                {
                    "EndpointName": one.name,
                    "EndpointArn": one.arn,
                    "CreationTime": one.created,
                    "LastModifiedTime": one.modified,
                    "EndpointStatus": one.status,
                }
                for (account, region, _), one in self.store.endpoints.items()
                if (account, region) == (caller.account, caller.region)
                and one.status == params.get("StatusEquals", one.status)
            ]
        return page(rows, params, "EndpointName", "Endpoints")

    def DeleteEndpoint(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self.store.lock:
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

    def _config(self, caller: Caller, name: str) -> Stored:
        config = self.store.configs.get(key(caller, name))
        if config is None:
            arn = caller.arn("sagemaker", f"endpoint-config/{name.lower()}")
            raise refuse(f'Could not find endpoint configuration "{arn}".')
        return config

    def _endpoint(self, caller: Caller, name: str) -> Endpoint:
        self.settle()
        endpoint = self.store.endpoints.get(key(caller, name))
        if endpoint is None:
            arn = caller.arn("sagemaker", f"endpoint/{name.lower()}")
            raise refuse(f'Could not find endpoint "{arn}".')
        return endpoint

    def _describe_variant(self, caller: Caller, variant: Variant) -> dict[str, Any]:
        weight = float(variant.config.get("InitialVariantWeight", 1.0))
        shown: dict[str, Any] = {
            "VariantName": variant.name,
            "CurrentWeight": weight,
            "DesiredWeight": weight,
            "CurrentInstanceCount": variant.current_count,
            "DesiredInstanceCount": variant.desired_count,
        }
        for name in ("ManagedInstanceScaling", "RoutingConfig"):
            if name in variant.config:
                shown[name] = variant.config[name]
        if "InstancePools" in variant.config:
            first = instance_type_of(variant.config)
            shown["InstancePools"] = [
                {
                    "InstanceType": pool["InstanceType"],
                    "CurrentInstanceCount": variant.current_count if pool["InstanceType"] == first else 0,
                }
                for pool in variant.config["InstancePools"]
            ]
        model = self.store.models.get(key(caller, variant.config.get("ModelName", "")))
        if model is not None:
            shown["DeployedImages"] = deployed_images(model)
        return shown


def deployed_images(model: Stored) -> list[dict[str, Any]]:
    """The images of a model's containers, as DescribeEndpoint names them (no registry resolves a digest here)."""
    containers = model.request.get("Containers") or [model.request["PrimaryContainer"]]
    return [{"SpecifiedImage": one["Image"], "ResolutionTime": model.created} for one in containers if "Image" in one]


def _variants(config: Stored, old: dict[str, Variant], *, retain: bool) -> list[Variant]:
    """The variants of a configuration; what runs already keeps its counts when `retain` is set.

    A container is started anew (generation grows) when model or instance type changed.
    """
    variants = []
    for raw in config.request["ProductionVariants"]:
        before = old.get(raw["VariantName"])
        count = int(raw.get("InitialInstanceCount", 1))
        generation = 1
        if before is not None:
            count = before.desired_count if retain else count
            same = all(before.config.get(name) == raw.get(name) for name in ("ModelName", "InstanceType"))
            generation = before.generation + (0 if same else 1)
        variants.append(Variant(copy.deepcopy(raw), before.current_count if before else 0, count, generation))
    return variants
