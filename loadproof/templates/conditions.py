"""Conditions of policies: which of them truly restrict. A key that only stands there may let everything through."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_network
from typing import Final

from loadproof.templates.template import UNKNOWN, leaves, text

# Operators that hold for what is named alone. `...IfExists`, `ForAllValues:`, `Null` and all that say `Not` also hold
# where the key is missing, or for everybody else.
_POSITIVE: Final = re.compile(
    r"(?:ForAnyValue:)?(?:String(?:Equals|EqualsIgnoreCase|Like)|Arn(?:Equals|Like)|IpAddress|Bool)",
    re.IGNORECASE,
)
_LITERAL: Final = re.compile(r"(?:ForAnyValue:)?String(?:Equals|EqualsIgnoreCase)", re.IGNORECASE)
_WILD: Final = re.compile(r"[*?]")
_OWNED: Final = re.compile(r"[^:/*?]+:[^:/*?]+[:/]")
_VARIABLE: Final = re.compile(r"\$\{!?([^,}]+:[^,}]+?)\s*(?:,[^}]*)?\}")
_WRITTEN_BY_CALLERS: Final = ("aws:referer", "aws:requesttag/", "aws:tagkeys", "aws:useragent")
# A bucket's ARN says nothing of its account, and its name can be somebody else's tomorrow.
_S3: Final = re.compile(rf"arn:[^:]*:s3:::(?!{re.escape(UNKNOWN)}(?:/|\Z))")
# Who may push a branch, or open a pull request, starts these: any branch, any environment, of any name.
_STARTED_BY_ANYBODY: Final[Mapping[str, Sequence[str]]] = {
    "repo": ("pull_request", "ref:refs/heads/\0", "environment:\0"),
    "project_path": ("ref_type:branch:ref:\0",),
}
_WIDEST_NETWORK: Final = 8  # bits of a prefix: anything shorter is a good part of the internet


def restricts(condition: object, keys: Sequence[str]) -> bool:
    """True when one of these keys is held to values that narrow it, in every branch of the condition.

    A key that ends with `/` or `:` stands for all that hold it (`ResourceTag/`).
    """
    # A branch that is not there is a statement without a condition.
    branches = [one for one in _branches(condition) if isinstance(one, dict)]
    return bool(branches) and all(
        any(
            _POSITIVE.fullmatch(operator) is not None and isinstance(tests, dict) and _tests(operator, tests, keys)
            for operator, tests in branch.items()
        )
        for branch in branches
    )


def _branches(condition: object) -> list[object]:
    if isinstance(condition, dict) and condition.keys() == {"Fn::If"}:
        return [one for branch in condition["Fn::If"][1:] for one in _branches(branch)]
    return [{} if condition == {"Ref": "AWS::NoValue"} else condition]


def _tests(operator: str, tests: Mapping[str, object], keys: Sequence[str]) -> bool:
    for name, values in tests.items():
        known = any(_is(name.lower(), key.lower()) for key in keys)
        narrow = [_narrows(name.lower(), text(value), operator) for value in leaves(values)]
        if known and narrow and all(narrow):
            return True
    return False


def _is(name: str, key: str) -> bool:
    return key in name if key.endswith(("/", ":")) else name == key


def _narrows(name: str, value: str, operator: str) -> bool:
    if operator.lower() == "bool":
        return value.lower() == "true"
    if _is_of_the_request(name, value) or (name == "aws:sourcearn" and _S3.match(value)):
        return False
    if _LITERAL.fullmatch(operator):
        return bool(value)  # a star is a star there
    return next((test for key, test in _NARROW.items() if re.fullmatch(key, name)), _says_something)(value)


def _is_of_the_request(name: str, value: str) -> bool:
    """True for a policy variable that is the key itself, or that whoever asks writes: it holds for every request."""
    variable = _VARIABLE.fullmatch(value.lower())
    return variable is not None and (
        variable[1].startswith(_WRITTEN_BY_CALLERS) or variable[1].partition(":")[2] == name.partition(":")[2]
    )


def _says_something(value: str) -> bool:
    return _WILD.sub("", value) != ""


def _is_whole(value: str) -> bool:
    return bool(value) and _WILD.search(value) is None


def _names_account(value: str) -> bool:
    """True for an ARN without a wildcard, of one account, or, where the service's ARNs have none, of one name."""
    parts = value.split(":", 5)
    if _is_whole(value) or value.startswith(UNKNOWN):
        return True
    return len(parts) == 6 and _is_whole(parts[4] or re.split("[/:]", parts[5])[0])


def _is_small_network(value: str) -> bool:
    try:
        return ip_network(value, strict=False).prefixlen >= _WIDEST_NETWORK
    except ValueError:
        return _is_whole(value)  # a parameter


def _names_organization(value: str) -> bool:
    return _is_whole(value.partition("/")[0])


def _names_owner(value: str) -> bool:
    """True for a subject of one owner (`x:owner/...`, not `x:*`); of a code host for one project and no job of it that
    anybody could start: `repo:owner/name:*` is every pull request, and every branch."""
    if _is_whole(value):
        return True
    host, _, rest = value.partition(":")
    if host not in _STARTED_BY_ANYBODY:
        return _OWNED.match(value) is not None
    project, _, job = rest.partition(":")
    return _is_whole(project) and not any(fnmatchcase(one, job) for one in _STARTED_BY_ANYBODY[host])


def _names_repository(value: str) -> bool:
    """True for `owner/name` without a wildcard in either."""
    return len(parts := value.split("/")) > 1 and all(map(_is_whole, parts[:2]))


# Where a value needs more than a letter to narrow anything: pattern of the key -> what is asked of the value.
_NARROW: Final[Mapping[str, Callable[[str], bool]]] = {
    r".*account|.*orgid|aws:sourceowner|sts:externalid|aws:sourcevpce?|iam:passedtoservice|kms:viaservice": _is_whole,
    r".*resourcetag/.*|lambda:eventsourcetoken|.*:(?:aud|app_id|repository_id|repository_owner(?:_id)?)": _is_whole,
    r".*:(?:repository|job_workflow_ref)": _names_repository,
    r".*orgpaths": _names_organization,
    r"aws:(?:source|principal)arn": _names_account,
    r"aws:sourceip": _is_small_network,
    r".*:sub": _names_owner,
}
