"""What IAM refuses beyond its service model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from loadproof.localcloud.refusals import attached
from loadproof.localcloud.refusals.attached import iam_of, unmodifiable
from loadproof.localcloud.refusals.rules import Rule, check_policy, check_tags, require
from loadproof.localcloud.wire import AwsError, Caller, Params

# Services whose service-linked role takes no suffix, of those that stacks here lead to (recorded).
_NO_SUFFIX = {
    "batch", "ecs", "elasticloadbalancing", "rds", "elasticache", "cloudtrail", "config", "ram", "sso", "ssm", "acm",
    "backup", "lightsail", "grafana", "waf", "shield", "redshift", "mq", "fis", "lex", "ses", "ecr",
}  # fmt: skip


# IAM and STS quotas: characters of a policy, white space left out.
_MOST_OF_ROLE, _MOST_OF_USER, _MOST_OF_POLICY, _MOST_OF_TRUST = 10_240, 2_048, 6_144, 2_048
_MOST_ATTACHED = 10


def _create_role(caller: Caller, params: Params) -> None:
    _check_new("Role", params["RoleName"], [one.name for one in iam_of(caller).roles.values()])
    _check_trust(caller, params["AssumeRolePolicyDocument"])
    _check_boundary(caller, params)
    _check_tags(params)


def _check_tags(params: Params, kept: Iterable[str] = ()) -> None:
    check_tags([tag["Key"] for tag in params.get("Tags") or []], "InvalidInput", "LimitExceeded", kept, 409)


def _create_user(caller: Caller, params: Params) -> None:
    _check_new("User", params["UserName"], iam_of(caller).users)
    _check_boundary(caller, params)
    _check_tags(params)


def _create_group(caller: Caller, params: Params) -> None:
    _check_new("Group", params["GroupName"], iam_of(caller).groups)


def _check_new(kind: str, name: str, taken: Iterable[str]) -> None:
    """Names are not distinguished by case."""
    known = name.lower() in {one.lower() for one in taken}
    require(not known, "EntityAlreadyExists", f"{kind} with name {name} already exists.", 409)


def _create_profile(caller: Caller, params: Params) -> None:
    _check_tags(params)


def _tag_role(caller: Caller, params: Params) -> None:
    named = [role for role in iam_of(caller).roles.values() if role.name == params["RoleName"]]
    _check_tags(params, [tag["Key"] for role in named for tag in role.tags or ()])


def _tag_user(caller: Caller, params: Params) -> None:
    user = iam_of(caller).users.get(params["UserName"])
    _check_tags(params, iam_of(caller).tagger.get_tag_dict_for_resource(user.arn) if user is not None else ())


def _tag_policy(caller: Caller, params: Params) -> None:
    policy = iam_of(caller).managed_policies.get(params["PolicyArn"])
    _check_tags(params, [tag["Key"] for tag in policy.tags.values()] if policy is not None else ())


def _tag_profile(caller: Caller, params: Params) -> None:
    profile = iam_of(caller).instance_profiles.get(params["InstanceProfileName"])
    _check_tags(params, [tag["Key"] for tag in profile.tags] if profile is not None else ())


def _check_boundary(caller: Caller, params: Params) -> None:
    arn = params.get("PermissionsBoundary")
    message = f"Scope ARN: {arn} does not exist or is not attachable."
    require(not arn or arn in iam_of(caller).managed_policies, "NoSuchEntity", message, 404)


def _rename(kind: str, caller: Caller, params: Params) -> None:
    name, taken = params.get(f"New{kind}Name"), iam_of(caller).users if kind == "User" else iam_of(caller).groups
    if name:
        _check_new(kind, name, [one for one in taken if one != params[f"{kind}Name"]])


def _bound_role(caller: Caller, params: Params) -> None:
    unmodifiable(caller, params)
    _check_boundary(caller, params)


def _update_trust(caller: Caller, params: Params) -> None:
    unmodifiable(caller, params)
    _check_trust(caller, params["PolicyDocument"])


def _check_trust(caller: Caller, document: str) -> None:
    """Also that users and roles of this account, which a policy trusts, exist."""
    check_policy(document, trust=True)
    _check_size(document, _MOST_OF_TRUST, "Cannot exceed quota for ACLSizePerRole")
    for arn in unknown_principals(caller, document):
        raise AwsError("MalformedPolicyDocument", f'Invalid principal in policy: "AWS":"{arn}"')


def unknown_principals(caller: Caller, document: str) -> list[str]:
    """ARNs of the caller's account that a document names and nobody has; of other accounts nobody can tell."""
    backend = iam_of(caller)
    known = {one.arn for one in (*backend.roles.values(), *backend.users.values())}
    named = re.findall(rf'"(arn:aws:iam::{caller.account}:(?:role|user)/[^"*]+)"', document)
    return [arn for arn in named if arn not in known]


def _policy(caller: Caller, params: Params) -> None:
    check_policy(params["PolicyDocument"])
    _check_size(params["PolicyDocument"], _MOST_OF_POLICY, "Cannot exceed quota for PolicySize")


def _create_policy(caller: Caller, params: Params) -> None:
    _policy(caller, params)
    _check_tags(params)


def _role_policy(caller: Caller, params: Params) -> None:
    unmodifiable(caller, params)
    check_policy(params["PolicyDocument"])
    named = [role for role in iam_of(caller).roles.values() if role.name == params["RoleName"]]
    others = [text for role in named for name, text in role.policies.items() if name != params["PolicyName"]]
    whole = "".join([*others, params["PolicyDocument"]])
    _check_size(whole, _MOST_OF_ROLE, f"Maximum policy size of {_MOST_OF_ROLE} bytes exceeded for role")


def _user_policy(caller: Caller, params: Params) -> None:
    check_policy(params["PolicyDocument"])
    _check_size(params["PolicyDocument"], _MOST_OF_USER, f"Maximum policy size of {_MOST_OF_USER} bytes exceeded")


def _check_size(document: str, most: int, message: str) -> None:
    length = len(re.sub(r"\s", "", document))
    require(length <= most, "LimitExceeded", f"{message}: {most}", 409)


def _attach(caller: Caller, params: Params) -> None:
    if "RoleName" in params:
        unmodifiable(caller, params)
    arn = params["PolicyArn"]
    require(arn.startswith("arn:"), "ValidationError", f"Invalid ARN:  Could not be parsed!: {arn}")
    for kind, known in (
        ("Role", iam_of(caller).roles),
        ("User", iam_of(caller).users),
        ("Group", iam_of(caller).groups),
    ):
        named = [one for one in known.values() if one.name == params.get(f"{kind}Name")]
        full = [one for one in named if arn not in one.managed_policies and len(one.managed_policies) >= _MOST_ATTACHED]
        require(not full, "LimitExceeded", f"Cannot exceed quota for PoliciesPer{kind}: {_MOST_ATTACHED}", 409)


def _linked(caller: Caller, params: Params) -> None:
    name = params["AWSServiceName"]
    service = name.split(".")[0]
    suffix = params.get("CustomSuffix")
    require(not suffix or service not in _NO_SUFFIX, "InvalidInput", f"Custom suffix is not allowed for {name}")
    taken = [
        one.name for one in iam_of(caller).roles.values() if one.path == f"/aws-service-role/{name}/" and not suffix
    ]
    message = "has been taken in this account, please try a different suffix."
    require(not taken, "InvalidInput", f"Service role name {taken[0] if taken else ''} {message}")


def _provider(caller: Caller, params: Params) -> None:
    require(params["Url"].startswith("https://"), "ValidationError", "Invalid Open ID Connect Provider URL")


RULES: dict[str, Rule] = {
    **attached.RULES,
    "CreateRole": _create_role,
    "CreateUser": _create_user,
    "CreateGroup": _create_group,
    "UpdateAssumeRolePolicy": _update_trust,
    "CreatePolicy": _create_policy,
    "CreatePolicyVersion": _policy,
    "PutRolePolicy": _role_policy,
    "PutUserPolicy": _user_policy,
    "AttachRolePolicy": _attach,
    "AttachUserPolicy": _attach,
    "AttachGroupPolicy": _attach,
    "CreateInstanceProfile": _create_profile,
    "UpdateUser": partial(_rename, "User"),
    "UpdateGroup": partial(_rename, "Group"),
    "TagRole": _tag_role,
    "TagUser": _tag_user,
    "TagPolicy": _tag_policy,
    "TagInstanceProfile": _tag_profile,
    "PutRolePermissionsBoundary": _bound_role,
    "PutUserPermissionsBoundary": _check_boundary,
    "CreateServiceLinkedRole": _linked,
    "CreateOpenIDConnectProvider": _provider,
}
