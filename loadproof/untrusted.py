"""Text that others wrote, made safe to show: nothing in it may steer a terminal, reorder a line or hide in it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Cc control, Cf format (direction overrides, zero width), Cs surrogate, Co private, Zl/Zp line separators
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Of the other categories those that Unicode says to ignore where a font does not know them, and the empty Braille cell.
_BLANK: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
# What a workflow runner takes for a command: `::error::` at the start of a line, `##[error]` anywhere.
_COMMAND: Final = re.compile(r"^([^\S\n]*)::|##\[", re.MULTILINE)


def with_escapes(text: str, keep: str = "") -> str:
    r"""The text with every character that is not seen spelled out: `\\u202e`. Those in `keep` stay as they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(character):04x}"
        if character not in keep and (unicodedata.category(character) in _UNSEEN or _BLANK.match(character))
        else character
        for character in text
    )


def without_commands(text: str) -> str:
    """The text with nothing in it that a workflow runner would obey, where it is printed in a job."""
    return _COMMAND.sub(lambda found: "##\\u005b" if found[1] is None else f"{found[1]}\\u003a:", text)
