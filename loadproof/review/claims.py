"""Words of somebody else in a review of ours: quoted, so that nobody takes them for our own.

A name without blanks (a field's path, a logical id) stays as it is; whatever could be a sentence stands in “…”, with no
quotation mark inside that could end it.
"""

from __future__ import annotations

import re
from typing import Final

from loadproof.review.wording import shortened

LONGEST_CLAIM: Final = 900  # characters: with its quotation marks within what a page shows of one text
_NAME: Final = re.compile(r"[A-Za-z0-9_./:\[\]{}$+*#@%=,~…-]+")
# How a review names its sides: a ref or a folder, its commit, and how they were found.
_SIDE: Final = re.compile(
    rf"{_NAME.pattern}(?: \([0-9a-f]{{7,40}}\)|, from where HEAD left it \([0-9a-f]{{7,40}}\))?"
    r"|working tree(?: on [0-9a-f]{7,40})?, (?:with uncommitted changes|nothing uncommitted)"
)
_QUOTES: Final = re.compile('["“”„‟«»‹›❝❞❠〝〞〟＂″‶ʺ˝״]')


def claimed(text: str, longest: int = LONGEST_CLAIM) -> str:
    """`“what somebody says”`, at most `longest` characters of it; nothing for nothing."""
    inside = shortened(_QUOTES.sub("'", text).strip(), longest)
    return f"“{inside}”" if inside else ""


def named(text: str, longest: int = LONGEST_CLAIM) -> str:
    """A name as it is; what has blanks or marks that no name has, quoted."""
    return text if len(text) <= longest and _NAME.fullmatch(text) else claimed(text, longest)


def side(text: str) -> str:
    """A side of the comparison as a review names it; quoted if it is named otherwise."""
    return text if _SIDE.fullmatch(text) else claimed(text)
