"""A comparison of two runs as people, programs and pull requests read it; and that it goes on, while it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.text import Text

from loadproof.bench.compare.regression import Change, Comparison
from loadproof.bench.measure.bootstrap import RESAMPLES
from loadproof.bench.measure.statistics import CONFIDENCE
from loadproof.bench.output.markdown import comparison_markdown, size_of_change
from loadproof.bench.report.wording import number
from loadproof.cli.printing import print_json, say_folded, tables_on
from loadproof.terminal import Columns, tell

_QUIET_S = 2.0


class Progress:
    """Says on stderr what is done, of what takes longer than two seconds; at once on a terminal."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def say(self, words: str) -> None:
        if sys.stderr.isatty() or time.monotonic() - self._began_s > _QUIET_S:
            tell(words)

    def level(self, done: int, of: int) -> None:
        self.say(f"compared {done} of {of} levels")


def print_comparison(comparison: Comparison, places: Sequence[str], format: str) -> None:
    """`format`: text, json or markdown."""
    if format == "json":
        intervals = {"method": "bootstrap over requests", "resamples": RESAMPLES, "confidence": CONFIDENCE}
        runs = {"schema_version": 1, "runs": list(places)}
        print_json({**runs, "intervals": intervals, "comparison": asdict(comparison)})
    elif format == "markdown":
        sys.stdout.write(comparison_markdown(comparison, _method()))
    else:
        _print_text(comparison, places)


def _print_text(comparison: Comparison, places: Sequence[str]) -> None:
    console = tables_on(150)
    console.print(f"{comparison.outcome}: {comparison.after} against {comparison.before}", markup=False, style="bold")
    say_folded(f"  {comparison.reason}", console=console)
    head = [Text(name) for name in ("figure", "before", "after", "change", "95% interval", "outcome")]
    for place in dict.fromkeys(change.place for change in comparison.changes):
        rows = [[Text(cell) for cell in _cells(change)] for change in comparison.changes if change.place == place]
        console.print(Columns(head, rows, box=box.SIMPLE_HEAD, title=f"At {place}", right=range(1, len(head) - 1)))
    say_folded(
        "* decides; the others are shown beside it",
        *(f"differs: {name}: {before} → {after}" for name, before, after in comparison.differences),
        f"{comparison.method} {_method()}",
        *(f"{which}: {place}" for which, place in zip(("before", "after"), places, strict=True)),
        console=console,
    )


def _cells(change: Change) -> tuple[str, ...]:
    ends = " to ".join(size_of_change(change.name, end) for end in (change.low, change.high))
    return (
        f"{change.name}{'*' * change.decides}",
        number(change.before),
        number(change.after),
        size_of_change(change.name, change.change),
        ends,
        change.outcome,
    )


def _method() -> str:
    return (
        f"Of one run's requests: bootstrap ({RESAMPLES:,} resamples, seeded; blocks of neighbours where they hang "
        "together, whole conversations); of the share of failed requests Newcombe's."
    )
