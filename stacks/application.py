"""From `-c env=`, `-c profile=` and `-c pause_scaling=` to stacks. Composes; what a profile means is decided elsewhere.

Synthesis is a pure function of the repository and these: no credentials, no network, no git, no clock.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aws_cdk import App

from loadproof.errors import ExitCode, InputError, LoadproofError, Problem, ProfileError
from loadproof.profiles import load_environment, load_profile, profile_files
from loadproof.profiles.names import stack_name
from stacks.bedrock.stack import BedrockStack
from stacks.benchmark.infrastructure import BenchmarkStack
from stacks.context import Deployment
from stacks.endpoint_stack import EndpointStack
from stacks.network import NetworkStack
from stacks.profile_stack import ProfileStack
from stacks.security.synthesized import findings_of

_ENVIRONMENT_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 40  # rights hold for the prefix `loadproof-<environment>-`, which no shortened name may lose


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
        return int(_judged(Path(app.outdir), deployments))
    except LoadproofError as error:
        print(f"loadproof: {error}" if not isinstance(error, ProfileError) else error, file=sys.stderr)
        return int(error.exit_code)


def read_deployments(
    profiles_root: Path, environment_names: str | None, wanted: str | None, paused: str | None = None
) -> tuple[Deployment, ...]:
    """The chosen profiles of the chosen environments, chosen by file name before anything is read or built.

    Each is a comma-separated list. `wanted` is None for every profile, and else names profiles that every chosen
    environment has; `paused` are those of them that are deployed without their scaling, None for none. Raises
    InputError with what is allowed, and ProfileError with every problem of every chosen file.
    """
    problems: list[Problem] = []
    deployments: list[Deployment] = []
    for folder in _environment_folders(profiles_root, environment_names):
        by_name = {file.stem: file for file in profile_files(profiles_root, folder.name)}
        chosen = _chosen(by_name, wanted, "profile", folder.name)
        pausing = () if paused is None else _chosen(by_name, paused, "pause_scaling", folder.name)
        if idle := [name for name in pausing if name not in chosen]:
            raise InputError(
                f"-c pause_scaling={paused}: {', '.join(idle)} is not deployed; add it to -c profile={wanted}"
            )
        try:
            environment = load_environment(folder)
        except ProfileError as error:
            problems.extend(error.problems)
        for name in chosen:
            try:
                profile = load_profile(by_name[name])
            except ProfileError as error:
                problems.extend(error.problems)
                continue
            if not problems:
                deployments.append(
                    Deployment(folder.name, environment, profile, scaling_paused=name in pausing, file=by_name[name])
                )
    if problems:
        raise ProfileError(problems)
    _refuse_names_that_meet(profiles_root, deployments)
    return tuple(deployments)


def _refuse_names_that_meet(profiles_root: Path, deployments: Sequence[Deployment]) -> None:
    """`eu-chat` of `prod` and `chat` of `prod-eu` make one name: in one place, either would become the other."""
    named: dict[str, list[tuple[str, str]]] = {}
    for folder in sorted(file.parent for file in profiles_root.glob("*/environment.yaml")):
        for file in profile_files(profiles_root, folder.name):
            named.setdefault(stack_name(folder.name, file.stem), []).append((folder.name, file.stem))
    for one in deployments:
        for environment_name, profile_name in named.get(one.stack_name, ()):
            if environment_name == one.environment_name:
                continue
            other = load_environment(profiles_root / environment_name)
            if (other.account, other.region) == (one.environment.account, one.environment.region):
                raise InputError(
                    f"{one.environment_name}/{one.profile.name}.yaml and {environment_name}/{profile_name}.yaml are "
                    f"one stack, {one.stack_name}, in account {other.account} and {other.region}; rename one of them"
                )


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


def _judged(assembly: Path, deployments: Sequence[Deployment]) -> ExitCode:
    """Tell what the rules over templates found and nobody acknowledged; an error among it stops the CDK CLI."""
    open_ = [(name, finding) for name, finding in findings_of(assembly, deployments) if not finding.acknowledged]
    for name, finding in open_:
        print(f"loadproof: {name}: {finding}", file=sys.stderr)
    return ExitCode.MISSED if any(finding.stops for _, finding in open_) else ExitCode.OK


def _environment_folders(profiles_root: Path, names: str | None) -> list[Path]:
    allowed = sorted(path.parent.name for path in profiles_root.glob("*/environment.yaml"))
    chosen = [name.strip() for name in str(names).split(",") if name.strip()] if names is not None else []
    if not chosen:
        raise InputError(f"no environment chosen; add -c env=NAME, one of: {', '.join(allowed)}")
    for name in chosen:
        if name not in allowed:
            raise InputError(
                f"-c env={names}: no {profiles_root.name}/{name}/environment.yaml; one of: {', '.join(allowed)}"
            )
        if not _ENVIRONMENT_NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise InputError(
                f"-c env={names}: resources are named after the folder, so it may hold a-z, 0-9 and single hyphens "
                f"only, {_LONGEST_NAME} of them at most; rename {profiles_root.name}/{name}"
            )
    return [profiles_root / name for name in dict.fromkeys(chosen)]


def _chosen(by_name: Mapping[str, Path], wanted: str | None, option: str, environment_name: str) -> tuple[str, ...]:
    """The names that `-c <option>=` lists, each once; all for None."""
    if not by_name:
        raise InputError(f"environment {environment_name} has no profile yet; add one beside its environment.yaml")
    names = list(by_name) if wanted is None else [name.strip() for name in str(wanted).split(",") if name.strip()]
    unknown = [name for name in names if name not in by_name]
    if unknown or not names:
        found = f"{', '.join(unknown)} is not in environment {environment_name}" if unknown else "no name in it"
        raise InputError(f"-c {option}={wanted}: {found}; one or more (comma-separated) of: {', '.join(by_name)}")
    return tuple(dict.fromkeys(names))
