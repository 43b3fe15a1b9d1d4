"""What a resource's policy says to somebody who does not exist yet: the role that the stack will make.

No guess: a condition that is not understood, or a role named that may be this one, makes it unclear, never allowed.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from loadproof.wire.documents import Json

Answer = Literal["allowed", "denied", "silent", "unclear"]
_Truth = bool | None  # None: cannot be told
_EQUAL: Final = ("StringEquals", "StringLike", "ArnEquals", "ArnLike", "Bool", "StringEqualsIgnoreCase")
_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "NumericEquals": operator.eq,
    "NumericNotEquals": operator.ne,
    "NumericLessThan": operator.lt,
    "NumericLessThanEquals": operator.le,
    "NumericGreaterThan": operator.gt,
    "NumericGreaterThanEquals": operator.ge,
}
# Roles of our stacks are named after them; CloudFormation makes the rest of the name up.
_OWN_ROLE: Final = re.compile(r".*:role/(.*/)?loadproof-[^/]*")
TLS_VERSIONS: Final = ("1.2", "1.3")  # what AWS's clients, and so SageMaker and the functions, speak


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a role of `account`, or a service by its name.

    `context` are condition keys that are known, each with its value or the values of which it has one.
    """

    account: str
    service: str | None = None
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


def answer_of(policy: str, asker: Asker, action: str, resource: str) -> Answer:
    """The policy's own word; what the role's rights say is not part of it."""
    statements = [
        (str(one.get("Effect")), _applies(one, asker, action, resource))
        for one in _listed(json.loads(policy).get("Statement", []))
    ]
    denials = [applies for effect, applies in statements if effect == "Deny"]
    permits = [applies for effect, applies in statements if effect == "Allow"]
    if True in denials:
        return "denied"
    if None in denials:
        return "unclear"
    if True in permits:
        return "allowed"
    return "unclear" if None in permits else "silent"


def _applies(statement: Mapping[str, Json], asker: Asker, action: str, resource: str) -> _Truth:
    """Whether a statement is about this: false where one part is not, unknown where one part cannot be told."""
    parts: list[_Truth] = [
        _named(statement, "Action", action.lower(), lower=True),
        _named(statement, "Resource", resource, lower=False),
        _principal(statement, asker),
        *(_condition(name, keys, asker) for name, keys in statement.get("Condition", {}).items()),
    ]
    return False if False in parts else None if None in parts else True


def _named(statement: Mapping[str, Json], key: str, value: str, *, lower: bool) -> bool:
    def matches(patterns: Json) -> bool:
        return any(_like(value, one.lower() if lower else one) for one in _listed(patterns))

    if f"Not{key}" in statement:
        return not matches(statement[f"Not{key}"])
    return matches(statement.get(key, []))


def _principal(statement: Mapping[str, Json], asker: Asker) -> _Truth:
    if "NotPrincipal" in statement:
        # The account's root is one principal among others here: its roles are not meant with it.
        exempt = _by_name(statement["NotPrincipal"], asker)
        return None if exempt is None else not exempt
    principal = statement.get("Principal")
    if asker.service is None and isinstance(principal, Mapping):
        named = _listed(principal.get("AWS", []))
        if asker.account in named or any(one.endswith(f":{asker.account}:root") for one in named):
            return True
    return _by_name(principal, asker)


def _by_name(principal: Json, asker: Asker) -> _Truth:
    """Everybody, the service, or the role itself: one of our own stacks' may be the one of an earlier deployment."""
    if principal == "*":
        return True
    if not isinstance(principal, Mapping):
        return False
    named = _listed(principal.get("AWS", []))
    if "*" in named:
        return True
    if asker.service is not None:
        return asker.service in _listed(principal.get("Service", []))
    ours = any(f":{asker.account}:" in one and _OWN_ROLE.fullmatch(one) for one in named)
    return None if ours else False


def _condition(name: str, keys: Mapping[str, Json], asker: Asker) -> _Truth:
    """All of its keys; an operator or a key that is not known cannot be told."""
    base, negated = name.removesuffix("IfExists"), False
    if base.startswith(("StringNot", "ArnNot")):
        base, negated = base.replace("Not", "", 1), True
    if base not in _EQUAL and base not in _COMPARED:
        return None
    known = {key.lower(): value for key, value in asker.context.items()}
    answers: list[_Truth] = []
    for key, wanted in keys.items():
        values = known.get(key.lower(), ())
        one_of = [values] if isinstance(values, str) else values
        found = {_meets(base, value, wanted) is not negated for value in one_of}
        answers.append(found.pop() if len(found) == 1 else None)
    return False if False in answers else None if None in answers else True


def _meets(base: str, value: str, wanted: Json) -> bool:
    """Whether a value is as one of those that a condition lists."""
    if base in _COMPARED:
        return any(_COMPARED[base](float(value), float(one)) for one in _listed(wanted))
    patterns = [str(one).lower() if base == "Bool" else str(one) for one in _listed(wanted)]
    return any(_like(value, pattern) for pattern in patterns)


def _like(value: str, pattern: str) -> bool:
    """`*` and `?` as in IAM; no other character means anything."""
    written = "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern)
    return re.fullmatch(written, value, re.DOTALL) is not None


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else [value]
