"""What CloudWatch Logs Insights refuses of a query: CloudWatch Logs user guide, "Logs Insights QL query syntax"."""

from __future__ import annotations

import re
from typing import Final

_COMMANDS: Final = {
    "anomaly", "dedup", "diff", "display", "fields", "filter", "filterindex", "join", "limit", "lookup", "parse",
    "pattern", "sort", "source", "stats", "subqueries", "unmask", "unnest",
}  # fmt: skip
# What a query quotes: comments, regular expressions, texts and names with odd characters.
_QUOTED: Final = re.compile(
    r"""(?m)^\s*\#.*$|(?:\blike|=~|\bparse(?:\s+@?[\w.`]+)?)\s*/(?:\\.|[^/\\])*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`"""
)
_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}
_WORD: Final = re.compile(r"\w+")


def query_fault(query: str) -> str | None:
    """Why a query of Logs Insights QL cannot be read; None where nothing is seen that is wrong."""
    plain = _QUOTED.sub(_kept, query)
    for quote in "\"'`":
        if quote in plain:
            return f"unexpected symbol found {quote}"
    for command in plain.split("|"):
        word = _WORD.match(command.strip())
        if word is None or word[0].lower() not in _COMMANDS:
            return f"unexpected symbol found {command.strip()[:40] or '|'}"
    return _open_bracket(plain)


def _kept(match: re.Match[str]) -> str:
    """What stands in the place of what is quoted: a command keeps its name."""
    word = _WORD.match(match[0])
    return f"{word[0]} x" if word is not None else " x " if not match[0].lstrip().startswith("#") else ""


def _open_bracket(text: str) -> str | None:
    wanted: list[str] = []
    for letter in text:
        if letter in _PAIRS:
            wanted.append(_PAIRS[letter])
        elif letter in _PAIRS.values() and (not wanted or wanted.pop() != letter):
            return f"unexpected symbol found {letter}"
    return f"a {wanted[-1]} is missing" if wanted else None
