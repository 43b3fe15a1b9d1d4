"""What the services' rules share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from moto.backends import get_backend

from loadproof.localcloud.wire import MOST_TAGS, AwsError, Caller, Params
from loadproof.wire.documents import Document

Rule = Callable[[Caller, Params], None]
Moto: TypeAlias = Any  # what moto keeps: objects without types that could be asked for

_ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[\w*?]+")
_SID = re.compile(r"[0-9A-Za-z]*")
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
_OPERATOR = re.compile(
    r"(ForAllValues:|ForAnyValue:)?(String(Not)?(Equals(IgnoreCase)?|Like)|Numeric((Not)?Equals|(Less|Greater)Than(Equals)?)"
    r"|Date((Not)?Equals|(Less|Greater)Than(Equals)?)|Bool|BinaryEquals|(Not)?IpAddress|Arn(Not)?(Equals|Like))(IfExists)?|Null"
)
_ELEMENTS = {
    "Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "NotPrincipal", "Condition",
}  # fmt: skip
_SERVICE = re.compile(r"[\w.-]+\.(amazonaws\.com(\.cn)?|amazon\.com|aws\.internal|aws)")
_AWS_PRINCIPAL = re.compile(r"\*|\d{12}|arn:aws[\w-]*:(iam|sts)::(\d{12}|cloudfront):.+|A[A-Z0-9]{15,}")
_FORMS = {"AWS": _AWS_PRINCIPAL, "Service": _SERVICE}
_PRINCIPALS = {"AWS", "Service", "Federated", "CanonicalUser"}


def moto_of(service: str, caller: Caller) -> Moto:
    """What moto keeps of a service for a caller's account and region."""
    return get_backend(service)[caller.account][caller.region]  # type: ignore[call-overload]


def require(condition: object, code: str, message: str, status: int = 400) -> None:
    """Raise AwsError unless `condition` holds."""
    if not condition:
        raise AwsError(code, message, status)


def check_tags(keys: Iterable[str], code: str, most: str = "", kept: Iterable[str] = (), status: int = 400) -> None:
    """No key of AWS's own, none twice, and with those that are kept no more than 50.

    `most` and `status` are of too many tags, where these have a code of their own.
    """
    names = list(keys)
    count = len({*names, *(one for one in kept if not one.startswith("aws:"))})
    require(max(count, len(names)) <= MOST_TAGS, most or code, "Number of tags exceeds resource tag limit.", status)
    require(len(set(names)) == len(names), code, "Duplicate tag keys found.")
    for name in names:
        require(not name.lower().startswith("aws:"), code, f"Tag keys starting with aws: are reserved: {name}")


def check_policy(document: str, *, code: str = "MalformedPolicyDocument", trust: bool = False) -> None:
    """The grammar of IAM's policies, as far as it can be told without knowing the services' actions."""
    policy = _json_object(document, code)
    require(
        policy.get("Version", "2008-10-17") in ("2012-10-17", "2008-10-17"),
        code,
        "The policy must contain a valid version string.",
    )
    statements = policy.get("Statement")
    rows = [statements] if isinstance(statements, dict) else statements
    require(isinstance(rows, list) and rows, code, "Syntax errors in policy.")
    names = []
    for row in rows or []:
        require(isinstance(row, dict), code, "Syntax errors in policy.")
        _check_statement(row, code, trust)
        names.append(str(row.get("Sid") or ""))
        message = f"Statement IDs (SID) must be alpha-numeric, found {names[-1]}."
        require(_SID.fullmatch(names[-1]), code, message)
    given = [name for name in names if name]
    require(len(set(given)) == len(given), code, "Statement IDs (SID) in a single policy must be unique.")


def _json_object(document: str, code: str) -> Document:
    try:
        policy = json.loads(document)
    except ValueError:
        raise AwsError(code, "This policy contains invalid Json") from None
    require(isinstance(policy, dict), code, "Syntax errors in policy.")
    found: Document = policy
    return found


def is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _check_statement(row: Document, code: str, trust: bool) -> None:
    require(row.get("Effect") in ("Allow", "Deny"), code, "Policy statement must contain a valid effect.")
    require("Action" in row or "NotAction" in row, code, "Policy statement must contain actions.")
    require(row.keys() <= _ELEMENTS, code, "Syntax errors in policy.")
    conditions = row.get("Condition") or {}
    require(isinstance(conditions, dict), code, "Syntax errors in policy.")
    for operator in conditions:
        require(_OPERATOR.fullmatch(operator), code, f"Invalid Condition type : {operator}.")
    for action in texts(row.get("Action", row.get("NotAction"))):
        require(_ACTION.fullmatch(action), code, f"Actions/Conditions must be prefaced by a vendor: {action}")
    if trust:
        require("Principal" in row or "NotPrincipal" in row, code, "A trust policy names principals.")
        principals = row.get("Principal", row.get("NotPrincipal"))
        for kind, named in principals.items() if isinstance(principals, dict) else ():
            require(kind in _PRINCIPALS, code, f"Invalid principal in policy: unknown principal type {kind}")
            form = _FORMS.get(kind)
            for one in texts(named):
                message = f'Invalid principal in policy: "{kind.upper()}":"{one}"'
                require(form is None or form.fullmatch(one), code, message)
        message = "AssumeRole policy may only specify STS AssumeRole actions."
        require(all(one.lower().startswith("sts:") for one in texts(row.get("Action", "sts:"))), code, message)
        require("Resource" not in row, code, "Has prohibited field Resource")
        return
    require("Resource" in row or "NotResource" in row, code, "Policy statement must contain resources.")
    require("Principal" not in row, code, "Policy document should not specify a principal.")
    for resource in texts(row.get("Resource", row.get("NotResource"))):
        valid = resource == "*" or resource.startswith(("arn:", "*"))
        require(valid, code, f'Resource {resource} must be in ARN format or "*".')


def texts(value: object) -> list[str]:
    """What a policy writes as one text or as several."""
    return [str(one) for one in value] if isinstance(value, list) else [] if value is None else [str(value)]
