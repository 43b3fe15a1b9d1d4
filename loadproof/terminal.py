"""The one console that verbs print to: what others wrote (a server's error, a name) reaches it as text and no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from loadproof.untrusted import with_escapes, without_commands


class Terminal(Console):
    """A console on which control and direction characters, and what a workflow runner would take for a command, are
    spelled out; its own colours and cursor moves work."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else without_commands(with_escapes(text, keep="\n")), style, control)


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
    by itself, a line a cell. Only a word that is wider than the terminal is folded."""

    head: Sequence[Text]
    rows: Sequence[Sequence[Text]]
    box: Box | None = None

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
        wanted = sum(most) - sum(least)
        share = min(1.0, spare / wanted) if wanted else 0.0
        for name, fewest, all_of_it in zip(self.head, least, most, strict=True):
            table.add_column(name, width=fewest + int(share * (all_of_it - fewest)), overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        yield table

    def _stacked(self) -> Iterator[RenderableType]:
        for first, *others in self.rows:
            yield first
            for name, cell in zip(self.head[1:], others, strict=True):
                yield Padding(Text.assemble((f"{name.plain}: ", "dim"), cell, overflow="fold"), (0, 0, 0, 2))


def _widest(parts: Iterable[str]) -> int:
    """In columns of a terminal."""
    return max(map(cell_len, parts), default=0)
