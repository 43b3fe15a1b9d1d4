"""A review to standard output or a file, in any of its formats."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from loadproof.cli.check.formats import wants_colour
from loadproof.cli.endings import format_by_ending, no_format
from loadproof.cli.pictures import ENDINGS, browser_for, write_page
from loadproof.cli.printing import is_step_summary, no_place, write_file
from loadproof.errors import InputError
from loadproof.review.formats import FORMATS, Format, formatted
from loadproof.review.shapes import Document
from loadproof.terminal import Terminal, wanted_width

WIDTH_OF_A_LOG: Final = 120  # columns
PAGE: Final = Path("review.html")  # what `--format html` writes where it would pour markup onto a terminal

Target = tuple[Path | None, Format]  # None is standard output


def targets_of(format: Format | None, outputs: Sequence[Path]) -> list[Target]:
    """What to write where, refused before anything is synthesized. Raises InputError with every problem."""
    if not outputs:
        return [(PAGE if format == "html" and sys.stdout.isatty() else None, format or "text")]
    targets: list[Target] = []
    problems = []
    for path in outputs:
        by_name = "markdown" if is_step_summary(path) else format_by_ending(path, FORMATS)
        chosen = format if format is not None and len(outputs) == 1 else by_name
        if chosen is None:
            problems.append(no_format(path, FORMATS))
        elif problem := no_place(path, "--output"):
            problems.append(problem)
        else:
            browser_for(path)
            targets.append((path, cast("Format", chosen)))
    if format is not None and len(outputs) > 1:
        problems.append(f"--format {format}: goes with one --output; leave it out, the files' endings say it")
    if problems:
        raise InputError("\n".join(problems))
    return targets


def write(document: Document, targets: Sequence[Target]) -> None:
    """Raises InputError for a place that cannot be written."""
    for path, format in targets:
        if path is None:
            _show(document, format)
        elif path.suffix in ENDINGS:
            write_page(formatted(document, format), path)
        else:
            write_file(path, formatted(document, format, width=WIDTH_OF_A_LOG), "--output")
        if path is PAGE:  # nobody named it: say where it is
            print(path)


def _show(document: Document, format: Format) -> None:
    """On standard output; text as wide as the terminal and in colours, where there is one."""
    console = Terminal()
    text = formatted(
        document,
        format,
        width=wanted_width(console) or WIDTH_OF_A_LOG,
        coloured=wants_colour(sys.stdout),
        ascii_only=console.options.ascii_only,
    )
    sys.stdout.write(text)
