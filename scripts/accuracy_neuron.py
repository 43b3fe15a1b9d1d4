"""The section of docs/accuracy.md on AWS's published rows of Transformers NeuronX, and the fit of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
from accuracy_cells import applied, goal, rows_of

from loadproof.capacity import PlannedDeployment, StepTimes
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.fitting import BOUNDS, Parameters, approach, search
from loadproof.capacity.rows import row_deployment

PRIORS = {
    "step_ms": 1.0,
    "step_ms_per_layer": 0.03,
    "bandwidth_efficiency": 0.7,
    "kv_read_share": 0.7,
    "NeuronLink_gb_per_s": 100.0,
    "NeuronLink_latency_us": 5.0,
}
LIMITS = {**BOUNDS, "bandwidth_efficiency": (0.3, 0.95), "kv_read_share": (0.05, 1.0)}
# The catalog's names; Code Llama has Llama 2's shape but for 16 words of the vocabulary.
NAMES = {
    "CodeLlama-13b-hf": "Llama 2 13B",
    "Llama-3-8B": "Llama 3 8B",
    "Llama-3-70B": "Llama 3 70B",
    "Mistral-7B-Instruct-v0.2": "Mistral 7B",
}


@dataclass(frozen=True, slots=True)
class NeuronRow:
    """One published row: its deployment, and the ms a token of a static batch takes."""

    model: str
    deployment: PlannedDeployment
    context_tokens: float
    batch: int
    ms_per_token: float


def section(path: Path) -> list[str]:
    """Errors of a token's time, shipped rows and one model out."""
    rows = read(path)
    held: list[float] = []
    for model in sorted({row.model for row in rows}):
        fitted = fit([row for row in rows if row.model != model])
        held += [error_of(row, fitted) for row in rows if row.model == model]
    lines = [
        "## Transformers NeuronX on Inferentia2 and Trainium1 (AWS Neuron SDK's published figures)",
        "",
        "Static batches on ml.inf2.48xlarge and ml.trn1.32xlarge: what is compared is the time of a token after the"
        " first. TTFT is not fitted: the published ones grow faster than their prompts.",
        "",
        "| | ms a token: median | p90 | cells | inside the range | goal |",
        "|---|---|---|---|---|---|",
    ]
    for label, errors in (("shipped rows", [error_of(row, None) for row in rows]), ("leave one model out", held)):
        absolute = np.abs(np.expm1(errors))
        inside = np.mean([abs(error) <= log(1 + confidence_of(rows[0].deployment).band) for error in errors])
        mark = "" if label == "shipped rows" else f"70 to 90% {goal(0.7 <= inside <= 0.9)}"
        tail = np.quantile(absolute, 0.9)
        lines.append(f"| {label} | {np.median(absolute):.1%} | {tail:.1%} | {len(errors)} | {inside:.0%} | {mark} |")
    return [*lines, ""]


def read(path: Path) -> list[NeuronRow]:
    rows = []
    for row in rows_of(path, "Transformers NeuronX"):
        deployment = row_deployment({**row, "model": NAMES.get(row["model"], row["model"])}, 0)
        if row["quantization"] == "int8":
            deployment = replace(deployment, weight_bytes_per_parameter=1.0, quantization="int8")
        context = float(row["input_tokens"]) + float(row["output_tokens"]) / 2
        figures = int(row["concurrency"]), float(row["latency_ms_per_token"])
        rows.append(NeuronRow(row["model"], deployment, context, *figures))
    return rows


def fit(rows: Sequence[NeuronRow]) -> Parameters:
    """Least squares first: the priors are orders of magnitude."""
    rough = approach(lambda p: [error_of(row, p) for row in rows], PRIORS, 20, bounds=LIMITS)
    return search(lambda p: [error_of(row, p) for row in rows], PRIORS, 12, bounds=LIMITS, start=rough)


def error_of(row: NeuronRow, parameters: Mapping[str, float] | None) -> float:
    """log(predicted / measured) ms of one decode step."""
    deployment = row.deployment
    if parameters is not None:
        deployment = applied(deployment, parameters, "NeuronLink")
    return log(StepTimes(deployment).decode_ms(row.batch, row.batch * row.context_tokens) / row.ms_per_token)
