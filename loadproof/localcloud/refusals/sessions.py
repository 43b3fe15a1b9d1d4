"""What STS refuses beyond its service model: sessions that are too long, and roles that do not let the caller in.

Policies are not enforced here, trust is: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from moto.backends import get_backend
from moto.sts.models import sts_backends

from loadproof.localcloud.refusals.rules import Rule, check_policy, require, texts
from loadproof.localcloud.wire import Caller, Params

# AWS Organizations makes it in each account of the organization, for the managing one: the door of another account.
# https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_accounts_access.html
_MEMBER_ROLE: Final = "role/OrganizationAccountAccessRole"
Statement = Mapping[str, object]


def _assume(caller: Caller, params: Params) -> None:
    arn = str(params["RoleArn"])
    parts = arn.split(":")
    require(arn.startswith("arn:") and len(parts) == 6, "ValidationError", f"{arn} is invalid")
    roles = get_backend("iam")[parts[4]]["aws"].roles.values() if parts[4] else ()
    role = next((one for one in roles if one.arn == arn), None)
    who, names = _identity(caller)
    denied = f"User: {who} is not authorized to perform: sts:AssumeRole on resource: {arn}"
    if role is None:
        require(parts[5] == _MEMBER_ROLE and parts[4] != caller.account, "AccessDenied", denied, 403)
        return
    document = role.assume_role_policy_document
    trusted = _trusts(json.loads(document) if isinstance(document, str) else document, names, params)
    require(trusted, "AccessDenied", denied, 403)
    message = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
    if params.get("Policy"):
        check_policy(params["Policy"])
    longest = int(role.max_session_duration or 3600)
    require(int(params.get("DurationSeconds") or 900) <= longest, "ValidationError", message)


def _identity(caller: Caller) -> tuple[str, frozenset[str]]:
    """Who calls, and what trust policies may call it. The cloud's own key is functions' too: it is anybody in its
    account."""
    root = f"arn:aws:iam::{caller.account}:root"
    session = sts_backends[caller.account]["aws"].get_assumed_role_from_access_key(caller.access_key)
    if session is not None:
        return session.arn, frozenset({caller.account, root, session.arn, session.role_arn})
    user = get_backend("iam")[caller.account]["aws"].get_user_from_access_key_id(caller.access_key)
    if user is not None:
        return user.arn, frozenset({caller.account, root, user.arn})
    return root, frozenset({caller.account, root, f"arn:aws:*::{caller.account}:*"})


def _trusts(policy: Mapping[str, object], names: frozenset[str], params: Params) -> bool:
    effects = {
        str(statement["Effect"])
        for statement in _statements(policy)
        if _names_caller(statement, names) and _fits(statement, params)
    }
    return effects == {"Allow"}


def _statements(policy: Mapping[str, object]) -> Iterator[Statement]:
    """Those about AssumeRole."""
    found = policy.get("Statement")
    for statement in found if isinstance(found, list) else [found]:
        if isinstance(statement, dict) and any(
            fnmatchcase("sts:assumerole", action.lower()) for action in texts(statement.get("Action"))
        ):
            yield statement


def _names_caller(statement: Statement, names: frozenset[str]) -> bool:
    principal = statement.get("Principal")
    written = texts(principal.get("AWS")) if isinstance(principal, Mapping) else texts(principal)
    return any(
        one == "*" or one in names or any("*" in name and fnmatchcase(one, name) for name in names) for one in written
    )


def _fits(statement: Statement, params: Params) -> bool:
    """Whether its conditions hold; only those on the external id can be told here, any other is taken to hold."""
    conditions = statement.get("Condition")
    external = str(params.get("ExternalId") or "")
    for operator, keys in conditions.items() if isinstance(conditions, Mapping) else ():
        for key, wanted in keys.items():
            same = any(fnmatchcase(external, one) for one in texts(wanted))
            if key.lower() == "sts:externalid" and operator in ("StringEquals", "StringLike") and not same:
                return False
    return True


RULES: dict[str, Rule] = {"AssumeRole": _assume}
