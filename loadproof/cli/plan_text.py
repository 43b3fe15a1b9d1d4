"""The plan as a platform engineer reads it: verdict lines, memory bar, curve, objectives, cost, grade."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from loadproof.capacity import MemoryFit, Plan

BAR_CHARACTERS = 60
_HEADINGS = (  # folded, so that the figures of all columns stand in 80 characters
    *("in\nflight", "batch\na copy", "queue\nms", "TTFT\nms", "TPOT\nms", "E2E\nms", "tokens\n/s", "requests\n/s"),
    "USD /\nM tokens",
)
_EXPECTED_STYLE = {"meets": "green", "near": "yellow", "misses": "bold red", "unknown": "dim"}
_BINDS = {
    "memory": "KV cache: requests queue for memory before the accelerator is busy",
    "bandwidth": "memory bandwidth: each step reads weights and KV cache",
    "compute": "compute: the batch is large enough to keep the arithmetic units busy",
    "fabric": "the fabric: accelerators wait for each other's all-reduce",
    "server": "the server's own time per step, not the accelerator",
}


def render(plan: Plan, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """The parts in reading order; `ascii_only` for a terminal that knows nothing else."""
    yield _title(plan)
    yield ""
    yield from _memory(plan.memory, ascii_only)
    if plan.memory.fits == "no":
        yield from _does_not_fit(plan)
        return
    yield ""
    yield _curve(plan)
    if plan.knee is not None:
        where = f"{plan.knee.concurrency} in flight" if plan.knee.reached else "not reached"
        yield f"Knee       {where} ({plan.knee.rule}): {plan.knee.reason}"
    yield f"Binds      {_BINDS[plan.binds]}"
    yield f"Cost       {_cost(plan)}"
    yield ""
    yield _objectives(plan)
    yield f"Grade {plan.grade}    {plan.confidence.meaning}"
    yield (
        f"           throughput and latency within a factor of {1 + plan.confidence.band:.2f}, "
        f"TTFT within {1 + plan.confidence.ttft_band:.2f}; the client's network is not in it"
    )
    for note in plan.notes:
        yield f"Note       {escape(note)}"


def _title(plan: Plan) -> Text:
    deployment = plan.deployment
    copies = "1 copy" if deployment.copies == 1 else f"{deployment.copies} copies"
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
    yield (
        f"           weights {memory.weights_gib:,.1f} + server {memory.reserve_gib + memory.activations_gib:,.1f} + "
        f"KV cache {max(0.0, memory.kv_cache_gib):,.1f} of {memory.memory_gib:,.1f} GiB; "
        f"KV cache holds {memory.kv_token_capacity:,} tokens"
    )


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


def _does_not_fit(plan: Plan) -> Iterator[str]:
    memory = plan.memory
    yield (
        f"Verdict    does not fit: {-memory.margin_gib:,.1f} GiB short on each accelerator "
        f"(weights, server and KV cache of one request of {memory.longest_request_tokens:,} tokens)"
    )
    yield (
        "           raise the tensor parallel degree, take a larger accelerator, quantize the weights, "
        "or lower the longest request"
    )


def _curve(plan: Plan) -> Table:
    table = Table(
        title=f"Predicted at {plan.input_tokens:,} input and {plan.output_tokens:,} output tokens, closed loop",
        title_justify="left",
        padding=(0, 0, 0, 1),
        show_edge=False,
    )
    for name in _HEADINGS:
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    knee = plan.knee.concurrency if plan.knee and plan.knee.reached else None
    for level, cost in zip(plan.levels, plan.costs_per_million, strict=True):
        remarks = ["knee"] if level.concurrency == knee else []
        if level.refused:
            remarks.append(f"{level.refused} refused")
        if level.over_60_s:
            remarks.append("over 60 s" if plan.streaming else "over 60 s: SageMaker closes it; stream")
        table.add_row(
            str(level.concurrency),
            str(level.batch),
            f"{level.queue_ms:,.0f}",
            f"{level.ttft_ms:,.0f}",
            f"{level.tpot_ms:,.1f}",
            f"{level.e2e_ms:,.0f}",
            f"{level.output_tokens_per_s:,.0f}",
            f"{level.requests_per_s:,.2f}",
            "unknown" if cost is None else f"{cost:,.2f}",
            ", ".join(remarks),
        )
    return table


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost.usd_per_hour_min is None or cost.usd_per_hour_max is None:
        return "unknown: no on-demand price in the catalog"
    low = f"{cost.usd_per_hour_min:,.2f} USD an hour with {_instances(cost.instances_min)}"
    if cost.instances_max == cost.instances_min:
        return f"{low}, on demand in {plan.deployment.instance.price_region}"
    high = f"{cost.usd_per_hour_max:,.2f} with {_instances(cost.instances_max)}"
    return f"{low}, {high}, on demand in {plan.deployment.instance.price_region}"


def _instances(count: int) -> str:
    return "1 instance" if count == 1 else f"{count} instances"


def _objectives(plan: Plan) -> Table:
    table = Table(title=f"Outlook of the objectives at {plan.objectives_at} in flight", title_justify="left")
    table.add_column("objective")
    for name in ("bound", "predicted", "range"):
        table.add_column(name, justify="right")
    table.add_column("outlook")
    for row in plan.outlook:
        digits = 3 if row.name == "error_rate_max" else 1 if row.bound < 1000 else 0
        table.add_row(
            row.name,
            f"{row.comparison} {row.bound:,.{digits}f}",
            "none" if row.predicted is None else f"{row.predicted:,.{digits}f}",
            "" if row.low is None or row.high is None else f"{row.low:,.{digits}f} .. {row.high:,.{digits}f}",
            Text(row.expected, _EXPECTED_STYLE[row.expected]),
        )
    return table
