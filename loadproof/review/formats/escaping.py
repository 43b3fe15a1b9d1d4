"""Untrusted text in Markdown: shown character for character, and never anything but text.

Everything that a profile, a ref or a file name brings goes through `prose`, `linked`, `code` or `html`. Two things are
guarded: the Markdown itself (CommonMark with GitHub's tables, strikethrough, autolinks and maths), and what hosts do
afterwards to the words of a page: mentions, references, emoji names. Against those no backslash helps; a word joiner
(U+2060, no width) parts what would be recognised.
"""

from __future__ import annotations

import html as html_library
import re
from collections.abc import Collection
from typing import Final

from loadproof.pages.wording import ADDRESS
from loadproof.untrusted import with_escapes

# Characters of one untrusted text; what is longer tells a reader no more.
LONGEST_PROSE: Final = 1_000
LONGEST_NAME: Final = 160
_JOINER: Final = "\N{WORD JOINER}"
# Punctuation that can begin or end markup anywhere in a line. Untrusted text never stands at the start of one.
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~&$])")
_RECOGNISED: Final = re.compile(
    r"(?:@(?=[\w.-]))"  # mentions, user@sha, e-mail (`a@-b.co` is one, too)
    r"|(?:[#!&%~^](?=[\w\"]))"  # issues, requests, labels, milestones, epics
    r"|(?:(?<![A-Za-z0-9])(?:GH|GHSA|CVE)-(?=\w))"  # also after a letter that hosts take for none: `éGH-12`, `_GH-12`
    r"|(?:[\[*][a-z_]+:)"  # GitLab's `[vulnerability:12]`, `*iteration:12`
    r"|(?::(?=(?:[\w+-]*[a-z+-][\w+-]*|100|1234):))"  # emoji names; times and places in files stay whole
    r"|(?:www(?=\.|\Z))"  # a sentence of ours may end with it
    r"|(?:(?<!s3):(?=//))"  # addresses; s3:// stays whole: nothing makes a link of it
    r"|(?:(?<!s3:)/(?=/))"  # `//host` is one to linkify-it
    r"|(?:(?:mailto|xmpp):)",
    re.IGNORECASE,
)
# A commit, abbreviated or not: after every six digits, so that no part of it is one. Figures of ours have commas.
_COMMIT: Final = re.compile(r"(?<![0-9A-Za-z_])[0-9a-f]{7,}(?![0-9A-Za-z_])", re.IGNORECASE | re.ASCII)
_CODE: Final = re.compile(r"`([^`]+)`")


def prose(text: str, *, in_cell: bool = False) -> str:
    """A sentence on one line. What it marks with a pair of backticks becomes code, as messages of ours mean it."""
    shown = _one_line(text.strip(" \r\n"), LONGEST_PROSE)
    parts, end = [], 0
    for found in _CODE.finditer(shown):
        between = _escaped(shown[end : found.start()])
        parts += [between or _JOINER if end else between, _fenced(found[1], in_cell=in_cell)]
        end = found.end()
    return "".join([*parts, _escaped(shown[end:])])


def linked(text: str, addresses: Collection[str]) -> str:
    """A sentence on one line, with those `addresses` as links that stand in it whole.

    The text may be anybody's, so `addresses` must not be: whatever else looks like one stays text.
    """
    parts = ADDRESS.split(_one_line(text.strip(" \r\n"), LONGEST_PROSE))
    return "".join(
        f"[{_escaped(part.removeprefix('https://'))}]({part})" if part in addresses else _escaped(part)
        for part in parts
    )


def code(text: str, *, in_cell: bool = False) -> str:
    """A name or a value as code on one line. Inside it Markdown and hosts leave everything alone.

    In a table's cell a bar is escaped also within code: cells are cut before code is read.
    """
    return _fenced(_one_line(text, LONGEST_NAME), in_cell=in_cell) if text else "*(empty)*"


def html(text: str) -> str:
    """Text inside an HTML tag that stands in Markdown, such as a summary: as code, which hosts leave alone."""
    return f"<code>{html_library.escape(_one_line(text, LONGEST_NAME))}</code>"


def _one_line(text: str, longest: int) -> str:
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return with_escapes(re.sub(r"[ \r\n]*[\r\n][ \r\n]*", " ", cut))


def _escaped(text: str) -> str:
    parted = _RECOGNISED.sub(lambda found: found[0] + _JOINER, text)
    parted = _COMMIT.sub(lambda found: re.sub(r".{6}(?=.)", lambda six: six[0] + _JOINER, found[0]), parted)
    return _SPECIAL.sub(r"\\\1", parted)


def _fenced(text: str, *, in_cell: bool) -> str:
    """A code span: its fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    padded = f" {text} " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else text
    return f"{fence}{padded.replace('|', chr(92) + '|') if in_cell else padded}{fence}"
