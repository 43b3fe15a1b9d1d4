"""The one console that verbs print to: what others wrote (a server's error, a name) reaches it as text and no more."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from loadproof.untrusted import with_escapes


class Terminal(Console):
    """A console on which control and direction characters are spelled out; its own colours and cursor moves work."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else with_escapes(text, keep="\n"), style, control)


def labelled(rows: Iterable[tuple[str, str]]) -> Table:
    """Lines with a word each at their left; what is long wraps below itself, and nothing is read as markup."""
    table = Table.grid(padding=(0, 1))
    table.add_column(min_width=12, no_wrap=True)
    table.add_column(overflow="fold")
    for label, said in rows:
        table.add_row(Text(label), Text(said))
    return table
