"""One stack a profile: reads as a table of contents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from constructs import Construct, IConstruct

from loadproof.capacity.duration import gate_problem
from loadproof.errors import InputError
from loadproof.profiles import is_staged
from loadproof.profiles.gating import LONGEST_RUN_S
from stacks.alarms import Alarms
from stacks.benchmark.bundle import bundle_asset
from stacks.benchmark.execution import benchmark_input
from stacks.benchmark.schedule import BenchmarkSchedule
from stacks.buffer.target import sagemaker_target
from stacks.context import Deployment
from stacks.copy_scaling import CopyScaling
from stacks.dashboard import Dashboard
from stacks.execution_role import ExecutionRole
from stacks.gate.infrastructure import Gate
from stacks.model_endpoint import ModelEndpoint
from stacks.profile_stack import ProfileStack
from stacks.proof.infrastructure import Proof
from stacks.staging.infrastructure import StagedWeights


class EndpointStack(ProfileStack):
    """An LLM endpoint on SageMaker with its scaling, buffer and alarms."""

    def __init__(self, scope: Construct, *, deployment: Deployment) -> None:
        super().__init__(scope, deployment=deployment)
        profile = deployment.profile
        staged = any(is_staged(component.model, profile) for component in deployment.components)
        weights = StagedWeights(self, "Weights", deployment=deployment) if staged else None
        role = ExecutionRole(self, "ExecutionRole", deployment=deployment, weights=weights)
        self.endpoint = ModelEndpoint(self, "Endpoint", deployment=deployment, role=role, weights=weights)
        self._put_in_front(sagemaker_target(self.endpoint))
        scaling = self._scale()
        alarms = Alarms(self, "Alarms", endpoint=self.endpoint, objectives=profile.objectives, buffer=self.buffer)
        self.endpoint.update_under(alarms.on_objectives)
        Dashboard(self, "Dashboard", deployment=deployment, buffer=self.buffer, alarm_names=alarms.names)
        self._outputs()
        self._benchmark(after=[Proof(self, "Proof", endpoint=self.endpoint, scaling=scaling), *scaling])

    def _benchmark(self, *, after: Sequence[IConstruct]) -> None:
        """What starts this profile's benchmark in the cloud, where the environment has one."""
        deployment, wanted = self.endpoint.deployment, self.endpoint.deployment.profile.benchmark
        if deployment.environment.benchmark is None:
            if self.starts_benchmarks:
                raise InputError("benchmark: gate and schedule need `benchmark:` with an image in environment.yaml")
            return
        bundle = bundle_asset(self, deployment)
        asked = json.dumps(benchmark_input(deployment, bundle, longest_s=LONGEST_RUN_S))
        self._output("BenchmarkInput", asked, "Start the environment's benchmark with this; docs/gate.md")
        if wanted.schedule is not None:
            BenchmarkSchedule(self, "BenchmarkSchedule", deployment=deployment, bundle=bundle, schedule=wanted.schedule)
        too_long = gate_problem(deployment.profile)
        if too_long is not None:
            raise InputError(f"LP269 benchmark.gate: {'; '.join(too_long)}")
        if wanted.gate != "none":
            Gate(self, "Gate", endpoint=self.endpoint, bundle=bundle, after=after)

    def _scale(self) -> list[CopyScaling]:
        made: list[CopyScaling] = []
        deployment, components = self.endpoint.deployment, self.endpoint.components
        machines = deployment.profile.endpoint
        if deployment.scaling_paused or machines is None:
            return made
        for component in components:
            wanted = component.component
            if wanted.scaling is not None:
                made.append(
                    CopyScaling(
                        self,
                        f"Scaling-{wanted.name}",
                        deployment=deployment,
                        scaling=wanted.scaling,
                        min_copies=wanted.copies.min,
                        max_copies=wanted.copies.max,
                        component_name=component.name,
                        scaled=component.resource,
                        buffer=self.buffer,
                    )
                )
        scaling = deployment.components[0].scaling
        if not components and scaling is not None:
            # A plain variant has one copy an instance, so its copies are its instances.
            made.append(
                CopyScaling(
                    self,
                    "Scaling-main",
                    deployment=deployment,
                    scaling=scaling,
                    min_copies=machines.min_instances,
                    max_copies=machines.max_instances,
                    component_name=None,
                    scaled=self.endpoint.resource,
                    buffer=self.buffer,
                )
            )
        return made

    def _outputs(self) -> None:
        super()._outputs()
        endpoint = self.endpoint
        self._output("EndpointName", endpoint.resource.attr_endpoint_name, "What InvokeEndpoint is called with")
        if endpoint.components:
            names = ",".join(component.name for component in endpoint.components)
            self._output("ComponentNames", names, "Inference components; the first serves the profile's own model")
