"""Rules about who is let in: into roles by their trust, into resources by a policy of their own (LS0xx)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.templates.policies import Statement, statements
from loadproof.templates.rule import Found, found, rule
from loadproof.templates.template import Template

# Conditions that say for whom a service asks.
_ON_BEHALF: Final = (
    *("aws:SourceAccount", "aws:SourceArn", "aws:SourceOrgID", "aws:SourceOrgPaths", "aws:SourceOwner"),
    *("kms:CallerAccount", "kms:EncryptionContext:", "lambda:EventSourceToken", "sts:ExternalId"),
)
# Conditions that say who asks. aws:PrincipalType, a tag that anybody gives himself or TLS say nothing of it.
_WHO: Final = (
    *("aws:PrincipalAccount", "aws:PrincipalArn", "aws:PrincipalOrgID", "aws:PrincipalOrgPaths", "aws:userid"),
    *("aws:SourceAccount", "aws:SourceArn", "aws:SourceIp", "aws:SourceOrgID", "aws:SourceOrgPaths"),
    *("aws:SourceOwner", "aws:SourceVpc", "aws:SourceVpce", "aws:VpceAccount", "aws:VpceOrgID"),
    *("kms:CallerAccount", "lambda:EventSourceToken", "s3:DataAccessPointAccount"),
)
# Services that take a role for their own account's resource alone and say in no key for whom: a condition would shut
# them out. All others that AWS documents act for whoever asks them to, by the role or the policy that names them.
_NO_DEPUTIES: Final = {
    "ec2": "an instance profile's role goes to instances of its account; AWS gives no aws:SourceAccount with it",
    "edgelambda": "as lambda",
    "lambda": "a function's role is of the function's own account, and passing it needs iam:PassRole there",
}
_VPCE_MEND: Final = "add aws:PrincipalAccount or aws:ResourceAccount"
_ACCOUNT: Final = re.compile(r"(?:arn:[^:]*:iam::)?(\d{12})(?::root)?")
_OIDC: Final = re.compile(r".*:oidc-provider/(.+)|([\w.-]+)")
# What the tokens of providers of the whole world are told apart by.
_CLAIMS: Final = ("aud", "app_id")
_GITHUB: Final = ("job_workflow_ref", "repository", "repository_id", "repository_owner", "repository_owner_id")


@rule(
    "LS013",
    "Role that strangers may take",
    reason="A trust in `*`, in all of an account or in everybody's tokens is one in people that nobody here knows; and "
    "without a condition another account's job, schedule or machine could be made to run under this role (the confused "
    "deputy).",
    mend="Name who may take it; add aws:SourceAccount or aws:SourceArn for a service, the subject for OpenID Connect.",
)
def trusts_strangers(template: Template) -> Iterator[Found]:
    for statement in statements(template, "trust"):
        resource = statement.resource
        if _is_for_everybody(statement) and not statement.asks(*_WHO):
            yield found(resource, "trusts everybody", "name who may take it")
        for account in _whole_accounts(statement):
            message = f"trusts all of account {account}"
            yield found(resource, message, "name its role, or add sts:ExternalId or aws:PrincipalArn")
        for service, short in statement.services.items():
            if short not in _NO_DEPUTIES and not statement.asks(*_ON_BEHALF):
                yield found(resource, f"trusts {service} for every account", "add the condition aws:SourceAccount")
        for provider in _providers_for_all(statement):
            message = f"trusts everybody's tokens of {provider}"
            yield found(resource, message, f"add the condition {provider}:sub, with its owner")


@rule(
    "LS016",
    "Policy that lets in anybody",
    reason="A resource's own policy opens it to the accounts it names: to `*` to everybody, and to a service for "
    "whoever makes that service ask (the confused deputy).",
    mend="Name the account, or add aws:SourceAccount, aws:SourceArn or aws:PrincipalOrgID.",
)
def lets_in_anybody(template: Template) -> Iterator[Found]:
    for statement in statements(template, "resource"):
        resource = statement.resource
        if resource.type == "AWS::EC2::VPCEndpoint":
            if _lets_through_anything(statement):
                yield Found(resource.logical_id, "lets through any account's credentials", _VPCE_MEND, "warning")
            continue
        if _is_for_everybody(statement) and not statement.asks(*_WHO):
            yield found(resource, "allows everybody", "name the account that may")
        if resource.type not in ("AWS::KMS::Key", "AWS::KMS::ReplicaKey"):  # where the key's own account stands so
            for account in _whole_accounts(statement):
                mend = "name its role, or add aws:PrincipalArn"
                yield Found(resource.logical_id, f"allows all of account {account}", mend, "warning")
        for service in statement.services:
            if not statement.asks(*_ON_BEHALF):
                yield found(resource, f"allows {service} for every account", "add aws:SourceAccount")


def _is_for_everybody(statement: Statement) -> bool:
    return "*" in statement.principals("AWS") or "NotPrincipal" in statement.body


def _lets_through_anything(statement: Statement) -> bool:
    """An endpoint's policy gives no right: what it names, by a condition or a resource, is all that passes."""
    is_bound = statement.asks(*_WHO, "aws:ResourceAccount", "aws:ResourceOrgID", "aws:ResourceOrgPaths")
    return _is_for_everybody(statement) and not is_bound and any(not one.strip("*?") for one in statement.places)


def _whole_accounts(statement: Statement) -> list[str]:
    """Accounts whose every identity is trusted. One's own is `${AWS::AccountId}` in a template, not a number."""
    if statement.asks("sts:ExternalId", *_WHO):
        return []
    matches = (_ACCOUNT.fullmatch(one) for one in statement.principals("AWS"))
    return [match[1] for match in matches if match]


def _providers_for_all(statement: Statement) -> list[str]:
    """OpenID Connect providers whose tokens are taken whoever they were given to."""
    found: list[str] = []
    for principal in statement.principals("Federated"):
        match = _OIDC.fullmatch(principal)
        if match is None:
            continue  # SAML, or a reference
        name = match[1] or match[2]
        claims = ("sub", *(() if match[1] else _CLAIMS), *(_GITHUB if "githubusercontent" in name else ()))
        if not statement.asks(*(f"{name}:{claim}" for claim in claims)):
            found.append(name)
    return found
