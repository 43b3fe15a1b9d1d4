"""A run's summary as markdown, for a pull request or a step summary: a view of summary.json, no figure is made here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from loadproof.bench.compare.regression import Comparison
from loadproof.bench.document import Summary
from loadproof.bench.measure.scaling import scaling_lines
from loadproof.bench.objectives import figure
from loadproof.bench.output.exports import properties
from loadproof.bench.output.words import answer_length, interval, more_of

_SIGNS = {
    "PASS": "✅", "FAIL": "❌", "INCONCLUSIVE": "❓", "INVALID": "⚠️", "NOT JUDGED": "⚪",
    "REGRESSION": "❌", "IMPROVED": "✅", "NO CHANGE": "✅",
}  # fmt: skip


def to_markdown(summary: Summary, comparison: Comparison | None = None, folder: Path | None = None) -> str:
    """A page for a pull request or a step summary: verdict first, objectives, levels, changes, conditions folded."""
    verdict = summary.verdict
    parts = [
        f"## {_SIGNS[verdict.outcome]} {verdict.outcome}: {_said(summary.name)}",
        *_simulated(summary),
        "\n".join([*(f"- {_said(reason)}" for reason in verdict.reasons), *_brief(summary, folder)]),
        *_objectives(summary),
        *(_changes(comparison) if comparison else ()),
        *_search(summary),
        *_levels(summary),
        _conditions(summary),
    ]
    return "\n\n".join(parts) + "\n"


def _brief(summary: Summary, folder: Path | None) -> list[str]:
    """What it costs, how sure it is, what next, as on the page; commands stay code."""
    from loadproof.bench.report.brief import brief_of  # noqa: PLC0415  as in console.py

    return [f"- **{asked}**: {_with_code(said)}" for asked, said in brief_of(summary, folder).rows[1:]]


def _with_code(text: str) -> str:
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick that is none of ours
        return _said(text)
    return "".join(f"`{part}`" if at % 2 else _kept_ends(part) for at, part in enumerate(parts))


def _kept_ends(text: str) -> str:
    """`_said` of a part of a sentence, whose spaces at both ends are the sentence's; two `$` are no formula."""
    said = _said(text).replace("$", "\\$")
    return f"{' ' * text.startswith(' ')}{said}{' ' * (text.endswith(' ') and bool(said))}"


def _simulated(summary: Summary) -> list[str]:
    if summary.conditions.backend != "twin":
        return []
    return ["> The endpoint was a local cloud's twin: every figure here is *predicted*, none was measured on AWS."]


def comparison_markdown(comparison: Comparison, method: str) -> str:
    """A comparison alone, its conditions folded."""
    head, reason, *tables = _changes(comparison)
    title = f"{head.replace('###', '##')} ({_said(comparison.after)})"
    return "\n\n".join([title, reason, *tables, f"<sub>{_said(method)}</sub>"]) + "\n"


def _objectives(summary: Summary) -> list[str]:
    if not summary.objectives:
        return []
    rows = [
        (
            f"`{row.label}`",
            figure(row.observed),
            f"{'≤' if row.comparison == '<=' else '≥'} {figure(row.bound)}",
            interval(row.low, row.high),
            figure(row.client_share),
            "–" if row.margin is None else f"{row.margin:+.0%}",
            f"{_SIGNS[row.verdict]} {row.verdict}{more_of(row)}",
        )
        for row in summary.objectives
    ]
    head = ("objective", "observed", "bound", "95% interval", "client's share", "margin", "verdict")
    return [f"### Objectives at {_said(summary.place)}", _table(head, rows)]


def _changes(comparison: Comparison) -> list[str]:
    rows = [
        (
            f"`{row.name}`" if row.decides else row.name,
            _said(row.place),
            figure(row.before),
            figure(row.after),
            size_of_change(row.name, row.change),
            f"{size_of_change(row.name, row.low)} to {size_of_change(row.name, row.high)}",
            f"{_SIGNS.get(row.outcome, '')} {row.outcome}" if row.decides else row.outcome,
        )
        for row in comparison.changes
        if row.decides or row.outcome != "INCONCLUSIVE"
    ]
    head = ("figure", "at", "before", "after", "change", "95% interval", "outcome")
    return [
        f"### {_SIGNS[comparison.outcome]} {comparison.outcome} against {_said(comparison.before)}",
        _said(comparison.reason),
        _table(head, rows),
        *[_table(("differs", "before", "after"), comparison.differences)] * bool(comparison.differences),
    ]


def size_of_change(name: str, change: float | None) -> str:
    if change is None:
        return "unknown"
    return f"{change:+.2%}" if name == "error_rate_max" else f"×{change:.3f}"


def _search(summary: Summary) -> list[str]:
    if not summary.search:
        return []
    return ["### Search", "\n".join(f"- {_said(line)}" for line in summary.search.lines())]


def _levels(summary: Summary) -> list[str]:
    if not summary.levels:
        return []
    head = (
        "load", "requests", "errors", "tokens of an answer", "TTFT p50 / p95 ms", "ITL p50 / p99 ms", "TPOT p50 ms",
        "E2E p50 / p95 ms", "requests/s", "output tokens/s", "USD/M output tokens",
    )  # fmt: skip
    rows = [
        (
            _said(level.place) + (" (judged)" if summary.is_judged(level) else ""),
            figure(level.requests),
            figure(level.errors),
            answer_length(level),
            f"{figure(level.ttft_ms.p50)} / {figure(level.ttft_ms.p95)}",
            f"{figure(level.itl_ms.p50)} / {figure(level.itl_ms.p99)}",
            figure(level.tpot_ms.p50),
            f"{figure(level.e2e_ms.p50)} / {figure(level.e2e_ms.p95)}",
            figure(level.requests_per_s),
            figure(level.output_tokens_per_s),
            figure(level.cost_per_million_output_tokens_usd),
        )
        for level in summary.levels
    ]
    said = [f"Knee: {_said(summary.knee.reason)}"] if summary.knee else []
    said += map(_said, scaling_lines(summary.scaling))
    return ["### Levels", _table(head, rows), *said]


def _conditions(summary: Summary) -> str:
    lines = "\n".join(f"- {_said(key)}: {_said(value)}" for key, value in properties(summary))
    return f"<details><summary>Conditions</summary>\n\n{lines}\n\n</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _said(text: str) -> str:
    """Foreign text on one line that is no markup."""
    flat = " ".join(text.split())
    for character in "\\`*_[]<>#":
        flat = flat.replace(character, f"\\{character}" if character not in "<>" else f"&{'lg'[character == '>']}t;")
    return flat
