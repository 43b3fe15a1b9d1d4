"""Which table a request names, and its keys."""

from __future__ import annotations

import re
from typing import Final

from loadproof.localcloud.refusals.rules import Moto, moto_of, require
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


def table(caller: Caller, name: str) -> Moto:
    """moto's table, None when there is none; by name or ARN."""
    return moto_of("dynamodb", caller).tables.get(name.rpartition("/")[2])


def existing(caller: Caller, name: str) -> Moto:
    """The table. Raises AwsError where there is none."""
    found = table(caller, name)
    message = f"Requested resource not found: Table: {name} not found"
    require(found is not None, "ResourceNotFoundException", message)
    return found


def key_names(found: Moto) -> set[str]:
    """The attributes of the table's key."""
    return {str(one["AttributeName"]) for one in found.schema}


def check_key(found: Moto, key: Document) -> None:
    """A key has the table's attributes, no more, each of its type."""
    message = "The provided key element does not match the schema"
    require(key.keys() == key_names(found), INVALID, message)
    kinds = {one["AttributeName"]: one["AttributeType"] for one in found.attr}
    for name, value in key.items():
        require(list(value) == [kinds[name]], INVALID, message)
