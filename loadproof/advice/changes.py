"""Edits of a profile as data: what to set where, so that a suggestion is predicted, checked and written alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from loadproof.profiles.schema import Profile

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key of the profile. `before` and `after` None mean that the key is not set."""

    path: tuple[str, ...]
    before: Value
    after: Value

    @property
    def name(self) -> str:
        """`container.settings.max_model_len`."""
        return ".".join(self.path)


def changed(profile: Profile, changes: Iterable[KeyChange]) -> Profile:
    """The profile with every change made. Raises pydantic's ValidationError where the result has no meaning."""
    # Without its unset keys: those of one container family mean nothing to another.
    data = profile.model_dump(exclude_none=True)
    data["workload"] = profile.workload  # as it is: what follows from its values would read as said beside them
    for change in changes:
        *parents, key = change.path
        part: dict[str, Any] = data
        for parent in parents:
            part = part.setdefault(parent, {})
        if change.after is None:
            part.pop(key, None)
        else:
            part[key] = change.after
    return Profile.model_validate(data)


def change_to(profile: Profile, path: tuple[str, ...], after: Value) -> tuple[KeyChange, ...]:
    """The change that sets `path` to `after`: none where it says so already."""
    part: Any = profile
    for step in path:
        part = getattr(part, step, None)
    return () if part == after else (KeyChange(path, part, after),)


def net_changes(profile: Profile, changes: Iterable[KeyChange]) -> tuple[KeyChange, ...]:
    """One change a key, from what `profile` says to the last word on it, in the order in which profiles are written."""
    last = {change.path: change.after for change in changes}
    order = list(Profile.model_fields)
    found = [change for path, after in last.items() for change in change_to(profile, path, after)]
    return tuple(sorted(found, key=lambda change: order.index(change.path[0])))
