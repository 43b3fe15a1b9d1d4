"""Which profiles of which environments a deployment is of: from the CDK's `-c` options to `Deployment`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError, Problem, ProfileError
from loadproof.profiles import load_environment, load_profile, profile_files
from loadproof.profiles.names import ENVIRONMENT_NAME_FORM, is_environment_name, stack_name


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
        if not is_environment_name(name):
            raise InputError(
                f"-c env={names}: resources are named after the folder, so it may hold {ENVIRONMENT_NAME_FORM}; "
                f"rename {profiles_root.name}/{name}"
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
