"""Text that others wrote, made safe to show: nothing in it may steer a terminal, reorder a line or hide in it."""

from __future__ import annotations

import unicodedata

# Cc control, Cf format (direction overrides, zero width), Cs surrogate, Co private, Zl/Zp line separators
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def with_escapes(text: str, keep: str = "") -> str:
    r"""The text with every character that is not seen spelled out: `\\u202e`. Those in `keep` stay as they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(character):04x}"
        if character not in keep and unicodedata.category(character) in _UNSEEN
        else character
        for character in text
    )
