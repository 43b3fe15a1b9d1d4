"""Where somebody's own CDK app begins: a profile in a stack of theirs, with no folders around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Stack, Token
from constructs import Construct

from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError
from loadproof.profiles import Environment, Profile, load_profile


def deployment_in(
    scope: Construct,
    profile: Path | str | Profile,
    *,
    environment_name: str = "prod",
    tags: Mapping[str, str] | None = None,
    **settings: object,
) -> Deployment:
    """One profile in the account and region of the stack that `scope` is in: what the constructs are given.

    `profile` is a file or a profile that was loaded. `environment_name` is part of every name, so that two
    environments can share an account. `settings` are those of an environment.yaml (`kms_key_arn`, `network`, ...).
    Raises ProfileError with every problem of the file, InputError for a stack without account and region.
    """
    stack = Stack.of(scope)
    if Token.is_unresolved(stack.account) or Token.is_unresolved(stack.region):
        raise InputError(
            f"stack {stack.stack_name}: names no account or region, and rights, images and prices follow from them; "
            'give it env=Environment(account="123456789012", region="us-east-1")'
        )
    environment = Environment.model_validate(
        {"account": stack.account, "region": stack.region, "tags": dict(tags or {}), **settings}
    )
    file = None if isinstance(profile, Profile) else Path(profile)
    loaded = profile if isinstance(profile, Profile) else load_profile(Path(profile))
    return Deployment(environment_name, environment, loaded, file=file, own_stack_name=stack.stack_name)
