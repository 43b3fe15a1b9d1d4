"""The planner beside published rows of 2026 (vLLM and SGLang on A100, H100 and H200): errors, and how many ranges hold.

    .venv/bin/python scripts/accuracy_2026.py ROWS.csv

Prints the tables that docs/accuracy.md shows; writes nothing. Mean latency a token, TTFT and throughput are compared
where the row has them: a burst's rows speak of throughput alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts"), str(REPOSITORY / "tests" / "capacity")]

import numpy as np  # noqa: E402
from accuracy_cells import rows_of  # noqa: E402

from loadproof.capacity.rows import model_shape  # noqa: E402
from loadproof.capacity.servers import GENERATION  # noqa: E402
from loadproof.catalog import instances  # noqa: E402
from loadproof.simulation.rows import INTERVAL, predict_row  # noqa: E402

# (what is said, measured column, predicted column)
FIGURES = (
    ("latency", "latency_ms_per_token", "predicted_latency_mean_ms_per_token"),
    ("TTFT", "ttft_ms", "predicted_ttft_ms"),
    ("throughput", "throughput_tok_s", "predicted_throughput_tok_s"),
)
GROUPS: dict[str, Callable[[dict[str, str]], str]] = {
    "": lambda row: "all",
    "server": lambda row: row["server"],
    "accelerator": lambda row: instances()[row["instance_type"]].accelerator,
    "generation": lambda row: GENERATION[instances()[row["instance_type"]].accelerator],
    "model": lambda row: row["model"],
    "kind": lambda row: "mixture" if model_shape(row["model"]).experts else "dense",
    "prompt": lambda row: "up to 2,048 tokens" if float(row["input_tokens"]) <= 2048 else "longer",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured figure: predicted over measured, less 1, whether its range held it, and the upper end of that over
    the predicted figure, less 1."""

    row: dict[str, str]
    what: str
    error: float
    inside: bool
    width: float = 0.0


# GPUStack's pages of Qwen3 14B and 32B name an H100 SXM, and their decoding is an H100 PCIe's: see `section`.
_OTHER_CHIP = ("gpustack", "ml.p5.48xlarge", "Qwen3 ")


def rows_of_2026(path: Path) -> Iterator[dict[str, str]]:
    """The rows, but for those of another chip than they name, with what InferenceMAX's launch scripts say beside them:
    its SGLang on H200 sends ten tokens at once (benchmarks/dsr1_fp8_h200_slurm.sh, `--stream-interval 10`), so what it
    calls TTFT is the time to ten tokens."""
    for row in rows_of(path):
        if (row["table"], row["instance_type"], row["model"][:6]) == _OTHER_CHIP:
            continue
        yield {**row, INTERVAL: "10" if row["table"].startswith("infmax_dsr1") else ""}


def cells_of(path: Path) -> tuple[list[Cell], dict[str, int]]:
    """(cells of a file of published rows, rows without a prediction by reason)."""
    cells: list[Cell] = []
    reasons: dict[str, int] = {}
    for row in rows_of_2026(path):
        answer = predict_row(row)
        if answer["reason"]:
            reasons[answer["reason"]] = reasons.get(answer["reason"], 0) + 1
        for what, measured, predicted in FIGURES:
            # A loop's throughput is its latency's inverse: it is a figure of its own in bursts alone.
            if not row[measured] or not answer[predicted] or (what == "throughput" and row["latency_ms_per_token"]):
                continue
            low, middle, high = (float(answer[f"{predicted}{end}"]) for end in ("_low", "", "_high"))
            found = float(row[measured])
            cells.append(Cell(row, what, middle / found - 1, low <= found <= high, high / middle - 1))
    return cells, reasons


def lines_of(cells: Sequence[Cell]) -> list[str]:
    """A table by what the rows have in common."""
    lines = [
        "| rows | figure | median error | p90 | bias | inside the range | its mean width | cells |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group, key in GROUPS.items():
        for label in sorted({key(cell.row) for cell in cells}):
            for what, _, _ in FIGURES:
                errors = [cell for cell in cells if key(cell.row) == label and cell.what == what]
                if errors:
                    lines.append(f"| {group} {label} | {what} | {spread(errors)} |".replace("|  ", "| "))
    return lines


def spread(cells: Sequence[Cell]) -> str:
    """The last six cells of a table's line."""
    errors = np.array([cell.error for cell in cells])
    size = np.abs(errors)
    inside = np.mean([cell.inside for cell in cells])
    middle, tail = np.median(size), np.quantile(size, 0.9)
    return f"{middle:.1%} | {tail:.1%} | {np.median(errors):+.1%} | {inside:.0%} | {width_of(cells)} | {len(cells)}"


def width_of(cells: Sequence[Cell]) -> str:
    """How wide these cells' ranges are: the mean half-width of their logarithms, as a share above."""
    return f"+{np.expm1(np.mean(np.log1p([cell.width for cell in cells]))):.0%}"


def section(path: Path) -> list[str]:
    """The section of docs/accuracy.md."""
    cells, reasons = cells_of(path)
    lines = [
        "## vLLM and SGLang on A100, H100 and H200, published 2025-12 to 2026-01",
        "",
        "InferenceMAX's nightly loops (gpt-oss-120b under vLLM 0.11, DeepSeek-R1 under SGLang 0.5; lengths are 0.9 of"
        " the nominal) and GPUStack's bursts (vLLM 0.11; only tokens a second can be compared).",
        "",
        "Left out, here and of every fit: GPUStack's six rows of Qwen3 14B and 32B on H100. Their pages name the SXM"
        " part, which ml.p5 has. But where prompts of 32,000 tokens leave room for one request of Qwen3 32B, a token"
        " takes 43.4 ms ([its page](https://github.com/gpustack/gpustack/blob/main/docs/performance-lab/qwen3-32b/h100.md)),"
        " in which 64 GB of weights and 8.4 GB of KV cache are read: 1.7 TB/s. That is 0.84, what every part reaches,"
        " of the 2.0 TB/s of an H100 PCIe; SXM's 3.35 TB/s would take 27 ms. GPUStack's Qwen3 8B on H100 (7.4 ms a"
        " token at 4 in flight, 15 GB) reads 2 TB/s and more, which the SXM part alone can.",
        "",
        *lines_of(cells),
        "",
    ]
    return lines + [f"- not predicted, {count} rows: {reason}" for reason, count in sorted(reasons.items())]


if __name__ == "__main__":
    print("\n".join(section(Path(sys.argv[1]))))
