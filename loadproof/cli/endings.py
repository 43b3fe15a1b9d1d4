"""What the ending of an `--output` says about its format."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

_BY_ENDING: Final = {
    ".md": "markdown",
    ".json": "json",
    ".sarif": "sarif",
    ".txt": "text",
    ".html": "html",
    ".png": "html",
    ".pdf": "html",
}


def format_by_ending(path: Path, formats: Collection[str]) -> str | None:
    """Of those that a verb writes; None for another ending."""
    found = _BY_ENDING.get(path.suffix)
    return found if found in formats else None


def no_format(path: Path, formats: Collection[str]) -> str:
    """What is said of such an ending."""
    endings = (ending for ending, format in _BY_ENDING.items() if format in formats)
    return f"--output {path}: no format by this ending; use one of: {', '.join(endings)}"
