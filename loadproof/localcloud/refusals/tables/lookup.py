"""Which table a request names, and its keys."""

from __future__ import annotations

import re
from typing import Any, Final

from moto.backends import get_backend

from loadproof.localcloud.refusals.rules import require
from loadproof.localcloud.wire import Caller
from loadproof.wire.documents import Document

INVALID: Final = "ValidationException"
_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)


def check_name(name: str) -> None:
    """Of a table, or its ARN."""
    own = name.rpartition("/")[2] if name.startswith("arn:") else name
    message = "TableName must be at least 3 characters long and at most 255 characters long"
    require(3 <= len(own) <= 255, INVALID, message)
    require(_NAME.fullmatch(own), INVALID, f"Value '{name}' at 'tableName' failed to satisfy constraint: pattern")


def table(caller: Caller, name: str) -> Any:
    """moto's table, None when there is none; by name or ARN."""
    return get_backend("dynamodb")[caller.account][caller.region].tables.get(name.rpartition("/")[2])


def existing(caller: Caller, name: str) -> Any:
    """The table. Raises AwsError where there is none."""
    found = table(caller, name)
    message = f"Requested resource not found: Table: {name} not found"
    require(found is not None, "ResourceNotFoundException", message)
    return found


def key_names(found: Any) -> set[str]:
    """The attributes of the table's key."""
    return {str(one["AttributeName"]) for one in found.schema}


def check_key(found: Any, key: Document) -> None:
    """A key has the table's attributes, no more, each of its type."""
    message = "The provided key element does not match the schema"
    require(key.keys() == key_names(found), INVALID, message)
    kinds = {one["AttributeName"]: one["AttributeType"] for one in found.attr}
    for name, value in key.items():
        require(list(value) == [kinds[name]], INVALID, message)
