"""A review's document cut to what is read again (`reading`): whatever is left out is counted.

Cut last to first: whole profiles from the end, where the least is, and before them the rows of one profile that is
longer than ROOM_OF_ONE by itself.
"""

from __future__ import annotations

import json
from typing import Any, Final

from loadproof.errors import InputError
from loadproof.review.document import nothing_left_out
from loadproof.review.shapes import Document, LeftOutDocument, ProfileDocument
from loadproof.review.wording import shortened

MOST_BYTES: Final = 8 * 2**20  # as UTF-8, of the whole
MOST_DEPTH: Final = 40
MOST_ITEMS: Final = 20_000  # of one list or map
LONGEST_TEXT: Final = 20_000  # characters
LARGEST: Final = 10**30  # of figures: sums of them stay numbers
ROOM_OF_ONE: Final = 2**20  # bytes of one profile of a document that is cut
_RESERVED: Final = 2**18  # bytes for what is beside the profiles
_MOST: Final = (1_000, 100, 10)  # rows of a list, the first with which a profile has room
_LEVELS: Final = 20  # of a field's own value
_FEWEST_KEYS: Final = 50  # more than any part of a document has


def written(document: Document) -> str:
    """As JSON, ending in a newline; at most MOST_BYTES."""
    whole = _json(document)
    if len(whole) <= MOST_BYTES and _is_within(document):
        return whole
    return _json(bounded(document))


def bounded(document: Document) -> Document:
    """What is read again of a document that is too long; `left_out` says what is missing."""
    left_out, room, kept = nothing_left_out(), MOST_BYTES - _RESERVED, list[ProfileDocument]()
    for profile in document["profiles"]:
        shown, rows = _fitting(profile)
        room -= _size(shown)
        if room < 0 or len(kept) == MOST_ITEMS:
            left_out["profiles"] += 1
            _count(left_out, profile, 0)
        else:
            kept.append(shown)
            left_out["rows"] += rows
            _count(left_out, profile, len(shown["findings"]))
    return {
        **document,
        "base": shortened(document["base"], 1_000),
        "head": shortened(document["head"], 1_000),
        "verdict": {**document["verdict"], "text": shortened(document["verdict"]["text"], 1_000)},
        "not_run": [shortened(path, 200) for path in document["not_run"][:100]],
        "profiles": kept,
        "left_out": left_out,
    }


def _count(left_out: LeftOutDocument, profile: ProfileDocument, shown: int) -> None:
    """The findings from the one at `shown` on: the gravest stand first."""
    for finding in profile["findings"][shown:]:
        left_out["findings"][finding["severity"]] += 1


def _fitting(profile: ProfileDocument) -> tuple[ProfileDocument, int]:
    """The profile, cut where it must be, and how many rows that are no findings it lost."""
    if _size(profile) <= ROOM_OF_ONE and _is_within(profile, 2):
        return profile, 0
    for most in _MOST:
        cut = _Cut(most)
        shown: ProfileDocument = cut.of(profile)
        if _size(shown) <= ROOM_OF_ONE:
            break
    return shown, cut.rows - (len(profile["findings"]) - len(shown["findings"]))


class _Cut:
    """At most so many rows and keys of each list and map, and ten times as many characters of a text."""

    def __init__(self, most: int) -> None:
        self._most, self.rows = most, 0

    def of(self, value: Any, level: int = 0) -> Any:
        if isinstance(value, str):
            return shortened(value, 10 * self._most)
        if isinstance(value, int | float) and abs(value) > LARGEST:
            return str(value)[:_FEWEST_KEYS]
        if isinstance(value, dict | list) and level > _LEVELS:
            return "…"
        if isinstance(value, list):
            self.rows += max(0, len(value) - self._most)
            return [self.of(one, level + 1) for one in value[: self._most]]
        if isinstance(value, dict):
            most = max(self._most, _FEWEST_KEYS)
            self.rows += max(0, len(value) - most)
            return {shortened(key, 10 * self._most): self.of(one, level + 1) for key, one in list(value.items())[:most]}
        return value


def _json(value: object) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _size(profile: ProfileDocument) -> int:
    """Bytes of its part of the whole, which is ASCII and indented twice more."""
    text = _json(profile)
    return len(text) + 4 * text.count("\n") + 2


def _is_within(value: object, depth: int = 0) -> bool:
    try:
        check_bounds(value, depth)
    except InputError:
        return False
    return True


def check_bounds(value: object, depth: int = 0) -> None:
    """Raises InputError for what is deeper, longer or larger than any part of a document that is read."""
    if depth > MOST_DEPTH:
        raise InputError(f"review: nested deeper than {MOST_DEPTH}")
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise InputError(f"review: a figure beyond {LARGEST:.0e}; no review has one")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise InputError(f"review: a text of {len(value):,} characters, at most {LONGEST_TEXT:,} are read")
    if isinstance(value, dict | list) and len(value) > MOST_ITEMS:
        raise InputError(f"review: {len(value):,} items in one place, at most {MOST_ITEMS:,} are read")
    if isinstance(value, dict):
        for key, one in value.items():
            check_bounds(key, depth + 1)
            check_bounds(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            check_bounds(one, depth + 1)
