"""What DynamoDB refuses of items: their values, their keys, the expressions that ask for them.

Amazon DynamoDB Developer Guide, "Supported data types and naming rules", "Quotas" and "Expressions".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from loadproof.localcloud.refusals.rules import Rule, require
from loadproof.localcloud.refusals.tables.expressions import attributes, check_expressions, words
from loadproof.localcloud.refusals.tables.lookup import INVALID, check_key, check_name, key_names, table
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

_MOST_DIGITS, _LARGEST, _SMALLEST = 38, 125, -130
_MOST_NESTED: Final = 32  # lists and maps in each other
_SETS: Final = {"SS", "NS", "BS"}
_NO_KEY_CONDITIONS: Final = {"OR", "NOT", "IN", "<>"}
_OLD_WORDS: Final = ("AttributesToGet", "AttributeUpdates", "Expected", "KeyConditions", "QueryFilter", "ScanFilter")


def _write(caller: Caller, params: Params) -> None:
    _check_asked(params)
    _check_values(params.get("Item") or {})


def _by_key(caller: Caller, params: Params) -> None:
    _check_asked(params)
    found = table(caller, params["TableName"])
    if found is not None:
        check_key(found, params["Key"])


def _check_asked(params: Document) -> None:
    check_name(params["TableName"])
    check_expressions(params)
    _check_values(params.get("ExpressionAttributeValues") or {})
    old = [name for name in _OLD_WORDS if params.get(name) is not None]
    new = [name for name in params if name.endswith("Expression")]
    message = "Can not use both expression and non-expression parameters in the same request: "
    told = f"Non-expression parameters: {{{', '.join(old)}}} Expression parameters: {{{', '.join(new)}}}"
    require(not (old and new), INVALID, message + told)


def _check_values(item: Document, depth: int = 0) -> None:
    for value in item.values():
        _check_value(value, depth)


def _check_value(value: Document, depth: int = 0) -> None:
    message = "Nesting Levels have exceeded supported limits"
    require(depth <= _MOST_NESTED, INVALID, message)
    start = "Supplied AttributeValue "
    require(value, INVALID, f"{start}is empty, must contain exactly one of the supported datatypes")
    require(len(value) == 1, INVALID, f"{start}has more than one datatypes set, must contain exactly one")
    ((kind, inner),) = value.items()
    for number in {"N": [inner], "NS": inner}.get(kind, []):
        _check_number(str(number))
    if kind in _SETS:
        shown = ", ".join(map(str, inner))
        message = f"One or more parameter values were invalid: Input collection [{shown}] contains duplicates."
        distinct = {Decimal(one) for one in inner} if kind == "NS" else set(inner)
        require(len(distinct) == len(inner), INVALID, message)
    if kind == "M":
        _check_values(inner, depth + 1)
    for one in inner if kind == "L" else []:
        _check_value(one, depth + 1)


def _check_number(text: str) -> None:
    try:
        number = Decimal(text).normalize()
    except InvalidOperation:
        number = Decimal("NaN")
    message = f"The parameter cannot be converted to a numeric value: {text}"
    require(number.is_finite(), INVALID, message)
    digits = len(Decimal(text).as_tuple().digits) - _trailing_zeros(text)
    require(digits <= _MOST_DIGITS, INVALID, "Attempting to store more than 38 significant digits in a Number")
    if number:
        message = "Number overflow. Attempting to store a number with magnitude larger than supported range"
        require(number.adjusted() <= _LARGEST, INVALID, message)
        message = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
        require(number.adjusted() >= _SMALLEST, INVALID, message)


def _trailing_zeros(text: str) -> int:
    digits = "".join(map(str, Decimal(text).as_tuple().digits))
    return len(digits) - len(digits.rstrip("0"))


def _query(caller: Caller, params: Params) -> None:
    _check_asked(params)
    condition = str(params.get("KeyConditionExpression") or "").upper()
    for word in words(condition):
        message = f"Invalid operator used in KeyConditionExpression: {word}"
        require(word not in _NO_KEY_CONDITIONS, INVALID, message)
    _check_start(caller, params)
    found = table(caller, params["TableName"])
    if found is None or params.get("IndexName"):
        return
    for name in attributes(params, "FilterExpression"):
        message = f"Filter Expression can only contain non-primary key attributes: Primary key attribute: {name}"
        require(name not in key_names(found), INVALID, message)


def _scan(caller: Caller, params: Params) -> None:
    _check_asked(params)
    _check_start(caller, params)


def _check_start(caller: Caller, params: Params) -> None:
    found, start = table(caller, params["TableName"]), params.get("ExclusiveStartKey")
    if found is not None and start is not None:
        message = "The provided starting key is invalid"
        require(key_names(found) <= start.keys(), INVALID, message)


def _transaction(caller: Caller, params: Params) -> None:
    for item in params["TransactItems"]:
        message = "TransactItems can only contain one of Check, Put, Update or Delete"
        require(len(item) == 1, INVALID, message)
        for one in item.values():
            _check_asked(one)
            _check_values(one.get("Item") or {})


def _batch(caller: Caller, params: Params) -> None:
    for name, requests in params["RequestItems"].items():
        found = table(caller, name)
        keys = []
        for item, key in _written(requests):
            _check_values(item)
            keys += [] if found is None else [_shown({one: key.get(one) for one in key_names(found)})]
        require(len(set(keys)) == len(keys), INVALID, "Provided list of item keys contains duplicates")


def _written(requests: list[Document]) -> Iterator[tuple[Document, Document]]:
    """The values and the key of each request of a batch."""
    for request in requests:
        if "PutRequest" in request:
            yield request["PutRequest"]["Item"], request["PutRequest"]["Item"]
        else:
            yield {}, request.get("DeleteRequest", {}).get("Key", {})


_shown: Callable[[Any], str] = json.JSONEncoder(sort_keys=True, default=repr).encode

RULES: dict[str, Rule] = {
    "PutItem": _write,
    "GetItem": _by_key,
    "UpdateItem": _by_key,
    "DeleteItem": _by_key,
    "Query": _query,
    "Scan": _scan,
    "TransactWriteItems": _transaction,
    "BatchWriteItem": _batch,
}
