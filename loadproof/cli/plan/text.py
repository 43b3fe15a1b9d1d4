"""The plan as a platform engineer reads it: verdict lines, memory bar, curve, objectives, cost, grade."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loadproof.advice.alternatives import Alternatives
from loadproof.advice.page.brief import brief_of
from loadproof.capacity import Knee, MemoryFit, Plan, PredictedLevel
from loadproof.capacity.outlook import predicted_value
from loadproof.capacity.search import InvocationLimit
from loadproof.cli.plan.alternatives_text import render_alternatives, settings_table
from loadproof.cli.printing import table_of
from loadproof.pages.wording import counted
from loadproof.terminal import labelled

BAR_CHARACTERS = 60
WIDE = 100  # columns from which on every figure has room
_EXPECTED_STYLE = {"meets": "green", "near": "yellow", "misses": "bold red", "unknown": "dim"}


def render(
    plan: Plan,
    alternatives: Alternatives | None = None,
    profile: str = "",
    *,
    width: int = 120,
    ascii_only: bool = False,
) -> Iterator[RenderableType]:
    """The parts in reading order, for `width` columns; `ascii_only` for a terminal that knows nothing else.

    `profile`: as the command line takes it.
    """
    yield _title(plan)
    yield ""
    yield labelled(brief_of(plan, alternatives, profile).rows)
    yield ""
    yield from _memory(plan.memory, ascii_only)
    if plan.memory.fits != "no":
        yield ""
        yield _curve(plan, wide=width >= WIDE)
        yield labelled(_sessions(plan))
        yield labelled(_facts(plan))
        yield ""
        yield _objectives(plan)
        yield labelled(("Note", note) for note in plan.notes)
    if plan.scaling:
        yield ""
        yield _scaling(plan)
    if alternatives is not None:
        if alternatives.settings:
            yield ""
            yield settings_table(alternatives.settings)
        yield ""
        yield from render_alternatives(alternatives, wide=width >= WIDE)


def _sessions(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is sent, where it is no single requests of one kind."""
    mixture = plan.workload.mixture
    if mixture is not None and not mixture.single:
        yield from (("Sessions", line) for line in mixture.words)


def _title(plan: Plan) -> Text:
    deployment = plan.deployment
    copies = counted(deployment.copies, "copy", "copies")
    server = f"{deployment.family} {deployment.version}".strip()
    where = f"{deployment.accelerators} x {deployment.accelerator.name} a copy on {deployment.instance.instance_type}"
    return Text.assemble(
        (plan.profile_name, "bold"), f"  {deployment.model_id}, {server}, {copies}, {where}  ", ("predicted", "italic")
    )


def _memory(memory: MemoryFit, ascii_only: bool) -> Iterator[RenderableType]:
    style = {"yes": "green", "marginal": "yellow", "no": "bold red"}[memory.fits]
    yield Text.assemble(
        "Memory     fits: ",
        (memory.fits, style),
        f", margin {memory.margin_gib:,.1f} GiB an accelerator after the longest request",
    )
    yield Text("           ") + memory_bar(memory, ascii_only=ascii_only)
    parts = (
        f"weights {memory.weights_gib:,.1f} + server {memory.reserve_gib + memory.activations_gib:,.1f} + "
        f"KV cache {max(0.0, memory.kv_cache_gib):,.1f} of {memory.memory_gib:,.1f} GiB; "
        f"KV cache holds {memory.kv_token_capacity:,} tokens"
    )
    yield Padding(Text(parts), (0, 0, 0, 11), expand=False)


def memory_bar(memory: MemoryFit, *, ascii_only: bool = False) -> Text:
    """One accelerator's memory: weights, server, KV cache, and what the server leaves alone."""
    weights, server, cache, unused = "#+-." if ascii_only else "█▓▒·"
    parts = (
        (memory.weights_gib, weights, "blue"),
        (memory.reserve_gib + memory.activations_gib, server, "magenta"),
        (max(0.0, memory.kv_cache_gib), cache, "green"),
        (memory.memory_gib - memory.usable_gib, unused, "dim"),
    )
    bar, filled, summed = Text("["), 0, 0.0
    for gib, character, style in parts:
        summed += gib
        end = min(BAR_CHARACTERS, round(BAR_CHARACTERS * summed / memory.memory_gib))
        bar.append(character * max(0, end - filled), style)
        filled = max(filled, end)
    return bar.append("]")


def _curve(plan: Plan, *, wide: bool) -> Table:
    table = Table(
        title=f"Predicted at {plan.input_tokens:,} input and {plan.output_tokens:,} output tokens, closed loop",
        title_justify="left",
        padding=(0, 0, 0, 1),
        show_edge=False,
    )
    rows = [_level(plan, at, wide=wide) for at in range(len(plan.levels))]
    remarked = any(row["remark"] for row in rows)
    for name in rows[0] if rows else ():
        if name != "remark":
            table.add_column(name, justify="right")
        elif remarked:
            table.add_column("remark", overflow="fold")
    for row in rows:
        table.add_row(*(value for name, value in row.items() if name != "remark" or remarked))
    return table


def _level(plan: Plan, at: int, *, wide: bool) -> dict[str, str]:
    """One row by its headings, which are folded so that narrow terminals show every figure."""
    level, shares, cost = plan.levels[at], plan.shares[at], plan.costs_per_million[at]
    row = {"in\nflight": f"{level.concurrency:,}", "batch\na copy": f"{level.batch:,}"}
    if wide:
        row["queue\nms"] = f"{level.queue_ms:,.0f}"
    row |= {
        "TTFT\nms": f"{level.ttft_ms:,.0f}",
        "TPOT\nms": f"{level.tpot_ms:,.1f}",
        "E2E\nms": f"{level.e2e_ms:,.0f}",
        **_judged(plan, level),
    }
    row |= {
        "% queue\nprefill\ndecode": f"{shares.queue:.0%} {shares.prefill:.0%} {shares.decode:.0%}".replace("%", ""),
        "tokens\n/s": f"{level.output_tokens_per_s:,.0f}",
    }
    if wide:
        row["requests\n/s"] = f"{level.requests_per_s:,.2f}"
    row["USD / M\noutput\ntokens"] = "unknown" if cost is None else f"{cost:,.2f}"
    row["remark"] = ", ".join(_remarks(plan, level))
    return row


_DECIMALS: Final = {"ttft": 0, "itl": 1, "tpot": 1, "e2e": 0}


def _judged(plan: Plan, level: PredictedLevel) -> dict[str, str]:
    """The percentiles that the objectives name, beside the means: `ttft_p95_ms` under "TTFT / p95 / ms"."""
    names = [row.name for row in plan.outlook if row.name.endswith("_ms") and not row.part]
    parts = [(name, *name.removesuffix("_ms").rsplit("_", 1)) for name in names]
    return {
        f"{latency.upper()}\n{percentile}\nms": f"{predicted_value(name, level, plan.workload):,.{_DECIMALS[latency]}f}"
        for name, latency, percentile in parts
    }


def _remarks(plan: Plan, level: PredictedLevel) -> Iterator[str]:
    if plan.knee and plan.knee.reached and level.concurrency == plan.knee.concurrency:
        yield "knee"
    if level.refused:
        yield f"{level.refused} refused"
    if level.over_60_s:
        yield "over 60 s" if plan.streaming else "over 60 s: SageMaker closes it; stream"


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """What follows from the curve, one line a fact."""
    for at, knee in enumerate(plan.knees):
        yield "Knees" if at == 0 else "", f"{knee.rule}: {_knee(knee)}"
    for at, binding in enumerate(plan.bindings):
        end = ", the knee" if plan.knee and plan.knee.reached else ", the end of the curve"
        where = f"{binding.concurrency:,} in flight" + (end if at else "")
        yield "Binds" if at == 0 else "", f"at {where}: {binding.reason}"
    if plan.invocation_limit is not None:
        yield "60 s limit", _limit(plan.invocation_limit)


def _knee(knee: Knee) -> str:
    if not knee.concurrency:
        return f"none; {knee.reason}"
    rate = "" if knee.output_tokens_per_s is None else f", {knee.output_tokens_per_s:,.0f} tokens/s"
    where = f"{knee.concurrency:,} in flight{rate}" if knee.reached else f"not reached{rate} at the end"
    return f"{where}; {knee.reason}"


def _limit(limit: InvocationLimit) -> str:
    kind = "answers in one piece end in time" if limit.applies else "were answers not streamed, they would end in time"
    if not limit.concurrency:
        return f"{kind} at no load: one alone takes longer"
    if not limit.reached:
        return f"{kind} at every load up to {limit.concurrency:,} in flight, the highest tried"
    return f"{kind} up to {limit.concurrency:,} in flight (p95 {(limit.latency_p95_ms or 0) / 1e3:,.1f} s)"


def _scaling(plan: Plan) -> Table:
    """What each `auto` of the profile's scaling stands for: the numbers a deployment gets."""
    columns = ("field", "value", "why (predicted)")
    table = table_of("Scaling, derived from auto", *columns, right={"value"}, padding=(0, 0, 0, 1), show_edge=False)
    for row in plan.scaling:
        table.add_row(escape(row.field), "none" if row.value is None else f"{row.value:g}", escape(row.reason))
    return table


def _objectives(plan: Plan) -> Table:
    figures = ("bound", "predicted", "range")
    title = f"Outlook of the objectives at {plan.objectives_at} in flight"
    table = table_of(title, "objective", *figures, "outlook", right=figures)
    for row in plan.outlook:
        digits = 3 if row.name == "error_rate_max" else 1 if row.bound < 1000 else 0
        table.add_row(
            row.label,
            f"{row.comparison} {row.bound:,.{digits}f}",
            "none" if row.predicted is None else f"{row.predicted:,.{digits}f}",
            "" if row.low is None or row.high is None else f"{row.low:,.{digits}f} .. {row.high:,.{digits}f}",
            Text(row.expected, _EXPECTED_STYLE[row.expected]),
        )
    return table
