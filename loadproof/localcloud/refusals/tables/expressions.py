"""What DynamoDB refuses of expressions: Amazon DynamoDB Developer Guide, "Using expressions in DynamoDB"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from moto.dynamodb.comparisons import create_condition_expression_parser

from loadproof.localcloud.refusals.rules import require
from loadproof.localcloud.refusals.tables.lookup import INVALID
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document

_CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
_PATH: Final = re.compile(r"(?<![\w.:#])(#?[A-Za-z_]\w*)(?!\w*\s*\()")
_WORD: Final = re.compile(r"[A-Za-z_]\w*|<>")
_FUNCTIONS: Final = {
    "attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size",
    "if_not_exists", "list_append",
}  # fmt: skip
_IN: Final = re.compile(r"\bIN\s*\(([^()]*)\)", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"\bBETWEEN\s+(:\w+)\s+AND\s+(:\w+)", re.IGNORECASE)
_MOST_OPERANDS: Final = 100  # of IN
_KEYWORDS: Final = {"AND", "OR", "NOT", "IN", "BETWEEN", "SET", "ADD", "REMOVE", "DELETE"}
_EXPRESSIONS: Final = (
    "ConditionExpression", "FilterExpression", "KeyConditionExpression", "ProjectionExpression", "UpdateExpression",
)  # fmt: skip
_CONDITIONS: Final = ("ConditionExpression", "FilterExpression")
_MOST_BYTES: Final = 4096
_GIVEN: Final = {":": "ExpressionAttributeValues", "#": "ExpressionAttributeNames"}
_KINDS: Final = {":": "attribute value used in expression", "#": "attribute name used in the document path"}


def check_expressions(params: Document) -> None:
    """Their functions and size, and that each name and value of theirs is given, and none in vain."""
    texts = {name: params[name] for name in _EXPRESSIONS if isinstance(params.get(name), str)}
    for name, text in texts.items():
        require(text.strip(), INVALID, f"Invalid {name}: The expression can not be empty;")
        message = f"Invalid {name}: Expression size has exceeded the maximum allowed size"
        require(len(text.encode()) <= _MOST_BYTES, INVALID, message)
        for function in _CALL.findall(text):
            known = function in _FUNCTIONS or function.upper() in _KEYWORDS
            require(known, INVALID, f"Invalid {name}: Invalid function name; function: {function}")
        for operands in _IN.findall(text):
            count = operands.count(",") + 1
            message = f"Invalid {name}: The IN operator is provided with too many operands; number of operands: {count}"
            require(count <= _MOST_OPERANDS, INVALID, message)
        for low, high in _BETWEEN.findall(text):
            _check_bounds(name, params, low, high)
    for sign in _GIVEN:
        _check_given(sign, params, texts)
    for name in _CONDITIONS:
        if name in texts:
            _check_grammar(name, texts[name], params)


def _check_bounds(name: str, params: Document, low: str, high: str) -> None:
    given = params.get("ExpressionAttributeValues") or {}
    lower, upper = given.get(low, {}), given.get(high, {})
    message = (
        f"Invalid {name}: The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower "
        f"bound operand: {lower}, upper bound operand: {upper}"
    )
    least, most = _number(lower.get("N")), _number(upper.get("N"))
    if least is not None and most is not None:
        require(least <= most, INVALID, message)
    elif "S" in lower and "S" in upper:
        require(str(lower["S"]).encode() <= str(upper["S"]).encode(), INVALID, message)


def _number(text: str | None) -> Decimal | None:
    """None for what is none."""
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation:
        return None


def _check_given(sign: str, params: Document, texts: Mapping[str, str]) -> None:
    field = _GIVEN[sign]
    given = params.get(field)
    if not texts:
        message = f"{field} can only be specified when using expressions"
        require(given is None, INVALID, message)
    used = set()
    for name, text in texts.items():
        for one in re.findall(rf"{sign}\w+", text):
            kind = _KINDS[sign]
            message = f"Invalid {name}: An expression {kind} is not defined; {kind.partition(' used')[0]}: {one}"
            require(one in (given or {}), INVALID, message)
            used.add(one)
    spare = (given or {}).keys() - used
    message = f"Value provided in {field} unused in expressions: keys: {{{', '.join(sorted(spare))}}}"
    require(not spare, INVALID, message)


def _check_grammar(name: str, text: str, params: Document) -> None:
    """By moto's own reader, which breaks at what it cannot read."""
    values, names = params.get("ExpressionAttributeValues"), params.get("ExpressionAttributeNames")
    try:
        create_condition_expression_parser(text, names or {}, values or {}).parse()
    except (ValueError, LookupError) as error:
        raise AwsError(INVALID, f"Invalid {name}: Syntax error; {error}") from None


def attributes(params: Document, name: str) -> Iterator[str]:
    """The top-level attributes that an expression names."""
    names = params.get("ExpressionAttributeNames") or {}
    for one in _PATH.findall(str(params.get(name) or "")):
        if one.upper() not in _KEYWORDS:
            yield str(names.get(one, one))


def words(text: str) -> list[str]:
    """Its words, and the sign for unequal."""
    return _WORD.findall(text)
