"""What people see of a run when it is over: tables and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadproof.bench.measure.scaling import scaling_lines
from loadproof.bench.output.words import answer_length, client_shares
from loadproof.terminal import Columns, Terminal, folded, labelled, wanted_width

if TYPE_CHECKING:
    from loadproof.bench.document import Level, Summary
    from loadproof.bench.judge.judgement import Judgement
    from loadproof.bench.judging import RunResult

PLAIN_WIDTH = 150
SHARES_FROM_WIDTH = 110
VERDICT_STYLES = {
    "PASS": "bold green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "INVALID": "bold magenta",
    "NOT JUDGED": "bold blue",
}


def print_result(result: RunResult, console: Console) -> None:
    """The verdict and the brief; the table of levels, the knee and the objectives; where the report is."""
    from loadproof.bench.report.brief import brief_of  # noqa: PLC0415  judging's numpy, which no sender needs

    summary = result.summary
    asked = wanted_width(console)
    wide = console if asked is not None else Terminal(file=console.file, width=PLAIN_WIDTH, highlight=False)

    def say(line: str | Text) -> None:
        wide.print(folded(line if isinstance(line, Text) else Text(line), asked), soft_wrap=True)

    say(Text(summary.verdict.outcome, style=VERDICT_STYLES[summary.verdict.outcome]))
    for reason in summary.verdict.reasons:
        say(f"  {reason}")
    wide.print(labelled(brief_of(summary, result.folder).rows[1:]))
    for table in _levels_tables(summary.levels, wide):
        wide.print(table)
    _print_notes(summary, say)
    if summary.objectives:
        wide.print(_objectives_table(summary.objectives, summary.place, shares=wide.width >= SHARES_FROM_WIDTH))
    # Commands and addresses to copy: never broken.
    print_line = partial(wide.print, markup=False, soft_wrap=True)
    if summary.conditions.interrupted:
        print_line(f"Go on with: loadproof bench --resume {result.folder}")
    print_line(f"Report: {result.report}" if result.report else f"No report: {result.report_problem}")


def _print_notes(summary: Summary, say: Callable[[str | Text], None]) -> None:
    knee = summary.knee
    for line in summary.search.lines() if summary.search else ():
        say(line)
    if knee:
        where = f"{knee.concurrency} in flight" if knee.reached else "not reached"
        say(f"Knee: {where} ({knee.reason})")
    elif not any(level.load for level in summary.levels):
        say("Knee: – (needs two valid levels with data)")
    for line in scaling_lines(summary.scaling):
        say(line)
    for level in summary.levels:
        for kind, count in level.errors_by_kind.items():
            said = f" ({level.error_examples[kind]})" if level.error_examples.get(kind) else ""
            say(Text(f"Errors at {level.place}: {count} {kind}{said}"))
        for reason in level.invalid_reasons:
            say(f"Not valid at {level.place}: {reason}")
        for note in _level_notes(level):
            say(f"At {level.place}: {note}")
    sources = {level.token_source for level in summary.levels}
    lengths = dict.fromkeys(answer_length(level) for level in summary.levels)
    say(f"Output tokens counted by: {', '.join(sorted(sources)) or '–'}")
    if lengths:
        say(f"Tokens of an answer: {', '.join(lengths)}")
    if summary.conditions.backend == "twin":
        say("The endpoint is a local cloud's twin: these latencies are simulated.")


def _level_notes(level: Level) -> Iterator[str]:
    """What the table has no room for: a level that never settled, and answers that were not waited for."""
    if level.never_full:
        yield level.never_full
    if shares := client_shares(level):
        yield f"the client's own share is up to {shares}"
    if level.wrong_counts:
        yield f"{level.wrong_counts} answers had an impossible token count: their pieces of text were counted"
    if level.steady_state.reached is False:
        way = "kept growing" if level.steady_state.growing else "drifted"
        yield f"no steady state: latency {way} to the level's end"
    if level.drain:
        least = figure(level.drain.e2e_ms_at_least.p99)
        yield f"{level.drain.unfinished} requests unfinished; with those, E2E p99 is at least {least} ms"


_LATENCIES = (
    ("TTFT\np50", "ttft_ms", "p50"),
    ("\np95", "ttft_ms", "p95"),
    ("\np99", "ttft_ms", "p99"),
    ("ITL\np50", "itl_ms", "p50"),
    ("\np99", "itl_ms", "p99"),
    ("TPOT\np50", "tpot_ms", "p50"),
    ("E2E\np50", "e2e_ms", "p50"),
    ("\np95", "e2e_ms", "p95"),
)
_COUNTS = ("requests", "errors")
_RATES = ("requests\n/s", "output\ntokens/s", "USD / M\noutput\ntokens", "valid")


def _levels_tables(levels: Sequence[Level], console: Console) -> list[Table | Columns]:
    """One table of everything where it fits, else one of latencies and one of throughput."""
    names = [name for name, *_ in _LATENCIES]
    alone = [f"{metric.removesuffix('_ms').upper()} {statistic}" for _, metric, statistic in _LATENCIES]
    parts = [(_load(level), _counts(level), _latencies(level), _rates(level)) for level in levels]
    whole = [(load, *counts, *latencies, *rates) for load, counts, latencies, rates in parts]
    if table := _table("Measured (latencies in ms)", (*_COUNTS, *names, *_RATES), whole, console):
        return [table]
    latency = [(load, *latencies) for load, _, latencies, _ in parts]
    throughput = [(load, *counts, *rates) for load, counts, _, rates in parts]
    return [
        _table("Measured latency (ms)", names, latency, console) or _columns("Measured latency (ms)", alone, latency),
        _table("Measured throughput", (*_COUNTS, *_RATES), throughput, console)
        or _columns("Measured throughput", [" ".join(name.split()) for name in (*_COUNTS, *_RATES)], throughput),
    ]


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> Table | None:
    """None where the console is too narrow for it."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in ("load", *names):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for row in rows:
        table.add_row(*row)
    unlimited = console.options.update(max_width=1000)
    return table if console.measure(table, options=unlimited).maximum <= console.width else None


def _columns(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Columns:
    head, right = [Text(name) for name in ("load", *names)], range(len(names) + 1)
    return Columns(head, [[*map(Text, row)] for row in rows], box=box.SIMPLE_HEAD, title=title, right=right)


def _load(level: Level) -> str:
    """In flight, or the rate of an open loop, with what else there is to it than Poisson arrivals."""
    planned = level.planned
    rate, slowly = planned.requests_per_s, planned.from_requests_per_s
    if not level.load:
        ramp = f" in {planned.ramp_s:g} s" if planned.ramp_s else ""
        return f"{level.concurrency}{ramp}"
    if rate is None:
        return level.load.split()[0]
    kind = "" if planned.process in (None, "poisson") else f"{planned.process} "
    return f"{kind}{rate:g}/s" if slowly is None else f"{kind}{slowly:g}..{rate:g}/s"


def _counts(level: Level) -> tuple[str, str]:
    left = {"missing": level.missing, "unfinished": level.unfinished - level.missing}
    more = "".join(f" (+{count} {what})" for what, count in left.items() if count)
    return f"{level.requests}{more}", str(level.errors)


def _latencies(level: Level) -> tuple[str, ...]:
    return tuple(figure(getattr(getattr(level, metric), statistic)) for _, metric, statistic in _LATENCIES)


def _rates(level: Level) -> tuple[str, ...]:
    return (
        figure(level.requests_per_s, 2),
        figure(level.output_tokens_per_s),
        figure(level.cost_per_million_output_tokens_usd, 2),
        "yes" if level.valid else "NO",
    )


def _objectives_table(objectives: Sequence[Judgement], where: str, *, shares: bool) -> Columns:
    """`shares`: with a column of what the client may have added."""
    of_client = ["client's share"] if shares else []
    names = ("objective", "observed", *of_client, "bound", "95% interval", "margin", "verdict")
    rows = []
    for row in objectives:
        # A share is a small number.
        decimals = 4 if row.name == "error_rate_max" else 1
        interval = "–"
        if row.low is not None or row.high is not None:
            interval = f"{figure(row.low, decimals)} … {figure(row.high, decimals)}"
        cells = (
            row.label,
            figure(row.observed, decimals),
            *[figure(row.client_share, decimals)] * shares,
            f"{row.comparison} {figure(row.bound, decimals)}",
            interval,
            "–" if row.margin is None else f"{row.margin:+.0%}",
        )
        rows.append([*map(Text, cells), Text(row.verdict, style=VERDICT_STYLES[row.verdict])])
    head, right = [Text(name) for name in names], range(1, len(names))
    return Columns(head, rows, box=box.SIMPLE_HEAD, title=f"Objectives at {where}", right=right)


def figure(value: float | None, decimals: int = 1) -> str:
    """A number for a table, whole from 1,000 up; no data is a dash, never 0."""
    if value is None:
        return "–"
    return f"{value:,.{0 if abs(value) >= 1000 else decimals}f}"
