"""The one console that verbs print to: what others wrote (a server's error, a name) reaches it as text and no more."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from loadproof.untrusted import with_escapes, without_commands

_WORD: Final = re.compile(r"(?:`[^`]*`|[^ ])+")


class Terminal(Console):
    """A console on which control and direction characters, and what a workflow runner would take for a command, are
    spelled out; its own colours and cursor moves work."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else without_commands(with_escapes(text, keep="\n")), style, control)


def wanted_width(console: Console) -> int | None:
    """A terminal's columns, or those that COLUMNS asks for; None in a log or a file, where nothing asks for folding."""
    return console.width if console.is_terminal or os.environ.get("COLUMNS", "").isdigit() else None


def folded(text: Text, width: int | None) -> Text:
    """Lines of `width` columns at most, broken between words; what goes on stands below the line's first word. A word
    that is wider than that, and a command in backticks, stays whole, so that it can be copied."""
    return text if width is None else Text("\n").join(_folded(line, width) for line in text.split(allow_blank=True))


def for_people(text: str, stream: TextIO) -> str:
    """Folded to the terminal that `stream` is; as it is for a pipe or a file, where machines read."""
    return folded(Text(text), Console(file=stream).width if stream.isatty() else None).plain


def tell(text: str) -> None:
    """What is no result, an error or a hint, on stderr."""
    Terminal(stderr=True, highlight=False).print(for_people(text, sys.stderr), markup=False, soft_wrap=True)


def _folded(line: Text, width: int) -> Text:
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    breaks: list[int] = []
    begun = 0
    for word in _WORD.finditer(line.plain[indent:]):
        start, end = word.start() + indent, word.end() + indent
        if start > max(begun, indent) and cell_len(line.plain[begun:end]) + (indent if breaks else 0) > width:
            breaks.append(start)
            begun = start
    pieces = line.divide(breaks)
    for piece in pieces:
        piece.rstrip()
    return Text("\n" + " " * indent).join(pieces)


def labelled(rows: Iterable[tuple[str, str]]) -> Table:
    """Lines with a word each at their left; what is long wraps below itself, and nothing is read as markup."""
    table = Table.grid(padding=(0, 1))
    table.add_column(min_width=12, no_wrap=True)
    table.add_column(overflow="fold")
    for label, said in rows:
        table.add_row(Text(label), Text(said))
    return table


@dataclass(frozen=True, slots=True)
class Columns:
    """A table that breaks no word: where the longest words of its columns do not fit beside each other, each row stands
    by itself, a line a cell. Only a word that is wider than the terminal is folded. Columns of `right` are aligned
    there."""

    head: Sequence[Text]
    rows: Sequence[Sequence[Text]]
    box: Box | None = None
    title: str | None = None
    right: Collection[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        cells = list(zip(self.head, *self.rows, strict=True))
        least = [max(_widest(cell.plain.split()) for cell in column) for column in cells]
        most = [max(_widest(cell.plain.splitlines()) for cell in column) for column in cells]
        between = 3 if self.box else 2
        spare = options.max_width - sum(least) - between * (len(cells) - 1) - (2 if self.box else 0)
        if spare < 0:
            yield from self._stacked()
            return
        table = Table(box=self.box, pad_edge=False, padding=(0, 1) if self.box else (0, between, 0, 0))
        if self.title:
            table.title, table.title_justify = Text(self.title), "left"
        wanted = sum(most) - sum(least)
        share = min(1.0, spare / wanted) if wanted else 0.0
        for at, (name, fewest, all_of_it) in enumerate(zip(self.head, least, most, strict=True)):
            width = fewest + int(share * (all_of_it - fewest))
            table.add_column(name, width=width, overflow="fold", justify="right" if at in self.right else "left")
        for row in self.rows:
            table.add_row(*row)
        yield table

    def _stacked(self) -> Iterator[RenderableType]:
        if self.title:
            yield Text(self.title, "italic")
        for first, *others in self.rows:
            yield first
            for name, cell in zip(self.head[1:], others, strict=True):
                yield Padding(Text.assemble((f"{name.plain}: ", "dim"), cell, overflow="fold"), (0, 0, 0, 2))


def _widest(parts: Iterable[str]) -> int:
    """In columns of a terminal."""
    return max(map(cell_len, parts), default=0)
