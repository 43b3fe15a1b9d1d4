"""A review in the terminal: verdict, one table, then each profile in full. Wide and narrow, with colours or without."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from loadproof.review import wording
from loadproof.review.brief import brief_of
from loadproof.review.shapes import Document, FindingDocument, ProfileDocument
from loadproof.terminal import Columns, Terminal, labelled
from loadproof.untrusted import with_escapes

MOST_ROWS: Final = 50
MOST_PROFILES: Final = 200  # that are shown: each takes some milliseconds, and nobody reads thousands
_PADDING: Final = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)  # at a line's end, colours between
_STYLES: Final = {"break": "bold red", "risk": "red", "warning": "yellow", "info": "dim"}
_OUTLOOK_STYLES: Final = {"misses": "bold red", "near": "yellow", "unknown": "dim", "meets": "green"}
_ASCII: Final = str.maketrans(
    {"✗": "x", "▲": "!", "△": "?", "○": "-", "≈": "~", "✓": "+", "→": "->", "–": "-", "−": "-", "≤": "<=", "≥": ">="}
    | {"…": "...", "×": "x", "↑": "^"}
)


def as_text(document: Document, *, width: int = 100, coloured: bool = False, ascii_only: bool = False) -> str:
    """At most `width` columns; ANSI colours if asked for; `ascii_only` for a terminal that knows nothing else."""
    written = StringIO()
    console = Terminal(
        file=written,
        width=max(40, width),
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
    )
    for part in _Said(document, width=console.width, ascii_only=ascii_only).parts():
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return _PADDING.sub(lambda found: found[0].replace(" ", ""), written.getvalue())


class _Said:
    """The parts in reading order."""

    def __init__(self, document: Document, *, width: int, ascii_only: bool) -> None:
        self._document, self._width, self._ascii_only = document, width, ascii_only

    def parts(self) -> Iterator[RenderableType]:
        document = self._document
        verdict = document["verdict"]
        worst = verdict["worst"]
        mark = wording.SEVERITY_MARKS[worst][0] if worst else "✓"
        style = _STYLES[worst] if worst and worst != "info" else "bold green"
        yield self._line((f"{mark} {verdict['word']} ", style), (verdict["text"], "bold"))
        yield labelled((asked, self._shown(said)) for asked, said in brief_of(document).rows)
        if document["profiles"]:
            yield ""
            yield self._overview()
        for profile in document["profiles"][:MOST_PROFILES]:
            yield from self._details(profile)
        yield ""
        if more := document["profiles"][MOST_PROFILES:]:
            found = sum(len(profile["findings"]) for profile in more)
            counted = f"{wording.counted(len(more), 'more profile')} with {wording.counted(found, 'finding')}"
            yield self._line((f"And {counted}, none worse than these; all are in `--format json`.", "bold"))
        yield self._line((self._compared(), "dim"))

    def _line(self, *parts: tuple[str, str]) -> Text:
        """Text that is never read as markup."""
        return Text.assemble(*((self._shown(text), style) for text, style in parts))

    def _shown(self, text: str) -> str:
        text = text.replace("\N{NO-BREAK SPACE}", " ")
        if not self._ascii_only:
            return text
        return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")

    def _compared(self) -> str:
        document = self._document
        unaffected = document["unaffected"]
        others = f"; {wording.counted(unaffected, 'other profile')} not affected" if unaffected else ""
        sides = wording.synthesized(document)
        return f"{document['base']} compared with {document['head']}: {sides}, nothing deployed{others}."

    def _cells(self, profile: ProfileDocument) -> dict[str, Text]:
        """What the table says of a profile, by column."""
        state = wording.STATES[profile["state"]]
        severity = profile["severity"]
        return {
            "profile": self._line((wording.name(profile), "bold"), (f" {state}" if state else "", "italic")),
            "what changes": self._line((changes(profile), "")),
            "cost a month, fewest copies": self._line(("\n".join(filter(None, wording.cost_cell(profile))), "")),
            "objectives, predicted": self._line((wording.objectives_line(profile), "")),
            "findings": self._line((wording.findings_line(profile) or "none", _STYLES[severity] if severity else "")),
        }

    def _overview(self) -> RenderableType:
        rows = [self._cells(profile) for profile in self._document["profiles"][:MOST_PROFILES]]
        looks = box.ASCII2 if self._ascii_only else box.SIMPLE_HEAD
        return Columns([self._line((column, "")) for column in rows[0]], [list(row.values()) for row in rows], looks)

    def _details(self, profile: ProfileDocument) -> Iterator[RenderableType]:
        yield ""
        yield self._line((wording.name(profile), "bold underline"), (f"  {profile['file']}", "dim"))
        if profile["state"] == "unchanged":
            yield self._indented(("nothing that is deployed changes", "dim"))
        for problem in wording.problems(profile)[:MOST_ROWS]:
            yield self._indented(("refused: ", "bold red"), (problem, ""))
        for finding in profile["findings"]:
            yield from self._finding(finding)
        if wording.judged(profile):
            yield from self._objectives(profile)
            costs = [[wording.COST_AT[row["at"]], *wording.cost(row)] for row in profile["costs"]]
            yield from self._table(("cost a month", "before", "after", "difference"), costs)
            if costs and profile["price_source"]:
                yield self._prices(profile["price_source"])
        fields = [
            [row["path"], *("–" if side is None else wording.value(side) for side in (row["before"], row["after"]))]
            for row in profile["fields"]
        ]
        yield from self._table(("field", "before", "after"), fields)
        resources = [[cell.replace("`", "") for cell in row] for row in wording.resource_rows(profile)]
        yield from self._table(("deployment", "resource", "type", "because"), resources)
        for note in profile["notes"]:
            yield self._indented(("note: ", "dim"), (note, ""))

    def _indented(self, *parts: tuple[str, str], by: int = 2) -> Padding:
        return Padding(self._line(*parts), (0, 0, 0, by))

    def _prices(self, source: str) -> Text:
        """Broken between words; an address stays whole, however long, so that a terminal lets one follow it."""
        room, source = self._width - 2, with_escapes(self._shown(source))
        whole = all(word.startswith("https://") for word in source.split() if len(word) > room)
        lines = textwrap.wrap(f"Prices: {source}.", room, break_long_words=not whole, break_on_hyphens=False)
        text = self._line((textwrap.indent("\n".join(lines), "  "), "dim"))
        text.no_wrap = True
        return text

    def _finding(self, finding: FindingDocument) -> Iterator[RenderableType]:
        mark, word = wording.SEVERITY_MARKS[finding["severity"]]
        place = f"{finding['file']}:{finding['line']}" if finding["line"] > 1 else ""
        style = _STYLES[finding["severity"]]
        head = ", ".join(text for text in (finding["subject"], place) if text)
        yield self._indented((f"{mark} {word} {finding['code']} ", style), (head, "bold"))
        yield self._indented((finding["message"], ""), by=4)
        yield self._indented(("safe way: ", "dim"), (finding["mend"], ""), by=4)
        if finding["evidence"]:
            yield self._indented(("seen in: ", "dim"), (finding["evidence"], ""), by=4)

    def _objectives(self, profile: ProfileDocument) -> Iterator[RenderableType]:
        rows: list[list[str | tuple[str, str]]] = []
        for row in profile["objectives"]:
            before, after = row["before"], row["after"]
            outlook = " ".join(wording.OUTLOOK_MARKS[after["expected"]]) if after else "not set any more"
            style = _OUTLOOK_STYLES[after["expected"]] if after else "dim"
            figures = [wording.predicted(row, before), wording.predicted(row, after), wording.interval(row, after)]
            rows.append([wording.title(row), wording.bound(row, after or before), *figures, (outlook, style)])
        yield from self._table(("objective", "bound", "predicted before", "after", "range", "outlook"), rows)
        if rows:
            yield self._indented((wording.evidence(profile), "dim"))

    def _table(self, head: Sequence[str], rows: Sequence[Sequence[str | tuple[str, str]]]) -> Iterator[RenderableType]:
        """A table without lines, at most MOST_ROWS rows; nothing for no rows."""
        if not rows:
            return
        cells = [
            [self._line((cell, "") if isinstance(cell, str) else cell) for cell in row] for row in rows[:MOST_ROWS]
        ]
        yield ""
        yield Padding(Columns([self._line((column, "dim")) for column in head], cells), (0, 0, 0, 2))
        if len(rows) > MOST_ROWS:
            yield self._indented((f"and {len(rows) - MOST_ROWS:,} more", "dim"))


def changes(profile: ProfileDocument) -> str:
    """The first fields by path, how many more, and what happens to resources."""
    cell = wording.changes_cell(profile)
    if cell:
        return cell
    lines = [f"{row['path']} {wording.change(row)}" for row in profile["fields"][:3]]
    more = len(profile["fields"]) - len(lines)
    lines += [wording.counted(more, "more field")] if more > 0 else []
    resources = wording.resources_line(profile["resources"])
    lines += [f"resources: {resources}"] if resources else []
    return "\n".join(lines)
