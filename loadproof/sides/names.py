"""Names of files as a tree holds them: which can be followed, how they are shown, and what rows of them add up to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LONGEST_PATH, LONGEST_NAME = 4096, 255  # bytes of a path and of a part of it: Linux's PATH_MAX and NAME_MAX
MOST_FOLDERS: Final = 100  # that a path leads through: whatever makes or deletes it may take a call for each


def readable_name(text: str) -> str:
    """A file's name may be no text at all: what is none is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def is_plain(path: str) -> bool:
    """False for a path that leaves its folder, or reaches into git's own: a made-up tree may hold one."""
    parts = path.split("/")
    return not path.startswith("/") and all(part not in ("", ".", "..") and part.lower() != ".git" for part in parts)


def unwritable(top: Path, path: str) -> str:
    """Why no disk takes a file of that name below `top`, or nobody would work with it; '' where one does."""
    if path.count("/") > MOST_FOLDERS:
        return f"more than {MOST_FOLDERS} folders deep"
    parts = os.fsencode(path).split(b"/")
    if any(len(part) > LONGEST_NAME for part in parts) or len(os.fsencode(top / path)) >= LONGEST_PATH:
        return "File name too long"
    return ""


def digest_of(rows: Iterable[tuple[str, ...]]) -> str:
    """SHA-256 (hexadecimal) over rows of text, told apart whatever they hold."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(b"\0".join(os.fsencode(part) for part in row) + b"\0\0")
    return digest.hexdigest()
