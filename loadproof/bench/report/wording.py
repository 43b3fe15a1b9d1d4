"""How the page says things: numbers with sensible digits, names in words, foreign text made harmless to look at."""

from __future__ import annotations

from loadproof.bench.document import Level, Summary
from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.objectives import NOTICED
from loadproof.pages.wording import (
    LONGEST_TEXT,
    NO_DATA,
    SHORT,
    latency_of,
    number,
    objective_title,
    objective_value,
    visible,
)

# The shared words, and this report's own beside them.
__all__ = [
    "GRADES",
    "LATENCIES",
    "LONGEST_TEXT",
    "NO_DATA",
    "SHORT",
    "bound",
    "interval",
    "latency_of",
    "margin",
    "notes",
    "noticed_share",
    "number",
    "objective_title",
    "objective_value",
    "percent",
    "visible",
    "what_would_settle",
]

LATENCIES = {
    "ttft": "Time to first token",
    "itl": "Inter-token latency",
    "tpot": "Time per output token",
    "e2e": "End-to-end latency",
}
GRADES = {
    "A": "server and accelerator calibrated",
    "B": "calibrated on the same architecture",
    "C": "from data sheets only",
    "D": "this server was never seen on this accelerator",
}


def bound(objective: Judgement) -> str:
    """`≤ 500 ms`."""
    sign = {"<=": "≤", ">=": "≥"}.get(objective.comparison, visible(objective.comparison, longest=8))
    return f"{sign} {objective_value(objective.name, objective.bound)}"


def interval(objective: Judgement) -> str:
    """`390 to 431 ms`: the confidence interval of what was observed; `390 ms or more` where it has one end."""
    low, high = (objective_value(objective.name, value) for value in (objective.low, objective.high))
    if objective.low is None and objective.high is None:
        return NO_DATA
    if objective.high is None:
        return f"{low} or more"
    return f"{high} or less" if objective.low is None else f"{low.split(' ')[0]} to {high}"


def what_would_settle(objective: Judgement) -> str:
    """What would settle an objective that is not: more requests, or something else; empty where it is settled."""
    if objective.doubt:
        return visible(objective.doubt)
    return f"about {objective.more_requests:,} more requests" if objective.more_requests else ""


def notes(level: Level, summary: Summary) -> str:
    """What sets a level apart: judged, knee, why it does not count, what failed, what did not finish."""
    said = [visible(level.load, 120)] if level.load else []
    if summary.is_judged(level):
        said.append("judged here")
    if level.concurrency == summary.knee_concurrency:
        said.append("knee")
    if not level.valid:
        said.append(
            "invalid: " + ("; ".join(visible(reason, 120) for reason in level.invalid_reasons) or "reason not given")
        )
    if level.never_full:
        said.append(visible(level.never_full, 120))
    for kind, count in sorted(level.errors_by_kind.items()):
        example = level.error_examples.get(kind)
        said.append(f"{count:,} × {visible(kind, 40)}" + (f" ({visible(example, 120)})" if example else ""))
    if level.wrong_counts:
        said.append(f"{level.wrong_counts:,} × impossible token count")
    if level.unfinished:
        said.append(f"{level.unfinished:,} did not finish")
    expected = summary.prediction_of(level)
    if expected and expected.error_rate:
        said.append(f"{number(100 * expected.error_rate)} % predicted to fail")
    if level.steady_state.reached is False:
        way = "kept growing" if level.steady_state.growing else "drifted"
        said.append(f"no steady state: latency {way}")
    elif level.steady_state.excluded_requests:
        said.append(f"steady after the first {level.steady_state.excluded_requests:,}")
    text = ", ".join(said)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def noticed_share(level: Level, latency: str) -> str:
    """What the client may have added to a latency's p95, where that is worth a word; else empty."""
    counted, share = (getattr(one, f"{latency}_ms").p95 for one in (level, level.client_share))
    return number(share) if share and share >= NOTICED * counted else ""


def percent(share: float | None) -> str:
    return NO_DATA if share is None else f"{100 * share:.1f} %"


def margin(value: float | None) -> str:
    """A margin relative to the bound, in words that need no sign convention."""
    if value is None:
        return NO_DATA
    percent = abs(100 * value)
    return f"{percent:,.{0 if percent >= 9.95 else 1}f} % {'inside' if value >= 0 else 'outside'}"
