"""Two small templates in, findings out: for rules that a pair of files would only repeat."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from loadproof.profiles import Environment
from loadproof.review.assemble import review_pair
from loadproof.review.model import Finding, Pair, Side

Resources = Mapping[str, Any]
ENVIRONMENT = Environment(account="123456789012", region="us-east-1")


def side(resources: Resources, **more: Any) -> Side:
    """One stack, `chat`, of these resources."""
    template = {"Resources": copy.deepcopy(dict(resources))}
    return Side("chat.template.json", more.pop("environment", ENVIRONMENT), None, {"chat": template}, **more)


def reviewed(before: Side | None, after: Side | None) -> tuple[Finding, ...]:
    """What a review finds."""
    return review_pair(Pair("prod", "chat", before, after), ()).findings


def found(before: Resources, after: Resources, *codes: str) -> list[Finding]:
    """Findings of these codes, all without any."""
    return [one for one in reviewed(side(before), side(after)) if not codes or one.code in codes]


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    """`AWS::<kind>` with its properties."""
    return {"Type": f"AWS::{kind}", "Properties": properties}


def allow(action: Any, place: Any, **more: Any) -> dict[str, Any]:
    """One statement."""
    return {"Effect": "Allow", "Action": action, "Resource": place, **more}


def role(*statements: Mapping[str, Any], **properties: Any) -> dict[str, Any]:
    """A role with one inline policy of these statements, which Lambda may take on."""
    trust = {
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}]
    }
    policies = [{"PolicyName": "rights", "PolicyDocument": {"Statement": list(statements)}}] if statements else None
    return resource(
        "IAM::Role", **{"AssumeRolePolicyDocument": trust, **({"Policies": policies} if policies else {}), **properties}
    )
