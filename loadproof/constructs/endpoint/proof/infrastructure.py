"""What runs is what was deployed: looked at after every deployment that changes the profile or anything it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from constructs import Construct

from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import LAMBDA_LIMIT_S, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.inference_component import InferenceComponent
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.constructs.scaling.copy_bounds import copy_bounds, instance_bounds
from loadproof.constructs.scaling.copy_scaling import CopyScaling
from loadproof.profiles import profile_hash
from loadproof.profiles.images import image_of
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Component

CODE: Final = Path(__file__).parent / "runtime"


class Proof(Construct):
    """Fails the deployment, with what it found, where SageMaker turned an update back or runs something else."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint: ModelEndpoint, scaling: Sequence[CopyScaling]
    ) -> None:
        super().__init__(scope, construct_id)
        deployment = endpoint.deployment
        arns = [deployment.arn("sagemaker", f"endpoint/{endpoint.name}")]
        components = [_planned(endpoint, component) for component in endpoint.components]
        components += [
            {"Name": adapter.inference_component_name}
            for component in endpoint.components
            for adapter in component.adapters
        ]
        names = [str(component["Name"]) for component in components]
        statements = [allow("sagemaker:DescribeEndpoint", on=arns)]
        if names:
            on = [deployment.arn("sagemaker", f"inference-component/{name}") for name in names]
            statements.append(allow("sagemaker:DescribeInferenceComponent", on=on))
        stack = deployment.arn("cloudformation", f"stack/{deployment.stack_name}/*")
        function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description=f"Looks at {endpoint.name} after a deployment",
            code=CODE,
            statements=[*statements, allow("cloudformation:DescribeStacks", on=stack)],
        )
        asked = {
            "EndpointName": endpoint.name,
            "EndpointConfigName": endpoint.config_name,
            "ProfileSha256": profile_hash(deployment.profile),
            **({"Components": components} if components else {"Variants": [_variant(endpoint)]}),
        }
        resource = custom_resource(
            self, "Resource", function_arn=function.arn, timeout_s=LAMBDA_LIMIT_S + 60, properties=asked
        )
        # Of the endpoint and its configuration it knows by their attributes.
        resource.add_resource_dependency(endpoint.resource)
        for component in endpoint.components:
            for one in (component.resource, *component.adapters):
                resource.add_resource_dependency(one)
        # A scalable target with new bounds moves the count into them.
        for one_scaling in scaling:
            resource.add_resource_dependency(one_scaling.target)


def _planned(endpoint: ModelEndpoint, component: InferenceComponent) -> dict[str, Any]:
    return {
        "Name": component.name,
        "ModelName": component.model_name,
        "Image": image_of(component.component.container, endpoint.deployment.environment.region),
        **_counts(endpoint.deployment, component.component, copy_bounds(component.component)),
    }


def _variant(endpoint: ModelEndpoint) -> dict[str, Any]:
    """A plain variant has one copy an instance."""
    deployment = endpoint.deployment
    component, machines = deployment.components[0], deployment.profile.endpoint
    assert machines is not None  # ModelEndpoint refused a profile without
    return {
        "Name": VARIANT_NAME,
        "Image": image_of(component.container, deployment.environment.region),
        **_counts(deployment, component, instance_bounds(component, machines)),
    }


def _counts(deployment: Deployment, component: Component, bounds: tuple[int, int]) -> dict[str, int]:
    """Nothing holds a count that is scaled within its bounds while its scaling is paused."""
    if deployment.scaling_paused and component.scaling is not None:
        return {}
    fewest, most = bounds
    return {"Fewest": fewest, "Most": most}
