"""The endpoint of a profile: models, configuration, endpoint, and the copies on it."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnResource, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from loadproof.constructs.cdk.resource import attribute
from loadproof.constructs.cdk.statements import Statement, allow
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.deployment_policy import endpoint_deployment
from loadproof.constructs.endpoint.endpoint_config import endpoint_config_resource
from loadproof.constructs.endpoint.endpoint_logs import endpoint_log_group
from loadproof.constructs.endpoint.execution_role import ExecutionRole
from loadproof.constructs.endpoint.inference_component import InferenceComponent
from loadproof.constructs.endpoint.kept_copies.infrastructure import KeptCopies
from loadproof.constructs.endpoint.models import model_resource
from loadproof.constructs.staging.infrastructure import StagedWeights, staged_weights
from loadproof.errors import InputError


class ModelEndpoint(Construct):
    """A SageMaker endpoint with inference components, or with one plain variant.

    The endpoint's logical id depends on nothing an edit may change: a new model, image or instance type replaces
    the model and the configuration, and the endpoint moves over to them in place. Without `role` it makes the role of
    its containers itself, and stages the weights that the profile takes from a hub.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        role: ExecutionRole | None = None,
        weights: StagedWeights | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if role is None:
            weights = weights or staged_weights(self, deployment)
            role = ExecutionRole(self, "Role", deployment=deployment, weights=weights)
        endpoint = deployment.profile.endpoint
        if endpoint is None:
            raise InputError("endpoint: nothing is given, but backend sagemaker needs instances; add `endpoint:`")
        self.deployment = deployment
        for name, value in deployment.owner_tags.items():
            Tags.of(self).add(name, value)
        self._machines = endpoint
        models = self._models(role, weights)
        model_names = {name: attribute(model, "ModelName") for name, model in models.items()}
        self.model_names = list(model_names.values())
        config = endpoint_config_resource(
            self,
            "Config",
            deployment=deployment,
            endpoint=endpoint,
            role_arn=role.arn,
            model_name=None if deployment.hosts_components else model_names["main"],
        )
        self.config_name = attribute(config, "EndpointConfigName")
        for user in (*models.values(), config):
            role.before(user)
        self.resource = self._endpoint()
        logs = endpoint_log_group(self, "Logs", name=f"/aws/sagemaker/Endpoints/{self.name}", deployment=deployment)
        self.resource.add_resource_dependency(logs)
        scaled = deployment.hosts_components and any(one.scaling is not None for one in deployment.components)
        kept_copies = KeptCopies(self, "KeptCopies", deployment=deployment) if scaled else None
        self.components = (
            [
                InferenceComponent(
                    self,
                    deployment=deployment,
                    component=component,
                    endpoint=endpoint,
                    endpoint_resource=self.resource,
                    model_name=model_names[component.name],
                    kept_copies=kept_copies,
                )
                for component in deployment.components
            ]
            if deployment.hosts_components
            else []
        )

    def _models(self, role: ExecutionRole, weights: StagedWeights | None) -> dict[str, CfnResource]:
        """One of each component, by its name."""
        return {
            component.name: model_resource(
                self,
                f"Model-{component.name}",
                deployment=self.deployment,
                component=component,
                role_arn=role.arn,
                staged_uri=weights.uris.get(component.name) if weights else None,
            )
            for component in self.deployment.components
        }

    def update_under(self, alarms: Sequence[CfnResource]) -> None:
        """How updates go on, rolled back by `alarms` on the profile's own model; once, when the alarms exist."""
        if not self.components:
            self.resource.deployment_config = endpoint_deployment(self._machines, alarms)
        for position, component in enumerate(self.components):
            component.update_under(alarms if position == 0 else ())

    @property
    def name(self) -> str:
        return self.deployment.endpoint_name

    @property
    def main_component_name(self) -> str | None:
        """The component that serves the profile's own model; None for a plain variant."""
        return self.components[0].name if self.components else None

    def invoke_statement(self) -> Statement:
        """The right to invoke, streaming or not, exactly this endpoint and its components."""
        arns = [self.deployment.arn("sagemaker", f"endpoint/{self.name}")]
        arns += [
            self.deployment.arn("sagemaker", f"inference-component/{component.name}") for component in self.components
        ]
        return allow("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream", on=arns)

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Give that right to somebody."""
        grantee.grant_principal.add_to_principal_policy(iam.PolicyStatement.from_json(self.invoke_statement()))

    def _endpoint(self) -> sagemaker.CfnEndpoint:
        """An update keeps what autoscaling has reached, and takes from the profile what nothing else decides."""
        from_profile = ["DataCaptureConfig"]
        if not self.deployment.hosts_components and self.deployment.profile.scaling is None:
            from_profile.append("DesiredInstanceCount")
        return sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=self.name,
            endpoint_config_name=self.config_name,
            retain_all_variant_properties=True,
            exclude_retained_variant_properties=[
                sagemaker.CfnEndpoint.VariantPropertyProperty(variant_property_type=kind) for kind in from_profile
            ],
        )
