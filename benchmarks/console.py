"""What people see of a run: progress on stderr while it goes, the table and the verdict when it is over."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchmarks.job import RunResult
from benchmarks.sweep import Progress

PLAIN_WIDTH = 150
VERDICT_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "INVALID": "bold magenta"}


class ProgressView:
    """Shows progress: a live line on a terminal, else one plain line when a level is done.

    Drawn only when told to, never from a thread of its own: that would hold the interpreter while tokens arrive.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> ProgressView:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        finished = progress.done == progress.total
        if self._live:
            self._live.update(_line(progress), refresh=True)
        if finished and progress.phase == "measured":
            self._console.print(_sentence(progress), markup=False, highlight=False, soft_wrap=True)


def _line(progress: Progress) -> Table:
    line = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=progress.total, completed=progress.done, width=30)
    line.add_row(Text(_head(progress)), bar, Text(_figures(progress)))
    return line


def _head(progress: Progress) -> str:
    what = "warm-up" if progress.phase == "warmup" else "load"
    return f"level {progress.level + 1}/{progress.levels} · {progress.concurrency} in flight · {what:<7}"


def _figures(progress: Progress) -> str:
    return (
        f"{progress.done}/{progress.total} · {figure(progress.requests_per_s)} req/s · "
        f"TTFT p50 {figure(progress.ttft_p50_ms)} ms · {progress.errors} errors"
    )


def _sentence(progress: Progress) -> str:
    return f"{_head(progress)} {_figures(progress)}"


def print_result(result: RunResult, console: Console) -> None:
    """The table of levels, the knee, the objectives, the verdict and where the report is."""
    summary = result.summary
    wide = console if console.is_terminal else Console(file=console.file, width=PLAIN_WIDTH, highlight=False)
    wide.print(_levels_table(summary["levels"]))
    _print_notes(summary, wide)
    if summary["objectives"]:
        wide.print(_objectives_table(summary["objectives"], summary["verdict"]["at_concurrency"]))
    verdict = summary["verdict"]
    wide.print(Text(verdict["outcome"], style=VERDICT_STYLES[verdict["outcome"]]), soft_wrap=True)
    for reason in verdict["reasons"]:
        wide.print(f"  {reason}", markup=False, soft_wrap=True)
    if summary["conditions"]["interrupted"]:
        wide.print(f"Go on with: loadproof bench --resume {result.folder}", markup=False, soft_wrap=True)
    wide.print(
        f"Report: {result.report}" if result.report else f"No report: {result.report_problem}",
        markup=False,
        soft_wrap=True,
    )


def _print_notes(summary: dict[str, Any], console: Console) -> None:
    knee = summary["knee"]
    if knee:
        console.print(f"Knee: {knee['concurrency']} in flight ({knee['reason']})", markup=False, soft_wrap=True)
    else:
        console.print("Knee: – (needs two valid levels with data)", markup=False)
    for level in summary["levels"]:
        kinds = ", ".join(f"{count} {kind}" for kind, count in level["errors_by_kind"].items())
        if kinds:
            console.print(f"Errors at {level['concurrency']} in flight: {kinds}", markup=False, soft_wrap=True)
        for reason in level["invalid_reasons"]:
            console.print(f"Not valid at {level['concurrency']} in flight: {reason}", markup=False, soft_wrap=True)
    sources = {level["token_source"] for level in summary["levels"]}
    console.print(f"Latencies in ms. Output tokens counted by: {', '.join(sorted(sources)) or '–'}", markup=False)
    if summary["conditions"]["backend"] == "twin":
        console.print("The endpoint is a local cloud's twin: these latencies are simulated.", markup=False)


def _levels_table(levels: list[dict[str, Any]]) -> Table:
    table = Table(title="Measured")
    for name in (
        "in flight",
        "requests",
        "errors",
        "TTFT p50",
        "p95",
        "p99",
        "ITL p50",
        "p99",
        "TPOT p50",
        "E2E p50",
        "p95",
        "out tok/s",
        "$/M tok",
        "valid",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for level in levels:
        ttft, itl, e2e = level["ttft_ms"], level["itl_ms"], level["e2e_ms"]
        latencies = (ttft["p50"], ttft["p95"], ttft["p99"], itl["p50"], itl["p99"], level["tpot_ms"]["p50"])
        table.add_row(
            str(level["concurrency"]),
            str(level["requests"]) + (f" (+{level['unfinished']} unfinished)" if level["unfinished"] else ""),
            str(level["errors"]),
            *(figure(value) for value in (*latencies, e2e["p50"], e2e["p95"], level["output_tokens_per_s"])),
            figure(level["cost_per_million_output_tokens_usd"], 2),
            "yes" if level["valid"] else "NO",
        )
    return table


def _objectives_table(objectives: list[dict[str, Any]], at_concurrency: int) -> Table:
    table = Table(title=f"Objectives at {at_concurrency} in flight")
    for name in ("objective", "observed", "bound", "95% interval", "margin", "verdict"):
        table.add_column(name, justify="left" if name == "objective" else "right", no_wrap=True)
    for row in objectives:
        # Shares and rates are small numbers: three significant digits; milliseconds: one decimal.
        decimals = 4 if row["name"] == "error_rate_max" else 1
        interval = "–"
        if row["low"] is not None:
            interval = f"{figure(row['low'], decimals)} … {figure(row['high'], decimals)}"
        table.add_row(
            row["name"],
            figure(row["observed"], decimals),
            f"{row['comparison']} {figure(row['bound'], decimals)}",
            interval,
            "–" if row["margin"] is None else f"{row['margin']:+.0%}",
            Text(row["verdict"], style=VERDICT_STYLES[row["verdict"]]),
        )
    return table


def figure(value: float | None, decimals: int = 1) -> str:
    """A number for a table; no data is a dash, never 0."""
    return "–" if value is None else f"{value:,.{decimals}f}"
