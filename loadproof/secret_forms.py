"""What credentials look like: the prefixes that their makers give them, and long words that no person chose."""

from __future__ import annotations

import re
from typing import Final

SHAPES: Final = re.compile(
    r"hf_[A-Za-z0-9]{8,}"  # Hugging Face
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"  # AWS key ids
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}|xox[abprs]-[\w-]{8,}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}"
    r"|(?:gsk|r8|rpa|fw)_[A-Za-z0-9]{16,}|(?:nvapi|pplx|xai)-[\w-]{16,}"  # hosts of models
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}"  # JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|://[^/\s:@]+:[^/\s@]+@"  # user:password in a URL
    # In a connection string, and no name of a place that stands for it.
    r"|(?i:(?:^|[;&?\s])(?:password|pwd|accountkey|sharedaccesskey|(?:client_?)?secret)\s*=\s*)(?![$<%]|\{\{)[^;&\s]+"
    r"|(?i:bearer\s+)[\w.~+/=-]{16,}"
    r"|\{\{resolve:(?:secretsmanager|ssm-secure):"  # would be readable in DescribeModel
)
RANDOM_WORD: Final = re.compile(r"(?<![\w/+=-])[A-Za-z0-9/+=_-]{32,}(?![\w/+=-])")
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_UNBROKEN: Final = re.compile(r"[A-Za-z0-9+]+")
_TURN: Final = re.compile(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=[0-9])[^0-9]")


def is_secret_value(text: str) -> bool:
    """True when a text has the shape of a credential: a known prefix, or one long random-looking word."""
    return SHAPES.search(text) is not None or any(looks_random(word) for word in RANDOM_WORD.findall(text))


def looks_random(word: str) -> bool:
    """True for 32 characters or more that no person chose: they change between kinds all the time.

    Names change at most a few times a word (`DeepSeek-R1-Distill-Qwen-32B`), and break into short words.
    """
    if _HEXADECIMAL.fullmatch(word):
        return len(word) not in (32, 40, 64)
    kinds = (str.islower, str.isupper, str.isdigit)
    if not all(any(kind(char) for char in word) for kind in kinds) or len(set(word)) < len(word) / 3:
        return False
    parts = [(len(part), len(_TURN.findall(part))) for part in _UNBROKEN.findall(word)]
    return sum(turns for _, turns in parts) > 0.45 * len(word) or any(
        length >= 16 and turns >= length / 4 for length, turns in parts
    )


def is_typed_by_nobody(text: str) -> bool:
    """True for a part of an address that is no name: 32 hexadecimal digits, or a word of 20 that changes its kind all
    the time. Stricter than `is_secret_value`: profiles hold hashes of commits, addresses of servers seldom do.

    A UUID names a thing, and is none.
    """
    for word in re.findall(r"[A-Za-z0-9]{20,}", text):
        if (len(word) >= 32 and _HEXADECIMAL.fullmatch(word)) or len(_TURN.findall(word)) >= len(word) / 4:
            return True
    return False
