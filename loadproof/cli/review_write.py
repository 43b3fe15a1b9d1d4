"""A review to standard output or a file, in any of its formats."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadproof.errors import InputError

if TYPE_CHECKING:
    from loadproof.review.model import Review

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


def write(made: Review, targets: Sequence[Target]) -> None:
    """Raises InputError for a place that cannot be written."""
    for path, format in targets:
        if path is None:
            show(made, format)
        else:
            _write(path, written(made, format))


def written(made: Review, format: Format) -> str:
    """The same bytes for the same review, whatever terminal is looking."""
    match format:
        case Format.JSON:
            import json

            from loadproof.review.document import document

            return json.dumps(document(made), indent=2, allow_nan=False) + "\n"
        case Format.MARKDOWN:
            from loadproof.review.formats.markdown import as_markdown

            return as_markdown(made)
        case Format.SARIF:
            from loadproof.review.formats.sarif import as_sarif

            return as_sarif(made)
        case Format.HTML:
            from loadproof.review.formats.html import as_html

            return as_html(made)
        case Format.TEXT:
            from loadproof.review.formats.text import as_text

            return as_text(made, width=WIDTH_OF_A_LOG)


def show(made: Review, format: Format) -> None:
    """On standard output; text as wide as the terminal, and in its colours."""
    sys.stdout.write(written(made, format))


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
