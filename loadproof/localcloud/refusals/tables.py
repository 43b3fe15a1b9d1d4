"""What DynamoDB refuses beyond its service model, and moto takes or breaks at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moto.backends import get_backend

from loadproof.localcloud.refusals.rules import Rule, check_tags, require
from loadproof.localcloud.wire import Caller, Params

_INVALID: Final = "ValidationException"
_NAME: Final = re.compile(r"[\w.-]{3,255}", re.ASCII)
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
_VALUE: Final = re.compile(r":\w+")
# Amazon DynamoDB Developer Guide, "Condition and filter expressions" and "Update expressions".
_FUNCTIONS: Final = {
    "attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size",
    "if_not_exists", "list_append",
}  # fmt: skip
_WORDS: Final = {"AND", "OR", "NOT", "IN", "BETWEEN", "SET", "ADD", "REMOVE", "DELETE"}
_EXPRESSIONS: Final = (
    "ConditionExpression", "FilterExpression", "KeyConditionExpression", "UpdateExpression",
)  # fmt: skip


def _create(caller: Caller, params: Params) -> None:
    name = params["TableName"].rpartition("/")[2]
    message = "TableName must be at least 3 characters long and at most 255 characters long"
    require(3 <= len(name) <= 255, _INVALID, message)
    require(_NAME.fullmatch(name), _INVALID, f"Value '{name}' at 'tableName' failed to satisfy constraint: pattern")
    keys = [(params.get("KeySchema") or [])]
    for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        keys += [index["KeySchema"] for index in params.get(kind) or []]
    for schema in keys:
        roles = [key["KeyType"] for key in schema]
        message = "Invalid KeySchema: the first key must be a HASH key, and the second a RANGE key"
        require(roles in (["HASH"], ["HASH", "RANGE"], []), _INVALID, message)
    check_tags([tag["Key"] for tag in params.get("Tags") or []], _INVALID)


def _lives(caller: Caller, params: Params) -> None:
    """Switching off what is off."""
    table = get_backend("dynamodb")[caller.account][caller.region].tables.get(params["TableName"])
    if table is None:
        return
    on = table.ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    off_again = not params["TimeToLiveSpecification"]["Enabled"] and not on
    require(not off_again, _INVALID, "TimeToLive is already disabled")


def _item(caller: Caller, params: Params) -> None:
    _check_expressions(params)


def _transaction(caller: Caller, params: Params) -> None:
    for item in params["TransactItems"]:
        for one in item.values():
            _check_expressions(one)


def _check_expressions(params: Mapping[str, Any]) -> None:
    texts = {name: params[name] for name in _EXPRESSIONS if isinstance(params.get(name), str)}
    values = params.get("ExpressionAttributeValues")
    if not texts:
        message = "ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null"
        require(values is None, _INVALID, message)
    for name, text in texts.items():
        for function in _calls(text):
            require(function in _FUNCTIONS, _INVALID, f"Invalid {name}: Invalid function name; function: {function}")
        for value in _VALUE.findall(text):
            message = f"Invalid {name}: An expression attribute value used in expression is not defined; "
            require(value in (values or {}), _INVALID, f"{message}attribute value: {value}")


def _calls(text: str) -> Iterator[str]:
    yield from (word for word in _CALL.findall(text) if word.upper() not in _WORDS)


RULES: dict[str, Rule] = {
    "CreateTable": _create,
    "UpdateTimeToLive": _lives,
    "TransactWriteItems": _transaction,
    **dict.fromkeys(("PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"), _item),
}
