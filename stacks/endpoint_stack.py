"""One stack a profile: reads as a table of contents."""

from __future__ import annotations

from constructs import Construct

from loadproof.constructs.buffer.target import sagemaker_target
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.execution_role import ExecutionRole
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.constructs.endpoint.proof.infrastructure import Proof
from loadproof.constructs.gate.in_cloud import benchmark_in_cloud
from loadproof.constructs.observability.alarms import Alarms
from loadproof.constructs.observability.dashboard import Dashboard
from loadproof.constructs.scaling.every_copy import scale_copies
from loadproof.constructs.staging.infrastructure import staged_weights
from stacks.profile_stack import ProfileStack


class EndpointStack(ProfileStack):
    """An LLM endpoint on SageMaker with its scaling, buffer and alarms."""

    def __init__(self, scope: Construct, *, deployment: Deployment) -> None:
        super().__init__(scope, deployment=deployment)
        weights = staged_weights(self, deployment)
        role = ExecutionRole(self, "ExecutionRole", deployment=deployment, weights=weights)
        self.endpoint = ModelEndpoint(self, "Endpoint", deployment=deployment, role=role, weights=weights)
        self._add_buffer(sagemaker_target(self.endpoint))
        scaling = scale_copies(self, endpoint=self.endpoint, buffer=self.buffer)
        alarms = Alarms(self, "Alarms", endpoint=self.endpoint, buffer=self.buffer)
        self.endpoint.update_under(alarms.on_objectives)
        Dashboard(self, "Dashboard", deployment=deployment, buffer=self.buffer, alarm_names=alarms.names)
        self._outputs()
        proof = Proof(self, "Proof", endpoint=self.endpoint, scaling=scaling)
        asked = benchmark_in_cloud(self, endpoint=self.endpoint, after=[proof, *scaling])
        if asked is not None:
            self._output("BenchmarkInput", asked, "Start the environment's benchmark with this; docs/gate.md")

    def _outputs(self) -> None:
        super()._outputs()
        endpoint = self.endpoint
        self._output("EndpointName", endpoint.resource.attr_endpoint_name, "What InvokeEndpoint is called with")
        if endpoint.components:
            names = ",".join(component.name for component in endpoint.components)
            self._output("ComponentNames", names, "Inference components; the first serves the profile's own model")
