"""What AWS's resource schemas say in words of their own, beside JSON Schema's: cfn-lint writes them so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import regex
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from loadproof.wire.documents import Document, Json


def _pattern(validator: Json, pattern: str, value: Json, schema: Document) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _fits(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _fits(pattern: str, text: str) -> bool:
    """As Java reads it (with `p{L}` and its like); a pattern that nobody here can read holds."""
    try:
        return regex.search(pattern, text) is not None
    except regex.error:
        return True


def _pattern_properties(
    validator: Json, patterns: Mapping[str, Json], value: Json, schema: Document
) -> Iterator[ValidationError]:
    for name, one in value.items() if isinstance(value, dict) else ():
        for pattern, wanted in patterns.items():
            if _fits(pattern, name):
                yield from validator.descend(one, wanted, path=name, schema_path=pattern)


def _additional_properties(validator: Json, wanted: Json, value: Json, schema: Document) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties", {})
    for name, one in value.items() if isinstance(value, dict) else ():
        if name in schema.get("properties", {}) or any(_fits(pattern, name) for pattern in patterns):
            continue
        if wanted is False:
            yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
        elif isinstance(wanted, dict):
            yield from validator.descend(one, wanted, path=name)


def _required_xor(validator: Json, names: Sequence[str], value: Json, schema: Document) -> Iterator[ValidationError]:
    found = [name for name in names if name in value] if isinstance(value, dict) else [""]
    if len(found) != 1:
        yield ValidationError(f"exactly one of {', '.join(names)} is required, found {', '.join(found) or 'none'}")


def _required_or(validator: Json, names: Sequence[str], value: Json, schema: Document) -> Iterator[ValidationError]:
    if isinstance(value, dict) and not any(name in value for name in names):
        yield ValidationError(f"at least one of {', '.join(names)} is required")


def _excluded(
    validator: Json, rows: Mapping[str, Sequence[str]], value: Json, schema: Document
) -> Iterator[ValidationError]:
    for name, others in rows.items() if isinstance(value, dict) else ():
        beside = [other for other in others if name in value and other in value]
        if beside:
            yield ValidationError(f"{', '.join(beside)} should not be given beside {name}")


def _needed(
    validator: Json, rows: Mapping[str, Sequence[str]], value: Json, schema: Document
) -> Iterator[ValidationError]:
    for name, others in rows.items() if isinstance(value, dict) else ():
        missing = [other for other in others if name in value and other not in value]
        if missing:
            yield ValidationError(f"{', '.join(missing)} is required beside {name}")


ResourceValidator: Final = extend(
    Draft7Validator,
    {
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "requiredXor": _required_xor,
        "requiredOr": _required_or,
        "dependentExcluded": _excluded,
        "dependentRequired": _needed,
    },
)
