"""Lists and numbers in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SHOWN: Final = 4


def listing(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and 3 more`: a message stays one line."""
    if len(names) > _SHOWN:
        return f"{', '.join(names[: _SHOWN - 1])} and {len(names) - _SHOWN + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def plural(count: int, one: str, many: str) -> str:
    """The word that goes with the count."""
    return one if count == 1 else many
