"""Names of files as a tree holds them: which can be followed, how they are shown, and what rows of them add up to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable


def readable_name(text: str) -> str:
    """A file's name may be no text at all: what is none is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def is_plain(path: str) -> bool:
    """False for a path that leaves its folder, or reaches into git's own: a made-up tree may hold one."""
    parts = path.split("/")
    return not path.startswith("/") and all(part not in ("", ".", "..") and part.lower() != ".git" for part in parts)


def digest_of(rows: Iterable[tuple[str, ...]]) -> str:
    """SHA-256 (hexadecimal) over rows of text, told apart whatever they hold."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(b"\0".join(os.fsencode(part) for part in row) + b"\0\0")
    return digest.hexdigest()
