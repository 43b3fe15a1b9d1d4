"""What verbs have in common when they say how it went: lines, tables, JSON on stdout, and files that were asked for."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import orjson
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from loadproof.errors import CouldNotRunError, InputError, LoadproofError
from loadproof.terminal import Terminal, folded, wanted_width

_BELOW = 4  # columns that a sentence is set in below its label
NARROWEST = 80  # columns: better a wrapped line than a figure cut away


def tables_on(log_columns: int, narrowest: int = 1) -> Terminal:
    """Where tables go: `log_columns` wide in a log or a file, where nothing asks for folding, else as the terminal or
    COLUMNS has it."""
    console = Terminal(highlight=False)
    asked = wanted_width(console)
    width = log_columns if asked is None else max(asked, narrowest)
    return console if width == console.width else Terminal(highlight=False, width=width)


def print_parts(parts: Iterable[RenderableType], console: Terminal) -> None:
    """Tables and lines in reading order; a line is not broken."""
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


def table_of(title: str, *columns: str, right: Collection[str] = (), **looks: Any) -> Table:
    """A table with its title above it: words are folded, what stands in the columns `right` is aligned there."""
    table = Table(title=title, title_justify="left", **looks)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def say(*lines: str, console: Terminal | None = None, style: str = "") -> None:
    """Lines as they are: not read as markup, and not broken."""
    shown = console or Terminal(highlight=False)
    for line in lines:
        shown.print(line, markup=False, soft_wrap=True, style=style)


def say_folded(*lines: str, console: Terminal | None = None, style: str = "") -> None:
    """Sentences: as `say`, and broken between words where a terminal or COLUMNS gives a width."""
    shown = console or Terminal(highlight=False)
    for line in lines:
        shown.print(folded(Text(line, style), wanted_width(shown)), soft_wrap=True)


def say_beside(*rows: tuple[str, str], label_width: int, console: Terminal | None = None) -> None:
    """Sentences beside their labels: as `say_folded`; what goes on stands below the sentence's beginning. Where a word
    has no room there, all of it stands below the label."""
    shown = console or Terminal(highlight=False)
    width = wanted_width(shown)
    for label, said in rows:
        above, indent = f"{label:<{label_width - 1}} ", label_width
        if width is not None and max(map(cell_len, said.split()), default=0) > width - label_width:
            above, indent = f"{label}\n{' ' * _BELOW}", _BELOW
        lines = folded(Text(said), None if width is None else max(1, width - indent)).plain.split("\n")
        say(above + f"\n{' ' * indent}".join(lines), console=shown)


def print_json(document: object) -> None:
    """One document for programs."""
    try:
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # half a surrogate pair, which only escapes can carry
        text = json.dumps(document, indent=2)
    sys.stdout.write(text + "\n")


def write_file(path: Path, text: str, option: str) -> None:
    """The file that an option names; added to where it is the summary of a GitHub step. Raises InputError, and
    CouldNotRunError where the disk is full."""
    try:
        with path.open("a" if is_step_summary(path) else "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise cannot_write(path, option, error) from None


def cannot_write(path: Path, option: str, error: OSError) -> LoadproofError:
    """A full disk is no bad usage."""
    kind = CouldNotRunError if error.errno in (errno.ENOSPC, errno.EDQUOT) else InputError
    return kind(f"{option} {path}: cannot be written ({error.strerror}); name another place")


def no_place(path: Path, option: str) -> str:
    """Why no file can stand there; empty where one can."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        return f"{option} {path}: is no place for a file; name one in a folder that exists"
    return ""


def is_step_summary(path: Path) -> bool:
    """True for the file that GitHub gives all steps of a job to add to."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return bool(summary) and path.resolve() == Path(str(summary)).resolve()
