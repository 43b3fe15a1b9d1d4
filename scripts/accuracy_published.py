"""The section of docs/accuracy.md on published rows that are not ours to commit: only their errors are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
from accuracy_cells import calibrated_on, goal, rows_of
from fit_tables import Load

from loadproof.capacity import PlannedDeployment, StepTimes, deployment_from_container
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.fitting import Parameters
from loadproof.capacity.rows import model_shape
from loadproof.errors import InputError
from loadproof.simulation.rows import CACHED, FRONT_MS, predict_row

_VLLM = "vLLM (SageMaker"
_FIGURES = {
    "throughput": ("throughput_tok_s", "predicted_throughput_tok_s"),
    "mean latency": ("latency_ms_per_token", "predicted_latency_mean_ms_per_token"),
    "p90 latency": ("latency_p90_ms_per_token", "predicted_latency_p90_ms_per_token"),
    "TTFT": ("ttft_ms", "predicted_ttft_ms"),
}
_BLOCK = 16  # tokens of vLLM's prefix cache; the last block of a repeated prompt is computed again


@dataclass(frozen=True, slots=True)
class Published:
    """One row: its deployment, and tokens/s measured with every prompt found in the prefix cache."""

    deployment: PlannedDeployment
    input_tokens: float
    output_tokens: float
    concurrency: int
    throughput_tok_s: float
    ttft_ms: float | None

    @property
    def group(self) -> tuple[str, str]:
        return self.deployment.model_id, self.deployment.instance.instance_type


Refit = Callable[[Sequence[Published]], Parameters]
Applied = Callable[[PlannedDeployment, Parameters], PlannedDeployment]


def section(path: Path, refit: Refit, applied: Applied) -> list[str]:
    """Errors of the vLLM rows, shipped parameters and one (model, instance type) out; what becomes of the others."""
    rows, skipped = read(path)
    groups = sorted({row.group for row in rows})
    lines = [
        "## vLLM on SageMaker, published 2026",
        "",
        f"{len(rows)} rows in {len(groups)} groups; {skipped} vLLM rows are of a model whose shape the catalog lacks."
        " Prompts repeat, so the prefix cache hides most prefill: what is compared is decoding. Held out, a group has"
        " the range of what the other groups calibrate.",
        "",
        "| | throughput: median | p90 | cells | grade | inside the range | goal |",
        "|---|---|---|---|---|---|---|",
        _line("shipped rows", rows, [error_of(row) for row in rows], ("", "")),
    ]
    held: list[float] = []
    ordered: list[Published] = []
    for group in groups:
        seen = [row for row in rows if row.group != group]
        fitted, loads = refit(seen), [Load(row.deployment, None) for row in seen]
        out = [replace(row, deployment=calibrated_on(row.deployment, loads)) for row in rows if row.group == group]
        errors = [error_of(replace(row, deployment=applied(row.deployment, fitted))) for row in out]
        lines.append(_line(f"without {group[0]} on {group[1]}", out, errors, ("", "")))
        held += errors
        ordered += out
    median = float(np.median(np.abs(np.expm1(held))))
    goals = (f"8.0% {goal(median <= 0.08)}", "70 to 90%")
    lines.append(_line("leave one out, all", ordered, held, goals))
    return [*lines, "", *_whole_rows(path)]


def _whole_rows(path: Path) -> list[str]:
    """What `loadproof predict` says of these rows, told that prompts are cached but for their last block."""
    found: dict[str, list[tuple[float, bool, float]]] = {name: [] for name in _FIGURES}
    for row in rows_of(path, _VLLM):
        if not row["concurrency"]:
            continue
        answer = predict_row({**row, CACHED: str(round(float(row["input_tokens"])) - _BLOCK)})
        for name, (measured, predicted) in _FIGURES.items():
            if row[measured] and answer[predicted]:
                low, middle, high = (float(answer[f"{predicted}{end}"]) for end in ("_low", "", "_high"))
                value = float(row[measured])
                found[name].append((abs(middle / value - 1), low <= value <= high, log(high / middle)))
    lines = [
        "What `loadproof predict` says of them, whole runs with cached prompts and"
        f" {FRONT_MS:.0f} ms for SageMaker's front, which is the median of these very TTFTs. Where answers are of"
        " uneven length the 90th percentile of latency is twice the mean; of a row only the mean length is known, so"
        " where that has a fraction the range of p90 goes up to ln 10 times the mean, as of exponential lengths.",
        "",
        "| figure | median error | p90 | inside the range | its mean width | cells |",
        "|---|---|---|---|---|---|",
    ]
    for name, cells in found.items():
        errors, inside, widths = zip(*cells, strict=True)
        middle, tail = np.median(errors), np.quantile(errors, 0.9)
        lines.append(
            f"| {name} | {middle:.1%} | {tail:.1%} | {np.mean(inside):.0%}"
            f" | +{np.expm1(np.mean(widths)):.0%} | {len(cells)} |"
        )
    return [*lines, ""]


def others(path: Path) -> list[str]:
    """What `loadproof predict` says of the rows of other servers than vLLM."""
    told: dict[str, Counter[str]] = {}
    for row in rows_of(path):
        if not row["server"].startswith(_VLLM):
            answer = predict_row(row)
            told.setdefault(row["server"].split(" (")[0], Counter())[answer["reason"] or "predicted"] += 1
    lines = ["## What `loadproof predict` says of the other published rows", ""]
    for server, answers in sorted(told.items()):
        for answer, count in answers.most_common():
            lines.append(f"- {server}, {count} rows: {answer}")
    return [*lines, ""]


def read(path: Path) -> tuple[list[Published], int]:
    """(vLLM rows with a known shape and a concurrency, vLLM rows without a known shape)."""
    rows, skipped = [], 0
    for row in rows_of(path, _VLLM):
        if not row["concurrency"]:
            continue
        try:
            shape = model_shape(row["model"])
        except InputError:
            skipped += 1
            continue
        deployment = deployment_from_container(
            family="vllm",
            version="",
            variables={},
            model_id=shape.hf_id,
            architecture=shape,
            instance_type=row["instance_type"],
            accelerators_per_copy=int(row["tp_degree"]),
            copies=1,
        )
        ttft_ms = float(row["ttft_ms"]) if row["ttft_ms"] else None
        figures = (float(row[name]) for name in ("input_tokens", "output_tokens"))
        rows.append(Published(deployment, *figures, int(row["concurrency"]), float(row["throughput_tok_s"]), ttft_ms))
    return rows, skipped


def error_of(row: Published) -> float:
    """log(predicted / measured) throughput of a batch that only decodes: B / decode(B, B · (input + output / 2))."""
    deployment = row.deployment
    batch = row.concurrency
    step_ms = StepTimes(deployment).decode_ms(batch, batch * (row.input_tokens + row.output_tokens / 2))
    return log(batch / step_ms * 1e3 / row.throughput_tok_s)


def _line(label: str, rows: Sequence[Published], log_errors: Sequence[float], goals: tuple[str, str]) -> str:
    errors = np.abs(np.expm1(log_errors))
    bands = [confidence_of(row.deployment, prompt_tokens=row.input_tokens) for row in rows]
    inside = np.mean([abs(error) <= log(1 + band.band) for band, error in zip(bands, log_errors, strict=True)])
    grades = ", ".join(sorted({band.grade for band in bands}))
    wanted = goals[0]
    if goals[1]:
        wanted += f"; range {goals[1]} {goal(0.7 <= inside <= 0.9)}"
    tail = float(np.quantile(errors, 0.9))
    return f"| {label} | {np.median(errors):.1%} | {tail:.1%} | {len(errors)} | {grades} | {inside:.0%} | {wanted} |"
