"""Settings, recommendations and alternatives of a plan as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from loadproof.advice.alternatives import Alternative, Alternatives, Range, SettingAdvice
from loadproof.cli.printing import table_of
from loadproof.terminal import labelled

ROWS = 8  # alternatives beside the recommended ones and the profile's own
_STYLE = {"meets": "green", "near": "yellow", "misses": "bold red", "unknown": "dim"}
_SHORT = {"unknown": "-", "no room": "no fit"}  # beside a grade, where columns are scarce


def settings_table(settings: Sequence[SettingAdvice]) -> Table:
    """What Loadproof would set: key, now, proposed, and the figure that it moves."""
    columns = ("setting", "now", "proposed", "why (predicted)")
    table = table_of("Settings to change", *columns, padding=(0, 0, 0, 1), show_edge=False)
    for advice in settings:
        table.add_row(escape(advice.setting), escape(advice.current), escape(advice.proposed), escape(advice.reason))
    return table


def render_alternatives(found: Alternatives, *, wide: bool) -> Iterator[RenderableType]:
    """Recommendation by goal, then the ranked alternatives, then how many were looked at."""
    yield _recommendations(found)
    yield ""
    yield _table(found, wide=wide)
    yield _counts(found)
    yield labelled(("Note", note) for note in (*found.notes, *_notes(found)))


def _recommendations(found: Alternatives) -> Table:
    columns = ("goal", "choice", "because")
    table = table_of("Best predicted, by goal", *columns, padding=(0, 0, 0, 1), show_edge=False)
    for row in found.recommendations:
        style = "bold" if row.goal == found.goal else ""
        choice = "none" if row.alternative is None else _choice(row.alternative)
        table.add_row(Text(row.goal, style), choice, escape(row.reason))
    return table


def _choice(row: Alternative) -> str:
    own = "as it is: " if row.is_own else ""
    return f"{own}{machines(row)}, {row.family}, TP {row.tensor_parallel_degree}"


def machines(row: Alternative) -> str:
    """`2 x ml.g5.12xlarge`; one machine goes by its name."""
    return row.instance_type if row.instances == 1 else f"{row.instances} x {row.instance_type}"


def _table(found: Alternatives, *, wide: bool) -> Table:
    title = f"Alternatives by {found.goal} (* the profile as it is)"
    table = Table(title=title, title_justify="left", padding=(0, 0, 0, 1 if wide else 0), show_edge=False)
    # Narrow, `4 x` goes above its machine: rather that than figures or outlooks cut away.
    table.add_column("machines", no_wrap=wide, min_width=20)
    for name in ("TP", "copies") if wide else ("TP x\ncopies",):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("server", no_wrap=True)
    names = ["TTFT\nms", "TPOT\nms"] if wide else []
    for name in (*names, "E2E\nms", "tokens\n/s at\nknee", "USD /\nhour", "USD / M\noutput\ntokens\nat knee"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("objectives", "grade") if wide else ("outlook\ngrade",):
        table.add_column(name, no_wrap=True, min_width=8)
    for row in _visible(found):
        table.add_row(*_cells(row, wide=wide), style="bold" if row is found.recommended.alternative else "")
    return table


def _cells(row: Alternative, *, wide: bool) -> list[str | Text]:
    latencies = [_figure(row.ttft_ms), _figure(row.tpot_ms, 1)] if wide else []
    outlook = row.objectives if row.fits != "no" else "no room"
    degree, copies = str(row.tensor_parallel_degree), f"{row.copies:,}"
    style = _STYLE.get(outlook, "bold red")
    return [
        f"{'*' if row.is_own else ' '}{machines(row)}",
        *([degree, copies] if wide else [f"{degree} x {copies}"]),
        row.family,
        *latencies,
        _figure(row.e2e_ms),
        _figure(row.knee_output_tokens_per_s),
        "unknown" if row.usd_per_hour is None else f"{row.usd_per_hour:,.2f}",
        _figure(row.usd_per_million_tokens, 2),
        *([Text(outlook, style), row.grade] if wide else [Text(f"{_SHORT.get(outlook, outlook)} {row.grade}", style)]),
    ]


def _figure(value: Range | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value.value:,.{digits}f}"


def _visible(found: Alternatives) -> list[Alternative]:
    """The best few, and of the rest the recommended ones and the profile's own."""
    named = [row.alternative for row in found.recommendations]
    return [row for at, row in enumerate(found.ranked) if at < ROWS or row.is_own or row in named]


def _counts(found: Alternatives) -> str:
    parts = [
        (found.do_not_fit, "do not fit"),
        (found.fit_marginally, "fit too tightly to be sure"),
        (found.cannot_serve, "cannot serve the load"),
        (found.dominated, "are beaten by another in every figure"),
    ]
    said = [f"{count:,} {what}" for count, what in parts if count]
    return f"Considered {found.considered:,} others" + (": " + ", ".join(said) if said else "")


def _notes(found: Alternatives) -> Iterator[str]:
    chosen = found.recommended.alternative
    for note in chosen.notes if chosen is not None else ():
        yield f"the recommended one: {note}"
