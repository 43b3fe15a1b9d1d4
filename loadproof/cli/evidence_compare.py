"""A comparison of two runs as people, programs and pull requests read it; and that it goes on, while it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from loadproof.terminal import Terminal

if TYPE_CHECKING:
    from benchmarks.regression import Change, Comparison

_QUIET_S = 2.0


class Told:
    """Says on stderr what is done, of what takes longer than two seconds; at once on a terminal."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def say(self, words: str) -> None:
        if sys.stderr.isatty() or time.monotonic() - self._began_s > _QUIET_S:
            print(words, file=sys.stderr, flush=True)

    def level(self, done: int, of: int) -> None:
        self.say(f"compared {done} of {of} levels")


def print_comparison(comparison: Comparison, places: Sequence[str], format: str) -> None:
    """`format`: text, json or markdown."""
    if format == "json":
        from loadproof.cli.evidence_text import print_json

        print_json(
            {"schema_version": 1, "runs": list(places), "intervals": _intervals(), "comparison": asdict(comparison)}
        )
    elif format == "markdown":
        from benchmarks.exports_markdown import comparison_markdown

        sys.stdout.write(comparison_markdown(comparison, _method()))
    else:
        _print_text(comparison, places)


def _print_text(comparison: Comparison, places: Sequence[str]) -> None:
    from rich import box
    from rich.table import Table

    console = Terminal(highlight=False)
    if not console.is_terminal:
        console = Terminal(highlight=False, width=150)
    console.print(f"{comparison.outcome}: {comparison.after} against {comparison.before}", markup=False, style="bold")
    console.print(f"  {comparison.reason}", markup=False, soft_wrap=True)
    for place in dict.fromkeys(change.place for change in comparison.changes):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"At {place}", title_justify="left")
        for name in ("figure", "before", "after", "change", "95% interval", "outcome"):
            table.add_column(name, justify="left" if name in ("figure", "outcome") else "right")
        for change in comparison.changes:
            if change.place == place:
                table.add_row(*_cells(change))
        console.print(table)
    console.print("* decides; the others are shown beside it", markup=False)
    for name, before, after in comparison.differences:
        console.print(f"differs: {name}: {before} → {after}", markup=False, soft_wrap=True)
    console.print(f"Held to a change of {comparison.tolerance:.0%}. {_method()}", markup=False, soft_wrap=True)
    for which, place in zip(("before", "after"), places, strict=True):
        console.print(f"{which}: {place}", markup=False, soft_wrap=True)


def _cells(change: Change) -> tuple[str, ...]:
    from benchmarks.exports_markdown import size_of_change
    from benchmarks.report.wording import number

    ends = " to ".join(size_of_change(change.name, end) for end in (change.low, change.high))
    return (
        f"{'*' if change.decides else ' '} {change.name}",
        number(change.before),
        number(change.after),
        size_of_change(change.name, change.change),
        ends,
        change.outcome,
    )


def _method() -> str:
    from benchmarks.bootstrap import RESAMPLES

    return (
        f"Intervals: bootstrap over requests ({RESAMPLES:,} resamples, seeded; blocks of neighbours where they hang "
        "together, whole conversations); of the share of failed requests Newcombe's."
    )


def _intervals() -> dict[str, object]:
    from benchmarks.bootstrap import RESAMPLES
    from benchmarks.statistics import CONFIDENCE

    return {"method": "bootstrap over requests", "resamples": RESAMPLES, "confidence": CONFIDENCE}
