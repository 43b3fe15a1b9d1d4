"""A review to standard output or a file, in any of its formats."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from loadproof.cli.check.formats import wants_colour
from loadproof.errors import InputError
from loadproof.review.formats import formatted
from loadproof.review.shapes import Document
from loadproof.terminal import Terminal

WIDTH_OF_A_LOG: Final = 120  # columns


class Format(StrEnum):
    """How a review is written."""

    MARKDOWN = "markdown"
    JSON = "json"
    SARIF = "sarif"
    TEXT = "text"
    HTML = "html"


_BY_ENDING: Final = {
    ".md": Format.MARKDOWN,
    ".json": Format.JSON,
    ".sarif": Format.SARIF,
    ".txt": Format.TEXT,
    ".html": Format.HTML,
}
Target = tuple[Path | None, Format]  # None is standard output


def targets_of(format: Format | None, outputs: Sequence[Path]) -> list[Target]:
    """What to write where, refused before anything is synthesized. Raises InputError with every problem."""
    if not outputs:
        return [(None, format or Format.TEXT)]
    targets: list[Target] = []
    problems = []
    for path in outputs:
        by_name = Format.MARKDOWN if _is_step_summary(path) else _BY_ENDING.get(path.suffix)
        chosen = format if format is not None and len(outputs) == 1 else by_name
        if chosen is None:
            problems.append(f"--output {path}: no format by this ending; use one of: {', '.join(_BY_ENDING)}")
        elif path.is_dir() or not path.resolve().parent.is_dir():
            problems.append(f"--output {path}: is no place for a file; name one in a folder that exists")
        else:
            targets.append((path, chosen))
    if format is not None and len(outputs) > 1:
        problems.append(f"--format {format.value}: goes with one --output; leave it out, the files' endings say it")
    if problems:
        raise InputError("\n".join(problems))
    return targets


def write(document: Document, targets: Sequence[Target]) -> None:
    """Raises InputError for a place that cannot be written."""
    for path, format in targets:
        if path is None:
            _show(document, format)
        else:
            _write(path, formatted(document, format.value, width=WIDTH_OF_A_LOG))


def _show(document: Document, format: Format) -> None:
    """On standard output; text as wide as the terminal and in colours, where there is one."""
    console = Terminal()
    text = formatted(
        document,
        format.value,
        width=console.width if console.is_terminal else WIDTH_OF_A_LOG,
        coloured=wants_colour(sys.stdout),
        ascii_only=console.options.ascii_only,
    )
    sys.stdout.write(text)


def _write(path: Path, text: str) -> None:
    try:
        # GitHub gives all steps of a job one file to add to.
        with path.open("a" if _is_step_summary(path) else "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"--output {path}: cannot be written ({error.strerror}); name another place") from None


def _is_step_summary(path: Path) -> bool:
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return bool(summary) and path.resolve() == Path(str(summary)).resolve()
