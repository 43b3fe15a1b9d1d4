"""From `-c env=`, `-c profile=` and `-c pause_scaling=` to stacks. Composes; what a profile means is decided elsewhere.

Synthesis is a pure function of the repository and these: no credentials, no network, no git, no clock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import App

from loadproof.constructs.benchmark.infrastructure import BenchmarkStack
from loadproof.constructs.choosing import read_deployments
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.network import NetworkStack
from loadproof.constructs.security.synthesized import judge
from loadproof.errors import InputError, LoadproofError, ProfileError
from stacks.bedrock_stack import BedrockStack
from stacks.endpoint_stack import EndpointStack
from stacks.profile_stack import ProfileStack


def main(profiles_root: Path) -> int:
    """Synthesize into the folder the CDK CLI names. Bad input is told line by line, without a traceback."""
    # CDK's own validator costs 4 to 14 s in every synthesis; the tests hold every template to cfn-lint instead.
    # Nor does it note where Node was when Python made a construct: that says nothing, and takes time for each.
    app = App(builtin_cloud_formation_validation=False, context={"aws:cdk:disable-creation-stack-traces": True})
    try:
        deployments = read_deployments(
            profiles_root,
            app.node.try_get_context("env"),
            app.node.try_get_context("profile"),
            app.node.try_get_context("pause_scaling"),
        )
        for name in (one.stack_name for one in deployments if one.scaling_paused):
            print(f"loadproof: {name}: scaling is paused until a deployment without -c pause_scaling", file=sys.stderr)
        add_stacks(app, deployments)
        app.synth()
        return int(judge(Path(app.outdir), deployments))
    except LoadproofError as error:
        print(f"loadproof: {error}" if not isinstance(error, ProfileError) else error, file=sys.stderr)
        return int(error.exit_code)


def add_stacks(app: App, deployments: Sequence[Deployment]) -> None:
    """One stack a profile; one of an environment's benchmarks and one of its VPC endpoints where it has them.

    Raises InputError with a line for every profile that cannot be provisioned.
    """
    refused: list[str] = []
    benchmarks: dict[str, BenchmarkStack] = {}
    networks: dict[str, NetworkStack] = {}
    for deployment in deployments:
        try:
            stack = _profile_stack(app, deployment)
            network = _network_stack(app, deployment, networks)
            if network is not None:
                stack.add_stack_dependency(network, reason="its containers reach AWS through the VPC endpoints")
            benchmark = _benchmark_stack(app, deployment, benchmarks)
            if benchmark is not None and stack.starts_benchmarks:
                stack.add_stack_dependency(benchmark, reason="it starts the environment's state machine")
        except InputError as error:
            refused.append(f"profile {deployment.profile.name}: {error}")
    if refused:
        raise InputError("\n".join(refused))


def _profile_stack(app: App, deployment: Deployment) -> ProfileStack:
    """By the profile's backend."""
    if deployment.profile.backend == "bedrock":
        return BedrockStack(app, deployment=deployment)
    return EndpointStack(app, deployment=deployment)


def _benchmark_stack(app: App, deployment: Deployment, made: dict[str, BenchmarkStack]) -> BenchmarkStack | None:
    """The environment's one, made when the first profile comes by."""
    name, environment = deployment.environment_name, deployment.environment
    if environment.benchmark is not None and name not in made:
        made[name] = BenchmarkStack(app, environment_name=name, environment=environment, settings=environment.benchmark)
    return made.get(name)


def _network_stack(app: App, deployment: Deployment, made: dict[str, NetworkStack]) -> NetworkStack | None:
    """Likewise, where the environment wants its VPC endpoints made."""
    name, environment, network = deployment.environment_name, deployment.environment, deployment.environment.network
    if network is not None and network.vpc_endpoints and name not in made:
        made[name] = NetworkStack(app, environment_name=name, environment=environment, network=network)
    return made.get(name)
