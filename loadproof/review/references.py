"""What a template's value refers to: resources, exports, parameters. Intrinsic functions are values, not maps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_IN_TEXT: Final = re.compile(r"\$\{(?!!)\s*([A-Za-z0-9:]+)[^}]*\}")
EXPORT: Final = "export "  # before the name of an export: a logical id has no blank


def is_function(value: object) -> bool:
    """Whether CloudFormation reads the value as a function (`Ref`, `Fn::GetAtt` ...) rather than as a map."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((name, argument),) = value.items()
    return name == "Ref" or (name == "Condition" and isinstance(argument, str)) or str(name).startswith("Fn::")


def references(value: object) -> Iterator[str]:
    """Logical ids and parameters that a value refers to, however deep; `export NAME` for what another stack exports."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for name, argument in value.items():
            yield from _of_function(name, argument) if len(value) == 1 else ()
            yield from references(argument)


def _of_function(name: object, argument: object) -> Iterator[str]:
    if name == "Ref":
        yield str(argument)
    elif name == "Fn::GetAtt":
        target = argument[0] if isinstance(argument, list) and argument else argument
        yield str(target).split(".", 1)[0]
    elif name == "Fn::ImportValue" and isinstance(argument, str):
        yield EXPORT + argument
    elif name == "Fn::Sub":
        text, own = argument if isinstance(argument, list) and len(argument) == 2 else (argument, {})
        for found in _IN_TEXT.findall(str(text)):
            if not isinstance(own, Mapping) or found not in own:
                yield found
