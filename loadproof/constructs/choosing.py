"""Which profiles of which environments a deployment is of: from the CDK's `-c` options to `Deployment`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError, Problem, ProfileError
from loadproof.profiles import load_environment, load_profile, profile_files
from loadproof.profiles.loader import ENVIRONMENT_FILE, StackMaker, makers_of_one_stack, one_stack
from loadproof.profiles.names import BENCHMARK, ENVIRONMENT_NAME_FORM, NETWORK, is_environment_name


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
    _refuse_names_that_meet(deployments)
    return tuple(deployments)


def _refuse_names_that_meet(deployments: Sequence[Deployment]) -> None:
    """A profile's name is LP392; the stacks that its environment makes beside it may meet another's profile, too.

    In two regions one name is allowed, and still no application holds it twice.
    """
    made: dict[str, StackMaker] = {}
    for one in deployments:
        assert one.file is not None
        beside = one.file.parent / ENVIRONMENT_FILE
        for maker in (StackMaker(one.file), StackMaker(beside, BENCHMARK), StackMaker(beside, NETWORK)):
            if made.get(maker.stack_name) == maker or not maker.made_in(one.environment):
                continue
            for other in makers_of_one_stack(maker, one.environment):
                raise InputError(f"{one_stack(maker, other, one.environment)}; rename the profile")
            other = made.setdefault(maker.stack_name, maker)
            if other != maker:
                raise InputError(
                    f"{maker} and {other} both make {maker.stack_name}, in two places; "
                    "give one of the environments to -c env=, then the other"
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
