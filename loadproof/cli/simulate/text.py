"""A simulation as people read it: what happened to the requests, how long they waited, copies over time, cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from loadproof.cli.printing import NARROWEST, say_beside, say_folded, tables_on
from loadproof.sessions import label_of
from loadproof.simulation import CopyCount, Latencies, ProfileSimulation
from loadproof.simulation.windows import Window, merged
from loadproof.terminal import Terminal

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = ".:-=+*#@"
MOST_ROWS = 15

Part = str | tuple[str, str] | Table  # a title, or a label and what stands beside it


def print_simulation(made: ProfileSimulation) -> None:
    console = tables_on(120, NARROWEST)
    _print(_lines(made, ASCII_BARS if console.options.ascii_only else BARS), console)


def _print(parts: Iterable[Part], console: Terminal) -> None:
    for part in parts:
        if isinstance(part, tuple):
            say_beside(part, label_width=11, console=console)
        elif isinstance(part, str):
            say_folded(part, console=console, style="bold")
        else:
            console.print(part)


def print_routings(found: Sequence[ProfileSimulation]) -> None:
    """The same traffic under each strategy: what their caches find, how fast it is, how evenly it falls."""
    first = found[0]
    table = Table(box=None, pad_edge=False)
    table.add_column("routing")
    for name in ("found in caches", "TTFT p50 ms", "TTFT p95 ms", "E2E p95 ms", "tokens/s", "busiest copy"):
        table.add_column(name, justify="right")
    for made in found:
        summary, routed = made.summary, made.routed
        known = bool(routed.prompt_tokens)
        figures = (summary.ttft.percentile_ms(50), summary.ttft.percentile_ms(95), summary.e2e.percentile_ms(95))
        table.add_row(
            made.routing,
            f"{routed.found_share:.1%}" if known else "-",
            *("-" if value is None else f"{value:,.0f}" for value in figures),
            f"{summary.output_tokens_per_s:,.0f}",
            f"{routed.busiest_share:.2f} x mean" if known else "-",
        )
    notes = dict.fromkeys(note for made in found for note in made.notes)
    _print([_title(first), "", table, *(("Note", note) for note in notes)], tables_on(120, NARROWEST))


def _title(made: ProfileSimulation) -> str:
    return f"{made.profile_name}, predicted: {made.traffic}, {made.minutes:.4g} min"


def _lines(made: ProfileSimulation, bars: str) -> Iterator[Part]:
    summary, windows = made.summary, made.windows
    sent = summary.requests + summary.refused + summary.timed_out
    yield _title(made)
    yield ""
    for line in made.sessions:
        yield "Sessions", line
    yield (
        "Requests",
        f"{sent:,} sent: {summary.requests:,} served, {summary.refused:,} refused, "
        f"{summary.timed_out:,} given up after {made.limit_s:g} s",
    )
    if summary.requests:
        yield (
            "Goodput",
            f"{_figure(summary.goodput_per_s)} of {_figure(summary.requests_per_s)} requests/s served meet "
            f"the latency objectives ({summary.good / summary.requests:.1%}); "
            f"{_figure(summary.output_tokens_per_s)} output tokens/s",
        )
        yield ""
        yield _latencies(made)
        yield from _bounds(made)
    if made.routed.prompt_tokens:
        routed = made.routed
        yield (
            "Caches",
            f"{routed.found_share:.1%} of prompt tokens found, routed {made.routing}; the busiest copy had "
            f"{routed.busiest_share:.2f} times the mean of requests",
        )
    yield ""
    yield from _copies(made.history, windows, bars)
    yield "TTFT p95", sparkline([row.ttft.percentile_ms(95) for row in windows], bars)
    yield "", _range(windows)
    yield ""
    yield _table(windows)
    price = "no known price" if made.cost_usd is None else f"{made.cost_usd:,.2f} USD {made.price}"
    yield "Cost", f"{made.instance_hours:.2f} instance hours, {price}"
    yield (
        "Start-up",
        f"a copy serves {made.start_up.copy_s:.0f} s after it is wanted, "
        f"{made.start_up.instance_s + made.start_up.copy_s:.0f} s where it needs a new instance",
    )
    for note in made.notes:
        yield "Note", note


def _latencies(made: ProfileSimulation) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("predicted, ms")
    for name in ("p50", "p90", "p95", "p99", "max"):
        table.add_column(name, justify="right")
    for name, found in (("TTFT", made.summary.ttft), ("TPOT", made.summary.tpot), ("E2E", made.summary.e2e)):
        table.add_row(name, *_percentiles(found))
    for part in made.parts:
        for name, found in (("TTFT", part.ttft), ("E2E", part.e2e)):
            table.add_row(f"{name} of {part.name}", *_percentiles(found))
    return table


def _bounds(made: ProfileSimulation) -> Iterator[Part]:
    """What classes of the traffic have to meet by themselves."""
    for part in made.parts:
        for name, bound in part.bounds:
            found, label = part.at(name), label_of(name, part.name)
            if found is None:
                yield "Bound", f"{label}: nothing that it is of was served"
                continue
            met = "meets" if found <= bound else "MISSES"
            yield "Bound", f"{label}: {found:,.0f} ms {met} {bound:,g} ms"


def _percentiles(found: Latencies) -> Iterator[str]:
    for percent in (50, 90, 95, 99):
        yield _figure(found.percentile_ms(percent))
    yield _figure(found.max_ms)


def _copies(history: Sequence[CopyCount], windows: Sequence[Window], bars: str) -> Iterator[Part]:
    fewest, most = min(row.serving for row in history), max(row.serving for row in history)
    line = sparkline([float(row.copies) for row in windows], bars)
    yield "Copies", f"{line}  {fewest} to {most}" if most > fewest else f"{line}  {most}"


def sparkline(values: Sequence[float | None], bars: str) -> str:
    """One character a value, from 0 to the largest; a blank where there is none."""
    largest = max((value for value in values if value is not None), default=0.0)
    return "".join(
        " " if value is None else bars[min(len(bars) - 1, int(value / largest * len(bars)))] if largest else bars[0]
        for value in values
    )


def _range(windows: Sequence[Window]) -> str:
    found = [value for row in windows if (value := row.ttft.percentile_ms(95)) is not None]
    return f"{_figure(min(found))} to {_figure(max(found))} ms" if found else "nothing served"


def _table(windows: Sequence[Window]) -> Table:
    """At most `MOST_ROWS` rows: a reader wants the shape, a program reads the JSON."""
    table = Table(box=None, pad_edge=False)
    for name in ("from min", "copies", "sent/s", "TTFT p50 ms", "TTFT p95 ms", "refused", "given up"):
        table.add_column(name, justify="right")
    for row in merged(windows, MOST_ROWS):
        width_s = (row.end_ms - row.start_ms) / 1000
        table.add_row(
            f"{row.start_ms / 60_000:.3g}",
            str(row.copies),
            f"{row.sent / width_s:.2f}",
            _figure(row.ttft.percentile_ms(50)),
            _figure(row.ttft.percentile_ms(95)),
            str(row.refused or "-"),
            str(row.timed_out or "-"),
        )
    return table


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
