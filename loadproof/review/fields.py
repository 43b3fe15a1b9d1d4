"""What differs between two profiles, or two environments, as validated: leaf by leaf, defaults included.

Lists of named things are matched by name (components, adapters, scheduled actions) and scaling policies by type and
metric, so that one inserted at the top is one that was added. What has no order to AWS is compared without one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from loadproof.profiles import Profile
from loadproof.profiles.schema import Part
from loadproof.profiles.secrets import HIDDEN, shown, shown_path
from loadproof.review.leaves import ABSENT
from loadproof.review.model import FieldChange, Side
from loadproof.review.values import shortened

_Path = tuple[str | int, ...]
# Sets, whatever order they are written in: AWS takes them so.
_UNORDERED: Final = frozenset({"subnet_ids", "security_group_ids", "route_table_ids", "alarm_emails", "callbacks"})
# What a list's entries are told apart by: their name, else all of these that they have.
_NAMES: Final = ("name", "instance_type")
_KINDS: Final = (("type", "metric"), ("type", "metric", "threshold"))
_ENVIRONMENT: Final = "environment.yaml"


def field_changes(before: Side | None, after: Side | None) -> tuple[FieldChange, ...]:
    """Every leaf that differs, the profile's in the schema's order, then the environment's (`environment.yaml: ...`).

    Empty where a side is missing or refused: there is nothing to compare with.
    """
    if before is None or after is None:
        return ()
    profile = profile_fields(before.profile, after.profile) if before.profile and after.profile else ()
    if not before.environment or not after.environment:
        return profile
    beside = _changes(_data(before.environment), _data(after.environment))
    return (
        *profile,
        *(FieldChange(f"{_ENVIRONMENT}: {one.path}", one.before, one.after) for one in beside),
    )


def profile_fields(before: Profile, after: Profile) -> tuple[FieldChange, ...]:
    """Every leaf that differs between two profiles."""
    return tuple(_changes(_data(before), _data(after)))


def data_fields(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[FieldChange, ...]:
    """The same for two profiles as stored (JSON): lists and tuples alike."""
    return tuple(_changes(before, after))


def reordered(before: object, after: object, path: _Path = ()) -> Iterator[str]:
    """Lists of the same entries in another order, of profiles as stored: what is drawn of them comes out otherwise."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name, value in after.items():
            yield from reordered(before.get(name), value, (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and before != after:
        old, new = (sorted(json.dumps(one, sort_keys=True) for one in items) for items in (before, after))
        if old == new:
            yield shown_path(path)


def _data(part: Part) -> dict[str, object]:
    return part.model_dump(mode="json")


def _changes(before: object, after: object) -> Iterator[FieldChange]:
    for path, old, new in _differing(before, after, ()):
        yield FieldChange(shown_path(path), *_shown(path, old, new))


def _differing(before: object, after: object, path: _Path) -> Iterator[tuple[_Path, object, object]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*after, *(name for name in before if name not in after)]:
            yield from _differing(before.get(name, ABSENT), after.get(name, ABSENT), (*path, name))
    elif _of_maps(before) and _of_maps(after):
        yield from _lists(_none(before) or [], _none(after) or [], path)
    elif not _same(before, after, unordered=bool(path) and path[-1] in _UNORDERED):
        old, new = (({} if value is None else value) for value in (_none(before), _none(after)))
        if isinstance(old, Mapping) and isinstance(new, Mapping) and (old or new):
            yield from _differing(old, new, path)  # a whole part came or went: its leaves
        else:
            yield path, _none(before), _none(after)


def _of_maps(value: object) -> bool:
    """A list of maps, or nothing in the place of one."""
    return _none(value) is None or (isinstance(value, list) and all(isinstance(item, Mapping) for item in value))


def _lists(before: list[Any], after: list[Any], path: _Path) -> Iterator[tuple[_Path, Any, Any]]:
    """Maps by name where all have one, else position by position."""
    kinds = next((kinds for kinds in _KINDS if _tells_apart(kinds, before) and _tells_apart(kinds, after)), None)
    if kinds is None:
        for at in range(max(len(before), len(after))):
            old = before[at] if at < len(before) else ABSENT
            new = after[at] if at < len(after) else ABSENT
            yield from _differing(old, new, (*path, at))
        return
    olds, news = ({_key(item, kinds): (at, item) for at, item in enumerate(items)} for items in (before, after))
    for name in [*news, *(name for name in olds if name not in news)]:
        at = (news.get(name) or olds[name])[0]
        old, new = (items[name][1] if name in items else ABSENT for items in (olds, news))
        yield from _differing(old, new, (*path, at))


def _tells_apart(kinds: tuple[str, ...], items: list[Any]) -> bool:
    keys = {_key(item, kinds) for item in items}
    return len(keys) == len(items) and () not in keys


def _key(item: Mapping[str, object], kinds: tuple[str, ...]) -> tuple[str, ...]:
    name = next((str(item[name]) for name in _NAMES if item.get(name) is not None), None)
    return (name,) if name is not None else tuple(str(item[kind]) for kind in kinds if kind in item)


def _same(before: object, after: object, *, unordered: bool = False) -> bool:
    """Equal, an int and a float of one value too, but not true and 1; nothing, not there and an empty list are one."""
    before, after = (None if value in (ABSENT, [], {}) else value for value in (before, after))
    if unordered and isinstance(before, list) and isinstance(after, list):
        return sorted(map(str, before)) == sorted(map(str, after))
    if isinstance(before, bool) != isinstance(after, bool):
        return False
    return bool(before == after)


def _none(value: Any) -> Any:
    return None if value is ABSENT else value


def _shown(path: _Path, before: object, after: object) -> tuple[object, object]:
    """Numbers as they are, lists and maps in words, text cut; hidden is what `check` hides, and what looks secret."""
    return shortened(_safe(path, before), _safe(path, after))


def _safe(path: _Path, value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, list):
        return ", ".join(str(_safe(path, item)) for item in value)
    if isinstance(value, Mapping):
        parts = {name: _safe((*path, name), item) for name, item in value.items() if item not in (None, [], {})}
        return ", ".join(f"{name} {part}" for name, part in parts.items())
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a bound is written 45 and validated to 45.0
    return HIDDEN if shown(str(value), path) == HIDDEN else value
