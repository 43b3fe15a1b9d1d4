"""What IAM refuses beyond its service model."""

from __future__ import annotations

from typing import Any

from moto.backends import get_backend

from loadproof.localcloud.controlplane.wire import Caller, Params
from loadproof.localcloud.refusals.rules import Rule, check_policy, check_tags, require

# Services whose service-linked role takes no suffix, of those that stacks here lead to (recorded).
_NO_SUFFIX = {
    "batch", "ecs", "elasticloadbalancing", "rds", "elasticache", "cloudtrail", "config", "ram", "sso", "ssm", "acm",
    "backup", "lightsail", "grafana", "waf", "shield", "redshift", "mq", "fis", "lex", "ses", "ecr",
}  # fmt: skip


def _backend(caller: Caller) -> Any:
    return get_backend("iam")[caller.account]["aws"]


def _create_role(caller: Caller, params: Params) -> None:
    check_policy(params["AssumeRolePolicyDocument"], trust=True)
    check_tags([tag["Key"] for tag in params.get("Tags") or []], "InvalidInput")


def _update_trust(caller: Caller, params: Params) -> None:
    check_policy(params["PolicyDocument"], trust=True)


def _policy(caller: Caller, params: Params) -> None:
    check_policy(params["PolicyDocument"])


def _attach(caller: Caller, params: Params) -> None:
    arn = params["PolicyArn"]
    require(arn.startswith("arn:"), "ValidationError", f"Invalid ARN:  Could not be parsed!: {arn}")


def _delete_policy(caller: Caller, params: Params) -> None:
    arn = params["PolicyArn"]
    known = arn in _backend(caller).managed_policies
    require(known, "NoSuchEntity", f"Policy {arn} was not found.", 404)


def _linked(caller: Caller, params: Params) -> None:
    name = params["AWSServiceName"]
    service = name.split(".")[0]
    suffix = params.get("CustomSuffix")
    require(not suffix or service not in _NO_SUFFIX, "InvalidInput", f"Custom suffix is not allowed for {name}")
    taken = [
        one.name for one in _backend(caller).roles.values() if one.path == f"/aws-service-role/{name}/" and not suffix
    ]
    message = "has been taken in this account, please try a different suffix."
    require(not taken, "InvalidInput", f"Service role name {taken[0] if taken else ''} {message}")


RULES: dict[str, Rule] = {
    "CreateRole": _create_role,
    "UpdateAssumeRolePolicy": _update_trust,
    "CreatePolicy": _policy,
    "CreatePolicyVersion": _policy,
    "PutRolePolicy": _policy,
    "PutUserPolicy": _policy,
    "AttachRolePolicy": _attach,
    "AttachUserPolicy": _attach,
    "DeletePolicy": _delete_policy,
    "CreateServiceLinkedRole": _linked,
}
