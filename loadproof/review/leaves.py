"""Two property trees, leaf by leaf: maps by key, lists by index, functions whole. No value is converted but by AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from loadproof.review.references import is_function

ABSENT: Final = object()  # other than None: a property that is not there
Path = tuple[str, ...]
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def differing(before: Any, after: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """(path, before, after) of every leaf that is not the same; ABSENT where one side has none."""
    if _is_map(before) and _is_map(after):
        for key in sorted(before.keys() | after.keys(), key=str):
            yield from differing(before.get(key, ABSENT), after.get(key, ABSENT), (*path, str(key)))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            old = before[at] if at < len(before) else ABSENT
            new = after[at] if at < len(after) else ABSENT
            yield from differing(old, new, (*path, str(at)))
    elif not same(before, after):
        # One side has another shape or nothing here: both sides' leaves are told, or the value in its place.
        old, new = dict(_leaves(before, path)), dict(_leaves(after, path))
        for place in [*old, *(place for place in new if place not in old)]:
            yield place, old.get(place, ABSENT), new.get(place, ABSENT)


def same(before: object, after: object) -> bool:
    """Equal as CloudFormation reads them: `"true"` for true, `"1"` for 1, 1.0 for 1; null for what is not there."""
    if before is None or after is None:
        return before in (None, ABSENT) and after in (None, ABSENT)
    if isinstance(before, bool) or isinstance(after, bool):
        return before is not ABSENT and after is not ABSENT and _word(before) == _word(after)
    if isinstance(before, str) != isinstance(after, str):
        return _number(before) is not None and _number(before) == _number(after)
    return bool(before == after)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Empty maps and lists are leaves: AWS tells them from nothing."""
    if _is_map(value) and value:
        for key in sorted(value, key=str):
            yield from _leaves(value[key], (*path, str(key)))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _leaves(item, (*path, str(at)))
    elif value is not ABSENT and value is not None:
        yield path, value


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and not is_function(value)


def _word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return value if isinstance(value, int | float) else None
