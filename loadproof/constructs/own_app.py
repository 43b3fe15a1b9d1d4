"""Where somebody's own CDK app begins: a profile in a stack of theirs, with no folders around it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Stack, Token
from constructs import Construct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError
from loadproof.profiles import Environment, Profile, load_profile
from loadproof.profiles.secrets import shown


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
    Raises ProfileError with every problem of the file, InputError for a stack without account and region and for
    settings that no environment has.
    """
    stack = Stack.of(scope)
    if Token.is_unresolved(stack.account) or Token.is_unresolved(stack.region):
        raise InputError(
            f"stack {stack.stack_name}: names no account or region, and rights, images and prices follow from them; "
            'give it env=Environment(account="123456789012", region="us-east-1")'
        )
    given = {"account": stack.account, "region": stack.region, "tags": dict(tags or {}), **settings}
    try:
        environment = Environment.model_validate(given)
    except ValidationError as error:
        raise InputError(f"deployment_in: {'; '.join(map(_said, error.errors()))}; see docs/environments.md") from None
    file = None if isinstance(profile, Profile) else Path(profile)
    loaded = profile if isinstance(profile, Profile) else load_profile(Path(profile))
    return Deployment(environment_name, environment, loaded, file=file, own_stack_name=stack.stack_name)


def _said(error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(place, Environment.model_fields, n=1)
        return f"unknown setting `{place}`" + (f", did you mean {near[0]}?" if near else "")
    return f"{place}: {error['msg'][:1].lower()}{error['msg'][1:]}, found `{shown(error['input'])}`"
