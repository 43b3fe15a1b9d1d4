"""IAM statements as the template holds them: plain, so that a reader of the code reads the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadproof.profiles.schema import Environment
from loadproof.wire.documents import Document

Statement = Document


def allow(
    *actions: str, on: str | Sequence[str], when: Mapping[str, Mapping[str, Any]] | None = None, sid: str | None = None
) -> Statement:
    """An Allow for exactly these actions on these resources. `when` is the statement's Condition."""
    resources = [on] if isinstance(on, str) else list(on)
    statement: Statement = {"Sid": sid} if sid else {}
    statement |= {"Effect": "Allow", "Action": _one_or_all(actions), "Resource": _one_or_all(resources)}
    if when:
        statement["Condition"] = {operator: dict(keys) for operator, keys in when.items()}
    return statement


def use_of_key(environment: Environment, *services: str) -> list[Statement]:
    """Read and write with the environment's key, and only through these services; nothing without a key."""
    if environment.kms_key_arn is None:
        return []
    through = [f"{service}.{environment.region}.amazonaws.com" for service in services]
    when = {"StringEquals": {"kms:ViaService": through}}
    return [allow("kms:Decrypt", "kms:GenerateDataKey", on=environment.kms_key_arn, when=when)]


def trust(service: str, *, when: Mapping[str, Mapping[str, Any]] | None = None) -> Document:
    """Who may take a role: one AWS service."""
    statement: Statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    if when:
        statement["Condition"] = {operator: dict(keys) for operator, keys in when.items()}
    return document(statement)


def document(*statements: Statement) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)
