"""From `-c` options to the stacks of roles: an app of its own, deployed by a person, once, with rights over IAM.

`cdk deploy --app ".venv/bin/python -m stacks.ci" -c repository=owner/name -c env=dev,prod --all`
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

from aws_cdk import App

from loadproof.constructs.ci.names import DEFAULT_QUALIFIER
from loadproof.constructs.ci.stack import ProviderStack, RolesStack
from loadproof.constructs.ci.trust import Platform, Repository
from loadproof.errors import ExitCode, InputError, LoadproofError, ProfileError
from loadproof.profiles import load_environment
from loadproof.profiles.schema import Environment

QUALIFIER: Final = "@aws-cdk/core:bootstrapQualifier"


def main(profiles_root: Path) -> int:
    """Synthesize into the folder the CDK CLI names. Bad input is told line by line, without a traceback."""
    app = App(builtin_cloud_formation_validation=False)
    try:
        option = app.node.try_get_context
        add_stacks(
            app,
            environments=_environments(profiles_root, option("env")),
            repository=_repository(option),
            provider=_provider(option("provider")),
        )
        app.synth()
    except LoadproofError as error:
        print(f"loadproof: {error}" if not isinstance(error, ProfileError) else error, file=sys.stderr)
        return int(error.exit_code)
    return int(ExitCode.OK)


def add_stacks(app: App, *, environments: dict[str, Environment], repository: Repository, provider: bool) -> None:
    """One stack an environment, and one an account unless the account has its provider already."""
    providers: dict[str, ProviderStack] = {}
    qualifier = app.node.try_get_context(QUALIFIER) or DEFAULT_QUALIFIER
    for name, environment in environments.items():
        roles = RolesStack(
            app, environment_name=name, environment=environment, repository=repository, qualifier=qualifier
        )
        if not provider:
            continue
        account = environment.account
        if account not in providers:
            providers[account] = ProviderStack(app, repository=repository, account=account, region=environment.region)
        roles.add_stack_dependency(providers[account], reason="roles trust the account's provider")


def _repository(option: Callable[[str], Any]) -> Repository:
    platform: Platform = option("platform") or "github"
    if platform not in get_args(Platform):
        raise InputError(f"-c platform={platform}: expected one of: {', '.join(get_args(Platform))}")
    path = option("repository")
    if not path:
        raise InputError("no repository named; add -c repository=OWNER/NAME, whose pipelines are to be trusted")
    given = {name: str(option(name)) for name in ("repository_id", "owner_id", "branch", "host") if option(name)}
    return Repository(platform, str(path), **given)


def _provider(value: object) -> bool:
    if value not in (None, "make", "existing"):
        raise InputError(f"-c provider={value}: expected make (the default), or existing where the account has one")
    return value != "existing"


def _environments(profiles_root: Path, names: object) -> dict[str, Environment]:
    allowed = sorted(path.parent.name for path in profiles_root.glob("*/environment.yaml"))
    chosen = [name.strip() for name in str(names or "").split(",") if name.strip()]
    if not chosen or (unknown := [name for name in chosen if name not in allowed]):
        found = f"unknown: {', '.join(unknown)}" if chosen else "none chosen"
        raise InputError(f"-c env=NAME[,NAME]: {found}; expected one or more of: {', '.join(allowed)}")
    return {name: load_environment(profiles_root / name) for name in chosen}
