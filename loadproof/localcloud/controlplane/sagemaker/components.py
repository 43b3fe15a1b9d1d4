"""Inference components: model copies on an endpoint's instances."""

from __future__ import annotations

from loadproof.localcloud.controlplane.sagemaker.base import Operations, page
from loadproof.localcloud.controlplane.sagemaker.capacity import instance_types
from loadproof.localcloud.controlplane.sagemaker.deployments import course_of
from loadproof.localcloud.controlplane.sagemaker.endpoints import deployed_images
from loadproof.localcloud.controlplane.sagemaker.rules import (
    check_component_deployment,
    check_specifications,
    hosts_components,
)
from loadproof.localcloud.controlplane.sagemaker.store import Component, Rollout, Variant, refuse, utc_now
from loadproof.localcloud.wire import Caller, Params, key, known
from loadproof.wire.documents import Document


class ComponentOperations(Operations):
    """Copies, and what each one takes of its instance."""

    def CreateInferenceComponent(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        name = params["InferenceComponentName"]
        self.settle()
        arn = self.store.components.new_arn(caller, name)
        specifications = _specifications(params)
        variant = self._host(caller, params, specifications[0])
        check_specifications(self.store, caller, specifications, variant.config, params["EndpointName"])
        copies = self._first_copies(caller, params, specifications[0])
        self.tag(arn, params.get("Tags"))
        self.store.components[key(caller, name)] = Component(
            name=name,
            arn=arn,
            caller=caller,
            endpoint_name=params["EndpointName"],
            variant_name=variant.name,
            specifications=specifications,
            desired_copies=copies,
            status="Creating",
            ready_at_s=self.store.clock() + self.store.timing.component_s,
        )
        return {"InferenceComponentArn": arn}

    def UpdateInferenceComponent(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        component = self._component(caller, params["InferenceComponentName"])
        if component.status not in ("InService", "Failed"):
            raise refuse(f'Cannot update in-progress inference component "{component.arn}".')
        pending = self._checked_update(caller, component, params)
        settings = params.get("DeploymentConfig")
        copies = int(params["RuntimeConfig"]["CopyCount"]) if params.get("RuntimeConfig") else None
        if settings is not None:
            check_component_deployment(self.store, caller, settings, component.desired_copies)
        serving = component.status == "InService" and component.desired_copies > 0
        component.pending, component.pending_copies = pending, copies
        component.deployment = settings or component.deployment
        self._begin_update(component)
        if settings is not None and pending is not None and serving:
            component.rollout = Rollout(
                course=course_of(settings, self.store.timing.component_s, component.desired_copies),
                settings=settings,
                capacity=component.desired_copies,
                began_s=self.store.clock(),
            )
        return {"InferenceComponentArn": component.arn}

    def UpdateInferenceComponentRuntimeConfig(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        component = self._component(caller, params["InferenceComponentName"])
        if component.status != "InService":
            raise refuse(f'Cannot update in-progress inference component "{component.arn}".')
        component.pending_copies = int(params["DesiredRuntimeConfig"]["CopyCount"])
        self._begin_update(component)
        return {"InferenceComponentArn": component.arn}

    def DescribeInferenceComponent(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        component = self._component(caller, params["InferenceComponentName"])
        desired = component.pending_copies
        return known(
            **self._row(caller, component),
            **self._summaries(caller, component),
            FailureReason=component.failure_reason,
            RuntimeConfig={
                "DesiredCopyCount": component.desired_copies if desired is None else desired,
                "CurrentCopyCount": component.copies,
                **self._placement(component),
            },
            LastDeploymentConfig=component.deployment,
        )

    def ListInferenceComponents(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        self.settle()
        rows = [
            self._row(caller, one)
            for one in self.store.components.of(caller)
            if one.status == params.get("StatusEquals", one.status)
            and one.endpoint_name == params.get("EndpointNameEquals", one.endpoint_name)
            and one.variant_name == params.get("VariantNameEquals", one.variant_name)
        ]
        return page(rows, params, "InferenceComponentName", "InferenceComponents")

    def DeleteInferenceComponent(self, caller: Caller, params: Params) -> None:  # noqa: N802
        component = self._component(caller, params["InferenceComponentName"])
        if component.status == "Deleting":
            return
        adapters = [
            one.name
            for one in self.store.components_of(caller, component.endpoint_name)
            if one.base_name == component.name
        ]
        if adapters:
            raise refuse(f"Cannot delete {component.name}: it is the base of adapters {', '.join(adapters)}.")
        component.status, component.modified, component.rollout = "Deleting", utc_now(), None
        component.ready_at_s = self.store.clock() + self.store.timing.delete_s

    def _begin_update(self, component: Component) -> None:
        component.status, component.modified, component.failure_reason = "Updating", utc_now(), None
        component.ready_at_s = self.store.clock() + self.store.timing.component_s

    def _checked_update(self, caller: Caller, component: Component, params: Params) -> list[Document] | None:
        """The specifications that the containers must be started anew for; None where they may go on."""
        if "Specification" not in params and "Specifications" not in params:
            return None
        specifications = _specifications(params)
        variant = self._variant_of(component)
        check_specifications(self.store, caller, specifications, variant.config, component.endpoint_name)
        unchanged = specifications == component.specifications and component.status != "Failed"
        return None if unchanged else specifications

    def _component(self, caller: Caller, name: str) -> Component:
        self.settle()
        return self.store.components.find(caller, name)

    def _row(self, caller: Caller, component: Component) -> Document:
        """As a listing shows it."""
        return {
            "InferenceComponentName": component.name,
            "InferenceComponentArn": component.arn,
            "EndpointName": component.endpoint_name,
            "EndpointArn": self.store.endpoints.arn(caller, component.endpoint_name),
            "VariantName": component.variant_name,
            "InferenceComponentStatus": component.status,
            "CreationTime": component.created,
            "LastModifiedTime": component.modified,
        }

    def _host(self, caller: Caller, params: Params, specification: Document) -> Variant:
        """The variant that the component goes to; an adapter takes its base's."""
        name = params["EndpointName"]
        endpoint = self.store.endpoints.find(caller, name)
        if endpoint.status == "Deleting":
            raise refuse(f'Could not find endpoint "{endpoint.arn}".')
        variant_name = params.get("VariantName")
        base = self.store.components.named(caller, specification.get("BaseInferenceComponentName", ""))
        if variant_name is None and base is not None:
            variant_name = base.variant_name
        if variant_name is None:
            raise refuse("VariantName is required for a base inference component.")
        for variant in endpoint.variants:
            if variant.name == variant_name:
                if not hosts_components(variant.config):
                    raise refuse(
                        f"Variant {variant_name} of endpoint {name} has a ModelName: inference components are "
                        "created only on variants without one."
                    )
                return variant
        raise refuse(f"Endpoint {name} has no variant {variant_name}.")

    def _variant_of(self, component: Component) -> Variant:
        endpoint = self.store.endpoints.find(component.caller, component.endpoint_name)
        return next(variant for variant in endpoint.variants if variant.name == component.variant_name)

    def _first_copies(self, caller: Caller, params: Params, specification: Document) -> int:
        base_name = specification.get("BaseInferenceComponentName")
        if base_name:
            return self.store.components.find(caller, base_name).desired_copies
        if not params.get("RuntimeConfig"):
            raise refuse("RuntimeConfig is required for a base inference component.")
        copies = int(params["RuntimeConfig"]["CopyCount"])
        if copies < 1:
            raise refuse(
                "RuntimeConfig.CopyCount must be at least 1 when an inference component is created, found "
                f"{copies}; scale it to zero afterwards."
            )
        return copies

    def _summaries(self, caller: Caller, component: Component) -> Document:
        shown = [self._summary(caller, component, one) for one in component.specifications]
        return {"Specification": shown[0]} if len(shown) == 1 else {"Specifications": shown}

    def _placement(self, component: Component) -> Document:
        """Copies by instance type, where a variant has pools."""
        variant = self._variant_of(component)
        if "InstancePools" not in variant.config:
            return {}
        base = component.base_name or component.name
        return {
            "PlacementStatus": [
                {
                    "InstanceType": kind,
                    "CurrentCopyCount": sum(
                        variant.copies.get(name, {}).get(kind, 0) for name in (base, f"{base}/next")
                    ),
                }
                for kind in instance_types(variant.config)
            ]
        }

    def _summary(self, caller: Caller, component: Component, specification: Document) -> Document:
        """A specification as Describe gives it: images appear as DeployedImage."""
        shown = {name: value for name, value in specification.items() if name != "Container"}
        container = dict(specification.get("Container", {}))
        image = container.pop("Image", None)
        if image:
            container["DeployedImage"] = {"SpecifiedImage": image, "ResolutionTime": component.modified}
        model = self.store.models.named(caller, specification.get("ModelName", ""))
        if model is not None and deployed_images(model):
            container.setdefault("DeployedImage", deployed_images(model)[0])
        if container:
            shown["Container"] = container
        shown.setdefault("DataCacheConfig", {"EnableCaching": False})
        return shown


def _specifications(params: Params) -> list[Document]:
    """One specification for all instance types, or one for each of several."""
    if bool(params.get("Specification")) == bool(params.get("Specifications")):
        raise refuse("Exactly one of Specification and Specifications is required.")
    return [params["Specification"]] if params.get("Specification") else list(params["Specifications"])
