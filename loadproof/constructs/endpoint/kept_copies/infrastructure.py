"""What keeps a deployment from undoing what scaling has reached.

CloudFormation sends a component's CopyCount whenever it changes anything of it. So the count of a scaled component is
an attribute of a custom resource, which reads the present count and holds it within the profile's bounds. It waits
for scaling that is at work, since SageMaker refuses to change a component meanwhile. It carries the component's own
properties too: both change together, so it is asked exactly when it matters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aws_cdk import Token
from constructs import Construct

from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import LAMBDA_LIMIT_S, Program, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.copy_bounds import copy_bounds
from loadproof.profiles.schema import Component

CODE: Final = Path(__file__).parent / "runtime" / "index.py"


class KeptCopies(Construct):
    """One function for all scaled components of an endpoint, which may look at exactly those."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        names = [deployment.component_name(one) for one in deployment.components if one.scaling is not None]
        self._function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description="Reads how many copies a component has before CloudFormation changes it",
            program=Program(CODE),
            statements=[
                allow(
                    "sagemaker:DescribeInferenceComponent",
                    on=[deployment.arn("sagemaker", f"inference-component/{name}") for name in names],
                )
            ],
        )

    def count_of(self, scope: Construct, component: Component, name: str) -> KeptCopyCount:
        """The count of one component; a construct of `scope`, so that it goes where the component goes."""
        return KeptCopyCount(scope, "Copies", component=component, name=name, function_arn=self._function.arn)


class KeptCopyCount(Construct):
    """How many copies CloudFormation is to send for one component."""

    def __init__(
        self, scope: Construct, construct_id: str, *, component: Component, name: str, function_arn: str
    ) -> None:
        super().__init__(scope, construct_id)
        asked = {
            "ComponentName": name,
            # CreateInferenceComponent refuses 0; a component that may scale to zero starts with one copy.
            "FirstCopies": max(1, component.copies.min),
            "FewestCopies": copy_bounds(component)[0],
            "MostCopies": component.copies.max,
        }
        self._resource = custom_resource(
            self, "Resource", function_arn=function_arn, timeout_s=LAMBDA_LIMIT_S + 60, properties=asked
        )

    @property
    def value(self) -> float:
        return Token.as_number(self._resource.get_att("CopyCount"))

    def changes_with(self, *properties: Any) -> None:
        """Ask again whenever one of these changes. They are the component's own, complete."""
        self._resource.add_property_override("ChangesWith", list(properties))
