"""Documents of the catalog as text: aligned tables for `list`, one figure a line for `show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from loadproof.cli.catalog.rows import Document
from loadproof.terminal import folded

MARK: Final = "unverified"
NOTHING: Final = "-"
# Column heading and key; what a table leaves out stands in `show` and in JSON.
COLUMNS: Final = {
    "accelerators": (
        ("accelerator", "name"),
        ("memory GiB", "memory_gib"),
        ("GB/s", "bandwidth_gb_per_s"),
        ("bf16 TFLOPS", "bf16_tflops"),
        ("critical batch", "critical_batch_size_16_bit"),
        ("USD/h per GB/s", "usd_per_hour_per_gb_per_s"),
        ("on", "cheapest_instance_type"),
    ),
    "instances": (
        ("instance type", "name"),
        ("accelerator", "accelerator"),
        ("count", "accelerators"),
        ("vCPU", "vcpu"),
        ("host GiB", "host_memory_gib"),
        ("fabric", "fabric"),
        ("USD/h", "usd_per_hour"),
        ("price of", "price_date"),
        ("region", "price_region"),
    ),
    "models": (
        ("model", "name"),
        ("Hugging Face id", "hf_id"),
        ("B", "parameters_b"),
        ("active B", "active_parameters_b"),
        ("GB in 16 bits", "weights_16_bit_gb"),
        ("quantization", "quantization"),
        ("GB stored", "checkpoint_gb"),
        ("KV bytes/token", "kv_bytes_per_token_16_bit"),
        ("context", "context_tokens"),
    ),
    "containers": (
        ("container", "name"),
        ("CUDA", "cuda"),
        ("payloads", "protocol"),
        ("image", "repository"),
        ("tag", "tag"),
    ),
}


def table(kind: str, rows: Sequence[Document], width: int | None = None) -> str:
    """The rows of one kind, aligned; the last columns say what is unverified or derived, and where a row is from. Where
    they are wider than `width`, each row is its name, and the rest in sentences below it."""
    heads = [head for head, _ in COLUMNS[kind]]
    lines = [[*heads, "note", "date", "source"]]
    for row in rows:
        cells = [shown(row[key]) for _, key in COLUMNS[kind]]
        lines.append([*cells, ", ".join(marks(row)) or NOTHING, shown(row["date"]), _short(row["source"])])
    # Numbers to the right: a column is one where every cell below its heading is.
    right = [all(_number(line[at]) for line in lines[1:]) for at in range(len(lines[0]))]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        whole = ([*line[:-1], row["source"]] for line, row in zip(lines[1:], rows, strict=True))
        return "\n".join(_record(lines[0], line, width) for line in whole)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if aligned else cell.ljust(width)
            for cell, width, aligned in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _record(heads: Sequence[str], cells: Sequence[str], width: int) -> str:
    said = "; ".join(f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell != NOTHING)
    return f"{cells[0]}\n{folded(Text(f'  {said}'), width).plain}"


def marks(row: Document) -> list[str]:
    """What a reader must know before trusting a row: `unverified`, `price derived`, `price unverified`."""
    said = [MARK] if row.get("unverified") else []
    if row.get("price_derived"):
        said.append("price derived")
    if row.get("price_unverified"):
        said.append("price unverified")
    return said


def page(kind: str, document: Document) -> str:
    """One row in full. Keys are the JSON's, so what is read here can be asked for there."""
    warnings = f" ({', '.join(marks(document))})" if marks(document) else ""
    lines = [f"{kind} {document['name']}{warnings}"]
    width = max(len(key) for key in document)
    for key, value in document.items():
        if key == "name" or value is None:
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += ["", *_inner(key, value)]
            continue
        lines.append(f"  {key.ljust(width)}  {shown(value)}")
    return "\n".join(lines)


def shown(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1 else f"{value:,.10g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or NOTHING
    return str(value)


def _inner(key: str, rows: list[Document]) -> list[str]:
    heads = list(rows[0])
    lines = [heads, *([shown(row[head]) for head in heads] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return [f"  {key}", *(f"    {line}" for line in body), ""]


def _short(source: str) -> str:
    return source if len(source) <= 60 else f"{source[:57]}..."


def _number(cell: str) -> bool:
    return cell == NOTHING or cell.replace(",", "").replace(".", "", 1).replace("e-", "", 1).isdigit()
